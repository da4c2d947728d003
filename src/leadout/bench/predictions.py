"""Is what `leadout check` predicts what `leadout bench` then measures: `python -m leadout.bench.predictions`.

Each pair is checked anew and then measured, both by the commands that people use, in processes of their own.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Container, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer

from leadout.advise.verdict import PAYS
from leadout.bench.quantised import quantised
from leadout.bench.record import write_record
from leadout.errors import ProviderError
from leadout.store import resolve

WORKLOADS = "chat:2,code:2,edit:1,extraction:2,maths:2,long_document:1"
MAX_TOKENS = 96
SURE = 0.05
"""A speed so close to plain decoding's may be told to be on either side of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A target and a draft model, in the formats they are to have ("" is as they are), and who runs them."""

    target: str
    draft: str
    quant: str = ""
    draft_quant: str = ""
    provider: str = "ik"

    def __str__(self) -> str:
        """Such as "qwen2.5-coder-1.5b q8_0 with smollm2-135m, ik"."""
        names = [f"{self.target} {self.quant}".strip(), f"{self.draft} {self.draft_quant}".strip()]
        return f"{' with '.join(names)}, {self.provider}"


_BIG, _SMALL, _OTHER = "qwen2.5-coder-1.5b", "qwen2.5-coder-0.5b", "smollm2-135m"
PAIRS = (
    Pair(target=_BIG, draft=_SMALL, draft_quant="q4_0"),
    Pair(target=_BIG, draft=_SMALL, draft_quant="q4_0", provider="llama"),
    Pair(target=_BIG, quant="f16", draft=_SMALL, draft_quant="q4_0", provider="llama"),
    Pair(target=_BIG, draft=_OTHER),
    Pair(target=_BIG, quant="f16", draft=_OTHER, provider="llama"),
    Pair(target=_SMALL, draft=_OTHER),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Speeds as multiples of plain decoding's: predicted and measured, by kind of work and over all of it."""

    pair: str
    sentence: str
    predicted: float
    low: float
    high: float
    measured: float
    kinds: Mapping[str, tuple[float, float]]

    @property
    def error(self) -> float:
        """Of the prediction, as a share of what was measured."""
        return abs(self.predicted / self.measured - 1)

    @property
    def is_wrong(self) -> bool:
        """Whether it said that drafting pays where it clearly does not, or the other way round."""
        return abs(self.measured - 1) > SURE and (self.predicted >= PAYS) != (self.measured > 1)

    def to_json(self) -> dict[str, object]:
        """Plain values."""
        return {**asdict(self), "error": self.error, "is_wrong": self.is_wrong}


def compare(pair: str, checked: Mapping[str, Any], measured: Mapping[str, Any]) -> Comparison:
    """Put the two commands' JSON objects side by side."""
    told = checked["prediction"]
    speeds = {
        name: by_contender["auto"]["speedup"]["median"]
        for name, by_contender in measured["figures"]["workloads"].items()
    }
    predicted = {each["kind"]: each["speedup"]["speedup"] for each in told["kinds"]}
    return Comparison(
        pair=pair,
        sentence=checked["sentence"],
        predicted=told["speedup"]["speedup"],
        low=told["speedup"]["low"],
        high=told["speedup"]["high"],
        measured=math.exp(sum(map(math.log, speeds.values())) / len(speeds)),
        kinds={kind: (predicted[kind], speeds[kind]) for kind in speeds if kind in predicted},
    )


def measure(pair: Pair, out: Path) -> Comparison:
    """Check the pair, then measure it.

    Raises
    ------
    ProviderError
        If a command fails.
    """
    target, draft = _file(pair.target, pair.quant), _file(pair.draft, pair.draft_quant)
    common = ("--provider", pair.provider, "--offline", "--json")
    checked = _leadout("check", target, draft, "--again", *common)
    asked = ("--workloads", WORKLOADS, "--max-tokens", str(MAX_TOKENS), "--out", str(out))
    return compare(
        str(pair), checked, _leadout("bench", target, "--draft", draft, "--vs", "auto", *asked, *common)
    )


def _file(name: str, quant: str) -> str:
    path = resolve(name).path
    return str(quantised(path, quant) if quant else path)


def _leadout(*arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "leadout", *arguments], check=False, capture_output=True, text=True
    )
    try:
        told: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        raise ProviderError(f"leadout {' '.join(arguments)} failed: {done.stderr.strip()}") from None
    return told


def kept(out: Path, anew: Container[str]) -> list[Comparison]:
    """What the record has of other pairs."""
    if not out.is_file():
        return []
    pairs = json.loads(out.read_text(encoding="utf-8"))["figures"]["pairs"]
    names = [each.name for each in fields(Comparison)]
    return [Comparison(**{name: each[name] for name in names}) for each in pairs if each["pair"] not in anew]


def figures_of(found: Sequence[Comparison]) -> dict[str, object]:
    """Of all pairs, for the record."""
    return {
        "median_error": median(each.error for each in found),
        "n_wrong": sum(each.is_wrong for each in found),
        "pairs": [each.to_json() for each in found],
    }


def main(
    only: Annotated[
        str, typer.Option(help="Measure pairs that have this in their names; of others the record stays.")
    ] = "",
    out: Annotated[Path, typer.Option(help="Where the figures go.")] = Path("benchmarks/predictions.json"),
) -> None:
    """Compare what `check` predicts with what `bench` measures, over several pairs and formats."""
    found: dict[str, Comparison] = {}
    arguments: dict[str, object] = {"workloads": WORKLOADS, "max_tokens": MAX_TOKENS}
    with tempfile.TemporaryDirectory() as folder:
        for pair in PAIRS:
            if only not in str(pair):
                continue
            each = found[str(pair)] = measure(pair, Path(folder, "bench.json"))
            write_record(out, "predictions", arguments, figures_of([*kept(out, found), *found.values()]))
            print(
                f"{each.pair}: predicted {each.predicted:.2f} ({each.low:.2f}..{each.high:.2f}), "
                f"measured {each.measured:.2f}",
                flush=True,
            )
    if not found:
        raise typer.BadParameter(f"no pair has {only!r} in its name")
    figures = json.loads(out.read_text(encoding="utf-8"))["figures"]
    print(f"median error {figures['median_error']:.1%}; wrong about paying: {figures['n_wrong']}")


if __name__ == "__main__":
    typer.run(main)
