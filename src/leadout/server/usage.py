"""The counts of a response, in the words of the OpenAI interface, and what speculation brought."""

from __future__ import annotations

from collections.abc import Sequence

from leadout.engine.result import speculation_of
from leadout.server.reply import End


def completion_usage(groups: Sequence[Sequence[End]]) -> dict[str, object]:
    """Usage of a chat or text completion.

    Parameters
    ----------
    groups : sequence of sequences of End, none empty
        The answers to each prompt; a prompt counts once.
    """
    counts = [_counts(ends) for ends in groups]
    n_in, n_cached, n_out, n_reasoning = (sum(each) for each in zip(*counts, strict=True))
    return {
        "prompt_tokens": n_in,
        "completion_tokens": n_out,
        "total_tokens": n_in + n_out,
        "prompt_tokens_details": {"cached_tokens": n_cached},
        "completion_tokens_details": {"reasoning_tokens": n_reasoning},
        "speculation": speculation([end for ends in groups for end in ends]),
    }


def response_usage(end: End) -> dict[str, object]:
    """Usage in the words of ``/v1/responses``."""
    n_in, n_cached, n_out, n_reasoning = _counts([end])
    return {
        "input_tokens": n_in,
        "input_tokens_details": {"cached_tokens": n_cached, "cache_write_tokens": 0},
        "output_tokens": n_out,
        "output_tokens_details": {"reasoning_tokens": n_reasoning},
        "total_tokens": n_in + n_out,
        "speculation": speculation([end]),
    }


def speculation(ends: Sequence[End]) -> dict[str, object]:
    """Whether, with what and how well drafts were made.

    ``estimated_speedup`` is the predicted time of plain decoding over the time that was taken, for the same
    tokens; null where nothing was drafted or predicted, and ``basis`` says why.
    """
    state = speculation_of([end.result for end in ends])
    usages = [end.result.usage for end in ends]
    drafted, accepted = sum(each.drafted for each in usages), sum(each.accepted for each in usages)
    passes, tokens = (
        sum(each.target_passes for each in usages),
        sum(each.completion_tokens for each in usages),
    )
    plain_s = sum(end.result.outlook.plain_s for end in ends)
    actual_s = sum(end.result.outlook.actual_s for end in ends)
    is_known = drafted > 0 and plain_s > 0 and actual_s > 0
    if is_known:
        basis = "plain passes as measured on this machine, against the time these rounds took"
    elif state.enabled and not drafted:
        basis = "none: nothing was drafted"
    elif state.enabled:
        basis = "unknown: this schedule does not predict what plain decoding would take"
    else:
        basis = "none: speculation is off"
    return {
        "enabled": state.enabled,
        "reason": state.reason,
        "drafter": state.drafter,
        "schedule": state.schedule,
        "verification": state.verification,
        "drafted": drafted,
        "accepted": accepted,
        "forced": sum(each.forced for each in usages),
        "acceptance": accepted / drafted if drafted else None,
        "target_passes": passes,
        "tokens_per_pass": tokens / passes if passes else None,
        "estimated_speedup": plain_s / actual_s if is_known else None,
        "basis": basis,
    }


def _counts(ends: Sequence[End]) -> tuple[int, int, int, int]:
    first = ends[0].result.usage
    n_out = sum(end.result.usage.completion_tokens for end in ends)
    return first.prompt_tokens, first.cached_tokens, n_out, sum(end.n_reasoning for end in ends)
