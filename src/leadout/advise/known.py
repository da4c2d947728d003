"""What rounds and checks have taught about a pair of files on this machine, found without loading them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from leadout.advise import samples
from leadout.advise.predict import Prediction
from leadout.checks import is_finite
from leadout.core.cost import CostTable
from leadout.engine.memory import Memory
from leadout.engine.profile import Profile
from leadout.errors import InputError
from leadout.models.open import Provider
from leadout.models.options import GgufOptions
from leadout.models.remember import Findings, key_of

_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Costs and acceptance of earlier rounds; acceptance is None where no draft model was judged yet."""

    costs: CostTable
    acceptance: float | None = None


def remember_rounds(
    target: Path | None,
    draft: Path | None,
    options: GgufOptions,
    memory: Memory,
    findings: Findings | None = None,
) -> None:
    """Keep what a schedule learned where `recall_rounds` finds it; a target's costs also by themselves."""
    if target is None or not memory.profile.is_known:
        return
    profile = memory.profile.to_json()
    finding = {"profile": profile, "acceptance": _acceptance(memory) if draft is not None else None}
    findings = findings or Findings("pairs")
    for pair in {draft, None}:
        key = _key(target, pair, options)
        if key and (pair == draft or findings.read(key) is None):
            findings.write(key, finding if pair == draft else {"profile": profile, "acceptance": None})


def recall_rounds(
    target: Path, draft: Path | None, options: GgufOptions, findings: Findings | None = None
) -> Known | None:
    """What was kept of this pair, or None."""
    key = _key(target, draft, options)
    finding = (findings or Findings("pairs")).read(key) if key else None
    if not isinstance(finding, Mapping) or not isinstance(profile := finding.get("profile"), Mapping):
        return None
    try:
        costs = Profile.from_json(profile).costs
    except InputError:
        return None
    acceptance = finding.get("acceptance")
    if not is_finite(acceptance) or not 0 <= acceptance <= 1:
        acceptance = None
    return Known(costs=costs, acceptance=acceptance)


def remember_prediction(
    target: Path,
    draft: Path | None,
    options: GgufOptions,
    provider: Provider,
    *,
    prediction: Prediction,
    findings: Findings | None = None,
) -> None:
    """Keep what a check measured of this pair; None is the target with lookups alone."""
    key = check_key(target, draft, options, provider)
    if key:
        (findings or Findings("checks")).write(key, prediction.to_json())


def recall_prediction(
    target: Path,
    draft: Path | None,
    options: GgufOptions,
    provider: Provider,
    findings: Findings | None = None,
) -> Prediction | None:
    """What a check measured of this pair, or None."""
    key = check_key(target, draft, options, provider)
    return Prediction.from_json((findings or Findings("checks")).read(key)) if key else None


def check_key(target: Path, draft: Path | None, options: GgufOptions, provider: Provider) -> str:
    """A name for everything that a check's findings depend on; "" where a file cannot be read.

    That of the target alone also names its record.
    """
    files = [target] if draft is None else [target, draft]
    facts = {
        "version": [_VERSION, samples.VERSION],
        "n": len(files),
        "provider": provider,
        "threads": options.n_threads,
        "gpu": options.n_gpu_layers,
        "cache": [options.kv_type_k, options.kv_type_v, options.flash_attn],
        "exact": options.exact,
    }
    try:
        return key_of(files, facts)
    except OSError:
        return ""


def _acceptance(memory: Memory) -> float | None:
    """The mean chance of a first token of a draft model, over rows as sure as they were of late."""
    models = [name for name in memory.confidences if name in memory.acceptance]
    if len(models) != 1:
        return None
    model, seen = memory.acceptance[models[0]], memory.confidences[models[0]]
    chances = [model.predict(each, 1, 50).mean for each in seen.typical(1)]
    return sum(chances) / len(chances)


def _key(target: Path, draft: Path | None, options: GgufOptions) -> str:
    files = [target] if draft is None else [target, draft]
    facts = {"version": _VERSION, "threads": options.n_threads, "gpu": options.n_gpu_layers, "n": len(files)}
    try:
        return key_of(files, facts)
    except OSError:
        return ""
