"""Ways to run llama-server: the settings that a build knows, and the fastest on prompts nobody measures."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from leadout.errors import ProviderError

NGRAM_KINDS = ("ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache")
DRAFT_LENGTHS = (1, 2, 3, 4)
P_MIN = "0.75"
"""Least draft probability that is tried beside the default of 0: the default of earlier builds."""

_SHORT_NGRAM, _SHORT_DRAFT = "4", "8"
_SHORT_MOD = ("--spec-ngram-mod-n-match", "8", "--spec-ngram-mod-n-min", "2", "--spec-ngram-mod-n-max", "8")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSetting:
    """A way to speculate, and the flags that ask for it.

    Parameters
    ----------
    name : str
        For reports.
    flags : tuple of str
        Beside those that every server gets.
    drafts : bool
        It needs the draft model.
    keeps_texts : bool
        What it looks up outlives a request, so a server serves one unit only.
    """

    name: str
    flags: tuple[str, ...] = ()
    drafts: bool = False
    keeps_texts: bool = False


PLAIN = ServerSetting(name="plain")


def known_settings(mode: str, help_text: str, *, has_draft: bool) -> tuple[ServerSetting, ...]:
    """The settings of a mode that this build knows.

    Parameters
    ----------
    mode : str
        "plain", "draft", "lookup", or "best" for all of them.
    help_text : str
        What ``llama-server --help`` prints.
    has_draft : bool
        There is a draft model.

    Raises
    ------
    ProviderError
        If there are none.
    """
    found: list[ServerSetting] = []
    if mode in ("plain", "best"):
        found.append(PLAIN)
    if mode in ("draft", "best") and has_draft:
        found += _draft_settings(help_text)
    if mode in ("lookup", "best"):
        found += _ngram_settings(help_text)
    if not found:
        lacks = "there is no draft model" if mode == "draft" else "this build is too old; use a newer one"
        raise ProviderError(f"llama-server cannot do {mode} here: {lacks}")
    return tuple(found)


def _draft_settings(help_text: str) -> list[ServerSetting]:
    kind: tuple[str, ...] = ()
    if "--spec-type" in help_text:
        kind = ("--spec-type", "draft-simple" if "draft-simple" in help_text else "draft")
    longest = next((flag for flag in ("--spec-draft-n-max", "--draft-max") if _knows(flag, help_text)), "")
    least = next((flag for flag in ("--spec-draft-p-min", "--draft-p-min") if _knows(flag, help_text)), "")
    if not longest:
        return [ServerSetting(name="draft", flags=kind, drafts=True)]
    settings = [
        ServerSetting(name=f"draft k={k}", flags=(*kind, longest, str(k)), drafts=True) for k in DRAFT_LENGTHS
    ]
    if least:
        flags = (*kind, longest, str(DRAFT_LENGTHS[-1]), least, P_MIN)
        settings.append(
            ServerSetting(name=f"draft k={DRAFT_LENGTHS[-1]} p-min={P_MIN}", flags=flags, drafts=True)
        )
    return settings


def _ngram_settings(help_text: str) -> list[ServerSetting]:
    settings = []
    for kind in NGRAM_KINDS:
        if "--spec-type" not in help_text or not re.search(rf"{kind}\b(?!-)", help_text):
            continue
        flags = ("--spec-type", kind)
        settings.append(ServerSetting(name=kind, flags=flags, keeps_texts=True))
        short = _short_flags(kind, help_text)
        if short:  # by default they draft dozens of tokens, which only pays on GPUs
            settings.append(ServerSetting(name=f"{kind} short", flags=(*flags, *short), keeps_texts=True))
    return settings


def _short_flags(kind: str, help_text: str) -> tuple[str, ...]:
    if kind == "ngram-mod":
        return _SHORT_MOD if _knows(_SHORT_MOD[0], help_text) else ()
    size, length = f"--spec-{kind}-size-n", f"--spec-{kind}-size-m"
    if _knows(size, help_text) and _knows(length, help_text):
        return (size, _SHORT_NGRAM, length, _SHORT_DRAFT)
    return ()


def _knows(flag: str, help_text: str) -> bool:
    """Whether the flag is in the help, and not only to say that it was removed."""
    found = re.search(rf"^.*{re.escape(flag)}\b(?!-)[^\n]*(\n[ \t]+[^\n]*)?", help_text, re.MULTILINE)
    return found is not None and "has been removed" not in found[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningPrompt:
    """A prompt that settings are tried on, and the workloads that it stands for."""

    name: str
    stands_for: tuple[str, ...]
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """What was tried: tokens per second by prompt and setting, and the fastest setting of each prompt."""

    rates: Mapping[str, Mapping[str, float]]
    chosen: Mapping[str, ServerSetting]

    def to_json(self) -> dict[str, object]:
        """Plain values."""
        return {
            "tokens_per_s": {prompt: dict(of) for prompt, of in self.rates.items()},
            "chosen": {workload: setting.name for workload, setting in self.chosen.items()},
        }


def fastest(
    settings: Sequence[ServerSetting],
    prompts: Sequence[TuningPrompt],
    rates: Mapping[str, Mapping[str, float]],
) -> Tuned:
    """The setting for each workload: the fastest on the prompt that stands for it.

    Parameters
    ----------
    rates : mapping of prompt name to mapping of setting name to tokens per second
        A setting that failed is left out.

    Raises
    ------
    ProviderError
        If every setting failed on a prompt.
    """
    by_name = {setting.name: setting for setting in settings}
    chosen: dict[str, ServerSetting] = {}
    for prompt in prompts:
        of = rates.get(prompt.name, {})
        if not of:
            raise ProviderError(f"llama-server gave no answer with any of: {', '.join(by_name)}")
        best = by_name[max(of, key=of.__getitem__)]
        chosen.update(dict.fromkeys(prompt.stands_for, best))
    return Tuned(rates=rates, chosen=chosen)
