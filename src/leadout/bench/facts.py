"""What drafters would have said about known answers: recorded after a run, in passes that nobody times.

The draft model reads prompt and answer, and its rows show where its best guess is the answer's token; the
lookups are led through the answer token by token. See `hindsight` for what is made of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from leadout.bench.hindsight import AnswerFacts, Guess
from leadout.bench.workloads import Unit
from leadout.core import law
from leadout.core.noise import RandomSource
from leadout.core.values import History, Sampling
from leadout.drafters.base import Drafter, DraftPrompt, DraftRequest
from leadout.drafters.ngram import NgramDrafter
from leadout.drafters.prefix import common_prefix
from leadout.drafters.suffix import SuffixDrafter
from leadout.models.base import Chunk, Model

LONGEST_LOOKUP = 15
_PIECE, _ROWS = 256, 16
_SLOT = 0


def facts_of_unit(unit: Unit, answers: Sequence[Sequence[int]], draft: Model | None) -> list[AnswerFacts]:
    """The facts of each call of a unit, in order.

    Parameters
    ----------
    unit : Unit
    answers : sequence of sequences of int
        The target's answer to each call.
    draft : Model or None
        Slot 0 of it is used, and empty afterwards.
    """
    lookups: dict[str, Drafter] = {"suffix": SuffixDrafter(), "ngram": NgramDrafter()}
    reader = None if draft is None else _Reader(draft)
    found = []
    for prompt, answer in zip(unit.calls, answers, strict=True):
        read = 0 if reader is None else reader.move_to(prompt)
        agrees, confidences = ((), ()) if reader is None else reader.compare(prompt, answer)
        found.append(
            AnswerFacts(
                n_tokens=len(answer),
                n_prompt=len(prompt),
                n_to_read=read,
                agrees=agrees,
                confidences=confidences,
                lookups=_looked_up(lookups, prompt, answer),
            )
        )
    if reader is not None:
        reader.close()
    return found


class _Reader:
    """A draft model that reads along."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._held: list[int] = []
        self._has_room = True
        model.truncate(_SLOT, 0)

    def move_to(self, prompt: Sequence[int]) -> int:
        """Read a prompt but its last token; how many of its tokens were not known from the call before.

        None of one that leaves no room for an answer: nothing is drafted for it.
        """
        self._has_room = len(prompt) <= self._model.info.n_ctx
        if not self._has_room:
            return 0
        kept = min(common_prefix(self._held, prompt), len(prompt) - 1)
        self._model.truncate(_SLOT, kept)
        self._held = list(self._held[:kept])
        self._read(prompt[kept:-1])
        return len(prompt) - kept

    def compare(
        self, prompt: Sequence[int], answer: Sequence[int]
    ) -> tuple[tuple[bool, ...], tuple[float, ...]]:
        """For each token of the answer: whether it is the best guess, and the best guess's probability."""
        agrees: list[bool] = []
        confidences: list[float] = []
        fed = [prompt[-1], *answer[:-1]]
        room = self._model.info.n_ctx - len(self._held) if self._has_room else 0
        for at in range(0, min(len(answer), room), _ROWS):
            piece = fed[at : min(at + _ROWS, room)]
            rows = self._forward(piece, len(piece))
            for row, token in zip(rows, answer[at:], strict=False):
                agrees.append(int(np.argmax(row)) == token)
                confidences.append(law.top_probability(row))
        missing = len(answer) - len(agrees)  # beyond the draft's context nothing is drafted
        return (*agrees, *([False] * missing)), (*confidences, *([0.0] * missing))

    def close(self) -> None:
        self._model.truncate(_SLOT, 0)

    def _read(self, tokens: Sequence[int]) -> None:
        for at in range(0, len(tokens), _PIECE):
            self._forward(tokens[at : at + _PIECE], 0)

    def _forward(self, tokens: Sequence[int], n_logits: int) -> NDArray[np.float32]:
        rows = self._model.forward([Chunk(slot=_SLOT, tokens=tokens, n_logits=n_logits)])[0]
        self._held.extend(tokens)
        return rows


def _looked_up(
    lookups: Mapping[str, Drafter], prompt: Sequence[int], answer: Sequence[int]
) -> dict[str, tuple[Guess, ...]]:
    found: dict[str, tuple[Guess, ...]] = {}
    for name, lookup in lookups.items():
        lookup.begin(_SLOT, DraftPrompt(ids=prompt))
        context, guesses = list(prompt), [Guess()]
        for at, token in enumerate(answer):
            if at:
                [proposal] = lookup.propose([_request(context, at)])
                matched = common_prefix(proposal.tokens, answer[at:])
                guesses.append(
                    Guess(proposed=len(proposal.tokens), matched=matched, confidences=proposal.confidences)
                )
            lookup.observe(_SLOT, [token])
            context.append(token)
        lookup.end(_SLOT)
        found[name] = tuple(guesses[: max(1, len(answer))])
    return found


def _request(context: Sequence[int], position: int) -> DraftRequest:
    return DraftRequest(
        slot=_SLOT,
        context=context,
        k=LONGEST_LOOKUP,
        sampling=Sampling(temperature=0.0),
        history=History(),
        position=position,
        noise=None,
        source=RandomSource(np.random.default_rng(0)),  # never asked: lookups draw nothing
    )
