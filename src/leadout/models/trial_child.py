"""The child process of a trial: loads a file, makes a small cache and decodes two tokens.

Run by `trial` as ``python -m leadout.models.trial_child``; what to try comes as JSON on standard input, the
report goes to standard output. What libraries print goes to standard error.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TextIO

from leadout.errors import LeadoutError
from leadout.models.base import Chunk
from leadout.models.gguf import GgufModel
from leadout.models.header import read_header
from leadout.models.open import Library, check_memory, load_binding
from leadout.models.options import GgufOptions
from leadout.models.trial import STARTED


def main() -> None:
    """Read what to try, try it, report."""
    report = _report_only_to_parent()
    _leave_no_core()
    request = json.load(sys.stdin)
    print(STARTED, file=report, flush=True)
    error, text = "", ""
    try:
        library: Library = "ik" if request["provider"] == "ik" else "llama"
        _try(request["path"], library, GgufOptions(**request["options"]))
    except LeadoutError as refusal:
        error, text = type(refusal).__name__, str(refusal)
    print(json.dumps({"error": error, "text": text}), file=report, flush=True)


def _try(path: str, library: Library, options: GgufOptions) -> None:
    header = read_header(path)
    check_memory(library, header, options)
    model = GgufModel(load_binding(library, header, options), header, options, name=header.name)
    model.vocab.encode("A trial, 1.\n", add_bos=True, special=True)
    last = model.info.n_vocab - 1
    for tokens in ([0, last], [min(1, last)]):
        model.forward([Chunk(slot=0, tokens=tokens, n_logits=len(tokens))])
    model.close()


def _report_only_to_parent() -> TextIO:
    report = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return report


def _leave_no_core() -> None:
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


if __name__ == "__main__":
    main()
