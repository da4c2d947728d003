"""What a benchmark is asked for: one frozen value, checked where it is built."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from leadout.bench.quantised import check_kind_of
from leadout.bench.workloads import WORKLOADS
from leadout.checks import shown, whole
from leadout.engine.params import Params
from leadout.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions:
    """How much is measured, and where it goes.

    Parameters
    ----------
    vs : str
        Contenders, as `parse_specs` reads them.
    workloads : str
        Names with commas between them, each with ":N" after it to take the first N prompts; "all" is every
        one.
    n_prompts : int >= 1 or None
        Prompts per workload where `workloads` does not say; None is all.
    n_calls : int >= 1 or None
        Calls of a loop; None is all.
    repeats : int, 1..100
        Times that everything is answered.
    max_tokens : int, 2..4096
        Longest answer in tokens.
    temperature : float >= 0
        0 is greedy.
    seed : int or None
        Of every request.
    llama_server : str
        Path of llama-server; "" looks on PATH.
    peer_python : str
        A Python for the other engines that this one does not have; it has what leadout needs, too.
    quant, draft_quant : str
        Make the target or the draft model into this format first; "" takes the file as it is.
    useless_draft : bool
        Scramble the draft model's weights first, to see what a bad draft costs.
    out : Path
        The JSON file.
    picture : Path or None
        An .svg, .png or .pdf file.

    Raises
    ------
    InputError
        If a value is outside its range.
    """

    vs: str = "auto,ngram:3,fixed:3"
    workloads: str = "all"
    n_prompts: int | None = None
    n_calls: int | None = None
    repeats: int = 1
    max_tokens: int = 200
    temperature: float = 0.0
    seed: int | None = None
    llama_server: str = ""
    peer_python: str = ""
    quant: str = ""
    draft_quant: str = ""
    useless_draft: bool = False
    out: Path = Path("benchmarks/bench.json")
    picture: Path | None = None

    def __post_init__(self) -> None:
        for name, value in (("prompts", self.n_prompts), ("calls", self.n_calls)):
            if value is not None and value < 1:
                raise InputError(f"{name} is {value}; it must be a whole number >= 1")
        if not 1 <= self.repeats <= 100:
            raise InputError(f"repeats is {self.repeats}; it must be a whole number in 1..100")
        if not 2 <= self.max_tokens <= 4096:
            raise InputError(f"max_tokens is {self.max_tokens}; it must be a whole number in 2..4096")
        unknown = [name for name in self.limits if name not in WORKLOADS]
        if unknown or not self.limits:
            what = repr(unknown[0]) if unknown else "''"
            raise InputError(f"workload {what} does not exist; there are {', '.join(WORKLOADS)}")
        for name, kind in (("quant", self.quant), ("draft_quant", self.draft_quant)):
            check_kind_of(name, kind)
        if self.out.is_dir():
            raise InputError(f"out is {str(self.out)!r}, which is a folder; name a file in it")
        if self.picture is not None and self.picture.suffix not in (".svg", ".png", ".pdf"):
            raise InputError(f"picture is {str(self.picture)!r}; it must end in .svg, .png or .pdf")
        _ = self.params

    @property
    def workload_names(self) -> tuple[str, ...]:
        """The workloads, one by one."""
        return tuple(self.limits)

    @property
    def limits(self) -> dict[str, int | None]:
        """How many prompts of each workload; None is all.

        Raises
        ------
        InputError
            If a number is none.
        """
        if self.workloads == "all":
            return dict.fromkeys(WORKLOADS, self.n_prompts)
        return dict(self._limit(part.strip()) for part in self.workloads.split(",") if part.strip())

    def _limit(self, part: str) -> tuple[str, int | None]:
        name, colon, number = part.partition(":")
        if not colon:
            return name, self.n_prompts
        if not (limit := whole(number)):
            raise InputError(
                f"workload {shown(part)}: what follows {name}: is a whole number of prompts >= 1"
            )
        return name, limit

    @property
    def params(self) -> Params:
        """How every answer is drawn."""
        return Params(temperature=self.temperature, seed=self.seed, max_tokens=self.max_tokens)
