"""Small pieces that the engines' command lines share."""

from __future__ import annotations

from collections.abc import Sequence

from leadout.errors import InputError
from leadout.launch.plan import Plan


def options(*pairs: tuple[str, object]) -> list[str]:
    """``[flag, value, ...]`` of the pairs whose value is not None."""
    return [text for flag, value in pairs if value is not None for text in (flag, str(value))]


def names_given(extra: Sequence[str]) -> frozenset[str]:
    """Names of the flags among the user's own arguments, without values."""
    return frozenset(argument.partition("=")[0] for argument in extra if argument.startswith("-"))


def refuse_twice(plan: Plan, *ours: str) -> None:
    """Refuse user arguments that would set again what the plan sets.

    Raises
    ------
    InputError
        Names them.
    """
    twice = sorted(names_given(plan.extra) & frozenset(ours))
    if twice:
        raise InputError(
            f"{', '.join(twice)} after -- would set again what leadout sets; use leadout's own option, "
            "or give --draft none and all of the engine's own"
        )


def require_one_machine(plan: Plan, title: str) -> None:
    """Refuse several machines for an engine that runs on one.

    Raises
    ------
    InputError
    """
    if plan.serving.n_nodes > 1:
        raise InputError(
            f"{title} runs on one machine, but --nodes is {plan.serving.n_nodes}; "
            "vllm, sglang and tensorrt-llm can use several"
        )


def require_same_tokens(plan: Plan, title: str) -> None:
    """Refuse a draft model that cannot draft with the target's ids.

    Raises
    ------
    InputError
        With leadout's finding.
    """
    if plan.vocabulary is not None and plan.vocabulary.agreement == "different":
        raise InputError(
            f"{title} would draft in vain: {plan.vocabulary.sentence}; take a draft model of the target's "
            "family, or --draft ngram where the engine has it, or leadout's own engine"
        )


def url_of(plan: Plan) -> str:
    """Where the engine answers on this machine."""
    host = plan.serving.host
    reached = "127.0.0.1" if host in ("0.0.0.0", "::") else host
    return f"http://{f'[{reached}]' if ':' in reached else reached}:{plan.serving.port}"


def common_notes(plan: Plan) -> list[str]:
    """What was compared and decided, whatever the engine."""
    notes = []
    if plan.vocabulary is not None and plan.vocabulary.agreement != "unknown":
        notes.append(plan.vocabulary.sentence)
    if plan.k is not None:
        notes.append(f"k = {plan.k}: {plan.why_k}")
    elif plan.why_k:
        notes.append(f"k: {plan.why_k}")
    return notes


def common_warnings(plan: Plan) -> list[str]:
    """What may go wrong, whatever the engine."""
    warnings = []
    if plan.vocabulary is not None and plan.vocabulary.agreement == "unknown":
        warnings.append(f"{plan.vocabulary.sentence}; a mismatched draft costs speed and accepts nothing")
    if not plan.serving.is_local:
        warnings.append(
            f"it listens on {plan.serving.host}, where other machines may reach it; an engine without a key "
            "answers everybody"
        )
    draft, target = plan.draft, plan.target
    if draft is not None and draft.n_bytes > target.n_bytes / 4 > 0:
        share = draft.n_bytes / target.n_bytes
        warnings.append(
            f"the draft model has {share:.0%} of the target's bytes; above a quarter it rarely pays"
        )
    if draft is not None and 0 < draft.n_ctx_train < (plan.serving.n_ctx or target.n_ctx_train):
        warnings.append(
            f"the draft model was trained for {draft.n_ctx_train} tokens, less than the context of "
            f"{plan.serving.n_ctx or target.n_ctx_train}; beyond that it drafts badly or not at all"
        )
    return warnings
