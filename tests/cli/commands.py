"""Runs the real command in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

COMMAND = [sys.executable, "-W", "error", "-m", "leadout"]
CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
JSON_KEYS = [
    "text",
    "finish_reason",
    "prompt_tokens",
    "completion_tokens",
    "cached_tokens",
    "target_passes",
    "drafted",
    "accepted",
    "forced",
    "tokens_per_pass",
    "seconds",
    "tokens_per_second",
    "slowdown",
    "speculation",
]


def environment(**changes: str) -> dict[str, str]:
    """This process's environment without what would change colours or widths, and with `changes`."""
    dropped = {"NO_COLOR", "FORCE_COLOR", "LEADOUT_DEBUG", "COLUMNS", "TERM"}
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return {**kept, "COLUMNS": "100", "PYTHONIOENCODING": "utf-8", **changes}


def leadout(*arguments: str | Path, input: str | bytes = b"", **changes: str) -> subprocess.CompletedProcess:
    """Run `leadout` with standard input from `input`; output is decoded as UTF-8."""
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)],
        input=input.encode() if isinstance(input, str) else input,
        capture_output=True,
        timeout=240,
        check=False,
        env=environment(**changes),
    )
    done.stdout, done.stderr = done.stdout.decode(), done.stderr.decode()
    return done


def lines_told(stderr: str) -> list[str]:
    """The lines of standard error, without the notice that costs are measured, which comes once per pair."""
    return [line for line in stderr.splitlines() if not line.startswith("measuring what passes cost")]


def start(*arguments: str | Path, **changes: str) -> subprocess.Popen:
    """Start `leadout` with pipes, unbuffered on this side."""
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        env=environment(**changes),
        bufsize=0,
    )


def assert_one_line(done: subprocess.CompletedProcess, code: int, *said: str) -> None:
    """The command ended with `code` and one line that has all of `said` in it; as JSON too if asked to."""
    line = done.stderr.removeprefix("leadout: ").strip()
    as_json = json.dumps({"error": line, "exit_code": code}, ensure_ascii=False) + "\n"
    assert (done.returncode, done.stdout) == (code, as_json if "--json" in done.args else ""), done.stderr
    assert done.stderr.startswith("leadout: ")
    assert done.stderr.count("\n") == 1, done.stderr
    for part in said:
        assert part in done.stderr
