"""What a probe found, as one value; tables and JSON are folds over it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from leadout.bench.record import Spread
from leadout.probe.answers import Drafting
from leadout.probe.equality import Equality
from leadout.probe.law import FALSE_ALARM, Law
from leadout.probe.options import ProbeOptions
from leadout.probe.values import Finding, Inspection


class Verdict(StrEnum):
    """What a probe comes to."""

    ON = "on"
    OFF = "off"
    USELESS = "on-but-useless"
    NOT_LOSSLESS = "not-lossless"
    UNKNOWN = "unknown"


EXIT_CODES = {
    Verdict.ON: 0,
    Verdict.OFF: 3,
    Verdict.USELESS: 4,
    Verdict.NOT_LOSSLESS: 5,
    Verdict.UNKNOWN: 6,
}
"""1 and 2 are failures and mistakes, as of every command."""

Row = tuple[str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeReport:
    """One probe.

    Parameters
    ----------
    url, plain_url : str
        plain_url is "" without a plain side, and the url itself where one request can switch drafting off.
    engine, version, model : str
    verdict : Verdict
    cause : str
        Its name: that of the finding which decided, or "drafts-and-unharmed".
    explanation : str
        One or two sentences: what decided, and what to do.
    findings : tuple of Finding
    inspection : Inspection
    drafting : Drafting
        Of the answers at temperature 0.
    equality : Equality
    law : Law
    speed, plain_speed : Spread or None
        Tokens per second after the first token, by our clock.
    speedup : Spread or None
        Text by text, over the plain side.
    seconds : float
        The whole probe.
    is_cut : bool
        Whether the time limit left something out.
    options : ProbeOptions
    seed : int
        That drove prompts and tests.
    """

    url: str
    plain_url: str
    engine: str
    version: str
    model: str
    verdict: Verdict
    cause: str
    explanation: str
    findings: tuple[Finding, ...]
    inspection: Inspection
    drafting: Drafting
    equality: Equality
    law: Law
    speed: Spread | None
    plain_speed: Spread | None
    speedup: Spread | None
    seconds: float
    is_cut: bool
    options: ProbeOptions
    seed: int

    @property
    def exit_code(self) -> int:
        """Of ``leadout probe``."""
        return EXIT_CODES[self.verdict]

    def rows(self) -> Sequence[Row]:
        """A table: part, result, evidence."""
        return (
            ("set-up", _set_up(self.inspection), "as the server tells it"),
            ("drafting", *_drafting(self.drafting)),
            ("speed", *_speed(self.speed, self.plain_speed, self.speedup)),
            (
                "greedy text",
                *_equality(
                    self.equality, is_idle=not self.drafting.drafted and self.inspection.configured is False
                ),
            ),
            ("law", *_law(self.law)),
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values. No prompt, no text of an answer but a few characters around a difference, no key."""
        said = {name: value for name, value in asdict(self).items() if name != "options"}
        said["verdict"] = self.verdict.value
        said["exit_code"] = self.exit_code
        said["drafting"] |= {
            "acceptance": self.drafting.acceptance,
            "tokens_per_pass": self.drafting.tokens_per_pass,
        }
        said["equality"]["result"] = self.equality.result
        said["law"] |= {
            "result": self.law.result,
            "p_value": self.law.p_value if self.law.groups else None,
            "false_alarm": FALSE_ALARM,
        }
        said["limits"] = asdict(self.options)
        return said


def _set_up(inspection: Inspection) -> str:
    words = {True: "speculation is set up", False: "no speculation", None: "not told"}[inspection.configured]
    return f"{words}: {inspection.drafter}" if inspection.drafter else words


def _drafting(drafting: Drafting) -> tuple[str, str]:
    basis = {
        "answers": "told with each answer",
        "counters": "counters before and after",
        "": "this engine counts nothing",
    }[drafting.basis]
    if drafting.drafted is None:
        rounds = f"{drafting.rounds} verify passes" if drafting.rounds is not None else "not told"
        return rounds, basis
    result = f"{drafting.accepted} of {drafting.drafted} drafted tokens stood"
    if drafting.acceptance is not None:
        result += f" ({drafting.acceptance:.0%})"
    passes = drafting.tokens_per_pass
    per_pass = f", {passes:.2f} tokens a pass" if passes is not None else ""
    foreign = f"; meanwhile {drafting.foreign} {drafting.foreign_unit} of others" if drafting.foreign else ""
    return result + per_pass, f"{drafting.n_tokens} tokens; {basis}{foreign}"


def _speed(speed: Spread | None, plain: Spread | None, speedup: Spread | None) -> tuple[str, str]:
    if speed is None:
        return "not measured", "too few tokens came to tell"
    if plain is None or speedup is None:
        return f"{speed.median:.1f} tok/s", "no plain side to compare with"
    return (
        f"{speedup} x plain",
        f"{speed.median:.1f} against {plain.median:.1f} tok/s, {speedup.n} texts in turns",
    )


def _equality(equality: Equality, *, is_idle: bool) -> tuple[str, str]:
    if equality.result == "unchecked" and is_idle:
        return "unchecked", "nothing is drafted that could harm"
    if equality.result == "unchecked":
        return "unchecked", "needs a plain server (--plain URL) with this engine"
    result = {
        "equal": "plain decoding's",
        "near-ties": f"plain decoding's but for near ties: {len(equality.splits)}",
        "different": "not plain decoding's",
        "undecided": "differs, and no probabilities tell whether by a near tie",
    }[equality.result]
    how = {"plain side": "of answers compared", "replay": "asked again one at a time"}[equality.method]
    gaps = ", ".join("?" if split.gap is None else f"{split.gap:.2g}" for split in equality.splits[:5])
    return result, f"{equality.n_compared} {equality.unit} {how}" + (f"; gaps {gaps} nats" if gaps else "")


def _law(law: Law) -> tuple[str, str]:
    result = {
        "follows": "draws follow the target's law",
        "greedy": "drafted tokens are always the most probable one",
        "differs": "draws do not follow the target's law",
        "control differs": "draws differ even where nothing is drafted",
        "no power": "this model leaves too little freedom to tell",
        "undrafted": "nothing was drafted for these samples",
        "unchecked": "unchecked",
    }[law.result]
    if not law.groups:
        return result, "left out" if not law.method else "too few samples"
    evidence = f"{law.n_draws} samples, {len(law.groups)} groups, p = {law.p_value:.2g}, {law.method}"
    return result, f"{evidence}; false alarm at most {FALSE_ALARM:g}"
