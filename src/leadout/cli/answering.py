"""Following one generation: events to whoever shows them, Ctrl-C to the engine, results at the end."""

from __future__ import annotations

import signal
from collections.abc import Callable, Generator
from types import FrameType, TracebackType

from leadout.engine.engine import Engine
from leadout.engine.events import Event
from leadout.engine.params import Params
from leadout.engine.result import Result, collect


class StopOnInterrupt:
    """While entered: the first Ctrl-C ends the generation after its current pass, the second one raises.

    Attributes
    ----------
    was_pressed : bool
        Whether there was a first one.
    """

    def __init__(self, engine: Engine) -> None:
        self.was_pressed = False
        self._engine = engine
        self._previous = signal.getsignal(signal.SIGINT)

    def __enter__(self) -> StopOnInterrupt:
        """Take over Ctrl-C."""
        self._previous = signal.signal(signal.SIGINT, self._stop)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give Ctrl-C back."""
        signal.signal(signal.SIGINT, self._previous)

    def _stop(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self.was_pressed:
            raise KeyboardInterrupt
        self.was_pressed = True
        self._engine.cancel()


def show_nothing(event: Event) -> None:
    """For output that waits for the result."""


def follow(
    engine: Engine, events: Generator[Event, None, None], params: Params, show: Callable[[Event], None]
) -> tuple[list[Result], bool]:
    """Show every event as it comes.

    Returns
    -------
    results : list of Result
        One for each answer, also when they were stopped.
    is_stopped : bool
        True when Ctrl-C was pressed.
    """
    with StopOnInterrupt(engine) as interrupt:

        def shown() -> Generator[Event, None, None]:
            for event in events:
                if interrupt.was_pressed:  # it may have come before the engine could take note
                    engine.cancel()
                show(event)
                yield event

        has_logprobs = params.logprobs is not None
        results = collect(shown(), engine.provenance(params), has_logprobs=has_logprobs)
        return results, interrupt.was_pressed
