"""What a run has to show, and whether it does. The numbers are in `standard.toml`, not here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from leadout.bench.specs import AUTO
from leadout.errors import InputError

EVERY = "every"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """What is asked of `auto` in a run.

    Parameters
    ----------
    speedup : mapping of workload to float
        Least speed as a multiple of the better plain decoding; "every" is for workloads without one.
    beats : tuple of str
        Contenders that have to be slower in every workload.
    share : float or None
        Least share of the best fixed choice in hindsight, in every workload.
    accepted : mapping of contender to mapping of workload to float
        Least drafted tokens that stand in a round, on average.
    prediction : float or None
        Least gain in Brier score over the running mean, on workloads held out.
    """

    speedup: Mapping[str, float] = field(default_factory=dict)
    beats: tuple[str, ...] = ()
    share: float | None = None
    accepted: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    prediction: float | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Bars:
        """From what stands in a table of `standard.toml`.

        Raises
        ------
        InputError
            If a key is not known.
        """
        known = [each.name for each in fields(cls)]
        unknown = sorted(set(given) - set(known))
        if unknown:
            raise InputError(f"bars have no {unknown[0]!r}; there are {', '.join(known)}")
        return cls(**{**given, "beats": tuple(given.get("beats", ()))})


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A bar and what was measured; `found` is None where the run has nothing to say about it."""

    what: str
    wanted: float
    found: float | None

    @property
    def holds(self) -> bool | None:
        """Whether the bar is reached; None where it was not measured."""
        return None if self.found is None else self.found >= self.wanted

    @property
    def verdict(self) -> str:
        """In one word."""
        return {True: "holds", False: "missed", None: "not measured"}[self.holds]


def check(bars: Bars, figures: Mapping[str, Any]) -> list[Finding]:
    """Every bar of a run, in order.

    Parameters
    ----------
    bars : Bars
    figures : mapping
        "figures" of the run's record.
    """
    workloads = figures["workloads"]
    return [
        *_speeds(bars.speedup, workloads),
        *_beaten(bars.beats, workloads),
        *_shares(bars.share, figures.get("hindsight") or {}),
        *_accepted(bars.accepted, workloads),
        *_predictions(bars.prediction, figures.get("held_out") or {}),
    ]


def speed_of(by_name: Mapping[str, Any], contender: str) -> float | None:
    """Median speed as a multiple of the better plain decoding of the run."""
    of = by_name.get(contender, {})
    spread = of.get("speedup_best_plain") or of.get("speedup")
    return None if spread is None else float(spread["median"])


def _speeds(wanted: Mapping[str, float], workloads: Mapping[str, Any]) -> Iterator[Finding]:
    least = {name: wanted[EVERY] for name in workloads if EVERY in wanted}
    least |= {name: value for name, value in wanted.items() if name != EVERY}
    for name, value in least.items():
        found = speed_of(workloads.get(name, {}), AUTO)
        yield Finding(what=f"{name}: speed over plain", wanted=value, found=found)


def _beaten(contenders: Sequence[str], workloads: Mapping[str, Any]) -> Iterator[Finding]:
    for contender in contenders:
        for workload, by_name in workloads.items():
            own, other = speed_of(by_name, AUTO), speed_of(by_name, contender)
            found = None if own is None or not other else own / other
            yield Finding(what=f"{workload}: speed over {contender}", wanted=1.0, found=found)


def _shares(least: float | None, hindsight: Mapping[str, Any]) -> Iterator[Finding]:
    if least is not None:
        for workload, seen in hindsight.items():
            what = f"{workload}: share of the best fixed choice ({seen['best_fixed']})"
            yield Finding(what=what, wanted=least, found=seen["share"])


def _accepted(wanted: Mapping[str, Mapping[str, float]], workloads: Mapping[str, Any]) -> Iterator[Finding]:
    for contender, least in wanted.items():
        for workload, value in least.items():
            per_pass = workloads.get(workload, {}).get(contender, {}).get("tokens_per_pass")
            found = None if per_pass is None else per_pass - 1  # one token of each pass is the target's own
            yield Finding(what=f"{workload}: accepted per round, {contender}", wanted=value, found=found)


def _predictions(least: float | None, held_out: Mapping[str, Any]) -> Iterator[Finding]:
    if least is not None:
        found = (held_out.get("learning") or {}).get("gain")
        yield Finding(what="acceptance predicted, Brier score saved", wanted=least, found=found)
