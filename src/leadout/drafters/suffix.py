"""Drafts what followed the longest context that the end of the text shares with anything said before.

Looked through are this request's own text and earlier answers to the same client, so that loops which say
nearly the same again and again are drafted almost whole. Needs no model; a round costs the same however long
the text is and however much is remembered. Suffix decoding: Oliaro et al., arXiv 2411.04975, section 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leadout.core.values import Proposal
from leadout.drafters.base import DraftPrompt, DraftRequest, worthwhile
from leadout.drafters.belief import belief
from leadout.drafters.suffix_index import SuffixIndex
from leadout.drafters.suffix_memory import SuffixMemory
from leadout.errors import InputError

TOKENS_PER_REQUEST = 65_536
MIN_SCORE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """Tokens that may follow, and the belief in each, given all before it."""

    tokens: tuple[int, ...] = ()
    confidences: tuple[float, ...] = ()


def most_frequent(
    continuations: Sequence[Sequence[int]], length: int, k: int, min_score: float = MIN_SCORE
) -> Guess:
    """Token by token what followed most often, of equals what followed last.

    Only occurrences that agree with the guess so far are asked for the next token; the tokens of the guess
    before it count as matched.

    Parameters
    ----------
    continuations : sequence of sequences of int
        What followed each occurrence of the match, oldest first; none empty.
    length : int >= 1
        Tokens of the match.
    k : int
        Most tokens of the guess.
    min_score : float in 0..1
        The guess ends where the product of the beliefs falls below this.
    """
    tokens: list[int] = []
    confidences: list[float] = []
    agreeing, score = list(reversed(continuations)), 1.0
    while len(tokens) < k and agreeing:
        at = len(tokens)
        counts: dict[int, int] = {}
        for continuation in agreeing:
            counts[continuation[at]] = counts.get(continuation[at], 0) + 1
        token = max(counts, key=counts.__getitem__)  # max keeps the first of equals, and the latest is first
        confidence = belief(counts[token], len(agreeing), length + at)
        score *= confidence
        if score < min_score:
            break
        tokens.append(token)
        confidences.append(confidence)
        agreeing = [each for each in agreeing if each[at] == token and len(each) > at + 1]
    return Guess(tokens=tuple(tokens), confidences=tuple(confidences))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Text:
    """The text of a running request: all of it, and what is to be remembered of it.

    That is the answer, led by the end of the prompt, so that its first tokens have a context.
    """

    client: str
    index: SuffixIndex
    lead: tuple[int, ...]
    answer: list[int]


class SuffixDrafter:
    """Proposes what followed the longest match, as far as its score carries.

    Parameters
    ----------
    memory : SuffixMemory or None
        Where answers are kept when their requests end; None makes one of the default size.
    tokens_per_request : int >= 4
        Of a longer text the oldest tokens are not looked at; up to 104 bytes each while the request runs.
    min_score : float in 0..1
        How probable a proposal must be to stand whole.

    Raises
    ------
    InputError
        If a number is outside its range.
    """

    def __init__(
        self,
        memory: SuffixMemory | None = None,
        *,
        tokens_per_request: int = TOKENS_PER_REQUEST,
        min_score: float = MIN_SCORE,
    ) -> None:
        SuffixIndex.check(tokens_per_request)
        if not 0 <= min_score <= 1:
            raise InputError(f"min_score is {min_score!r}; it must be a number in 0..1")
        self._memory = SuffixMemory() if memory is None else memory
        self._capacity, self._min_score = tokens_per_request, min_score
        self._texts: dict[int, _Text] = {}

    @property
    def name(self) -> str:
        """The name in reports."""
        return "suffix"

    @property
    def memory(self) -> SuffixMemory:
        """The earlier answers."""
        return self._memory

    def begin(self, slot: int, prompt: DraftPrompt) -> None:
        """Index the prompt."""
        index = SuffixIndex(self._capacity)
        index.extend(prompt.ids[-self._capacity :])
        self._memory.use(prompt.client)
        self._texts[slot] = _Text(client=prompt.client, index=index, lead=index.tail.tokens, answer=[])

    def propose(self, requests: Sequence[DraftRequest]) -> list[Proposal]:
        """Continuations of the longest matches, as far as they are worth it; may be empty."""
        return [worthwhile(self.look_up(request), request.judge) for request in requests]

    def look_up(self, request: DraftRequest) -> Proposal:
        """The continuation of the longest match, as far as its score carries."""
        guess = self._guess(self._texts[request.slot], request.k)
        return Proposal(tokens=guess.tokens, drafter=self.name, confidences=guess.confidences)

    def _guess(self, text: _Text, k: int) -> Guess:
        tail = text.index.tail
        own = text.index.match(tail)
        known = self._memory.index(text.client)
        earlier = None if known is None else known.match(tail)
        length = own.length if earlier is None else max(own.length, earlier.length)
        found: list[list[int]] = []
        if known is not None and earlier is not None and earlier.length == length:
            found += [known.following(place, k) for place in earlier.places]
        if own.length == length:
            found += [_repeated(text.index.following(place, k), k) for place in own.places]
        return most_frequent(found, length, k, self._min_score)

    def observe(self, slot: int, committed: Sequence[int]) -> None:
        """Index what was committed."""
        text = self._texts[slot]
        text.index.extend(committed)
        text.answer.extend(committed)

    def end(self, slot: int) -> None:
        """Drop the request's text; its answer is remembered for the client."""
        text = self._texts.pop(slot, None)
        if text is not None and text.answer:
            self._memory.remember(text.client, (*text.lead, *text.answer))

    def blocked(self, slot: int) -> str:  # noqa: ARG002
        """Never: an empty lookup is not a block."""
        return ""

    def limited(self, slot: int) -> str:  # noqa: ARG002
        """Never: it has no parts."""
        return ""

    def close(self) -> None:
        """Drop the texts of running requests; the memory is the caller's."""
        self._texts.clear()


def _repeated(tokens: Sequence[int], n: int) -> list[int]:
    """`n` tokens: a continuation that reaches the end of the text goes on through itself."""
    return [tokens[i % len(tokens)] for i in range(n)]
