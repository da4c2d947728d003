"""A drafter that proposes what a test tells it to."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from leadout.core.values import Distribution, Proposal
from leadout.drafters.base import DraftPrompt, DraftRequest
from leadout.testing.broken_promise import BrokenPromise

Script = Callable[[DraftRequest], Proposal | Sequence[int]]
"""What to propose for a request; a bare sequence of ids stands for point masses."""


class ScriptedDrafter:
    """Proposes what `script` says, cut to the k that was asked for, and records what it was asked and told.

    Parameters
    ----------
    script : callable
        From a DraftRequest to a Proposal or ids.
    raises_at : int or None
        The number, from 1, of the `propose` call that raises RuntimeError.

    Attributes
    ----------
    asked : list of (slot, context length, k)
        Every request.
    told : dict of slot to list of int
        Prompt and committed tokens of the requests that are running.
    ended : list of int
        Slots in the order their requests ended.
    """

    def __init__(self, script: Script, *, name: str = "scripted", raises_at: int | None = None) -> None:
        self._script, self._name, self.raises_at = script, name, raises_at
        self._calls = 0
        self.asked: list[tuple[int, int, int]] = []
        self.told: dict[int, list[int]] = {}
        self.ended: list[int] = []
        self.why_blocked = ""
        self.why_limited = ""
        self.closed = False

    @classmethod
    def always(cls, token: int) -> ScriptedDrafter:
        """Proposes `token` k times."""
        return cls(lambda request: [token] * request.k)

    @classmethod
    def answer(cls, answer: Sequence[int]) -> ScriptedDrafter:
        """Proposes what `answer` holds from the request's position on."""
        return cls(lambda request: answer[request.position : request.position + request.k])

    @classmethod
    def partly_right(cls, answer: Sequence[int], right: int, n_vocab: int) -> ScriptedDrafter:
        """Right for the first `right` tokens of every proposal, then always wrong (the next higher id)."""

        def script(request: DraftRequest) -> list[int]:
            true = answer[request.position : request.position + request.k]
            return [token if i < right else (token + 1) % n_vocab for i, token in enumerate(true)]

        return cls(script)

    @classmethod
    def drawn(cls, row: Callable[[tuple[int, ...]], Distribution]) -> ScriptedDrafter:
        """Draws from `row(tokens so far)` with the request's noise or source, and says so in the rows."""

        def script(request: DraftRequest) -> Proposal:
            tokens: list[int] = []
            rows: list[Distribution] = []
            for i in range(request.k):
                q = row((*request.context, *tokens))
                noise = request.noise
                drawn = request.source.draw(q) if noise is None else noise.draw(q, request.position + i)
                tokens.append(drawn)
                rows.append(q)
            return Proposal(tokens=tuple(tokens), rows=tuple(rows), drafter="scripted")

        return cls(script)

    @property
    def name(self) -> str:
        """The name given."""
        return self._name

    def begin(self, slot: int, prompt: DraftPrompt) -> None:
        """Start recording `slot`."""
        if slot in self.told:
            raise BrokenPromise(f"slot {slot} began twice")
        self.told[slot] = list(prompt.ids)

    def propose(self, requests: Sequence[DraftRequest]) -> list[Proposal]:
        """What the script says, one proposal per request."""
        self._calls += 1
        if self._calls == self.raises_at:
            raise RuntimeError(f"propose {self._calls} failed, as it was told to")
        return [self._one(request) for request in requests]

    def look_up(self, request: DraftRequest) -> Proposal:
        """What it proposes to one request alone."""
        return self.propose([request])[0]

    def _one(self, request: DraftRequest) -> Proposal:
        if list(request.context) != self.told[request.slot]:
            raise BrokenPromise(
                f"slot {request.slot} was told {self.told[request.slot]}, not {request.context}"
            )
        self.asked.append((request.slot, len(request.context), request.k))
        said = self._script(request)
        if not isinstance(said, Proposal):
            return Proposal(tokens=tuple(said)[: request.k], drafter=self._name)
        return said

    def observe(self, slot: int, committed: Sequence[int]) -> None:
        """Record what was committed."""
        self.told[slot].extend(committed)

    def end(self, slot: int) -> None:
        """Record the end."""
        del self.told[slot]
        self.ended.append(slot)

    def blocked(self, slot: int) -> str:  # noqa: ARG002
        """What `why_blocked` says."""
        return self.why_blocked

    def limited(self, slot: int) -> str:  # noqa: ARG002
        """What `why_limited` says."""
        return self.why_limited

    def close(self) -> None:
        """Note that the drafter was closed."""
        self.closed = True
