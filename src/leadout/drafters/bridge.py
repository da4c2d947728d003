"""A draft model of another vocabulary behind the Drafter seam.

The draft model reads the committed text in its own ids and, in a chat, by its own template. What it drafts
reaches the target by one of the ways of `crossing.py`. No id of the draft's ever gets to the target, and the
draft model is used as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from leadout.core.values import Proposal
from leadout.drafters.base import DraftPrompt, DraftRequest
from leadout.drafters.crossing import Crossing, SharedTokens, Text
from leadout.drafters.model import PREFILL_BATCH, ModelDrafter
from leadout.drafters.roles import end_of_turn, matching_markers
from leadout.drafters.token_map import TokenMap
from leadout.drafters.transcript import Phrasebook, Transcript
from leadout.errors import InputError, VocabularyError
from leadout.models.base import Model, Vocabulary
from leadout.models.compare import Comparison
from leadout.models.conversation import Conversation
from leadout.models.writer import ByteWriter

Way = Literal["shared", "text"]
"""How drafts cross over: as tokens that both vocabularies have, or as text."""


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
