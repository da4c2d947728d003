"""`leadout tune`: how these files run fastest on this machine, found by running them.

Tried are libraries, thread counts and cache formats. What is chosen leaves what the target computes alone
(`models/tuned.py`): a smaller cache format of the target is measured and told, never taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, field, replace
from typing import TypeVar

from leadout.advise.trials import Clock, answer_of, try_draft, try_pair, try_target
from leadout.advise.ways import DraftTrial, PairTrial, TargetTrial, Way, fastest_target, ranked_drafts
from leadout.core.slowdown import not_kept
from leadout.drafters.base import Drafter
from leadout.drafters.model import ModelDrafter
from leadout.engine.startup import Startup
from leadout.errors import LeadoutError, ProviderError
from leadout.models.base import Model
from leadout.models.options import KvType
from leadout.models.tuned import Library, Tuned, TunedModel

CONTEXTS = (64, 1024)
WIDTHS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16)
KV_TYPES: tuple[KvType, ...] = ("q8_0", "q4_0")
"""Cache formats that are tried beside f16."""

_N_ANSWER = 96  # tokens of the target's answer that drafts are compared with
_CLEARLY = 1.02  # how much faster another target's pair must be to give up the target that is faster alone

T = TypeVar("T")

Opener = Callable[[Way], Model]
"""Loads a model one way; raises LeadoutError where it cannot be run so."""

Connect = Callable[[Model, Model], Drafter]
"""Makes a drafter of a draft model for a target."""

Show = Callable[[str, int, int], None]
"""Told of progress: what, how many steps are done, of how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneReport:
    """What was tried, what was chosen, and why.

    Parameters
    ----------
    targets, caches : tuple of TargetTrial
        The target in several ways, and with other cache formats.
    drafts : tuple of DraftTrial
        Best first.
    pairs : tuple of PairTrial
        Fastest first.
    choice : Tuned
    failures : tuple of str
        Ways that could not be run, and why.
    """

    targets: tuple[TargetTrial, ...]
    caches: tuple[TargetTrial, ...]
    drafts: tuple[DraftTrial, ...]
    pairs: tuple[PairTrial, ...]
    choice: Tuned
    failures: tuple[str, ...]

    @property
    def warning(self) -> str:
        """Why none of it should be believed, or ""."""
        return not_kept(max(each.slowdown for each in (*self.targets, *self.caches)), "tune")

    def startup(self) -> Startup:
        """What a schedule may begin with for the chosen way."""
        target = next(each for each in self.targets if _is_way(each.way, self.choice.target))
        if self.choice.draft is None:
            return Startup(costs=target.costs_anywhere, agreements=(), seconds=target.seconds)
        draft = next(each for each in self.drafts if _is_way(each.way, self.choice.draft))
        return Startup(
            costs=draft.costs_with(target.costs_anywhere),
            agreements=draft.agreements,
            seconds=target.seconds + draft.seconds,
        )

    def to_json(self) -> dict[str, object]:
        """Plain values."""
        return {
            "choice": asdict(self.choice),
            "targets": [each.to_json() for each in self.targets],
            "caches": [each.to_json() for each in self.caches],
            "drafts": [each.to_json() for each in self.drafts],
            "pairs": [each.to_json() for each in self.pairs],
            "failures": list(self.failures),
            "warning": self.warning,
        }


def tune(
    open_target: Opener,
    ways: Sequence[Way],
    open_draft: Opener | None = None,
    *,
    connect: Connect = lambda draft, target: ModelDrafter(draft),  # noqa: ARG005
    clock: Clock,
    show: Show,
    contexts: Sequence[int] = CONTEXTS,
) -> TuneReport:
    """Find the fastest way; models are loaded, measured and freed in turn.

    Parameters
    ----------
    open_target, open_draft : callable
        Load the models; no draft model where `open_draft` is None.
    ways : sequence of Way, length >= 1
        Libraries and threads to try, the preferred one first.
    connect : callable
        Makes a drafter of the draft model; as it is, for targets with its vocabulary.
    clock : callable
        Seconds that only grow.
    show : callable
    contexts : sequence of int >= 1
        Tokens in the cache before timed passes.

    Raises
    ------
    ProviderError
        If the target, or the draft model, could not be run in any way.
    """
    trials = _Trials(clock, show)
    targets = trials.of_target("the target", open_target, ways, contexts, WIDTHS)
    trials.require(targets)
    best = fastest_target(targets)
    others = _other_caches(best.way)
    caches = trials.of_target("the target's caches", open_target, others, contexts[-1:], (1, 4))
    drafts: list[DraftTrial] = []
    pairs: list[PairTrial] = []
    if open_draft is not None:
        drafts = trials.of_draft(open_target, open_draft, connect, ways, best)
        pairs = trials.of_pairs(open_target, open_draft, targets, drafts)
    return TuneReport(
        targets=tuple(targets),
        caches=tuple(caches),
        drafts=tuple(drafts),
        pairs=tuple(pairs),
        choice=choose(targets, pairs),
        failures=tuple(trials.failures),
    )


def ways_to_try(providers: Sequence[Library], cores: int) -> list[Way]:
    """All cores, all but one, and half of them, with each library; the usual way first."""
    threads = dict.fromkeys((cores, max(1, cores - 1), max(1, cores // 2)))
    return [Way(provider=name, n_threads=each) for each in threads for name in providers]


def choose(targets: Sequence[TargetTrial], pairs: Sequence[PairTrial]) -> Tuned:
    """The fastest target, with the draft that is fastest beside it.

    Another library's pair is taken where it is clearly faster than that and than plain decoding.
    """
    best = fastest_target(targets)
    reason = f"{best.way}: {best.tokens_per_s:.1f} tokens/s plainly"
    others = [each for each in targets if each.way.provider != best.way.provider]
    if others:
        other = fastest_target(others)
        reason += f", {other.way}: {other.tokens_per_s:.1f}"
    if not pairs:
        return Tuned(target=_tuned(best.way), reason=reason)
    fastest = max(pairs, key=lambda pair: pair.tokens_per_s)
    own = [pair for pair in pairs if pair.target == best.way]
    pair = max(own, key=lambda pair: pair.tokens_per_s) if own else fastest
    if fastest.tokens_per_s > _CLEARLY * max(pair.tokens_per_s, best.tokens_per_s):
        pair = fastest
    gain = pair.tokens_per_s / best.tokens_per_s
    reason += f"; draft with {pair.draft}: {gain:.2f}x at k = {pair.k}"
    if gain < 1:
        reason += ", slower than without it"
    return Tuned(target=_tuned(pair.target), draft=_tuned(pair.draft), reason=reason)


@dataclass(slots=True)
class _Trials:
    """Loads, tries and frees."""

    clock: Clock
    show: Show
    failures: list[str] = field(default_factory=list)

    def of_target(
        self, part: str, opener: Opener, ways: Sequence[Way], contexts: Sequence[int], widths: Sequence[int]
    ) -> list[TargetTrial]:
        return self._each(
            part, opener, ways, lambda model, way: try_target(model, way, contexts, widths, self.clock)
        )

    def of_draft(
        self,
        open_target: Opener,
        open_draft: Opener,
        connect: Connect,
        ways: Sequence[Way],
        of_target: TargetTrial,
    ) -> list[DraftTrial]:
        """All ways with plain caches, and the best of them with other cache formats; best first."""
        self.show("the target's answer", 0, 1)
        with closing(open_target(of_target.way)) as target:
            answer = answer_of(target, _N_ANSWER)
            self.show("the target's answer", 1, 1)

            def attempt(model: Model, way: Way) -> DraftTrial:
                return try_draft(model, way, answer, connect(model, target), self.clock)

            found = self._each("the draft", open_draft, ways, attempt)
            self.require(found)
            best = ranked_drafts(found, of_target.short)[0]
            found += self._each("the draft's caches", open_draft, _other_caches(best.way), attempt)
        return ranked_drafts(found, of_target.short)

    def of_pairs(
        self,
        open_target: Opener,
        open_draft: Opener,
        targets: Sequence[TargetTrial],
        drafts: Sequence[DraftTrial],
    ) -> list[PairTrial]:
        """The best of each library in all pairings; fastest first."""
        pairings = [
            (fastest_target([each for each in targets if each.way.provider == one]), draft)
            for one in dict.fromkeys(each.way.provider for each in targets)
            for draft in _first_of_each(drafts)
        ]
        found = []
        for done, (target, draft) in enumerate(pairings):
            self.show("pairs", done, len(pairings))
            with ExitStack() as stack:
                models = []
                for opener, way in ((open_target, target.way), (open_draft, draft.way)):
                    models.append(opener(way))
                    stack.callback(models[-1].close)
                found.append(try_pair(models[0], models[1], target, draft, self.clock))
        self.show("pairs", len(pairings), len(pairings))
        return sorted(found, key=lambda pair: -pair.tokens_per_s)

    def _each(
        self, part: str, opener: Opener, ways: Sequence[Way], attempt: Callable[[Model, Way], T]
    ) -> list[T]:
        """What came of each way that could be run."""
        found = []
        for done, way in enumerate(ways):
            self.show(part, done, len(ways))
            try:
                with closing(opener(way)) as model:
                    found.append(attempt(model, way))
            except LeadoutError as error:
                self.failures.append(f"{part} with {way}: {error}")
        self.show(part, len(ways), len(ways))
        return found

    def require(self, found: Sequence[object]) -> None:
        """Raise ProviderError where no way could be run."""
        if not found:
            raise ProviderError("nothing here can run it: " + "; ".join(self.failures))


def _other_caches(way: Way) -> list[Way]:
    return [replace(way, kv_type=kv_type) for kv_type in KV_TYPES]


def _first_of_each(drafts: Sequence[DraftTrial]) -> list[DraftTrial]:
    """The best of each library, of trials that are ranked."""
    best: dict[Library, DraftTrial] = {}
    for each in drafts:
        best.setdefault(each.way.provider, each)
    return list(best.values())


def _tuned(way: Way) -> TunedModel:
    return TunedModel(provider=way.provider, n_threads=way.n_threads, kv_type=way.kv_type)


def _is_way(way: Way, model: TunedModel) -> bool:
    return _tuned(way) == model
