"""Run language models faster without changing what they say: lossless speculation for local models."""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from leadout.engine.engine import Engine
    from leadout.engine.events import Event, Finished, Round, Speculation, Started, Token
    from leadout.engine.params import Params
    from leadout.engine.result import Result, Usage
    from leadout.engine.schedule import FixedSchedule, StepSchedule
    from leadout.errors import (
        InputError,
        LeadoutError,
        ModelFileError,
        ProviderError,
        StoreError,
        VocabularyError,
    )
    from leadout.loading import load
    from leadout.models.options import GgufOptions

_HOMES = {
    "Engine": "leadout.engine.engine",
    "Event": "leadout.engine.events",
    "Finished": "leadout.engine.events",
    "FixedSchedule": "leadout.engine.schedule",
    "GgufOptions": "leadout.models.options",
    "InputError": "leadout.errors",
    "LeadoutError": "leadout.errors",
    "ModelFileError": "leadout.errors",
    "Params": "leadout.engine.params",
    "ProviderError": "leadout.errors",
    "Result": "leadout.engine.result",
    "Round": "leadout.engine.events",
    "Speculation": "leadout.engine.events",
    "Started": "leadout.engine.events",
    "StepSchedule": "leadout.engine.schedule",
    "StoreError": "leadout.errors",
    "Token": "leadout.engine.events",
    "Usage": "leadout.engine.result",
    "VocabularyError": "leadout.errors",
    "load": "leadout.loading",
}

__all__ = [
    "Engine",
    "Event",
    "Finished",
    "FixedSchedule",
    "GgufOptions",
    "InputError",
    "LeadoutError",
    "ModelFileError",
    "Params",
    "ProviderError",
    "Result",
    "Round",
    "Speculation",
    "Started",
    "StepSchedule",
    "StoreError",
    "Token",
    "Usage",
    "VocabularyError",
    "__version__",
    "load",
]


def __getattr__(name: str) -> object:
    """Import a public name when it is first used, so that ``import leadout`` stays light."""
    if name not in _HOMES:
        raise AttributeError(f"module 'leadout' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
