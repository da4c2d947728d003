"""A suffix memory in a file: ids as JSON, read only with the vocabulary they were written with.

A file that is not what it should be is refused whole; nothing in it is run or trusted.
"""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path

from leadout.checks import check_whole, is_whole
from leadout.drafters.suffix_memory import N_CLIENTS, TOKENS_PER_CLIENT, SuffixMemory
from leadout.errors import InputError

_FORMAT = "leadout suffix memory"
_VERSION = 1


def save_memory(memory: SuffixMemory, file: Path, *, vocabulary: str) -> None:
    """Write what is remembered, readable by the user alone; what `file` held before is replaced at the end.

    Parameters
    ----------
    vocabulary : str
        A name of the vocabulary that the ids belong to; needed again to load.

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    everything = {
        "format": _FORMAT,
        "version": _VERSION,
        "vocabulary": vocabulary,
        "clients": [[client, memory.texts(client)] for client in memory.clients],
    }
    try:
        descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=file.name, suffix=".part")
        part = Path(name)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
                json.dump(everything, opened, separators=(",", ":"))
            part.replace(file)
        except BaseException:
            with suppress(OSError):
                part.unlink()
            raise
    except (OSError, ValueError) as error:  # a path with a zero byte is a ValueError
        raise InputError(f"the suffix memory cannot be written to {str(file)!r}: {error}") from error


def load_memory(
    file: Path,
    *,
    vocabulary: str,
    n_vocab: int,
    tokens_per_client: int = TOKENS_PER_CLIENT,
    n_clients: int = N_CLIENTS,
) -> SuffixMemory:
    """Read what `save_memory` wrote; where it is more than there is room for, the oldest is left out.

    Parameters
    ----------
    vocabulary : str
        The name given to `save_memory`.
    n_vocab : int in 1..2**31
        Ids are below this.
    tokens_per_client, n_clients : int
        As for `SuffixMemory`.

    Raises
    ------
    InputError
        If the file cannot be read, is damaged, of another version or of another vocabulary.
    """
    check_whole("n_vocab", n_vocab, 1, 2**31)
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"the suffix memory cannot be read from {file}: {error}") from error
    except (ValueError, RecursionError) as error:
        raise _damaged(file, "it is not JSON") from error
    if not isinstance(found, dict) or found.get("format") != _FORMAT:
        raise _damaged(file, f"its format is not {_FORMAT!r}")
    if not is_whole(found.get("version")) or found["version"] != _VERSION:
        raise InputError(
            f"{file} has version {found.get('version')!r}; this leadout reads version {_VERSION}"
        )
    if found.get("vocabulary") != vocabulary:
        raise InputError(
            f"{file} was written for the vocabulary {found.get('vocabulary')!r}, not {vocabulary!r}; "
            "use another file for this model"
        )
    memory = SuffixMemory(tokens_per_client, n_clients)
    for client, texts in _clients(file, found.get("clients")):
        for text in texts:
            memory.remember(client, _ids(file, text, n_vocab))
    return memory


def _clients(file: Path, found: object) -> list[tuple[str, list[object]]]:
    clients: list[tuple[str, list[object]]] = []
    if not isinstance(found, list):
        raise _damaged(file, "it has no list of clients")
    for entry in found:
        is_pair = isinstance(entry, list) and len(entry) == 2
        if not is_pair or not isinstance(entry[0], str) or not isinstance(entry[1], list):
            raise _damaged(file, f"client {len(clients)} is not a name and a list of texts")
        clients.append((entry[0], entry[1]))
    return clients


def _ids(file: Path, text: object, n_vocab: int) -> list[int]:
    if not isinstance(text, list) or not all(type(token) is int and 0 <= token < n_vocab for token in text):
        raise _damaged(file, f"a text has something else than ids in 0..{n_vocab - 1}")
    return text


def _damaged(file: Path, why: str) -> InputError:
    return InputError(f"{file} is not a suffix memory, or is damaged: {why}; delete it to start anew")
