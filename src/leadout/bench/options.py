"""What a benchmark is asked for: one frozen value, checked where it is built."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from leadout.bench.workloads import WORKLOADS
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
        Names with commas between them; "all" is every one.
    n_prompts : int >= 1 or None
        Prompts per workload; None is all.
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
    out : Path
        The JSON file.
    picture : Path or None
        An .svg, .png or .pdf file.

    Raises
    ------
    InputError
        If a value is outside its range.
    """

    vs: str = "plain,ngram:3,fixed:3"
    workloads: str = "all"
    n_prompts: int | None = None
    n_calls: int | None = None
    repeats: int = 1
    max_tokens: int = 200
    temperature: float = 0.0
    seed: int | None = None
    llama_server: str = ""
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
        unknown = [name for name in self.workload_names if name not in WORKLOADS]
        if unknown or not self.workload_names:
            what = repr(unknown[0]) if unknown else "''"
            raise InputError(f"workload {what} does not exist; there are {', '.join(WORKLOADS)}")
        if self.picture is not None and self.picture.suffix not in (".svg", ".png", ".pdf"):
            raise InputError(f"picture is {str(self.picture)!r}; it must end in .svg, .png or .pdf")
        _ = self.params

    @property
    def workload_names(self) -> tuple[str, ...]:
        """The workloads, one by one."""
        if self.workloads == "all":
            return WORKLOADS
        return tuple(dict.fromkeys(part.strip() for part in self.workloads.split(",") if part.strip()))

    @property
    def params(self) -> Params:
        """How every answer is drawn."""
        return Params(temperature=self.temperature, seed=self.seed, max_tokens=self.max_tokens)
