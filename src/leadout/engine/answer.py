"""A request, and an answer to it that is in a batch."""

from __future__ import annotations

from dataclasses import dataclass

from leadout.drafters.base import DraftPrompt
from leadout.engine.params import Params
from leadout.engine.session import Session


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Request:
    """What is asked for, checked: `prompt.ids` belong to the model and leave room for a token."""

    prompt: DraftPrompt
    params: Params


@dataclass(slots=True, kw_only=True, eq=False)
class Answer:
    """One answer to a request, in a slot from `Batch.join` on.

    Parameters
    ----------
    request : Request
    session : Session
    joined_s : float
        The batch's working time when it joined.
    leader : Answer or None
        One that is reading a prompt which begins like this one: what it reads is copied.
    read_at : int
        Number of the step that read of the prompt last.
    seen_s : float or None
        The batch's working time at the end of its last round; None before the first.
    """

    request: Request
    session: Session
    joined_s: float
    leader: Answer | None = None
    read_at: int = 0
    seen_s: float | None = None
