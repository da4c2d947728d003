"""Which widths keep the bits of a model's logits, and whether a row depends on the tokens after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leadout.models.base import Chunk, Model


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


def measure_widths(model: Model, tokens: Sequence[int], n_prompt: int, widths: Sequence[int]) -> tuple[WidthReport, ...]:
    """Compare passes of each width with single-token passes, in slot 0, which is left empty.

    Parameters
    ----------
    tokens : sequence of int
        A text; its first `n_prompt` tokens are read in one go, the others are compared.
    widths : sequence of int
        Tokens per pass, each >= 1.
    """
    single = _rows(model, tokens, n_prompt, 1)
    reports = []
    for width in widths:
        rows = _rows(model, tokens, n_prompt, width)
        reports.append(
            WidthReport(
                width=width,
                is_bit_identical=np.array_equal(rows, single),
                max_difference=float(np.abs(rows - single).max()),
                n_flips=int((rows.argmax(axis=1) != single.argmax(axis=1)).sum()),
                n_rows=len(rows),
                is_causal=_is_causal(model, tokens, n_prompt, width),
            )
        )
    model.truncate(0, 0)
    return tuple(reports)


def _rows(model: Model, tokens: Sequence[int], n_prompt: int, width: int) -> NDArray[np.float32]:
    """Logits of the tokens after the prompt, read `width` at a time; shape (len(tokens) - n_prompt, V)."""
    _read(model, tokens[:n_prompt])
    rows = []
    for start in range(n_prompt, len(tokens), width):
        chunk = tokens[start : start + width]
        rows.append(model.forward([Chunk(slot=0, tokens=chunk, n_logits=len(chunk))])[0].copy())
    return np.concatenate(rows)


def _is_causal(model: Model, tokens: Sequence[int], n_prompt: int, width: int) -> bool:
    """Whether all rows but the last keep their bits when the last token of the pass is another one."""
    if width == 1:
        return True
    chunk = list(tokens[n_prompt : n_prompt + width])
    results = []
    for last in (chunk[-1], (chunk[-1] + 1) % model.info.n_vocab):
        _read(model, tokens[:n_prompt])
        read = model.forward([Chunk(slot=0, tokens=[*chunk[:-1], last], n_logits=len(chunk))])[0]
        results.append(read[:-1].copy())
    return np.array_equal(*results)


def _read(model: Model, prompt: Sequence[int]) -> None:
    """Empty slot 0 and read the prompt into it."""
    model.truncate(0, 0)
    model.forward([Chunk(slot=0, tokens=prompt, n_logits=0)])
