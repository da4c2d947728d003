"""The state of one answer in progress, and the only place where tokens are committed to it.

A token is committed only after it was decided that the answer goes on up to it, so nothing behind an end
token, a stop string or the last allowed token ever leaves here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from leadout.core import law
from leadout.core.noise import Noise, Source
from leadout.core.values import History
from leadout.engine.events import Finished, FinishReason, Origin, Speculation, Token, TokenLogprob
from leadout.engine.params import Params
from leadout.engine.stop import StopStrings
from leadout.engine.text import TextDecoder
from leadout.models.base import Vocabulary

_NO_HISTORY = History()


class Session:
    """One answer in progress.

    Parameters
    ----------
    index : int
        Which answer of the request this is.
    slot : int
        Where target and drafter keep its cache.
    prompt : sequence of int
        Ids of the prompt, at least one.
    n_ctx : int
        The prompt and the answer together end here.
    noise : Noise or None
        Of a seeded request.
    source : Source
        Where unseeded draws come from.
    speculation : Speculation
        How the request starts out.

    Attributes
    ----------
    context : list of int
        Prompt and committed answer; grows at the end only.
    cached_tokens : int
        Tokens of the prompt that were in a cache.
    n_held : int
        Leading tokens of `context` that the target's cache is known to hold.
    n_asked, n_drafted : int
        Rounds for which the drafter was asked, and tokens of it that were to be verified.
    finish : FinishReason or None
        Why the answer is complete, once it is.
    constraint : ConstraintState or None
        Where the answer stands in what the request is bound to; always behind the last committed token.
    """

    def __init__(
        self,
        *,
        index: int,
        slot: int,
        prompt: Sequence[int],
        params: Params,
        vocab: Vocabulary,
        n_ctx: int,
        noise: Noise | None,
        source: Source,
        speculation: Speculation,
    ) -> None:
        self.index, self.slot, self.params = index, slot, params
        self.noise, self.source = noise, source
        self.speculation = speculation
        self.context = list(prompt)
        self.n_prompt = len(self.context)
        self.cached_tokens = 0
        self.n_held = 0
        self.n_asked = self.n_drafted = 0
        self.finish: FinishReason | None = None
        self.constraint = None if params.constraint is None else params.constraint.begin()
        self._vocab, self._n_ctx = vocab, n_ctx
        self._text, self._stops = TextDecoder(), StopStrings(params.stop)
        repeats = params.repetition_penalty != 1.0
        self._prompt_ids = frozenset(self.context) if repeats else frozenset()

    @property
    def position(self) -> int:
        """Tokens answered so far, which is the index of the next one."""
        return len(self.context) - self.n_prompt

    @property
    def room(self) -> int:
        """Tokens that may still be committed."""
        room = self._n_ctx - len(self.context)
        limit = self.params.max_tokens
        return room if limit is None else min(room, limit - self.position)

    @property
    def history(self) -> History:
        """What penalties look at; empty when there are none, so that plain requests copy nothing."""
        if not self.params.has_penalties:
            return _NO_HISTORY
        return History(prompt=self._prompt_ids, generated=tuple(self.context[self.n_prompt :]))

    def stop_drafting(self, why: str, n_tokens: int | None = None) -> None:
        """Decode plainly from here on, and remember why; `n_tokens` of the answer came before, if not all."""
        n_tokens = self.position if n_tokens is None else n_tokens
        when = f" after {n_tokens} tokens" if n_tokens else ""
        self.speculation = replace(self.speculation, enabled=False, reason=f"off{when}: {why}")

    def note_limit(self, why: str) -> None:
        """Remember, once, why a part of the drafter is off while the rest goes on."""
        reason = self.speculation.reason
        if why and why not in reason:
            when = f"after {self.position} tokens: " if self.position else ""
            self.speculation = replace(self.speculation, reason=f"{reason}; {when}{why}")

    def commit(self, token: int, origin: Origin, logits: NDArray[np.float32]) -> Token | None:
        """Decide about the next token of the answer.

        Parameters
        ----------
        token : int
            The verified token.
        origin : Origin
            Where it came from.
        logits : float32 array, shape (V,)
            The target's row for this position.

        Returns
        -------
        Token or None
            The event, or None when the token ends the answer and is no part of it. `finish` is set when the
            answer is complete.
        """
        if self._vocab.is_end(token):
            self.finish = "stop"
            return None
        self.context.append(token)
        if self.constraint is not None:
            self.constraint.advance(token)
        scan = self._stops.feed(self._text.feed(self._vocab.piece(token)))
        if scan.found or (self.constraint is not None and self.constraint.is_over):
            self.finish = "stop"
        elif self.room == 0:
            self.finish = "length"
        wanted = self.params.logprobs
        if wanted is None:
            return Token(index=self.index, token=token, origin=origin, text=scan.text)
        return Token(
            index=self.index,
            token=token,
            origin=origin,
            text=scan.text,
            logprob=self._named(token, law.logprob(logits, token)),
            alternatives=tuple(self._named(*pair) for pair in law.top_logprobs(logits, wanted)),
        )

    def finished(self) -> Finished:
        """The closing event, with the text that was still held back, and why nothing was drafted if so."""
        if self.speculation.enabled and not self.n_drafted:
            too_early, empty = "it ended before the first draft", "found nothing worth drafting"
            why = f"{self.speculation.drafter} {empty}" if self.n_asked else too_early
            reason = f"{self.speculation.reason}; nothing was drafted: {why}"
            self.speculation = replace(self.speculation, reason=reason)
        return Finished(
            index=self.index,
            reason=self.finish or "cancelled",
            text=self._stops.flush(),
            speculation=self.speculation,
        )

    def _named(self, token: int, logprob: float) -> TokenLogprob:
        return TokenLogprob(token=token, piece=self._vocab.piece(token, special=True), logprob=logprob)
