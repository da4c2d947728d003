"""What `leadout tune` chose for files on this machine, remembered until files, libraries or machine change.

Only choices that leave what is computed alone: which library, how many threads, and the number format of a
draft model's cache. The target's cache format is the user's to choose, as it changes what the target says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal, cast, get_args

from leadout.checks import is_whole
from leadout.models.cpu import usable_cores
from leadout.models.options import GgufOptions, KvType
from leadout.models.remember import Findings, key_of

_VERSION = 1
_LIBRARIES = ("ik-llama-cpp-python", "llama-cpp-python")
_DEFAULTS = GgufOptions()

Library = Literal["ik", "llama"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedModel:
    """How one model is best run.

    Parameters
    ----------
    provider : Library
    n_threads : int >= 1
    kv_type : KvType
        Of cached keys and values; used for draft models only.
    """

    provider: Library
    n_threads: int
    kv_type: KvType = "f16"

    def options(self, given: GgufOptions, *, is_draft: bool) -> GgufOptions:
        """The options, with what was chosen where the user left it open."""
        threads = self.n_threads if given.n_threads is None else given.n_threads
        is_open = (given.kv_type_k, given.kv_type_v) == (_DEFAULTS.kv_type_k, _DEFAULTS.kv_type_v)
        if not is_draft or not is_open:
            return replace(given, n_threads=threads)
        return replace(given, n_threads=threads, kv_type_k=self.kv_type, kv_type_v=self.kv_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """The choice for a target, and for its draft model where there is one, with the reason in a line."""

    target: TunedModel
    draft: TunedModel | None = None
    reason: str = ""


def tuned_key(target: Sequence[Path], draft: Sequence[Path] = ()) -> str:
    """A name for what was chosen: these files, this machine, and the installed libraries.

    Raises
    ------
    OSError
        If a file cannot be read.
    """
    facts = {
        "version": _VERSION,
        "n_target_parts": len(target),
        "cores": usable_cores(),
        "libraries": [_installed(name) for name in _LIBRARIES],
    }
    return key_of([*target, *draft], facts)


def remember(key: str, choice: Tuned, folder: Path | None = None) -> None:
    """Write a choice down; `folder` is leadout's cache folder where None."""
    Findings("tuned", folder).write(key, asdict(choice))


def recall(key: str, folder: Path | None = None) -> Tuned | None:
    """What was chosen, or None when nothing was that can be read."""
    found = Findings("tuned", folder).read(key)
    if not isinstance(found, dict) or not isinstance(found.get("reason"), str):
        return None
    target, draft = _model(found.get("target")), _model(found.get("draft"))
    if target is None or (draft is None and found.get("draft") is not None):
        return None
    return Tuned(target=target, draft=draft, reason=found["reason"])


def _model(values: object) -> TunedModel | None:
    if not isinstance(values, dict):
        return None
    provider, n_threads, kv_type = (values.get(name) for name in ("provider", "n_threads", "kv_type"))
    is_sound = provider in get_args(Library) and kv_type in get_args(KvType)
    if not is_sound or not is_whole(n_threads) or not 1 <= n_threads <= 1024:
        return None
    return TunedModel(
        provider=cast("Library", provider), n_threads=n_threads, kv_type=cast("KvType", kv_type)
    )


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
