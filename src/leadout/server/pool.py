"""Models that are loaded when they are asked for, and leave when nobody needs them or another one needs room.

One load at a time, first come first served. A model that answers is never unloaded: where its memory is
needed it takes no further requests, and leaves after those it has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

from leadout.engine.engine import Engine
from leadout.errors import ClosingError, InputError, LeadoutError
from leadout.models.free_memory import free_bytes
from leadout.server.batcher import Batcher
from leadout.server.keep_alive import STAYS
from leadout.server.recipes import Footprint, Recipe
from leadout.server.refusal import RefusedError, reason_for_client
from leadout.server.registry import Resident, Served, named

T = TypeVar("T")

_RETRY_S = 5.0


@dataclass(slots=True, eq=False)
class _Load:
    """A load that requests wait for."""

    name: str
    task: asyncio.Task[_Model]
    n_waiting: int = 0
    has_begun: bool = False


@dataclass(slots=True, eq=False, kw_only=True)
class _Model:
    """A model in memory."""

    served: Served
    footprint: Footprint
    keep_alive_s: float
    last_use: int
    n_leases: int = 0
    waited: _Load | None = None  # whose waiting requests will take it
    is_leaving: bool = False
    timer: asyncio.TimerHandle | None = None
    ends: datetime | None = None

    @property
    def is_idle(self) -> bool:
        """Whether nobody uses it, or is about to."""
        return not self.n_leases and not (self.waited is not None and self.waited.n_waiting)

    def stop_timer(self) -> None:
        """It is used again, or gone."""
        if self.timer is not None:
            self.timer.cancel()
        self.timer = self.ends = None


@dataclass(slots=True, kw_only=True)
class ModelPool:
    """A registry of models that come and go.

    Parameters
    ----------
    recipes : sequence of Recipe
        Of different names.
    max_queued : int
        Requests that may wait for a slot of each model.
    keep_alive_s : float
        How long a model stays after its last request where no request says so; `STAYS` until its memory is
        needed.
    memory : callable
        Bytes that can be taken at this moment; mapped weights count as such, as the system can drop them.
    """

    recipes: Sequence[Recipe]
    max_queued: int = 64
    keep_alive_s: float = STAYS
    memory: Callable[[], int] = free_bytes
    _by_name: dict[str, Recipe] = field(init=False)
    _models: dict[str, _Model] = field(default_factory=dict, init=False)
    _loads: dict[str, _Load] = field(default_factory=dict, init=False)
    _freeing: dict[asyncio.Task[None], Served] = field(default_factory=dict, init=False)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _changed: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _n_uses: int = field(default=0, init=False)
    _is_open: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        self._by_name = {recipe.name: recipe for recipe in self.recipes}
        if len(self._by_name) < len(self.recipes):
            names = [recipe.name for recipe in self.recipes]
            twice = next(name for name in names if names.count(name) > 1)
            raise InputError(f"two models are called {twice!r}; serve one of them, or rename its file")

    def adopt(self, name: str, engine: Engine) -> None:
        """Take an engine that was loaded beforehand; its time runs from its first request."""
        recipe = self._by_name[name]
        self._models[name] = self._model(recipe, engine, recipe.footprint())

    def names(self) -> Sequence[str]:
        """All of them, loaded or not."""
        return list(self._by_name)

    def find(self, name: str) -> str:
        """The name of the model that is meant; raises RefusedError where there is none."""
        return named(name, self._by_name)

    def path(self, name: str) -> Path | None:
        """The model's file."""
        return self._by_name[name].path

    async def lease(self, name: str, leases: ExitStack, keep_alive: float | None = None) -> Served:
        """The model, loaded first if need be; it stays until `leases` is closed. See `Registry`."""
        name = self.find(name)
        if not self._is_open:
            raise ClosingError(_RETRY_S)
        model = self._models.get(name)
        if model is not None and not model.is_leaving:
            return self._take(model, leases, keep_alive)
        load = self._loads.get(name) or self._begin(name)
        load.n_waiting += 1
        try:
            model = await asyncio.shield(load.task)
            return self._take(model, leases, keep_alive)
        except asyncio.CancelledError:
            if load.task.cancelled() and not self._is_open:
                raise ClosingError(_RETRY_S) from None
            raise
        finally:
            load.n_waiting -= 1
            if not load.n_waiting:
                self._nobody_waits(load)

    def loaded(self) -> Sequence[Served]:
        """Those in memory."""
        return [model.served for model in self._models.values()]

    def resident(self) -> Sequence[Resident]:
        """Those in memory, with what they take and how long they stay."""
        return [
            Resident(
                served=model.served,
                n_bytes=model.footprint.total + _draft_bytes(model.served.engine),
                ends=model.ends or _ends(model.keep_alive_s),
            )
            for model in self._models.values()
        ]

    @property
    def is_ready(self) -> bool:
        """Until it is closed."""
        return self._is_open

    async def close(self, grace_s: float) -> None:
        """Load nothing more, let what runs end within the grace time, and free everything.

        A second call may shorten the grace time of the first.
        """
        self._is_open = False
        loads = list(self._loads.values())
        for load in loads:
            if not load.has_begun:
                load.task.cancel()
        await asyncio.gather(*(load.task for load in loads), return_exceptions=True)
        for model in list(self._models.values()):
            self._unload(model, grace_s)
        leaving = dict(self._freeing)
        await asyncio.gather(*(served.runner.close(grace_s) for served in leaving.values()))
        await asyncio.gather(*leaving)

    def _take(self, model: _Model, leases: ExitStack, keep_alive: float | None) -> Served:
        model.stop_timer()
        if keep_alive is not None:
            model.keep_alive_s = keep_alive
        model.n_leases += 1
        self._n_uses += 1
        model.last_use = self._n_uses
        leases.callback(self._give_back, model)
        return model.served

    def _give_back(self, model: _Model) -> None:
        model.n_leases -= 1
        self._rest(model)

    def _rest(self, model: _Model) -> None:
        """Where a model has nothing to do: unload it now or later, or let it stay."""
        if not model.is_idle or self._models.get(model.served.name) is not model:
            return
        if model.is_leaving or not model.keep_alive_s:
            self._unload(model)
            return
        model.stop_timer()
        if model.keep_alive_s != STAYS:
            model.ends = _ends(model.keep_alive_s)
            loop = asyncio.get_running_loop()
            model.timer = loop.call_later(model.keep_alive_s, self._unload, model)
        self._tell()

    def _unload(self, model: _Model, grace_s: float = 0.0) -> None:
        """Take the model out, and free its memory beside everything else."""
        model.stop_timer()
        del self._models[model.served.name]
        task = asyncio.get_running_loop().create_task(self._free(model.served, grace_s))
        self._freeing[task] = model.served
        task.add_done_callback(self._freed)
        self._tell()

    async def _free(self, served: Served, grace_s: float) -> None:
        await served.runner.close(grace_s)
        await asyncio.to_thread(served.engine.close)

    def _freed(self, task: asyncio.Task[None]) -> None:
        self._freeing.pop(task, None)
        self._tell()

    def _begin(self, name: str) -> _Load:
        load = self._loads[name] = _Load(
            name=name, task=asyncio.get_running_loop().create_task(self._load(name))
        )
        load.task.add_done_callback(_is_noted)
        return load

    def _nobody_waits(self, load: _Load) -> None:
        if not load.has_begun:
            self._forget(load)  # who comes now waits for a load of their own
            load.task.cancel()
        elif load.task.done() and not load.task.cancelled() and load.task.exception() is None:
            self._rest(load.task.result())

    def _forget(self, load: _Load) -> None:
        if self._loads.get(load.name) is load:
            del self._loads[load.name]

    async def _load(self, name: str) -> _Model:
        """Wait for the turn and for room, and load."""
        load, recipe = self._loads[name], self._by_name[name]
        try:
            async with self._turn:
                model = self._models.get(name)  # it was to leave, and may stay after all
                if model is None:
                    footprint = await asyncio.to_thread(_told_as_refusal, recipe, recipe.footprint)
                    await self._make_room(footprint.total)
                    load.has_begun = True
                    engine = await asyncio.to_thread(_told_as_refusal, recipe, recipe.load)
                    model = self._models[name] = self._model(recipe, engine, footprint)
                model.waited, load.has_begun = load, True
        finally:
            self._forget(load)
        if not load.n_waiting:
            self._rest(model)
        return model

    def _model(self, recipe: Recipe, engine: Engine, footprint: Footprint) -> _Model:
        served = Served.of(engine, Batcher(engine, max_queued=self.max_queued), recipe.name)
        return _Model(
            served=served, footprint=footprint, keep_alive_s=self.keep_alive_s, last_use=self._n_uses
        )

    async def _make_room(self, needed: int) -> None:
        """Unload what was used longest ago until this many bytes fit; a model alone takes what it takes."""
        asked: _Model | None = None
        try:
            while self._freeing or (self._models and not self._fits(needed)):
                idle = [model for model in self._models.values() if model.is_idle]
                if self._freeing:
                    pass
                elif idle:
                    self._unload(min(idle, key=_last_use))
                elif asked not in self._models.values():
                    asked = min(self._models.values(), key=_last_use)
                    asked.is_leaving = True
                self._changed.clear()
                await self._changed.wait()
        finally:
            if asked is not None:  # it is gone, or nobody needs its room any more
                asked.is_leaving = False

    def _fits(self, needed: int) -> bool:
        mapped = sum(model.footprint.weights for model in self._models.values())
        return needed + mapped <= self.memory()

    def _tell(self) -> None:
        self._changed.set()


def _told_as_refusal(recipe: Recipe, work: Callable[[], T]) -> T:
    """What `work` on a recipe gives; its errors as what a client is told."""
    try:
        return work()
    except LeadoutError as error:
        # bad input is a lack of memory here, or options that do not suit this model
        status, retry_s = (503, _RETRY_S) if isinstance(error, InputError) else (500, None)
        raise RefusedError(
            status,
            f"{recipe.name} cannot be loaded: {reason_for_client(error, recipe.path)}",
            code="model_not_loaded",
            retry_after_s=retry_s,
        ) from error


def _is_noted(task: asyncio.Task[_Model]) -> None:
    """Look at a load's error, which those who waited were told, so that nothing complains that nobody did."""
    if not task.cancelled():
        task.exception()


def _last_use(model: _Model) -> int:
    return model.last_use


def _draft_bytes(engine: Engine) -> int:
    return 0 if engine.draft is None else engine.draft.n_bytes


def _ends(keep_alive_s: float) -> datetime | None:
    return None if keep_alive_s == STAYS else datetime.now(UTC) + timedelta(seconds=keep_alive_s)
