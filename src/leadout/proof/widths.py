"""Which widths keep the bits of a model's logits, and whether a row depends on the tokens after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leadout.models.base import Chunk, Model
from leadout.proof.progress import Steps, quiet


@dataclass(frozen=True, slots=True, kw_only=True)
class WidthReport:
    """Logits of passes of one width against single-token passes over the same text.

    Parameters
    ----------
    width : int
        Tokens in a pass.
    is_bit_identical : bool
        Every row has the single-token pass's bits.
    max_difference : float
        Largest absolute difference of a logit.
    n_flips, n_rows : int
        Rows whose argmax differs, of how many.
    is_causal : bool
        Rows keep their bits when only the tokens after them change; False means that drafts leak into `p`.
    """

    width: int
    is_bit_identical: bool
    max_difference: float
    n_flips: int
    n_rows: int
    is_causal: bool


def measure_widths(
    model: Model,
    tokens: Sequence[int],
    n_prompt: int,
    widths: Sequence[int],
    progress: Steps = quiet,
) -> tuple[WidthReport, ...]:
    """Compare passes of each width with single-token passes, in slot 0, which is left empty.

    Parameters
    ----------
    tokens : sequence of int
        A text; its first `n_prompt` (>= 1) tokens are read once, the rows of the others are compared.
    widths : sequence of int
        Tokens per pass, each >= 2 and at most the number of compared tokens.
    progress : Steps
        Told of widths done.
    """
    model.truncate(0, 0)
    model.forward([Chunk(slot=0, tokens=tokens[:n_prompt], n_logits=0)])
    text = tokens[n_prompt:]
    single = _rows(model, n_prompt, text, 1)
    reports = []
    for width in widths:
        rows = _rows(model, n_prompt, text, width)
        reports.append(
            WidthReport(
                width=width,
                is_bit_identical=np.array_equal(rows, single),
                max_difference=float(np.abs(rows - single).max()),
                n_flips=int((rows.argmax(axis=1) != single.argmax(axis=1)).sum()),
                n_rows=len(rows),
                is_causal=_is_causal(model, n_prompt, text[:width]),
            )
        )
        progress(len(reports), len(widths))
    model.truncate(0, 0)
    return tuple(reports)


def _rows(model: Model, n_prompt: int, text: Sequence[int], width: int) -> NDArray[np.float32]:
    """Logits of the text's tokens after the prompt, read `width` at a time; shape (len(text), V)."""
    model.truncate(0, n_prompt)
    rows = []
    for start in range(0, len(text), width):
        tokens = text[start : start + width]
        rows.append(model.forward([Chunk(slot=0, tokens=tokens, n_logits=len(tokens))])[0].copy())
    return np.concatenate(rows)


def _is_causal(model: Model, n_prompt: int, tokens: Sequence[int]) -> bool:
    """Whether the rows of one pass, but the last, keep their bits when the last token is another one."""
    rows = []
    for last in (tokens[-1], (tokens[-1] + 1) % model.info.n_vocab):
        model.truncate(0, n_prompt)
        chunk = Chunk(slot=0, tokens=[*tokens[:-1], last], n_logits=len(tokens))
        rows.append(model.forward([chunk])[0][:-1].copy())
    return np.array_equal(rows[0], rows[1])
