"""What the parts of a probe gave, before anybody judges it."""

from __future__ import annotations

from dataclasses import dataclass

from leadout.bench.record import Spread
from leadout.probe.answers import Drafting
from leadout.probe.equality import Equality
from leadout.probe.law import Law
from leadout.probe.values import Inspection

USELESS_ACCEPTANCE = 0.05
"""Below this a draft costs and gives nothing: guesses of another vocabulary are right by accident alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What the parts of a probe gave; fields as in `ProbeReport`.

    Parameters
    ----------
    advice : str
        The engine's own, for where nothing is counted.
    is_same_server : bool
        Whether the plain side is the server itself with drafting switched off by request.
    long_drafting : Drafting or None
        After the long text, where one was asked for.
    blank_tops : int
        Tokens whose probabilities were asked for and not given, with speculation.
    """

    inspection: Inspection
    drafting: Drafting
    equality: Equality
    law: Law
    speedup: Spread | None
    advice: str
    is_same_server: bool = False
    long_drafting: Drafting | None = None
    blank_tops: int = 0
