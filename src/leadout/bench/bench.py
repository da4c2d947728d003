"""The whole benchmark: from options to a run and its figures. Knows nothing of tables and pictures."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import cast

from leadout.bench import report
from leadout.bench.contenders import Contender, own_contender
from leadout.bench.options import BenchOptions
from leadout.bench.peers import PeerSetup, open_peer, peer_contender
from leadout.bench.report import Figures
from leadout.bench.runner import Progress, Run, run
from leadout.bench.specs import Spec, parse_specs
from leadout.bench.workloads import Unit, Workload, WorkloadName, make_units, read_workload
from leadout.errors import InputError, ProviderError
from leadout.loading import LoadedModels
from leadout.models.base import Model, ModelInfo
from leadout.models.cpu import usable_cores
from leadout.models.options import GgufOptions

Load = Callable[[str], LoadedModels]
"""Loads target and draft through a provider; "" is the run's own choice."""

_LIBRARIES = ("ik-llama-cpp-python", "llama-cpp-python", "numpy")
_BLOCK = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """What was measured.

    Parameters
    ----------
    run : Run
        Every answer.
    figures : dict
        By workload and contender.
    notes : tuple of str
        Who did not take part and why, and what else a reader must know.
    facts : dict
        Of models, contenders and libraries, for the record.
    """

    run: Run
    figures: dict[str, dict[str, Figures]]
    notes: tuple[str, ...]
    facts: dict[str, object]

    def to_json(self, plain: str) -> dict[str, object]:
        """Everything, as the record keeps it."""
        return {
            **self.facts,
            "notes": list(self.notes),
            "workloads": self.figures,
            "verify_ms_by_width": report.verify_ms_by_width(self.run),
            "draft_ms_per_token": report.draft_ms_per_token(self.run),
            "calibration": report.calibration(self.run),
            "answers": report.raw_answers(self.run, plain),
        }


def bench(
    load: Load, options: BenchOptions, gguf: GgufOptions, *, draft: str, progress: Progress | None = None
) -> Benchmark:
    """Measure; models and peers are loaded here, and freed.

    Parameters
    ----------
    load : Load
    options : BenchOptions
    gguf : GgufOptions
        What `load` uses; peers get threads and GPU layers from it.
    draft : str
        "none", "ngram", or the name of the draft model that `load` loads.
    progress : Progress or None

    Raises
    ------
    InputError
        If a contender cannot be what it was asked to be, or no prompt fits the context.
    """
    specs = parse_specs(options.vs)
    notes: list[str] = []
    load_before = _load_average()
    with ExitStack() as closing:
        models: dict[str, LoadedModels] = {}
        for provider in dict.fromkeys(spec.provider for spec in specs if not spec.is_peer):
            models[provider] = load(provider)
            closing.callback(models[provider].close)
        contenders = [
            own_contender(spec, models[spec.provider], drafts_ngrams=draft == "ngram", exact=gguf.exact)
            for spec in specs
            if not spec.is_peer
        ]
        units = units_for(options, models[""].target, contenders[0], notes)
        setup = _setup(models[""], units, options, gguf)
        peers = _peers([spec for spec in specs if spec.is_peer], setup, closing, notes)
        contenders += peers
        done = run(units, contenders, options.params, repeats=options.repeats, progress=progress)
        facts = _facts(models, {peer.name: said for peer, said in peers.items()}) | {
            "load_average": [load_before, _load_average()]
        }
    plains = [spec.name for spec in specs if spec.is_plain]
    return Benchmark(
        run=done, figures=report.summarise(done, plains), notes=(*notes, *done.notes), facts=facts
    )


def units_for(options: BenchOptions, target: Model, plain: Contender, notes: list[str]) -> list[Unit]:
    """The prompts that fit the target's context; what does not is noted.

    Raises
    ------
    InputError
        If none fits.
    """
    answerer = plain.fresh()  # one for all: it reads what the calls of a loop share only once
    fitting = []
    for name in options.workload_names:
        workload = _shortened(read_workload(cast("WorkloadName", name)), options.n_calls)
        units = make_units(
            workload,
            target.vocab,
            lambda prompt, longest: answerer.answer(prompt, replace(options.params, max_tokens=longest)).ids,
            max_tokens=options.max_tokens,
            limit=options.n_prompts,
        )
        for unit in units:
            needed = len(unit.calls[-1]) + unit.max_tokens
            if needed <= target.info.n_ctx:
                fitting.append(unit)
            else:
                notes.append(
                    f"{unit.workload} {unit.name!r} was left out: it needs {needed} positions, the "
                    f"context has {target.info.n_ctx}; use a larger --ctx"
                )
    if not fitting:
        raise InputError(f"no prompt fits a context of {target.info.n_ctx}; use a larger --ctx")
    return fitting


def _shortened(workload: Workload, n_calls: int | None) -> Workload:
    cut = [replace(each, turns=each.turns[:n_calls]) for each in workload.conversations]
    return replace(workload, conversations=tuple(cut))


def _setup(
    models: LoadedModels, units: Sequence[Unit], options: BenchOptions, gguf: GgufOptions
) -> PeerSetup:
    longest = max(len(unit.calls[-1]) + unit.max_tokens for unit in units)
    return PeerSetup(
        target=models.target.info.path,
        draft=None if models.draft is None else models.draft.info.path,
        n_ctx=-(-longest // _BLOCK) * _BLOCK + _BLOCK,
        n_threads=gguf.n_threads or usable_cores(),
        n_gpu_layers=gguf.n_gpu_layers,
        ends=_ends(models.target),
        program=options.llama_server or shutil.which("llama-server") or "",
    )


def _peers(
    specs: Sequence[Spec], setup: PeerSetup, closing: ExitStack, notes: list[str]
) -> dict[Contender, str]:
    """The peers that could be started, with their versions; of the others a note."""
    started = {}
    for spec in specs:
        try:
            settings = setup.settings(spec)
            peer = open_peer(settings)
        except ProviderError as error:
            notes.append(f"{spec.name} was left out: {error}")
            continue
        closing.callback(peer.close)
        started[peer_contender(replace(spec, mode=settings.mode).name, peer)] = peer.version
    return started


def _ends(target: Model) -> tuple[int, ...]:
    return tuple(token for token in range(target.vocab.size) if target.vocab.is_end(token))


def _facts(models: Mapping[str, LoadedModels], peers: Mapping[str, str]) -> dict[str, object]:
    libraries = {name: found for name in _LIBRARIES if (found := _version(name)) is not None}
    return {
        "libraries": libraries,
        "peers": dict(peers),
        "models": {
            provider or "run": {
                "target": _model_facts(each.target.info),
                "draft": None if each.draft is None else _model_facts(each.draft.info),
            }
            for provider, each in models.items()
        },
    }


def _model_facts(info: ModelInfo) -> dict[str, object]:
    path = info.path
    return {**asdict(info), "path": None if path is None else path.name, "file_bytes": _size(path)}


def _size(path: Path | None) -> int | None:
    return None if path is None else path.stat().st_size


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _load_average() -> list[float]:
    return [round(each, 2) for each in os.getloadavg()] if hasattr(os, "getloadavg") else []
