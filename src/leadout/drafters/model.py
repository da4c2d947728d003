"""A draft model behind the Drafter seam.

Its cache is always a prefix of prompt and committed answer, plus, between `propose` and `observe`, its own
draft. Tokens it has not seen go into the pass that drafts the first token, so k tokens cost k passes and no
verified token is decoded twice. A draft that nobody asks for is not kept up to date.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from leadout.core.constraint import ahead
from leadout.core.values import Proposal
from leadout.drafters.base import DraftPrompt, DraftRequest
from leadout.drafters.draft import Draft
from leadout.drafters.prefix import common_prefix
from leadout.drafters.token_map import TokenMap
from leadout.errors import BackendError, InputError, RollbackError
from leadout.models.base import Chunk, Model

PREFILL_BATCH = 512
_WORTH_SHARING = 16  # tokens; fewer are read about as fast as they are copied


@dataclass(slots=True)
class _Slot:
    """What the cache holds for one slot, how much of the request is committed, and why drafting stopped."""

    held: list[int] = field(default_factory=list)
    n_committed: int = 0
    blocked: str = ""


class Editor(Protocol):
    """Looks over a draft whose text counts, not its tokens."""

    def is_enough(self, slot: int, tokens: Sequence[int]) -> bool:
        """Whether these drafted tokens have all the text that is wanted."""

    def mend(self, slot: int, token: int, row: NDArray[np.float32]) -> NDArray[np.float32] | None:
        """The row to draw a token from that replaces the last one of a text; None to go on after it.

        It might have been another, longer token, had the text gone on when it was tokenized.

        Parameters
        ----------
        slot : int
        token : int
            The last token of the text.
        row : float32 array, shape (V,)
            The draft model's logits before it.
        """


class ModelDrafter:
    """Drafts with a smaller model; all slots step together.

    It reads ids of its own vocabulary, which mostly is the target's as well.

    Parameters
    ----------
    model : Model
        The draft model; slot i of the target is slot i here.
    forbidden : collection of int
        Ids that stand for something else in the target, or do not exist there; never proposed.
    prefill_batch : int >= 1
        Longest piece of a prompt that is read in one pass.
    token_map : TokenMap or None
        Where the target has other ids: what is proposed, and the rows it is drawn from, go through this.
    editor : Editor or None
        Asked before each draft whether to redraw the last token read, in whose place the first token proposed
        stands then, and after each token whether to go on.
    name : str
        What to call it in reports; the model's name by default.

    Raises
    ------
    InputError
        If the model cannot roll back.
    """

    def __init__(
        self,
        model: Model,
        *,
        forbidden: Collection[int] = (),
        prefill_batch: int = PREFILL_BATCH,
        token_map: TokenMap | None = None,
        editor: Editor | None = None,
        name: str = "",
    ) -> None:
        info = model.info
        if info.rollback == "none":
            raise InputError(
                f"{info.name} cannot be a draft model: {info.rollback_reason}; use another draft, or ngram"
            )
        self._model = model
        self._forbidden = np.array(sorted(i for i in forbidden if i < info.n_vocab), dtype=np.int64)
        self._batch = prefill_batch
        self._map, self._editor = token_map, editor
        self._n_proposable = info.n_vocab if token_map is None else token_map.n_target
        self._name = name or info.name
        self._slots = [_Slot() for _ in range(info.n_slots)]

    @property
    def name(self) -> str:
        """The draft model's name, or what it was told to be called."""
        return self._name

    def begin(self, slot: int, prompt: DraftPrompt) -> None:
        """Keep what the slot's cache shares with the prompt; the rest is read at the first proposal."""
        if slot >= len(self._slots):
            raise InputError(f"slot {slot} is beyond the {len(self._slots)} slots of the draft {self.name}")
        state = self._slots[slot]
        state.blocked = ""
        state.n_committed = 0
        self._cut(slot, min(common_prefix(state.held, prompt.ids), len(prompt.ids) - 1))
        self._share(slot, prompt.ids)
        self._admit(state, prompt.ids)

    def observe(self, slot: int, committed: Sequence[int]) -> None:
        """Cut the cache back to what was committed."""
        state = self._slots[slot]
        drafted = state.held[state.n_committed :]
        self._cut(slot, state.n_committed + common_prefix(drafted, committed))
        self._admit(state, committed)

    def end(self, slot: int) -> None:
        """Cut off what was drafted last, if nobody said what became of it."""
        self._cut(slot, self._slots[slot].n_committed)

    def n_unread(self, request: DraftRequest) -> int:
        """Committed tokens that have to be read before the first token can be drafted."""
        return max(1, len(request.context) - len(self._slots[request.slot].held))

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
        """Draft all requests in lockstep: one pass per token, over every slot that wants one more."""
        drafts = [self._open(request) for request in requests]
        running = [draft for draft in drafts if draft.k > 0]
        try:
            with ExitStack() as walks:
                for draft in running:
                    if draft.request.constraint is not None:
                        draft.walk = walks.enter_context(ahead(draft.request.constraint))
                self._read(running)
                while running:
                    self._step(running)
                    running = [draft for draft in running if self._goes_on(draft)]
        except BackendError as error:
            self._give_up([draft for draft in drafts if draft.k > 0], str(error))
            return [Proposal(drafter=self.name) for _ in requests]
        return [self._proposal(draft) for draft in drafts]

    def _open(self, request: DraftRequest) -> Draft:
        state, info = self._slots[request.slot], self._model.info
        room = info.n_ctx - len(request.context) + 1  # the last drafted token is never fed
        k = 0 if state.blocked else min(request.k, room)
        if max(request.context[len(state.held) :], default=0) >= info.n_vocab:
            k = 0  # a guess that another drafter made before; ids that were committed are checked in `_admit`
        if k > 0 and request.judge.promise(self.name, self.n_unread(request)) <= 0:
            k = 0
        bias = request.sampling.logit_bias
        if any(token >= self._n_proposable for token in bias):
            known = {token: value for token, value in bias.items() if token < self._n_proposable}
            return Draft(request, k, replace(request.sampling, logit_bias=known))
        return Draft(request, k, request.sampling)

    def _read(self, drafts: Sequence[Draft]) -> None:
        """Bring each cache to where a single pass can draft the first token."""
        for at, draft in enumerate(drafts):
            slot, context = draft.request.slot, draft.request.context
            held = self._slots[slot].held
            n_most = self._batch
            if len(context) - len(held) > _WORTH_SHARING:
                self._share(slot, context)
                # what those who follow can copy is read before they do
                shared = [common_prefix(context, other.request.context) for other in drafts[at + 1 :]]
                if max(shared, default=0) - len(held) > _WORTH_SHARING:
                    n_most = min(n_most, max(1, len(context) - max(shared)))
            n_again = 1 if self._editor is None else 2
            if len(held) > len(context) - n_again:
                self._cut(slot, max(0, len(context) - n_again))
            while len(context) - len(held) > n_most:
                piece = context[len(held) : min(len(held) + self._batch, len(context) - n_most)]
                self._feed([Chunk(slot=slot, tokens=piece, n_logits=0)])

    def _share(self, slot: int, context: Sequence[int]) -> None:
        """Copy what another slot holds of the text, where that is much more than its own holds."""
        state = self._slots[slot]
        if self._model.info.copying != "any" or len(context) - 1 - len(state.held) <= _WORTH_SHARING:
            return  # what is missing is soon read; most rounds end here, before any text is compared
        wanted = context[: len(context) - 1]
        shared = [0 if each is state else common_prefix(each.held, wanted) for each in self._slots]
        source = max(range(len(shared)), key=shared.__getitem__)
        n = min(shared[source], self._model.length(source))
        if n - len(state.held) <= _WORTH_SHARING:
            return
        state.held.clear()
        try:
            self._model.copy(source, slot, n)
            state.held.extend(wanted[:n])
        except RollbackError:
            self._model.truncate(slot, 0)

    def _step(self, drafts: Sequence[Draft]) -> None:
        """Draw one more token for each of these drafts."""
        chunks = []
        for draft in drafts:
            slot, context = draft.request.slot, draft.request.context
            last = [self._own_id(token) for token in draft.tokens[-1:]]
            unseen = last or context[len(self._slots[slot].held) :]
            n_logits = 1 if last or self._editor is None else min(2, len(unseen))
            chunks.append(Chunk(slot=slot, tokens=unseen, n_logits=n_logits))
        for draft, rows in zip(drafts, self._feed(chunks), strict=True):
            mended = self._mended(draft, rows) if len(rows) > 1 else None
            draft.draw(self.name, self._allowed(rows[-1]) if mended is None else mended)

    def _mended(self, draft: Draft, rows: NDArray[np.float32]) -> NDArray[np.float32] | None:
        """The row to redraw the last token of the text from, which the cache is cut back before; or None."""
        slot, context = draft.request.slot, draft.request.context
        row = None if self._editor is None else self._editor.mend(slot, context[-1], rows[-2])
        if row is not None:
            self._cut(slot, len(context) - 1)
        return row

    def _goes_on(self, draft: Draft) -> bool:
        # by rows alone, and what is drafted stays: see Judge
        is_open = not draft.is_over and len(draft.tokens) < draft.k
        if is_open and self._editor is not None:
            is_open = not self._editor.is_enough(draft.request.slot, draft.tokens)
        return is_open and draft.request.judge.goes_on(self.name, draft.confidences)

    def _feed(self, chunks: Sequence[Chunk]) -> list[NDArray[np.float32]]:
        logits = self._model.forward(chunks)
        for chunk in chunks:
            self._slots[chunk.slot].held.extend(chunk.tokens)
        return logits

    def _own_id(self, token: int) -> int:
        return token if self._map is None else self._map.draft_id(token)

    def _allowed(self, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        """The row of what may be proposed, by the target's ids."""
        if self._map is not None:
            return self._map.row(logits)
        if not len(self._forbidden):
            return logits
        allowed = np.array(logits)
        allowed[self._forbidden] = -np.inf
        return allowed

    def _proposal(self, draft: Draft) -> Proposal:
        rows = tuple(draft.rows) if draft.rows else None
        confidences = tuple(draft.confidences[: len(draft.tokens)])
        return Proposal(tokens=tuple(draft.tokens), rows=rows, drafter=self.name, confidences=confidences)

    def _admit(self, state: _Slot, tokens: Sequence[int]) -> None:
        """Count `tokens` as committed, and see whether this model can still follow."""
        state.n_committed += len(tokens)
        info = self._model.info
        strange = max(tokens, default=0)
        if state.blocked:
            return
        if strange >= info.n_vocab:
            state.blocked = f"the draft {self.name} has no id {strange} (it has {info.n_vocab})"
        elif state.n_committed > info.n_ctx:
            state.blocked = f"the draft context is full ({info.n_ctx} positions)"

    def _cut(self, slot: int, length: int) -> None:
        """Cut the slot's cache to `length` tokens, where it holds more."""
        state = self._slots[slot]
        # The model is asked too: another drafter may have used it, or an interrupt cut a pass off.
        length = min(length, len(state.held))
        if self._model.length(slot) == len(state.held) == length:
            return
        try:
            self._model.truncate(slot, length)
            del state.held[length:]
        except RollbackError as error:
            self._drop(slot, f"the draft {self.name} could not roll back: {error}")

    def _give_up(self, drafts: Sequence[Draft], why: str) -> None:
        for draft in drafts:
            self._drop(draft.request.slot, f"the draft {self.name} failed: {why}")

    def _drop(self, slot: int, why: str) -> None:
        """Empty the slot's cache, which may not be trusted any more, and stop drafting for its request."""
        self._model.truncate(slot, 0)
        self._slots[slot].held.clear()
        self._slots[slot].blocked = why
