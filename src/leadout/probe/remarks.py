"""What decides nothing but should be known: warnings and notes from what was measured. Pure."""

from __future__ import annotations

from leadout.probe.answers import Drafting
from leadout.probe.law import Law
from leadout.probe.measured import USELESS_ACCEPTANCE, Measured
from leadout.probe.values import Finding

LOW_ACCEPTANCE = 0.3
"""On texts that are easy to guess."""

COLLAPSE = 0.25
"""Of the acceptance after short texts: what is left of it after a long one when drafting stopped there."""


def remarks(seen: Measured) -> list[Finding]:
    """Warnings and notes, in no order that matters."""
    found = []
    drafting, long = seen.drafting, seen.long_drafting
    if drafting.foreign:
        theirs = "their drafts are in the figures, and " if drafting.basis == "counters" else ""
        found.append(
            Finding(
                level="warning",
                name="foreign-traffic",
                text=f"others used the server meanwhile ({drafting.foreign} {drafting.foreign_unit}): "
                f"{theirs}engines draft less under load",
                remedy="probe again while nobody else uses it",
            )
        )
    acceptance = drafting.acceptance
    if acceptance is not None and USELESS_ACCEPTANCE <= acceptance < LOW_ACCEPTANCE:
        found.append(
            Finding(
                level="warning",
                name="low-acceptance",
                text=f"only {acceptance:.0%} of the drafted tokens stood on texts that are easy to guess",
                remedy="draft fewer tokens; with llama-server set --spec-draft-p-min 0.5 (its default is 0) "
                "and leave the draft's cache unquantised (-ctkd, -ctvd); take a draft nearer to the target",
            )
        )
    if long is not None and drafting.drafted and _has_collapsed(drafting, long):
        found.append(
            Finding(
                level="warning",
                name="draft-context",
                text="after the long text nothing useful was drafted: the draft's context is shorter "
                "than the target's",
                remedy="raise the draft's context (max_model_len), or take a draft trained for longer texts; "
                "with vLLM one long request stops drafting for the whole batch",
            )
        )
    if seen.blank_tops:
        found.append(
            Finding(
                level="warning",
                name="blank-logprobs",
                text=f"{seen.blank_tops} drafted tokens came without their log probabilities",
                remedy="do not use logprobs of this server while speculation is on",
            )
        )
    found += _law_notes(seen.law)
    return found


def _law_notes(law: Law) -> list[Finding]:
    notes = {
        "control differs": (
            "sampling-settings",
            "draws at temperature 1 differ from the told probabilities even where nothing is drafted, so "
            "this is not speculation: other weights, or sampling settings that requests cannot override",
        ),
        "undrafted": ("law-undrafted", "nothing was drafted at temperature 1, so its law proves nothing"),
        "no power": ("law-no-power", "the model was too sure of itself for the law to be tested"),
    }
    found = []
    if law.result in notes:
        name, text = notes[law.result]
        found.append(Finding(level="warning", name=name, text=text))
    if law.min_p == "ignored":
        found.append(
            Finding(
                level="warning",
                name="min-p-dropped",
                text="min_p is accepted and then not applied to verified tokens",
                remedy="do not use min_p with speculation here",
            )
        )
    if law.min_p == "refused":
        found.append(
            Finding(level="note", name="min-p-refused", text="requests with min_p are refused, by name")
        )
    return found


def _has_collapsed(short: Drafting, long: Drafting) -> bool:
    if not long.drafted:
        return True
    before, after = short.acceptance, long.acceptance
    return before is not None and after is not None and after < COLLAPSE * before
