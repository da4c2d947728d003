"""What is to be served: the models, what drafts, how much, and on which machines. Values only."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from leadout.checks import check_kind, check_one_of, check_whole
from leadout.errors import InputError
from leadout.launch.vocabularies import Verdict

DraftKind = Literal["none", "model", "ngram", "suffix"]
ModelForm = Literal["gguf", "folder", "name"]
Executor = Literal["mp", "ray"]

LOOPBACK = "127.0.0.1"
_ADDRESS = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.:-]*[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """A model as an engine is given it.

    Parameters
    ----------
    name : str
        As the user asked for it.
    given : str
        What the engine gets: an absolute path, a hub repository, or a name of the engine's own.
    form : ModelForm
        A GGUF file, a folder with config.json, or a name that only the engine can resolve.
    n_bytes : int
        Of the weights; 0 where unknown.
    n_ctx_train : int
        Positions it was trained for; 0 where unknown.
    architectures : tuple of str
        What its file or config.json calls it.
    """

    name: str
    given: str
    form: ModelForm
    n_bytes: int = 0
    n_ctx_train: int = 0
    architectures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """Where the engine listens and what it may use; None leaves a choice to the engine.

    Parameters
    ----------
    host, port : str, int
        Where it listens; port 0 is the engine's usual one.
    n_ctx : int or None
        Context of a request in tokens.
    n_parallel : int or None
        Most requests at once.
    n_gpus : int or None
        GPUs of each machine; 0 is CPU only.
    n_nodes, node_rank : int
        Machines in all, and which of them this one is; rank 0 answers requests.
    head : str
        Address of rank 0, as the other machines reach it.
    tensor_parallel, pipeline_parallel : int or None
        Ways that layers are split, and groups of layers; None: the GPUs of one machine, and the machines.
    executor : "mp" or "ray"
        How vLLM reaches its workers: processes it starts, or a Ray cluster that exists.

    Raises
    ------
    InputError
        If a value is outside its range, or the splits do not use exactly the GPUs there are.
    """

    host: str = LOOPBACK
    port: int = 0
    n_ctx: int | None = None
    n_parallel: int | None = None
    n_gpus: int | None = None
    n_nodes: int = 1
    node_rank: int = 0
    head: str = ""
    tensor_parallel: int | None = None
    pipeline_parallel: int | None = None
    executor: Executor = "mp"

    def __post_init__(self) -> None:
        check_kind("host", self.host, str, "a name or an address")
        if not _ADDRESS.fullmatch(self.host):
            raise InputError(f"host is {self.host!r}; it must be a name or an address, such as {LOOPBACK}")
        check_whole("port", self.port, 0, 65535)
        check_whole("n_ctx", self.n_ctx, 8, optional=True)
        check_whole("n_parallel", self.n_parallel, 1, optional=True)
        check_whole("n_gpus", self.n_gpus, 0, 1024, optional=True)
        check_whole("n_nodes", self.n_nodes, 1, 1024)
        check_whole("node_rank", self.node_rank, 0, self.n_nodes - 1)
        check_whole("tensor_parallel", self.tensor_parallel, 1, optional=True)
        check_whole("pipeline_parallel", self.pipeline_parallel, 1, optional=True)
        check_one_of("executor", self.executor, ("mp", "ray"))
        self._check_nodes()

    def _check_nodes(self) -> None:
        if self.n_nodes > 1 and not _ADDRESS.fullmatch(self.head):
            raise InputError(
                f"n_nodes is {self.n_nodes} and head is {self.head!r}; "
                "give the address of the first machine with --head, as the others reach it"
            )
        if self.n_nodes == 1 and self.head:
            raise InputError(f"head is {self.head!r}, but there is one machine only; give --nodes too")
        if self.n_nodes > 1 and not self.n_gpus:
            raise InputError(f"n_nodes is {self.n_nodes}; say with --gpus how many GPUs each machine has")
        if self.n_gpus and self.n_workers != self.n_gpus * self.n_nodes:
            raise InputError(
                f"tensor parallel {self.n_tensor} x pipeline parallel {self.n_pipeline} is {self.n_workers} "
                f"workers, but there are {self.n_gpus * self.n_nodes} GPUs ({self.n_gpus} on each of "
                f"{self.n_nodes}); the product must be that number"
            )

    @property
    def n_tensor(self) -> int:
        """Ways that each layer is split: as asked, else what the pipeline leaves of the GPUs."""
        if self.tensor_parallel is not None:
            return self.tensor_parallel
        if self.pipeline_parallel is not None:
            return max(1, (self.n_gpus or 1) * self.n_nodes // self.pipeline_parallel)
        return max(1, self.n_gpus or 1)

    @property
    def n_pipeline(self) -> int:
        """Groups of layers: as asked, else what the tensor split leaves of the GPUs."""
        if self.pipeline_parallel is not None:
            return self.pipeline_parallel
        return max(1, (self.n_gpus or 1) * self.n_nodes // self.n_tensor) if self.n_gpus else self.n_nodes

    @property
    def n_workers(self) -> int:
        """Parts that the target is cut into."""
        return self.n_tensor * self.n_pipeline

    @property
    def is_local(self) -> bool:
        """True when only this machine can reach it."""
        return self.host in (LOOPBACK, "localhost", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that decides how an engine is set up.

    Parameters
    ----------
    target : ServedModel
    kind : DraftKind
        What drafts.
    draft : ServedModel or None
        The draft model, with kind "model" only.
    k : int or None
        Tokens to draft in a round; None leaves it to the engine.
    why_k : str
        Where `k` comes from.
    vocabulary : Verdict or None
        leadout's own comparison of the two vocabularies; None without a draft model.
    serving : Serving
        With the port decided.
    extra : tuple of str
        Arguments for the engine as the user wrote them, put last.

    Raises
    ------
    InputError
        If a draft model is missing, or there is one that nothing uses.
    """

    target: ServedModel
    kind: DraftKind = "none"
    draft: ServedModel | None = None
    k: int | None = None
    why_k: str = ""
    vocabulary: Verdict | None = None
    serving: Serving = field(default_factory=Serving)
    extra: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if (self.kind == "model") != (self.draft is not None):
            raise InputError(f"a draft model belongs to kind 'model' and to no other, got {self.kind!r}")
        check_whole("k", self.k, 1, 64, optional=True)
