"""From what was measured to one verdict with a named cause. Pure: no request is made here."""

from __future__ import annotations

from dataclasses import dataclass

from leadout.probe.answers import Drafting
from leadout.probe.measured import USELESS_ACCEPTANCE, Measured
from leadout.probe.remarks import remarks
from leadout.probe.report import Verdict
from leadout.probe.values import Finding

USELESS_PER_PASS = 1.05
"""Tokens of a pass below which a draft is not worth its trouble."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Verdict, the finding that decided (if one did), and all findings."""

    verdict: Verdict
    cause: str
    explanation: str
    findings: tuple[Finding, ...]


def judge(seen: Measured) -> Judgement:
    """The verdict: first whether it drafts, then whether that harms, then whether it helps."""
    findings = [*seen.inspection.findings, *remarks(seen)]
    verdict, decisive = _verdict(seen)
    if decisive is None:
        text = f"it drafts ({_figures(seen.drafting)}) and the output is unharmed as far as measured"
        return Judgement(
            verdict=verdict, cause="drafts-and-unharmed", explanation=text, findings=tuple(findings)
        )
    if decisive not in findings:
        findings.insert(0, decisive)
    remedy = f"; {decisive.remedy}" if decisive.remedy else ""
    return Judgement(
        verdict=verdict,
        cause=decisive.name,
        explanation=decisive.text + remedy,
        findings=tuple(findings),
    )


def _verdict(seen: Measured) -> tuple[Verdict, Finding | None]:
    harm = _harm(seen)
    drafting = seen.drafting
    drafts = _does_draft(seen)
    if drafts is False:
        why = _why_nothing_drafted(seen)
        return (Verdict.USELESS if seen.inspection.configured else Verdict.OFF), why
    if harm is not None:
        return Verdict.NOT_LOSSLESS, harm
    if drafts is None:
        return Verdict.UNKNOWN, _unseen(seen)
    useless = _useless(seen)
    if useless is not None:
        return Verdict.USELESS, useless
    if seen.equality.result in ("unchecked", "undecided"):
        return Verdict.UNKNOWN, Finding(
            level="warning",
            name=f"greedy-{seen.equality.result}",
            text=f"it drafts ({_figures(drafting)}), but whether the output is unharmed could not be decided",
            remedy="give a server of the same model without speculation: --plain URL",
        )
    return Verdict.ON, None


def _does_draft(seen: Measured) -> bool | None:
    """Whether drafts were seen; None where the engine tells nothing and time does not tell either."""
    if seen.drafting.drafted is not None:
        return seen.drafting.drafted > 0
    if seen.drafting.rounds is not None:
        return seen.drafting.rounds > 0
    if seen.inspection.configured is False:
        return False
    if seen.is_same_server and seen.speedup is not None and seen.speedup.n >= 3 and seen.speedup.low > 1.05:
        return True
    return None


def _why_nothing_drafted(seen: Measured) -> Finding:
    named = [each for each in seen.inspection.findings if each.level != "note"]
    if named:
        return named[0]
    if seen.inspection.configured:
        busy = ", or other requests kept it too busy to draft" if seen.drafting.foreign else ""
        return Finding(
            level="fault",
            name="nothing-drafted",
            text=f"speculation is set up, but nothing was drafted for repetitive texts: a lookup that finds "
            f"nothing, a shortest match that is too long, drafting turned off by load or by a draft "
            f"context that is too short{busy}",
            remedy="lower the shortest match of an n-gram drafter, raise limits that turn drafting off by "
            "batch size, and probe again while nobody else uses the server",
        )
    return Finding(
        level="fault",
        name="nothing-drafted",
        text="nothing was drafted for repetitive texts, and the server tells of no speculation",
        remedy="turn speculation on for this engine; leadout launch writes the command",
    )


def _harm(seen: Measured) -> Finding | None:
    if seen.equality.result == "different":
        worst = max((split.gap for split in seen.equality.splits if split.gap is not None), default=None)
        far = f", the largest by {worst:.2g} nats" if worst is not None else ""
        return Finding(
            level="fault",
            name="greedy-differs",
            text=f"at temperature 0 the text is not plain decoding's: {len(seen.equality.splits)} "
            f"differences in {seen.equality.n_compared} {seen.equality.unit}{far}",
            remedy="turn off lossy acceptance (thresholds, relaxed or synthetic acceptance); otherwise turn "
            "speculation off and report it to the engine",
        )
    lossy = next((each for each in seen.inspection.findings if each.name == "lossy-rule"), None)
    if lossy is not None:
        return lossy
    match seen.law.result:
        case "greedy":
            return Finding(
                level="fault",
                name="greedy-verification",
                text="at temperature 1 verified tokens are always the most probable one: the engine verifies "
                "greedily and the temperature has no effect",
                remedy="SGLang off CUDA verifies so always; TensorRT-LLM needs allow_advanced_sampling: "
                "true; elsewhere turn speculation off for sampling",
            )
        case "differs":
            return Finding(
                level="fault",
                name="law-differs",
                text=f"at temperature 1 draws do not follow the target's law (p = {seen.law.p_value:.2g})",
                remedy="turn off lossy acceptance; otherwise turn speculation off for sampling and report it",
            )
        case _:
            return None


def _useless(seen: Measured) -> Finding | None:
    acceptance, per_pass = seen.drafting.acceptance, seen.drafting.tokens_per_pass
    if acceptance is not None and (
        acceptance < USELESS_ACCEPTANCE or (per_pass is not None and per_pass < USELESS_PER_PASS)
    ):
        return Finding(
            level="fault",
            name="nothing-accepted",
            text=f"it drafts, but {_figures(seen.drafting)} on texts that are easy to guess: the draft "
            "does not fit this target",
            remedy="most often the draft has another vocabulary or tokenizer of the same size (leadout check "
            "TARGET DRAFT compares them), its head is of another kind (EAGLE with an EAGLE3 head accepts "
            "nothing), or its cache is quantised too far",
        )
    if seen.speedup is not None and seen.speedup.n >= 3 and seen.speedup.high < 1.0:
        return Finding(
            level="fault",
            name="slower-than-plain",
            text=f"it drafts, but every text took longer than plain decoding: {seen.speedup} x",
            remedy="draft fewer tokens, raise the least draft probability, put the draft model on the "
            "accelerator, or turn speculation off on this machine",
        )
    return None


def _unseen(seen: Measured) -> Finding:
    return Finding(
        level="warning",
        name="not-told",
        text="this engine counts no drafts, so whether it drafts cannot be proved from outside",
        remedy=seen.advice,
    )


def _figures(drafting: Drafting) -> str:
    if drafting.drafted is None:
        return "by the time it takes" if drafting.rounds is None else f"{drafting.rounds} verify passes"
    per_pass = drafting.tokens_per_pass
    passes = f", {per_pass:.2f} tokens a pass" if per_pass is not None else ""
    return f"{drafting.accepted} of {drafting.drafted} drafted tokens stood{passes}"
