"""An answer as the engine gave it, and its passes repeated, to see what the target said at one place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leadout.engine.events import Event, Round, Token
from leadout.models.base import Chunk, Model


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Ids of one answer and the rounds that made it.

    Parameters
    ----------
    tokens : tuple of int
        The answer.
    rounds : tuple of Round
        Every target pass that gave tokens, the prompt's first.
    """

    tokens: tuple[int, ...]
    rounds: tuple[Round, ...]

    @classmethod
    def of(cls, events: Iterable[Event]) -> Answer:
        """Fold the events of one generation."""
        seen = list(events)
        return cls(
            tokens=tuple(event.token for event in seen if isinstance(event, Token)),
            rounds=tuple(event for event in seen if isinstance(event, Round)),
        )

    @property
    def drafted(self) -> int:
        """Proposed tokens."""
        return sum(step.drafted for step in self.rounds)

    @property
    def accepted(self) -> int:
        """Proposed tokens that stood."""
        return sum(step.accepted for step in self.rounds)


def row_at(model: Model, prompt: Sequence[int], answer: Answer, position: int) -> NDArray[np.float32]:
    """The target's logits for the answer's token at `position`, from a pass of the width that decided it.

    Repeats the answer's passes in slot 0 from an empty cache: the same widths, the same roll-backs.
    Rejected drafts are not known any more; other ids stand in for them, which changes nothing in the rows
    before them.

    Parameters
    ----------
    position : int
        0..len(answer.tokens); the last one is where the answer ended.

    Returns
    -------
    float32 array, shape (V,)

    Raises
    ------
    IndexError
        If no pass decided that position.
    """
    model.truncate(0, 0)
    pending = tuple(prompt)
    done = 0
    for step in answer.rounds:
        known = answer.tokens[done : done + step.drafted]
        draft = (*known, *pending[-1:] * (step.drafted - len(known)))
        rows = model.forward([Chunk(slot=0, tokens=(*pending, *draft), n_logits=1 + step.drafted)])[0]
        if position <= done + step.accepted:
            return np.array(rows[position - done])
        done += step.emitted
        model.truncate(0, len(prompt) + done - 1)
        pending = answer.tokens[done - 1 : done]
    raise IndexError(f"no pass of this answer decided position {position}")
