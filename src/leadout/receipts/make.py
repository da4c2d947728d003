"""From an engine and its results to a receipt."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from leadout import __version__
from leadout.engine.engine import Engine
from leadout.engine.params import Params
from leadout.engine.result import Result
from leadout.errors import InputError
from leadout.models.base import ModelInfo
from leadout.models.cpu import read_cpu, usable_cores
from leadout.models.options import GgufOptions
from leadout.receipts.hashes import FileRecord, hash_of_ids, hash_of_text, record_files
from leadout.receipts.receipt import AnswerRecord, DraftRecord, ModelRecord, PromptRecord, Receipt

_SEED_BITS = 53  # every reader of JSON keeps such a number as it is


def require_receiptable(params: Params) -> None:
    """Refuse what no receipt can be made of.

    Raises
    ------
    InputError
        If the answer is bound to a form, or drawn with a rule that takes no seed.
    """
    if params.constraint is not None:
        raise InputError("receipt cannot be given for an answer in a certain form; leave out one of the two")
    if params.verification in ("block", "token"):
        raise InputError(
            f"receipt needs draws that can be repeated, and verification {params.verification} has none; "
            "use auto or coupled"
        )


def replayable(params: Params) -> Params:
    """The same request with a seed: an unseeded draw could not be repeated, so one is drawn now.

    Raises
    ------
    InputError
        See `require_receiptable`.
    """
    require_receiptable(params)
    if params.is_greedy or params.seed is not None:
        return params
    return replace(params, seed=secrets.randbits(_SEED_BITS))


def make_receipt(
    engine: Engine,
    prompt_ids: Sequence[int],
    params: Params,
    results: Sequence[Result],
    *,
    has_prompt: bool = False,
) -> Receipt:
    """The receipt for the answers to a prompt; the first one for a model hashes its files.

    Parameters
    ----------
    engine : Engine
        That made `results`.
    prompt_ids : sequence of int
    params : Params
        As they were used; see `replayable`.
    results : sequence of Result, length >= 1
    has_prompt : bool
        Put the prompt's ids in; without, a replay must be given the prompt again.

    Raises
    ------
    InputError
        If an answer was cancelled, or drawn without a seed; see also `require_receiptable`.
    """
    require_receiptable(params)
    if params.seed is None and not params.is_greedy:
        raise InputError("receipt needs a seed for sampled answers; see replayable")
    if any(result.finish_reason == "cancelled" for result in results):
        raise InputError("receipt cannot be given for an answer that was cancelled")
    info = engine.target.info
    ids = tuple(prompt_ids)
    return Receipt(
        version=__version__,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        target=ModelRecord(
            name=info.name,
            files=_files_of(info),
            provider=info.provider,
            provider_version=info.provider_version,
            cpu=read_cpu().model,
            options=_options_of(info),
        ),
        draft=_draft(engine),
        prompt=PromptRecord(n_tokens=len(ids), sha256=hash_of_ids(ids), ids=ids if has_prompt else None),
        params=params,
        answers=tuple(_answer(result) for result in results),
    )


def _options_of(info: ModelInfo) -> GgufOptions:
    """As it was loaded, with the number of threads that was taken: another one may round otherwise."""
    options = info.options or GgufOptions(n_ctx=info.n_ctx)
    return options if options.n_threads is not None else replace(options, n_threads=usable_cores())


def _draft(engine: Engine) -> DraftRecord | None:
    name = engine.provenance().draft
    if name is None:
        return None
    return DraftRecord(name=name, files=() if engine.draft is None else _files_of(engine.draft))


def _files_of(info: ModelInfo) -> tuple[FileRecord, ...]:
    return () if info.path is None else record_files(info.path)


def _answer(result: Result) -> AnswerRecord:
    return AnswerRecord(
        index=result.index,
        finish_reason=result.finish_reason,
        ids=result.ids,
        text_sha256=hash_of_text(result.text),
        target_passes=result.usage.target_passes,
        drafted=result.usage.drafted,
        accepted=result.usage.accepted,
    )
