"""Which of the files on this machine would draft best for a target, and why not the others."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from leadout.advise.bandwidth import bandwidth
from leadout.advise.candidates import Found
from leadout.advise.inspect import FileFacts, facts_of, inspect
from leadout.advise.known import Known, recall_prediction, recall_rounds
from leadout.advise.plan import MemoryPlan, plan_memory, shown
from leadout.advise.predict import Prediction
from leadout.advise.speed import BASES, Basis, SpeedPlan, best_speedup, estimated_costs, likely_acceptance
from leadout.advise.verdict import Verdict, decide, decide_lookups
from leadout.advise.vocabulary import VocabularyVerdict, compare
from leadout.core.cost import CostTable
from leadout.errors import LeadoutError
from leadout.models.header import Header, read_header
from leadout.models.open import Provider
from leadout.models.options import GgufOptions
from leadout.models.recalled import recalled
from leadout.models.remember import Findings

_SHORTEST_CONTEXT = 256  # positions; nothing is drafted beyond a draft model's own
_NEARLY = 0.75  # of what the target reads for a token; nothing is saved beyond

ITSELF = "the target itself"
"""Why the target is ruled out as its own draft."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Speedups over plain decoding: with a draft and lookups beside it, with lookups alone; and how known."""

    speedup: float = 0.0
    lookups: float = 0.0
    basis: Basis = "sizes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A file, and what is predicted of it as a draft.

    Parameters
    ----------
    name : str
        What ``--draft`` takes.
    facts : FileFacts
    reason : str
        Why it is ruled out; "" when it is not.
    estimate : Estimate
        Zeros when it is ruled out.
    vocabulary : str
        How its vocabulary relates to the target's, in words.
    """

    name: str
    facts: FileFacts
    reason: str = ""
    estimate: Estimate = Estimate()
    vocabulary: str = ""

    def to_json(self) -> dict[str, object]:
        """Plain values."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Picks:
    """All candidates, and what to do.

    Parameters
    ----------
    target : FileFacts
    fit : tuple of Candidate
        Best first.
    ruled_out : tuple of Candidate
    lookups : float
        Predicted for lookups alone.
    winner : Candidate or None
    verdict : Verdict
    notes : tuple of str
        What could not be read, or was not looked at.
    """

    target: FileFacts
    fit: tuple[Candidate, ...]
    ruled_out: tuple[Candidate, ...]
    lookups: float
    winner: Candidate | None
    verdict: Verdict
    notes: tuple[str, ...] = ()

    def command(self, target: str) -> str:
        """The command that uses the answer."""
        draft = "suffix" if self.verdict.advice == "lookups" else "none"
        name = draft if self.winner is None else self.winner.name
        if target.startswith("-"):  # after "--" it is no option
            return shlex.join(["leadout", "chat", "--draft", name, "--", target])
        return shlex.join(["leadout", "chat", target, "--draft", name])

    def to_json(self, target: str) -> dict[str, object]:
        """Plain values."""
        return {
            "advice": self.verdict.advice,
            "sentence": self.verdict.sentence,
            "winner": None if self.winner is None else self.winner.name,
            "command": self.command(target),
            "lookups": self.lookups,
            "candidates": [each.to_json() for each in self.fit],
            "ruled_out": [each.to_json() for each in self.ruled_out],
            "notes": list(self.notes),
        }


@dataclass(slots=True)
class Picker:
    """Judges files as drafts for one target; what headers said is remembered by path, size and time.

    Parameters
    ----------
    target : Header
    options : GgufOptions
        How the target is to be loaded; a draft gets its slots and its context.
    free_bytes : int
        Main memory that may be taken.
    provider : Provider
    folder : Path or None
        Where everything is remembered, instead of leadout's cache folder.
    """

    target: Header
    options: GgufOptions
    free_bytes: int
    provider: Provider = "auto"
    folder: Path | None = None
    facts: FileFacts = field(init=False)
    _refused: dict[str, str] = field(init=False, default_factory=dict)
    _bytes_per_s: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        self.facts = facts_of(self.target)

    def pick(
        self,
        found: Sequence[Found],
        notes: Sequence[str] = (),
        *,
        may_go_on: Callable[[], bool] = lambda: True,
    ) -> Picks:
        """Rank files.

        Parameters
        ----------
        found : sequence of Found
        notes : sequence of str
            What to tell besides.
        may_go_on : callable
            Asked before each file; where it says no, the rest is not looked at, which a note tells.
        """
        judged: list[Candidate] = []
        for at, each in enumerate(found):
            if not may_go_on():
                notes = [
                    *notes,
                    f"{len(found) - at} files were not looked at for lack of time; see `leadout pick`",
                ]
                break
            judged.append(self.judge(each))
        fit = sorted((each for each in judged if not each.reason), key=lambda each: -each.estimate.speedup)
        lookups = fit[0].estimate.lookups if fit else self.lookups()
        winner, verdict = _choose(fit, lookups)
        return Picks(
            target=self.facts,
            fit=tuple(fit),
            ruled_out=tuple(each for each in judged if each.reason),
            lookups=lookups,
            winner=winner,
            verdict=verdict,
            notes=tuple(notes),
        )

    def refuse(self, candidate: Candidate, why: str) -> None:
        """From now on this file is ruled out: it could not be run, say."""
        self._refused[candidate.facts.path] = why

    def judge(self, found: Found) -> Candidate:
        """One file: ruled out with a reason, or with a predicted speedup."""
        facts = inspect(found.path, self._findings("headers"))
        reason = facts.problem or self._refused.get(facts.path) or self._why_not(facts)
        if reason:
            return Candidate(name=found.name, facts=facts, reason=reason)
        try:
            header = read_header(found.path)
            vocabulary = self._compare(facts, header)
            memory = self._memory(header)
        except LeadoutError as error:  # it changed at this moment
            return Candidate(name=found.name, facts=facts, reason=str(error))
        if memory.fit != "fits":
            return Candidate(
                name=found.name,
                facts=facts,
                reason=f"beside the target it {memory.explain()}",
                vocabulary=vocabulary.text,
            )
        estimate = self._estimate(facts, vocabulary)
        return Candidate(name=found.name, facts=facts, vocabulary=vocabulary.text, estimate=estimate)

    def lookups(self) -> float:
        """Speedup predicted for lookups alone."""
        measured = self._known_prediction(None)
        if measured is not None:
            return measured.lookups.speedup
        return best_speedup(self._costs(None), None)[0]

    def plan_speed(self, draft: Header | None) -> SpeedPlan:
        """How fast the target will probably be: plainly, with lookups, and with a draft model beside them."""
        facts = None if draft is None else facts_of(draft)
        costs = self._costs(facts)
        if draft is None or facts is None:
            known = self._known_rounds(None)
            basis: Basis = "sizes" if known is None else "profile"
            return SpeedPlan(plain=1 / costs.plain_s(), lookups=self.lookups(), basis=basis)
        found = self._estimate(facts, self._compare(facts, draft))
        return SpeedPlan(
            plain=1 / costs.plain_s(), lookups=found.lookups, speedup=found.speedup, basis=found.basis
        )

    def _why_not(self, facts: FileFacts) -> str:
        """Why a model cannot draft for this target whatever its vocabulary; "" when it may."""
        if _is_same_file(Path(facts.path), self.target.path):
            return ITSELF
        ours, theirs = self.facts.reading.bytes_at(1), facts.reading.bytes_at(1)
        if theirs >= _NEARLY * ours or facts.n_params > self.facts.n_params:
            sizes = f"{shown(int(theirs))} read for a token, {shown(int(ours))} by the target"
            return f"as large as the target, or nearly, or larger ({sizes})"
        if 0 < facts.n_ctx_train < _SHORTEST_CONTEXT:
            return f"made for {facts.n_ctx_train} positions, which most prompts fill by themselves"
        return ""

    def _compare(self, facts: FileFacts, header: Header) -> VocabularyVerdict:
        """The two vocabularies, remembered under their digests."""
        findings, key = self._findings("vocabularies"), f"{self.facts.vocabulary}-{facts.vocabulary}"
        known = recalled(VocabularyVerdict, findings.read(key))
        if known is not None:
            return known
        verdict = compare(self.target, header)
        findings.write(key, asdict(verdict))
        return verdict

    def _memory(self, header: Header) -> MemoryPlan:
        return plan_memory(
            self.target, header, self.options, free_bytes=self.free_bytes, provider=self.provider
        )

    def _estimate(self, facts: FileFacts, vocabulary: VocabularyVerdict) -> Estimate:
        """The speedup on the best basis there is: a check, rounds of earlier answers, or sizes."""
        path = Path(facts.path)
        measured = self._known_prediction(path)
        if measured is not None:
            return Estimate(
                speedup=measured.speedup.speedup, lookups=measured.lookups.speedup, basis="measured"
            )
        known = self._known_rounds(path)
        basis: Basis = "profile"
        if known is not None and known.acceptance is not None and known.costs.draft_s > 0:
            costs, acceptance = known.costs, known.acceptance
        else:
            costs, basis = self._costs(facts), "sizes"
            acceptance = likely_acceptance(self.facts, facts, same_vocabulary=vocabulary.is_same)
        speedup, lookups = (best_speedup(costs, each)[0] for each in (acceptance, None))
        return Estimate(speedup=speedup, lookups=lookups, basis=basis)

    def _known_prediction(self, draft: Path | None) -> Prediction | None:
        findings = self._findings("checks")
        return recall_prediction(self.target.path, draft, self.options, self.provider, findings)

    def _known_rounds(self, draft: Path | None) -> Known | None:
        return recall_rounds(self.target.path, draft, self.options, self._findings("pairs"))

    def _costs(self, draft: FileFacts | None) -> CostTable:
        """Costs from sizes; the target's own as measured where there is a profile of it."""
        if not self._bytes_per_s:
            self._bytes_per_s = bandwidth(self._findings("machine"))
        reading = None if draft is None else draft.reading
        on_gpu = self.options.n_gpu_layers != 0
        guessed = estimated_costs(self.facts.reading, reading, self._bytes_per_s, on_gpu=on_gpu)
        known = self._known_rounds(None)
        if known is None:
            return guessed
        scale = known.costs.verify_s(1) / guessed.verify_s(1)
        return replace(known.costs, draft_s=guessed.draft_s * scale, read_s=guessed.read_s * scale)

    def _findings(self, kind: str) -> Findings:
        return Findings(kind, None if self.folder is None else self.folder / kind)


def _choose(fit: Sequence[Candidate], lookups: float) -> tuple[Candidate | None, Verdict]:
    if not fit:
        return None, decide_lookups(lookups)
    best = fit[0]
    verdict = decide(best.estimate.speedup, best.estimate.lookups)
    sentence = f"{best.name}: {verdict.sentence[:-1]} ({BASES[best.estimate.basis]})."
    return best if verdict.advice == "use" else None, replace(verdict, sentence=sentence)


def _is_same_file(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return one == other
