"""A draft model of another vocabulary behind the Drafter seam.

The draft model reads the committed text in its own ids and, in a chat, by its own template. What it drafts
reaches the target in one of two ways: by *shared tokens* it draws only what both vocabularies have, and its
distribution goes along (Timor et al., arXiv 2502.05202, algorithm 4); by *text* what it wrote is tokenized
for the target, and proposed without a distribution (algorithm 2). No id of the draft's ever gets to the
target, and the draft model is used as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from leadout.core.values import History, Proposal, Sampling
from leadout.drafters.base import DraftPrompt, DraftRequest, Judge, Untried, Weighed
from leadout.drafters.model import PREFILL_BATCH, ModelDrafter
from leadout.drafters.roles import end_of_turn, matching_markers
from leadout.drafters.token_map import TokenMap
from leadout.drafters.transcript import Phrasebook, Transcript
from leadout.errors import InputError, VocabularyError
from leadout.models.base import Model, Vocabulary
from leadout.models.compare import Comparison
from leadout.models.conversation import Conversation
from leadout.models.writer import ByteWriter, LongerTokens, whole_characters

Way = Literal["shared", "text"]
"""How drafts cross over: as tokens that both vocabularies have, or as text."""

_GREEDY = Sampling(temperature=0.0)


class Crossing(Protocol):
    """One way over."""

    def ask(self, request: DraftRequest, ids: Sequence[int], *, is_open: bool) -> DraftRequest:
        """What to ask the draft model, which reads `ids`, for this request.

        Where it is open, the last token is text that was cut off there, and might have been a longer one.
        """

    def answer(self, request: DraftRequest, draft: Proposal) -> Proposal:
        """The draft model's answer, in the target's ids."""


class SharedTokens:
    """The draft model draws with the request's law and noise, by the target's ids, and nothing is changed."""

    def ask(self, request: DraftRequest, ids: Sequence[int], *, is_open: bool) -> DraftRequest:  # noqa: ARG002
        """The same, about the same text."""
        return replace(request, context=ids)

    def answer(self, request: DraftRequest, draft: Proposal) -> Proposal:  # noqa: ARG002
        """The draft itself."""
        return draft


class Text:
    """The draft model writes what it finds most probable, and the target's tokenizer makes tokens of it.

    Point masses, so nothing of the request's law is needed to stay lossless.

    Parameters
    ----------
    target, draft : ByteWriter
    ends : mapping of int to int
        The draft's ids that end an answer, and the target's id that stands for each.
    """

    def __init__(self, target: ByteWriter, draft: ByteWriter, ends: Mapping[int, int]) -> None:
        self._target, self._draft, self._ends = target, draft, ends
        self._longer = LongerTokens(draft)
        self._wanted: dict[int, DraftRequest] = {}
        self._is_open: dict[int, bool] = {}
        self._replaced: dict[int, int] = {}  # bytes at the end of each slot's text that were written again

    def mend(self, slot: int, token: int, row: NDArray[np.float32]) -> NDArray[np.float32] | None:
        """The tokens that begin with the last one's text, if a longer one is more probable than it was."""
        ids = self._longer.of(token)
        if not self._is_open[slot] or not len(ids):
            return None
        best = ids[int(np.argmax(row[ids]))]
        if row[best] <= row[token]:
            return None
        self._replaced[slot] = len(self._draft.piece(token))
        mended = np.full_like(row, -np.inf)
        mended[ids], mended[token] = row[ids], row[token]
        return mended

    def is_enough(self, slot: int, tokens: Sequence[int]) -> bool:
        """Whether the answer is over, or one more token has begun than was asked for."""
        wanted = self._wanted[slot]
        return len(self._written(wanted, tokens)[1]) > wanted.k or not self._draft.piece(tokens[-1])

    def ask(self, request: DraftRequest, ids: Sequence[int], *, is_open: bool) -> DraftRequest:
        """Greedily, about the same text; as many tokens as it takes to write those of the target."""
        slot = request.slot
        self._wanted[slot], self._is_open[slot], self._replaced[slot] = request, is_open, 0
        return replace(
            request,
            context=ids,
            k=2 * request.k,
            judge=Patient(request.judge, request.k),
            sampling=_GREEDY,
            history=History(),
            noise=None,
            constraint=None,
        )

    def answer(self, request: DraftRequest, draft: Proposal) -> Proposal:
        """The text in the target's ids, up to the first token without text; ends of answers stay such."""
        pieces, tokens = self._written(request, draft.tokens)
        confidences = _spread(draft.confidences, pieces, self._target.ends(tokens))
        if len(pieces) < len(draft.tokens) and (end := self._ends.get(draft.tokens[len(pieces)])) is not None:
            tokens.append(end)
            confidences += draft.confidences[len(pieces) : len(pieces) + 1]
        proposal = Proposal(tokens=tuple(tokens), drafter=draft.drafter, confidences=confidences)
        return proposal.first(request.k)

    def _written(self, request: DraftRequest, drafted: Sequence[int]) -> tuple[list[bytes], list[int]]:
        """What drafted tokens add to the text, to the first one without text; and the target's ids of it."""
        pieces = [*takewhile(bool, map(self._draft.piece, drafted))]
        text = b"".join(pieces)
        if pieces:
            n_again = self._replaced[request.slot]
            pieces[0], text = pieces[0][n_again:], text[n_again:]
        try:
            tokens = self._target.write(whole_characters(text))
        except VocabularyError:  # a guess that the target cannot say
            tokens = []
        return pieces, tokens


@dataclass(frozen=True, slots=True)
class Patient:
    """A judge of as many tokens as are wanted; those beyond complete the text of the last one."""

    judge: Judge
    k: int

    def learns(self, outcome: Untried) -> None:
        """As the judge itself."""
        self.judge.learns(outcome)

    @property
    def wants_confidences(self) -> bool:
        """As the judge itself."""
        return self.judge.wants_confidences

    def weigh(self, drafter: str, confidences: Sequence[float]) -> Weighed:
        """As the judge itself."""
        return self.judge.weigh(drafter, confidences)

    def promise(self, drafter: str, n_unread: int) -> float:
        """As the judge itself."""
        return self.judge.promise(drafter, n_unread)

    def after_run(self, drafter: str, run: Proposal, n_unread: int) -> Judge | None:
        """As the judge itself."""
        return self.judge.after_run(drafter, run, n_unread)

    def takes(self, drafter: str, confidences: Sequence[float]) -> bool:
        """As the judge itself; always beyond what is wanted."""
        return len(confidences) > self.k or self.judge.takes(drafter, confidences)

    def goes_on(self, drafter: str, confidences: Sequence[float]) -> bool:
        """As the judge itself; always beyond what is wanted."""
        return len(confidences) >= self.k or self.judge.goes_on(drafter, confidences)


@dataclass(slots=True)
class _Slot:
    """One request: what the draft reads of it, how many target tokens that is, and why drafting stopped."""

    transcript: Transcript
    n_committed: int = 0
    blocked: str = ""
    ids: list[int] = field(default_factory=list)


class BridgeDrafter:
    """Drafts with a model of another vocabulary.

    Parameters
    ----------
    model : Model
        The draft model.
    target : Vocabulary
        The target's.
    comparison : Comparison
        Of the target's vocabulary and the draft's.
    way : Way
        How drafts cross over.
    prefill_batch : int >= 1
        Longest piece of a prompt that is read in one pass.

    Raises
    ------
    VocabularyError
        If the way is "shared", and no token is.
    InputError
        If the model cannot roll back.
    """

    def __init__(
        self,
        model: Model,
        target: Vocabulary,
        comparison: Comparison,
        *,
        way: Way,
        prefill_batch: int = PREFILL_BATCH,
    ) -> None:
        if way == "shared" and not comparison.n_shared:
            raise VocabularyError(
                f"{model.info.name} shares no token with the target, so it cannot draft by shared tokens; "
                "let it draft by text"
            )
        self._vocab, self._comparison = model.vocab, comparison
        self._writer = ByteWriter(model.vocab, comparison.draft.keys)
        markers = matching_markers(target, model.vocab, comparison)
        self._phrasebook = Phrasebook(comparison.target.keys, markers)
        ends = end_of_turn(target, model.vocab, comparison)
        text = Text(ByteWriter(target, comparison.target.keys), self._writer, ends)
        self._crossing: Crossing = SharedTokens() if way == "shared" else text
        self._model = ModelDrafter(
            model,
            prefill_batch=prefill_batch,
            token_map=TokenMap(comparison.to_target, comparison.target.size) if way == "shared" else None,
            editor=text if way == "text" else None,
            name=f"{model.info.name} by {'shared tokens' if way == 'shared' else 'text'}",
        )
        self._slots: dict[int, _Slot] = {}

    @property
    def name(self) -> str:
        """The draft model's name and the way over, such as "smollm2-135m by text"."""
        return self._model.name

    def begin(self, slot: int, prompt: DraftPrompt) -> None:
        """Write the prompt out in the draft's ids; a chat by the draft's own template where that takes it."""
        vocab = self._vocab
        head = _by_own_template(vocab, prompt.conversation)
        rest: Sequence[int] = ()
        if head is None:
            head = [vocab.bos] if vocab.adds_bos and vocab.bos is not None else []
            is_begun = (
                self._comparison.target.bos is not None and prompt.ids[0] == self._comparison.target.bos
            )
            rest = prompt.ids[1:] if is_begun else prompt.ids
        state = _Slot(Transcript(self._writer, self._phrasebook, head))
        self._slots[slot] = state
        self._follow(slot, state, rest)
        state.n_committed = len(prompt.ids)

    def observe(self, slot: int, committed: Sequence[int]) -> None:
        """Write on what was committed, and cut the draft's cache to where it still has that."""
        state = self._slots[slot]
        state.n_committed += len(committed)
        self._follow(slot, state, committed)

    def end(self, slot: int) -> None:
        """Forget the text; the cache stays, cut to what was committed."""
        if self._slots.pop(slot, None) is not None:
            self._model.end(slot)

    def n_unread(self, request: DraftRequest) -> int:
        """Draft tokens of the request's context that have to be read before the first can be drafted."""
        return self._model.n_unread(replace(request, context=self._read_ids(request)))

    def blocked(self, slot: int) -> str:
        """Why no more is drafted for `slot`, or ""."""
        return self._slots[slot].blocked

    def limited(self, slot: int) -> str:  # noqa: ARG002
        """Never: it has no parts."""
        return ""

    def close(self) -> None:
        """Free the draft model."""
        self._model.close()

    def propose(self, requests: Sequence[DraftRequest]) -> list[Proposal]:
        """Draft all requests in lockstep, and bring what comes over to the target's ids."""
        proposals = [Proposal(drafter=self.name) for _ in requests]
        asked = [
            (at, request, ids)
            for at, request in enumerate(requests)
            if not self._slots[request.slot].blocked and (ids := self._read_ids(request))
        ]
        drafts = self._model.propose(
            [self._crossing.ask(request, ids, is_open=self._is_open(request)) for _, request, ids in asked]
        )
        for (at, request, _), draft in zip(asked, drafts, strict=True):
            proposals[at] = self._crossing.answer(request, draft)
            state = self._slots[request.slot]
            state.blocked = state.blocked or self._model.blocked(request.slot)
        return proposals

    def _follow(self, slot: int, state: _Slot, tokens: Sequence[int]) -> None:
        if state.blocked:
            return
        try:
            state.transcript.extend(tokens)
        except VocabularyError as error:
            state.blocked = f"the draft {self._model.name} cannot read on: {error}"
            return
        state.ids = state.transcript.ids
        if state.ids:
            self._model.begin(slot, DraftPrompt(ids=state.ids))
        state.blocked = self._model.blocked(slot)

    def _is_open(self, request: DraftRequest) -> bool:
        state = self._slots[request.slot]
        return len(request.context) > state.n_committed or state.transcript.is_open

    def _read_ids(self, request: DraftRequest) -> list[int]:
        """What the draft has to read for this request; nothing where it cannot read a lookup's guess."""
        state = self._slots[request.slot]
        guessed = request.context[state.n_committed :]
        if not guessed:
            return state.ids
        try:
            return state.transcript.followed_by(guessed)
        except VocabularyError:
            return []


def _by_own_template(vocab: Vocabulary, conversation: Conversation | None) -> list[int] | None:
    """The conversation as the draft model is used to reading it, or None where that cannot be."""
    if conversation is None or vocab.chat_template is None:
        return None
    from leadout.models.template import encode_chat  # jinja2 is needed for chat alone

    try:
        return encode_chat(
            vocab, conversation.messages, tools=conversation.tools, variables=conversation.variables
        )
    except InputError:
        return None


def _spread(confidences: Sequence[float], pieces: Sequence[bytes], ends: Sequence[int]) -> tuple[float, ...]:
    """Confidences of other tokens of the same text, whose product over any stretch of it is the same.

    Each token's is spread evenly, as a logarithm, over the bytes that it wrote.
    """
    n = min(len(confidences), len(pieces))  # what has no text, such as an end, comes after the last piece
    if not n:
        return ()
    at = np.cumsum([0, *(len(piece) for piece in pieces[:n])])
    logs = np.cumsum([0.0, *np.log(np.maximum(confidences[:n], 1e-9))])
    return tuple(np.exp(np.diff(np.interp([0, *ends], at, logs))).tolist())
