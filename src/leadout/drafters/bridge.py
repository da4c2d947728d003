"""A draft model of another vocabulary behind the Drafter seam.

The draft model reads the committed text in its own ids and, in a chat, by its own template. What it drafts
reaches the target in one of two ways: by *shared tokens* it draws only what both vocabularies have, and its
distribution goes along (Timor et al., arXiv 2502.05202, algorithm 4); by *text* what it wrote is tokenized for
the target, and proposed without a distribution (algorithm 2). No id of the draft's ever gets to the target,
and the draft model is used as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from leadout.core.values import History, Proposal, Sampling
from leadout.drafters.base import DraftPrompt, DraftRequest
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

    def ask(self, request: DraftRequest, ids: Sequence[int]) -> DraftRequest:
        """What to ask the draft model, which has read `ids`, for this request."""

    def answer(self, request: DraftRequest, draft: Proposal) -> Proposal:
        """The draft model's answer, in the target's ids."""


class SharedTokens:
    """The draft model draws with the request's law and noise, by the target's ids, and nothing is changed."""

    def ask(self, request: DraftRequest, ids: Sequence[int]) -> DraftRequest:
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
        self._replaced: dict[int, int] = {}  # bytes at the end of each slot's text that were written again

    def mend(self, slot: int, token: int, row: NDArray[np.float32]) -> NDArray[np.float32] | None:
        """The tokens that begin with the last one's text, if a longer one is more probable than it was."""
        ids = self._longer.of(token)
        if not len(ids):
            return None
        best = ids[int(np.argmax(row[ids]))]
        if row[best] <= row[token]:
            return None
        self._replaced[slot] = len(self._draft.piece(token))
        mended = np.full_like(row, -np.inf)
        mended[ids], mended[token] = row[ids], row[token]
        return mended

    def ask(self, request: DraftRequest, ids: Sequence[int]) -> DraftRequest:
        """Greedily, about the same text."""
        self._replaced[request.slot] = 0
        return replace(request, context=ids, sampling=_GREEDY, history=History(), noise=None)

    def answer(self, request: DraftRequest, draft: Proposal) -> Proposal:
        """The text in the target's ids, up to the first token without text; ends of answers stay such."""
        pieces = [self._draft.piece(token) for token in draft.tokens]
        if pieces:
            pieces[0] = pieces[0][self._replaced[request.slot] :]
        n_written = next((at for at, piece in enumerate(pieces) if not piece), len(pieces))
        after = draft.tokens[n_written] if n_written < len(pieces) else -1
        text = b"".join(pieces[:n_written])
        try:
            tokens = self._target.write(text if after in self._ends else whole_characters(text))
        except VocabularyError:  # a guess that the target cannot say
            return Proposal(drafter=draft.drafter)
        confidences = _spread(draft.confidences[:n_written], pieces, self._target.ends(tokens))
        if after in self._ends:
            tokens.append(self._ends[after])
            confidences += draft.confidences[n_written : n_written + 1]
        return Proposal(tokens=tuple(tokens), drafter=draft.drafter, confidences=confidences).first(request.k)


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
            mender=text if way == "text" else None,
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
        drafts = self._model.propose([self._crossing.ask(request, ids) for _, request, ids in asked])
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
    if not confidences:
        return ()
    at = np.cumsum([0, *(len(piece) for piece in pieces[: len(confidences)])])
    logs = np.cumsum([0.0, *np.log(np.maximum(confidences, 1e-9))])
    return tuple(np.exp(np.diff(np.interp([0, *ends], at, logs))).tolist())
