"""A set-up as a shell script to read or to keep. Secrets are never in it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from leadout.launch.prepare import Prepared
from leadout.launch.setup import Command, Setup, without_secrets


def script(prepared: Prepared, *, with_files: bool = True) -> str:
    """The commands as a script for sh.

    Parameters
    ----------
    prepared : Prepared
    with_files : bool
        Write the configuration files too; False where they lie beside the script.
    """
    return "\n".join([*_lines(prepared, with_files)]) + "\n"


def to_json(prepared: Prepared) -> dict[str, object]:
    """The set-up as plain values."""
    setup, capabilities = prepared.setup, prepared.capabilities
    return {
        "engine": setup.engine,
        "version": capabilities.release,
        "installed": not capabilities.is_assumed,
        "argv": without_secrets(setup.argv),
        "environment": dict((*setup.defaults, *setup.environment)),
        "files": {file.name: file.text for file in setup.files},
        "before": [without_secrets(command.argv) for command in setup.before],
        "after": [without_secrets(command.argv) for command in setup.after],
        "elsewhere": [without_secrets(command.argv) for command in setup.elsewhere],
        "url": setup.url,
        "notes": list(setup.notes),
        "warnings": list(setup.warnings),
    }


def quoted(argv: tuple[str, ...]) -> str:
    """A command line for sh, secrets replaced."""
    return shlex.join(without_secrets(argv))


def _lines(prepared: Prepared, with_files: bool) -> Iterator[str]:
    setup, capabilities = prepared.setup, prepared.capabilities
    yield "#!/bin/sh"
    how = "assumed" if capabilities.is_assumed else "installed"
    yield f"# {prepared.engine.title} {capabilities.release} ({how}), answers at {setup.url}"
    yield from (f"# {note}" for note in setup.notes)
    yield from (f"# warning: {warning}" for warning in setup.warnings)
    yield "set -e"
    if not with_files:
        yield 'cd "$(dirname "$0")"'
    yield from (f'export {name}="${{{name}:-{value}}}"' for name, value in setup.defaults)
    yield from (f"export {name}={shlex.quote(value)}" for name, value in setup.environment)
    if with_files:
        for file in setup.files:
            yield f"cat > {file.name} <<'END'\n{file.text}END"
    for command in setup.before:
        yield from _command(command)
    yield from _server(setup)
    for command in setup.closing:
        yield from _command(command)
    for command in setup.elsewhere:
        yield f"# {command.purpose}: {quoted(command.argv)}"


def _command(command: Command) -> Iterator[str]:
    yield f"# {command.purpose}"
    yield quoted(command.argv)


def _server(setup: Setup) -> Iterator[str]:
    if not setup.after:
        yield quoted(setup.argv)
        return
    yield f"{quoted(setup.argv)} &"
    yield waiting(setup)
    for command in setup.after:
        yield from _command(command)
    yield "wait"


def waiting(setup: Setup) -> str:
    """A line for sh that waits until the engine answers."""
    return f"until curl -sf -o /dev/null {setup.url}{setup.health}; do sleep 1; done"
