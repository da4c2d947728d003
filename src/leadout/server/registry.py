"""The models that are served, by the names that requests call them."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol

from leadout.checks import shown
from leadout.constraints import Grammars
from leadout.engine.engine import Engine
from leadout.engine.events import Event
from leadout.engine.params import Params
from leadout.models.conversation import Conversation
from leadout.server.refusal import RefusedError
from leadout.server.reply_style import ReplyStyle

Prompt = str | Sequence[int] | Conversation

_LATEST = ":latest"  # the tag that Ollama's clients add where a name has none


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
    grammars : Grammars
        Forms of answers, for its tokens.
    """

    name: str
    engine: Engine
    runner: Runner
    style: ReplyStyle
    grammars: Grammars

    @classmethod
    def of(cls, engine: Engine, runner: Runner, name: str = "") -> Served:
        """A model by its engine's name, or another one; reads the chat template."""
        return cls(
            name=name or engine.target.info.name,
            engine=engine,
            runner=runner,
            style=ReplyStyle.of(engine.target.vocab),
            grammars=Grammars(engine.target.vocab),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Resident:
    """A model in memory.

    Parameters
    ----------
    served : Served
    n_bytes : int
        What it and its draft model take.
    ends : datetime or None
        When it leaves if nobody asks it; None where it stays.
    """

    served: Served
    n_bytes: int
    ends: datetime | None = None


class Registry(Protocol):
    """Which models there are."""

    def names(self) -> Sequence[str]:
        """What can be asked for."""

    def find(self, name: str) -> str:
        """The name of the model that is meant; the tag ``:latest`` may be there or not.

        Raises
        ------
        RefusedError
            404 where there is none.
        """

    def path(self, name: str) -> Path | None:
        """The file of a model that is there, by its exact name."""

    async def lease(self, name: str, leases: ExitStack, keep_alive: float | None = None) -> Served:
        """The model of that name, loaded; it is not unloaded before `leases` is closed.

        Parameters
        ----------
        name : str
        leases : ExitStack
            Ended with the request.
        keep_alive : float or None
            How many seconds it stays after that, from now on; None leaves that as it is.

        Raises
        ------
        RefusedError
            404 where there is none, 500 or 503 where it cannot be loaded.
        BusyError
            If the registry is closed.
        """

    def resident(self) -> Sequence[Resident]:
        """The models that are in memory now, with what they take."""

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

    def find(self, name: str) -> str:
        """The name of the model that is meant; raises RefusedError where there is none."""
        return named(name, self.models)

    def path(self, name: str) -> Path | None:
        """The model's file."""
        return self.models[name].engine.target.info.path

    async def lease(self, name: str, leases: ExitStack, keep_alive: float | None = None) -> Served:  # noqa: ARG002
        """The model of that name; raises RefusedError where there is none, or if it is to leave."""
        served = self.models[self.find(name)]
        if keep_alive is not None and keep_alive != math.inf:
            raise RefusedError(
                400,
                "keep_alive can only be -1 here, as the models of this server were loaded to stay",
                param="keep_alive",
                code="not_supported",
            )
        return served

    def resident(self) -> Sequence[Resident]:
        """All of them; they stay."""
        return [
            Resident(served=each, n_bytes=each.engine.target.info.n_bytes) for each in self.models.values()
        ]

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


def named(name: str, known: Collection[str]) -> str:
    """Which of the known names is meant: itself, or the one with or without the tag ``:latest``.

    Raises
    ------
    RefusedError
        404 where there is none.
    """
    for each in (name, name.removesuffix(_LATEST), f"{name}{_LATEST}"):
        if each in known:
            return each
    raise unknown_model(name, list(known))


def unknown_model(name: str, known: Sequence[str]) -> RefusedError:
    """The 404 for a model that is not there."""
    hint = "; `leadout serve --name NAME` renames it" if len(known) == 1 else ""
    return RefusedError(
        404,
        f"there is no model {shown(name)} here; there is {', '.join(known) or 'none'}{hint}",
        param="model",
        code="model_not_found",
    )
