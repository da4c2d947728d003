"""A model whose law can be computed by hand, and the ways a server can draft for it, well or badly."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field

N_BYTES = 256
STOP_ID = N_BYTES + 90
"""The token "." of the toy."""


@dataclass
class FakeModel:
    """Ids below 256 are bytes of a prompt; the others are the words that it says.

    Parameters
    ----------
    drafts : bool
        Whether anything is drafted.
    accepts : bool
        Whether drafts ever stand.
    rule : str
        "exact"; "greedy" verifies by argmax whatever the temperature; "second" says the second most probable
        token at every seventh place, "tie" does so only where the two are nearly as probable.
    min_p : str
        "honoured", "dropped" (after the first token) or "refused".
    foreign : int
        Requests of others that end beside each of ours.
    k : int
        Tokens of a draft.
    """

    drafts: bool = True
    accepts: bool = True
    rule: str = "exact"
    min_p: str = "honoured"
    foreign: int = 0
    k: int = 4
    requests: int = 0
    tokens: int = 0
    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    random: random.Random = field(default_factory=lambda: random.Random(1))

    def ids(self, text: str) -> list[int]:
        """A text's ids: words of its own are one id, the rest are bytes."""
        found: list[int] = []
        for word in text.split(" "):
            is_own = word.startswith("w") and word[1:].isdecimal()
            found += [N_BYTES + int(word[1:])] if is_own else list(word.encode())
        return found

    def piece(self, token: int) -> str:
        """The text of a token that it said."""
        return "." if token == STOP_ID else f" w{token - N_BYTES}"

    def law(self, ids: list[int]) -> dict[int, float]:
        """Log probabilities after `ids`: a free choice at every second place, near ties on request."""
        base = N_BYTES + (7 * len(ids) + ids[-1]) % 60
        probs = (0.6, 0.3, 0.1) if len(ids) % 2 else (0.97, 0.02, 0.01)
        if self.rule == "tie" and len(ids) % 7 == 0:
            probs = (0.42, 0.40, 0.18)
        return {base + i: math.log(p) for i, p in enumerate(probs)}

    def next(self, ids: list[int], temperature: float, min_p: float, *, is_verified: bool) -> int:
        """What it says after `ids`."""
        law = self.law(ids)
        tokens = list(law)
        if self.rule in ("second", "tie") and is_verified and len(ids) % 7 == 0:
            return tokens[1]
        if temperature == 0 or (self.rule == "greedy" and is_verified):
            return tokens[0]
        if min_p > 0 and not (self.min_p == "dropped" and is_verified):
            best = max(law.values())
            tokens = [token for token in tokens if law[token] >= best + math.log(min_p)]
        weights = [math.exp(law[token]) for token in tokens]
        return self.random.choices(tokens, weights)[0]

    def answer(
        self, ids: list[int], n: int, temperature: float = 0.0, min_p: float = 0.0, *, drafts: bool = True
    ) -> tuple[list[int], int, int]:
        """An answer's ids, and how many tokens were drafted and stood for it; counters grow."""
        said: list[int] = []
        for index in range(n):
            is_verified = index > 0 and self.drafts and drafts
            said.append(self.next([*ids, *said], temperature, min_p, is_verified=is_verified))
        rounds = 0
        if self.drafts and drafts:
            rounds = math.ceil((n - 1) / (self.k + 1)) if self.accepts else n - 1
        drafted = rounds * self.k
        accepted = (n - 1 - rounds) if self.accepts and rounds else 0
        others = self.foreign
        self.requests += 1 + others
        self.tokens += n + 100 * others
        self.rounds += rounds + 10 * others
        self.drafted += drafted + 40 * others
        self.accepted += accepted + 20 * others
        return said, drafted, accepted
