"""One draft for one target: what can be said before loading, what measuring adds, and one sentence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

from leadout.advise.inspect import FileFacts, facts_of
from leadout.advise.plan import MemoryPlan, ModelMemory, plan_memory
from leadout.advise.predict import Prediction, predict
from leadout.advise.record import Show, TargetRecord, record_draft, record_target
from leadout.advise.samples import Sample, read_samples
from leadout.advise.verdict import Verdict, decide, decide_lookups
from leadout.advise.vocabulary import VocabularyVerdict, compare
from leadout.core.slowdown import DISTURBED, not_kept
from leadout.drafters.base import Drafter
from leadout.models.base import Chunk, Model
from leadout.models.header import Header
from leadout.models.open import Provider
from leadout.models.options import GgufOptions
from leadout.models.remember import Findings

SECONDS = 60.0
"""What a check may take, about, where nothing of the target is known yet."""

_SHARE_OF_ANSWERS = 0.4  # of that time; prompts, widths and the draft take the rest
_SHARE_OF_TARGET = 0.75
_SHORTEST, _LONGEST = 24, 128  # tokens of an answer
_N_TIMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What headers and free memory tell of a pair.

    Parameters
    ----------
    target, draft : FileFacts
    vocabulary : VocabularyVerdict
    memory : MemoryPlan
    obstacle : str
        Why the draft cannot be used at all, or "".
    notes : tuple of str
        What else a user should know: sizes, contexts, placement, going back.
    """

    target: FileFacts
    draft: FileFacts
    vocabulary: VocabularyVerdict
    memory: MemoryPlan
    obstacle: str
    notes: tuple[str, ...]

    @property
    def size_ratio(self) -> float:
        """The draft's weights as a share of the target's."""
        return self.draft.n_params / max(1, self.target.n_params)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """A preview, a prediction from measured costs where the pair could be loaded, and what to do."""

    preview: Preview
    prediction: Prediction | None
    verdict: Verdict

    @property
    def warning(self) -> str:
        """Why none of it should be believed, or ""."""
        return "" if self.prediction is None else not_kept(self.prediction.slowdown, "check")

    def to_json(self) -> dict[str, object]:
        """Plain values."""
        preview = self.preview
        return {
            "advice": self.verdict.advice,
            "sentence": self.verdict.sentence,
            "target": preview.target.to_json(),
            "draft": preview.draft.to_json(),
            "vocabulary": asdict(preview.vocabulary),
            "size_ratio": preview.size_ratio,
            "memory": preview.memory.to_json(),
            "notes": list(preview.notes),
            "warning": self.warning,
            "prediction": None if self.prediction is None else self.prediction.to_json(),
        }


def preview(
    target: Header,
    draft: Header,
    options: GgufOptions,
    draft_options: GgufOptions | None = None,
    *,
    free_bytes: int,
    provider: Provider = "auto",
) -> Preview:
    """Everything that can be said before anything is loaded.

    Parameters
    ----------
    options, draft_options : GgufOptions
        How they are to be loaded; see `plan_memory`.
    free_bytes : int
        Main memory that may be taken.
    """
    ours, theirs = facts_of(target), facts_of(draft)
    vocabulary = compare(target, draft)
    memory = plan_memory(target, draft, options, draft_options, free_bytes=free_bytes, provider=provider)
    obstacle = ""
    if theirs.problem:
        obstacle = f"the draft is {theirs.problem}"
    elif ours.problem:
        obstacle = f"the target is {ours.problem}"
    elif _is_same_file(target.path, draft.path):
        obstacle = "target and draft are the same file, so drafting costs as much as it saves"
    elif memory.fit == "too large":
        obstacle = memory.explain()
    return Preview(
        target=ours,
        draft=theirs,
        vocabulary=vocabulary,
        memory=memory,
        obstacle=obstacle,
        notes=tuple(_notes(ours, theirs, memory)),
    )


def _notes(target: FileFacts, draft: FileFacts, memory: MemoryPlan) -> Sequence[str]:
    """Sizes, contexts, placement and going back, a line each."""
    ratio = target.n_params / max(1, draft.n_params)
    notes = [
        f"size: {_millions(draft.n_params)} of {_millions(target.n_params)} weights, 1/{ratio:.1f} "
        "(1/4 to 1/10 is usual; what passes cost here decides)"
    ]
    own = memory.draft
    if own is not None:
        notes.append(f"contexts: {memory.target.n_ctx:,} positions in the target, {own.n_ctx:,} in the draft")
        if own.n_ctx < memory.target.n_ctx:
            notes.append(f"beyond {own.n_ctx:,} positions the draft stops and lookups go on")
        notes.append(f"placement: {_placed('target', memory.target)}, {_placed('draft', own)}")
    for who, facts in (("target", target), ("draft", draft)):
        if facts.is_recurrent:
            notes.append(f"rollback: the {who}'s state cannot be cut; what is rejected costs reading again")
    if not (target.is_recurrent or draft.is_recurrent):
        notes.append("rollback: both caches can be cut")
    return notes


def report(seen: Preview, prediction: Prediction | None, obstacle: str = "") -> CheckReport:
    """The report of a pair; without a prediction it cannot be used."""
    why = seen.obstacle or obstacle
    if prediction is None or why:
        return CheckReport(
            preview=seen,
            prediction=None,
            verdict=Verdict(advice="cannot", sentence=f"Cannot be used: {why}."),
        )
    return CheckReport(preview=seen, prediction=prediction, verdict=verdict_of(prediction))


def verdict_of(prediction: Prediction) -> Verdict:
    """What to do by a prediction from measured costs."""
    if prediction.agreement is None:
        return decide_lookups(prediction.lookups.speedup)
    found = prediction.speedup
    return decide(
        found.speedup,
        prediction.lookups.speedup,
        interval=f" ({found.low:.2f}-{found.high:.2f})",
        cost_ratio=prediction.draft_s / prediction.target_s if prediction.target_s else None,
        agreement=prediction.agreement,
    )


def measure(
    target: Model,
    drafter: Drafter | None,
    *,
    key: str,
    findings: Findings | None = None,
    seconds: float = SECONDS,
    widths: frozenset[int] | None = None,
    clock: Callable[[], float] = perf_counter,
    show: Show = lambda what, done, total: None,  # noqa: ARG005
) -> Prediction:
    """Predict a pair's speedup from short samples: the target answers, the drafter is led along.

    Parameters
    ----------
    target : Model
        Slot 0 must be free.
    drafter : Drafter or None
        A draft model's, without lookups; None predicts for lookups alone.
    key : str
        Names everything that the target's record depends on.
    findings : Findings or None
        Where the target's record is remembered, if the machine was not busy; None measures it.
    seconds : float
        About how long it may take.
    widths : frozenset of int or None
        The only widths a verify pass may have (exact mode).

    Raises
    ------
    InputError
        If the target answers none of the samples.
    """
    samples = read_samples(target.vocab)
    known = None if findings is None else findings.read(key)
    record = TargetRecord.from_json(known, samples, target.info.n_vocab)
    if record is None:
        n_tokens = _length(target, samples, seconds, clock)
        record = record_target(
            target, samples, n_tokens, clock=clock, show=show, seconds=seconds * _SHARE_OF_TARGET
        )
        if findings is not None and record.answers and record.slowdown < DISTURBED:
            findings.write(key, record.to_json())
    if drafter is None:
        return predict(record, None, widths=widths)
    draft = record_draft(drafter, record, clock=clock, show=show)
    return predict(record, draft, draft_name=drafter.name, widths=widths)


def _length(target: Model, samples: Sequence[Sample], seconds: float, clock: Callable[[], float]) -> int:
    """Tokens of an answer that the time allows, from a few single passes."""
    prompt = min((each.prompt for each in samples), key=len)[-32:]
    single = []
    for token in prompt[:_N_TIMED]:
        started = clock()
        target.forward([Chunk(slot=0, tokens=[token], n_logits=1)])
        single.append(clock() - started)
    target.truncate(0, 0)
    room = seconds * _SHARE_OF_ANSWERS / len(samples) / max(min(single), 1e-9)
    return int(max(_SHORTEST, min(_LONGEST, room)))


def _placed(who: str, memory: ModelMemory) -> str:
    where = {1.0: "on the CPU", 0.0: "on the GPU"}.get(
        memory.cpu_share, f"{1 - memory.cpu_share:.0%} on the GPU"
    )
    return f"{who} {where} through {memory.library}"


def _millions(n: int) -> str:
    return f"{n / 1e9:.2f}B" if n >= 1e9 else f"{n / 1e6:.1f}M"


def _is_same_file(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return one == other
