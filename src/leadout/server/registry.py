"""The models that are served, by the names that requests call them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from leadout.checks import shown
from leadout.engine.engine import Engine
from leadout.engine.events import Event
from leadout.engine.params import Params
from leadout.models.conversation import Conversation
from leadout.server.refusal import RefusedError
from leadout.server.reply_style import ReplyStyle

Prompt = str | Sequence[int] | Conversation


class Load(Protocol):
    """How much a model has to do at this moment."""

    @property
    def running(self) -> int:
        """Answers that hold a slot."""

    @property
    def queued(self) -> int:
        """Requests that wait for one."""

    @property
    def slots(self) -> int:
        """Answers that can run together."""

    @property
    def cached_tokens(self) -> int:
        """Tokens in the caches of all slots."""

    @property
    def capacity_tokens(self) -> int:
        """Tokens that these caches could hold."""


class Runner(Protocol):
    """What runs the requests of many clients on one engine."""

    def events(self, prompt: Prompt, params: Params, *, client: str = "") -> AsyncGenerator[Event, None]:
        """The events of a generation; closing the generator cancels it within one round.

        Raises
        ------
        InputError, PromptTooLongError, BusyError
            Before the first event.
        """

    @property
    def load(self) -> Load:
        """How much there is to do now."""

    async def close(self, grace_s: float = 10.0) -> None:
        """Take no more requests, and end what still runs after the grace time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A model that can be asked.

    Parameters
    ----------
    name : str
        What requests call it.
    engine : Engine
        Asked for facts only; generating is the runner's.
    runner : Runner
    style : ReplyStyle
        How its answers are read.
    """

    name: str
    engine: Engine
    runner: Runner
    style: ReplyStyle

    @classmethod
    def of(cls, engine: Engine, runner: Runner, name: str = "") -> Served:
        """A model by its engine's name, or another one; reads the chat template."""
        return cls(
            name=name or engine.target.info.name,
            engine=engine,
            runner=runner,
            style=ReplyStyle.of(engine.target.vocab),
        )


class Registry(Protocol):
    """Which models there are."""

    def names(self) -> Sequence[str]:
        """What can be asked for."""

    async def get(self, name: str) -> Served:
        """The model of that name, loaded.

        Raises
        ------
        RefusedError
            404 where there is none.
        """

    def loaded(self) -> Sequence[Served]:
        """The models that are in memory now."""

    @property
    def is_ready(self) -> bool:
        """Whether requests can be taken."""

    async def close(self, grace_s: float) -> None:
        """Take no more requests, let those that run end within the grace time, and free all models."""


@dataclass(slots=True)
class LoadedModels:
    """Models that were loaded beforehand and stay.

    Parameters
    ----------
    models : mapping of str to Served
    """

    models: Mapping[str, Served]
    _is_open: bool = field(default=True, init=False)

    def names(self) -> Sequence[str]:
        """All of them."""
        return list(self.models)

    async def get(self, name: str) -> Served:
        """The model of that name; raises RefusedError where there is none."""
        if name not in self.models:
            raise unknown_model(name, self.names())
        return self.models[name]

    def loaded(self) -> Sequence[Served]:
        """All of them."""
        return list(self.models.values())

    @property
    def is_ready(self) -> bool:
        """Until it is closed."""
        return self._is_open

    async def close(self, grace_s: float) -> None:
        """Close every runner, then free its models."""
        self._is_open = False
        for served in self.models.values():
            await served.runner.close(grace_s)
            served.engine.close()


def unknown_model(name: str, known: Sequence[str]) -> RefusedError:
    """The 404 for a model that is not there."""
    return RefusedError(
        404,
        f"there is no model {shown(name)} here; there is {', '.join(known) or 'none'}",
        param="model",
        code="model_not_found",
    )
