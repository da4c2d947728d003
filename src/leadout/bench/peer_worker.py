"""The process behind `ProcessPeer`: `python -m leadout.bench.peer_worker`, one JSON object a line.

Requests: {"open": settings}, {"forget": true}, {"answer": {"prompt": ids, "params": law}}. Each gets one line
back, {"error": text} where it failed. What libraries print goes to standard error.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any, TextIO

from leadout.bench.answer import Answer
from leadout.bench.peers import Library, PeerSettings
from leadout.engine.params import Params
from leadout.errors import ProviderError


def serve(requests: Iterable[str], out: TextIO, load: Callable[[PeerSettings], Library]) -> None:
    """Answer requests until they end."""
    peer: Library | None = None
    try:
        for line in requests:
            request = json.loads(line)
            try:
                if "open" in request:
                    peer = load(PeerSettings(**request["open"]))
                    reply: dict[str, object] = {"version": peer.version}
                else:
                    reply = _reply(peer, request)
            except Exception as error:  # whatever a library raises is told, and the next request may work
                reply = {"error": f"{type(error).__name__}: {error}"}
            out.write(json.dumps(reply) + "\n")
            out.flush()
    finally:
        if peer is not None:
            peer.close()


def _reply(peer: Library | None, request: dict[str, Any]) -> dict[str, object]:
    if peer is None:
        raise ProviderError("nothing was opened")
    if "forget" in request:
        peer.forget()
        return {}
    answer = peer.answer(request["answer"]["prompt"], Params(**request["answer"]["params"]))
    return _as_json(answer)


def _as_json(answer: Answer) -> dict[str, object]:
    return {
        "ids": list(answer.ids),
        "first_s": answer.first_s,
        "decode_s": answer.decode_s,
        "n_first": answer.n_first,
        "passes": answer.passes,
        "drafted": answer.drafted,
        "accepted": answer.accepted,
    }


def load_peer(settings: PeerSettings) -> Library:
    """Import one library, and no other, and load the models.

    Raises
    ------
    ProviderError
        If there is no such peer.
    """
    match settings.kind:
        case "llama-cpp-python":
            from leadout.bench.peer_llama_cpp_python import LlamaCppPythonPeer

            return LlamaCppPythonPeer(settings)
        case "transformers":
            from leadout.bench.peer_transformers import TransformersPeer

            return TransformersPeer(settings)
        case "openvino":
            from leadout.bench.peer_openvino import OpenVinoPeer

            return OpenVinoPeer(settings)
    raise ProviderError(f"peer {settings.kind!r} does not run in a process like this")


def main() -> None:
    """Serve standard input; standard output is kept for the replies alone."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as replies:
        os.dup2(2, 1)
        serve(sys.stdin, replies, load_peer)


if __name__ == "__main__":
    main()
