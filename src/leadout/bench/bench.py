"""The whole benchmark: from options to a run and its figures. Knows nothing of tables and pictures."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import cast

from leadout.bench import report
from leadout.bench.contenders import Contender, own_contender
from leadout.bench.costs import MeasuredCosts
from leadout.bench.facts import facts_of_unit
from leadout.bench.heldout import HeldOut, judge_held_out
from leadout.bench.hindsight import AnswerFacts
from leadout.bench.nearness import LookBack, look_back_at
from leadout.bench.options import BenchOptions
from leadout.bench.peers import Peer, PeerSetup, open_peer, peer_contender
from leadout.bench.progress import Progress
from leadout.bench.remembering import Remembering, measure_memory
from leadout.bench.report import Figures
from leadout.bench.runner import Run, run
from leadout.bench.specs import PLAIN, Spec, parse_specs
from leadout.bench.workloads import (
    Unit,
    Workload,
    WorkloadName,
    make_units,
    read_workload,
    tuning_prompts,
)
from leadout.errors import InputError, PromptTooLongError, ProviderError
from leadout.loading import LoadedModels, is_one_vocabulary
from leadout.models.base import Model, ModelInfo
from leadout.models.cpu import usable_cores
from leadout.models.options import GgufOptions

Load = Callable[[str], LoadedModels]
"""Loads target and draft through a provider; "" is the run's own choice."""

_LIBRARIES = ("ik-llama-cpp-python", "llama-cpp-python", "numpy")
_BLOCK = 256
_BRIDGED = "the draft model has another vocabulary, so in hindsight only lookups are looked at"


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """What was measured.

    Parameters
    ----------
    run : Run
        Every answer.
    figures : dict
        By workload and contender.
    looks_back : dict
        By workload: what the best choices would have reached, by the run's own costs; empty where it is not
        known.
    costs : dict of str to MeasuredCosts
        By provider; "" is the run's own.
    held_out : HeldOut or None
        How well acceptance is predicted for workloads that nothing was learned from.
    facts : dict
        Of answers, by workload.
    remembering : Remembering or None
        What it takes to remember earlier answers; where a loop was measured.
    notes : tuple of str
        Who did not take part and why, and what else a reader must know.
    provenance : dict
        Of models, contenders and libraries, for the record.
    """

    run: Run
    figures: dict[str, dict[str, Figures]]
    looks_back: dict[str, LookBack] = field(default_factory=dict)
    costs: dict[str, MeasuredCosts] = field(default_factory=dict)
    held_out: HeldOut | None = None
    facts: dict[str, list[AnswerFacts]] = field(default_factory=dict)
    remembering: Remembering | None = None
    notes: tuple[str, ...] = ()
    provenance: dict[str, object] = field(default_factory=dict)

    def to_json(self, plain: str) -> dict[str, object]:
        """Everything, as the record keeps it."""
        return {
            "complete": self.run.is_complete,
            **self.provenance,
            "notes": list(self.notes),
            "workloads": self.figures,
            "hindsight": self.looks_back,
            "costs": {provider or "run": each.to_json() for provider, each in self.costs.items()},
            "verify_ms_by_width": report.verify_ms_by_width(self.run),
            "draft_ms_per_token": report.draft_ms_per_token(self.run),
            "calibration": report.calibration(self.run),
            "held_out": None if self.held_out is None else self.held_out.to_json(),
            "remembering": None if self.remembering is None else self.remembering.to_json(),
            "facts": {name: [each.to_json() for each in of] for name, of in self.facts.items()},
            "answers": report.raw_answers(self.run, plain),
        }


Keep = Callable[[Benchmark], None]
"""Given what there is so far, unit by unit."""


def bench(
    load: Load,
    options: BenchOptions,
    gguf: GgufOptions,
    *,
    draft: str,
    progress: Progress | None = None,
    keep: Keep | None = None,
    tell: Callable[[str], None] = lambda text: None,  # noqa: ARG005
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
    keep : Keep or None
    tell : callable
        Told at once of contenders that are left out; the notes say so at the end.

    Returns
    -------
    Benchmark
        After Ctrl-C what there is, with ``run.is_complete`` false.

    Raises
    ------
    InputError
        If a contender cannot be what it was asked to be, or no prompt fits the context.
    """
    specs = parse_specs(options.vs)
    plains = [spec.name for spec in specs if spec.is_plain]
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
        others = [spec for spec in specs if spec.is_peer]
        setup = _setup(models[""], units, options, gguf)

        def left_out(text: str) -> None:
            notes.append(text)
            tell(text)

        peers = _peers(others, setup, closing, left_out, progress)
        provenance = _provenance(models, peers) | {"load_average": [load_before]}
        costs = _measure({}, models)

        def so_far(done: Run) -> Benchmark:
            found = report.summarise(done, plains)
            said = (*notes, *done.notes)
            return Benchmark(run=done, figures=found, costs=costs, notes=said, provenance=provenance)

        done = run(
            units,
            [*contenders, *peers],
            options.params,
            repeats=options.repeats,
            progress=progress,
            keep=None if keep is None else lambda run_so_far: keep(so_far(run_so_far)),
        )
        provenance["load_average"] = [load_before, _load_average()]
        measured = so_far(done)
        if not done.is_complete or options.temperature > 0:
            return measured
        _measure(costs, models)
        own = models[""]
        if is_one_vocabulary(own):
            facts = _facts(units, done, own.draft)
        else:
            facts = _facts(units, done, None)
            measured = replace(measured, notes=(*measured.notes, _BRIDGED))
        looks_back = look_back_at(done, facts, costs[""].table(report.fixed_s(done, plains[0])), plains[0])
    return replace(
        measured,
        looks_back=looks_back,
        held_out=judge_held_out(facts),
        facts=facts,
        remembering=measure_memory() if any(len(unit.calls) > 1 for unit in units) else None,
    )


def _measure(costs: dict[str, MeasuredCosts], models: Mapping[str, LoadedModels]) -> dict[str, MeasuredCosts]:
    for provider, each in models.items():
        costs.setdefault(provider, MeasuredCosts()).measure(each.target, each.draft)
    return costs


def _facts(units: Sequence[Unit], done: Run, draft: Model | None) -> dict[str, list[AnswerFacts]]:
    """Of plain decoding's answers, which come first of their place."""
    said: dict[tuple[str, str, int], tuple[int, ...]] = {}
    for taken in done.answers:
        if taken.contender == PLAIN and taken.repeat == 0:
            said[taken.workload, taken.unit, taken.call] = taken.answer.ids
    facts: dict[str, list[AnswerFacts]] = {}
    for unit in units:
        answers = [said[unit.workload, unit.name, call] for call in range(len(unit.calls))]
        facts.setdefault(unit.workload, []).extend(facts_of_unit(unit, answers, draft))
    return facts


def units_for(options: BenchOptions, target: Model, plain: Contender, notes: list[str]) -> list[Unit]:
    """The prompts that fit the target's context; what does not is noted.

    Raises
    ------
    InputError
        If none fits.
    """
    answerer = plain.fresh("")  # one for all: it reads what the calls of a loop share only once
    fitting = []
    for name, limit in options.limits.items():
        workload = _shortened(read_workload(cast("WorkloadName", name)), options.n_calls)
        if limit not in (None, options.n_prompts) and limit > len(workload.conversations):
            notes.append(
                f"{name} has {len(workload.conversations)} prompts, fewer than the {limit} asked for"
            )
        try:
            units = make_units(
                workload,
                target.vocab,
                lambda prompt, longest: (
                    answerer.answer(prompt, replace(options.params, max_tokens=longest)).ids
                ),
                max_tokens=options.max_tokens,
                limit=limit,
            )
        except PromptTooLongError as error:  # a loop that grows beyond the context while it is made
            notes.append(f"{name} was left out: {error}")
            continue
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
        server=options.llama_server or shutil.which("llama-server") or "",
        python=options.peer_python,
        prompts=tuning_prompts(models.target.vocab),
    )


def _peers(
    specs: Sequence[Spec],
    setup: PeerSetup,
    closing: ExitStack,
    left_out: Callable[[str], None],
    progress: Progress | None,
) -> dict[Contender, Peer]:
    """The peers that could be started; of the others `left_out` is told."""
    started: dict[Contender, Peer] = {}
    named = {spec: replace(spec, mode=spec.mode_with(has_draft=setup.draft is not None)) for spec in specs}
    names = [each.name for each in named.values()]
    if twice := [name for name in names if names.count(name) > 1]:
        raise InputError(f"{twice[0]} stands twice, as it is what its engine does unless told")
    for spec, asked in named.items():
        try:
            peer = open_peer(setup.settings(asked), setup.prompts, progress)
        except ProviderError as error:
            left_out(f"{spec.name} was left out: {error}")
            continue
        closing.callback(peer.close)
        started[peer_contender(asked.name, peer)] = peer
    return started


def _ends(target: Model) -> tuple[int, ...]:
    return tuple(token for token in range(target.vocab.size) if target.vocab.is_end(token))


def _provenance(models: Mapping[str, LoadedModels], peers: Mapping[Contender, Peer]) -> dict[str, object]:
    libraries = {name: found for name in _LIBRARIES if (found := _version(name)) is not None}
    return {
        "libraries": libraries,
        "peers": {contender.name: peer.version for contender, peer in peers.items()},
        "peer_settings": {
            contender.name: peer.tuned.to_json()
            for contender, peer in peers.items()
            if peer.tuned is not None
        },
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
