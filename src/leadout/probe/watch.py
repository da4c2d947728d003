"""The time a probe has, and whom it tells how far it is."""

from __future__ import annotations

import time
from dataclasses import dataclass

from leadout.proof.progress import Progress, quiet


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """Handed to every part of a probe.

    Parameters
    ----------
    deadline : float
        On `time.monotonic`; a part stops between two requests when it has passed.
    progress : Progress
        Told of parts and steps.
    """

    deadline: float
    progress: Progress = quiet

    def is_over(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() > self.deadline
