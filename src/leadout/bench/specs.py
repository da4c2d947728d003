"""What can take part in a benchmark, and how the command line names it: KIND[:ARGUMENT][@PROVIDER]."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Literal, cast

from leadout.checks import shown, whole
from leadout.engine.schedule import MAX_K, FixedSchedule
from leadout.errors import InputError

OWN = ("plain", "ngram", "fixed", "step", "auto")
"""leadout's own: plain decoding; n-gram lookup; the draft at a fixed k; the draft with a stepping k; what
`leadout.load` does by itself, which is lookups and the draft model as far as they are predicted to pay.
"""

PEERS: dict[str, tuple[str, ...]] = {
    "llama-cpp-python": ("lookup", "plain"),
    "llama-server": ("best", "draft", "lookup", "plain"),
    "transformers": ("draft", "lookup", "plain"),
    "openvino": ("draft", "lookup", "plain"),
}
"""Other engines and what they can do, what they do unless asked first; "best" is the fastest of its settings,
found on prompts that are not measured."""

DRAFTING = ("best", "draft")
"""Modes that use a draft model where there is one."""

PLAIN = "plain"
AUTO = "auto"
DEFAULT_K: int = inspect.signature(FixedSchedule).parameters["k"].default


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """One contender as asked for.

    Parameters
    ----------
    kind : str
        One of OWN or PEERS.
    k : int
        Tokens to draft in a round; 0 where that is no choice of the user's.
    mode : str
        What a peer does: "draft", "lookup" or "plain"; "" leaves it the best that it can do.
    provider : "ik", "llama" or ""
        What runs leadout's models; "" is the run's provider.
    """

    kind: str
    k: int = 0
    mode: str = ""
    provider: Literal["ik", "llama", ""] = ""

    @property
    def name(self) -> str:
        """As it is written in reports."""
        argument = self.mode or (str(self.k) if self.k else "")
        return (
            self.kind + (f":{argument}" if argument else "") + (f"@{self.provider}" if self.provider else "")
        )

    def mode_with(self, *, has_draft: bool) -> str:
        """What a peer does: as asked for, else the best that it can with a draft model or without."""
        return self.mode or next(each for each in PEERS[self.kind] if each != "draft" or has_draft)

    @property
    def is_peer(self) -> bool:
        """True for other engines than leadout."""
        return self.kind in PEERS

    @property
    def is_plain(self) -> bool:
        """True for plain decoding by leadout."""
        return self.kind == PLAIN


def parse_specs(text: str) -> tuple[Spec, ...]:
    """The contenders of "fixed:4,ngram:3,plain@llama,llama-server:lookup"; plain decoding always comes first.

    Raises
    ------
    InputError
        If a part is not such, or stands twice.
    """
    given = [_parse(part.strip()) for part in text.split(",") if part.strip()]
    specs = [Spec(kind=PLAIN), *(spec for spec in given if spec != Spec(kind=PLAIN))]
    names = [spec.name for spec in specs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"{twice[0]} stands twice in {text!r}; name every contender once")
    return tuple(specs)


def _parse(text: str) -> Spec:
    rest, _, provider = text.partition("@")
    kind, colon, argument = rest.partition(":")
    if kind not in OWN and kind not in PEERS:
        raise InputError(f"contender {text!r} is not known; there are {', '.join((*OWN, *PEERS))}")
    if provider and (kind in PEERS or provider not in ("ik", "llama")):
        raise InputError(f"contender {text!r}: @ik or @llama may follow {', '.join(OWN)}, nothing else")
    known = cast("Literal['ik', 'llama', '']", provider)
    if kind in PEERS:
        if colon and argument not in PEERS[kind]:
            raise InputError(f"contender {text!r}: {kind} can do {', '.join(PEERS[kind])}")
        return Spec(kind=kind, mode=argument)
    if kind in (PLAIN, AUTO):
        if colon:
            raise InputError(f"contender {text!r}: {kind} takes no number")
        return Spec(kind=kind, provider=known)
    k = whole(argument) if colon else DEFAULT_K
    if k is None or not 1 <= k <= MAX_K:
        raise InputError(f"contender {shown(text)}: what follows {kind}: is k, a whole number in 1..{MAX_K}")
    return Spec(kind=kind, k=k, provider=known)
