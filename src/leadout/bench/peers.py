"""Other engines as contenders: one seam for all, each library in a process of its own.

The process speaks one JSON object a line: settings first, then requests; see `peer_worker`. So libraries that
would clash never meet, and a crash costs one contender.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from leadout.bench.answer import Answer
from leadout.bench.contenders import Answerer, Contender
from leadout.bench.progress import Progress
from leadout.bench.server_settings import Tuned, TuningPrompt
from leadout.bench.specs import DRAFTING, Spec
from leadout.bench.words import LastWords, child_environment
from leadout.checks import shown
from leadout.engine.params import Params
from leadout.errors import ProviderError

MODULES = {"llama-cpp-python": "llama_cpp", "transformers": "transformers", "openvino": "openvino_genai"}
PACKAGES = {
    "llama-cpp-python": "llama-cpp-python",
    "transformers": "transformers torch gguf accelerate",
    "openvino": "openvino-genai",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerSettings:
    """What a peer is opened with.

    Parameters
    ----------
    kind, mode : str
        As in `Spec`; the mode is decided.
    target, draft : str
        Paths of GGUF files; draft is "" where the mode uses none.
    n_ctx, n_threads, n_gpu_layers : int
        As leadout's own; -1 GPU layers are all.
    ends : tuple of int
        Ids that end an answer.
    program : str
        Path of llama-server; of the others, of the Python that has them.
    """

    kind: str
    mode: str
    target: str
    draft: str = ""
    n_ctx: int = 4096
    n_threads: int = 1
    n_gpu_layers: int = 0
    ends: tuple[int, ...] = ()
    program: str = ""


class Library(Protocol):
    """Another engine with its models loaded, in the process that it runs in."""

    @property
    def version(self) -> str:
        """Of the engine."""

    def forget(self) -> None:
        """Drop caches and memories: the next prompt is read from its first token on."""

    def answer(self, prompt: Sequence[int], params: Params) -> Answer:
        """The answer to a prompt, with its times."""

    def close(self) -> None:
        """Free everything. Closing twice is allowed."""


class Peer(Protocol):
    """Another engine, wherever it runs."""

    @property
    def version(self) -> str:
        """Of the engine."""

    @property
    def tuned(self) -> Tuned | None:
        """Which settings were tried; None where there was nothing to choose."""

    def forget(self, workload: str = "") -> None:
        """Drop caches and memories: the next prompt, of this kind, is read from its first token on."""

    def answer(self, prompt: Sequence[int], params: Params) -> Answer:
        """The answer to a prompt, with its times."""

    def close(self) -> None:
        """Free everything. Closing twice is allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerSetup:
    """What all peers of a run have in common.

    Fields as in `PeerSettings`; `server` is llama-server's program, `python` a Python for the engines that
    this one does not have, `prompts` are what settings are tried on.
    """

    target: Path | None
    draft: Path | None
    n_ctx: int
    n_threads: int
    n_gpu_layers: int
    ends: tuple[int, ...]
    server: str
    python: str = ""
    prompts: tuple[TuningPrompt, ...] = ()

    def settings(self, spec: Spec) -> PeerSettings:
        """What a peer is opened with; it uses a draft model where there is one and it can.

        Raises
        ------
        ProviderError
            If it cannot take part here, with the next step.
        """
        if self.target is None:
            raise ProviderError("the target has no file")
        if spec.kind == "llama-server" and not self.server:
            raise ProviderError("llama-server is not on PATH; name it with --llama-server FILE")
        program = self.server if spec.kind == "llama-server" else ""
        if spec.kind in MODULES and find_spec(MODULES[spec.kind]) is None:
            program = self.python
            if not program:
                raise ProviderError(
                    f"{MODULES[spec.kind]} is not installed; pip install {PACKAGES[spec.kind]}, or name a "
                    "Python that has it, and what leadout needs, with --peer-python FILE"
                )
        if spec.mode == "draft" and self.draft is None:
            raise ProviderError("it is to use a draft model, and --draft names none")
        mode = spec.mode_with(has_draft=self.draft is not None)
        return PeerSettings(
            kind=spec.kind,
            mode=mode,
            target=str(self.target.absolute()),
            draft=str(self.draft.absolute()) if self.draft is not None and mode in DRAFTING else "",
            n_ctx=self.n_ctx,
            n_threads=self.n_threads,
            n_gpu_layers=self.n_gpu_layers,
            ends=self.ends,
            program=program,
        )


def open_peer(
    settings: PeerSettings, prompts: Sequence[TuningPrompt] = (), progress: Progress | None = None
) -> Peer:
    """Start a peer; one that has settings to choose from tries them on `prompts`.

    Raises
    ------
    ProviderError
        If it cannot load the models.
    """
    if settings.kind == "llama-server":
        from leadout.bench.peer_llama_server import LlamaServerPeer

        return LlamaServerPeer(settings, prompts, progress)
    return ProcessPeer(settings)


def peer_contender(name: str, peer: Peer) -> Contender:
    """A peer as a contender: it forgets before every unit."""

    def fresh(workload: str) -> Answerer:
        peer.forget(workload)
        return peer

    return Contender(name=name, fresh=fresh)


class ProcessPeer:
    """A peer in a process of its own, which is this Python with `leadout.bench.peer_worker`.

    Raises
    ------
    ProviderError
        If the process ends or reports an error, here and in every method.
    """

    def __init__(self, settings: PeerSettings) -> None:
        self._kind = settings.kind
        self._words = LastWords()
        command = [settings.program or sys.executable, "-m", "leadout.bench.peer_worker"]
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._words.file,
                text=True,
                bufsize=1,
                env=child_environment(),
            )
        except OSError as error:
            self._words.close()
            raise ProviderError(f"{command[0]} cannot be run: {error}") from error
        try:
            self._version = str(self._ask({"open": asdict(settings)})["version"])
        except BaseException:
            self.close()
            raise

    @property
    def version(self) -> str:
        """Of the library."""
        return self._version

    @property
    def tuned(self) -> Tuned | None:
        """None: its settings are its own advice."""
        return None

    def forget(self, workload: str = "") -> None:  # noqa: ARG002
        """Drop what it holds."""
        self._ask({"forget": True})

    def answer(self, prompt: Sequence[int], params: Params) -> Answer:
        """What the library answers, by its own clock."""
        law = {
            "temperature": params.temperature,
            "top_k": params.top_k,
            "top_p": params.top_p,
            "min_p": params.min_p,
            "seed": params.seed,
            "max_tokens": params.max_tokens,
        }
        read = self._ask({"answer": {"prompt": list(prompt), "params": law}})
        return Answer(**{**read, "ids": tuple(read["ids"])})

    def close(self) -> None:
        """End the process."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            with suppress(OSError):  # what is still to be written finds nobody
                self._process.stdin.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._words.close()

    def _ask(self, request: dict[str, object]) -> dict[str, Any]:
        if self._process.stdin is None or self._process.stdout is None or self._process.stdin.closed:
            raise ProviderError(f"{self._kind} is closed")
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            line = self._process.stdout.readline()
        except OSError:
            line = ""
        if not line:
            raise ProviderError(f"{self._kind} ended: {self._words.read()}")
        reply = _object(line)
        if reply is None:
            raise ProviderError(f"{self._kind} said {shown(line)}, which is no answer; is it a Python?")
        if "error" in reply:
            raise ProviderError(f"{self._kind} failed: {reply['error']}")
        return reply


def _object(line: str) -> dict[str, Any] | None:
    """The JSON object of a line; None where it is none."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
