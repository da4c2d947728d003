"""What a paced schedule keeps between requests: costs, acceptance, how sure drafts are, what learning cost.

Numbers only: nothing of any text is held. Saved as one JSON file per pair of models and machine.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from leadout.checks import is_finite
from leadout.core.estimate import AcceptanceModel
from leadout.engine.profile import Profile
from leadout.engine.startup import Startup
from leadout.engine.widths import is_seconds
from leadout.errors import InputError
from leadout.models.remember import Findings

VERSION = 5
USUAL_LENGTH = 192.0

_N_REMEMBERED = 32
_LENGTH_LEARNING = 0.2
_OF_LATE_S = 60.0  # more would let many answers in a row lose something
_AS_IF_AT = 50  # the position that agreements of a sample are taken to be at
_SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)
_FIRST = (0.35, 0.6, 0.85, 0.95, 0.99)  # until a drafter has shown how sure it is


@dataclass(slots=True)
class Confidences:
    """How sure a drafter was of late: of first tokens, and of those after them."""

    first: deque[float] = field(default_factory=lambda: deque(_FIRST, maxlen=_N_REMEMBERED))
    later: deque[float] = field(default_factory=lambda: deque(_FIRST, maxlen=_N_REMEMBERED))

    def saw(self, offset: int, confidence: float) -> None:
        """One more row at this offset of a proposal."""
        (self.later if offset else self.first).append(confidence)

    def typical(self, offset: int) -> list[float]:
        """Confidences that stand for an equal share of rows each."""
        ordered = sorted(self.later if offset else self.first)
        return [ordered[int(share * len(ordered))] for share in _SHARES]


@dataclass(slots=True)
class Exploration:
    """Seconds of late: of all rounds, and of them what was lost on purpose, to learn."""

    spent_s: float = 0.0
    lost_s: float = 0.0

    def add(self, spent_s: float, lost_s: float = 0.0) -> None:
        """One more round; `lost_s` is negative where it gained."""
        self.spent_s += spent_s
        self.lost_s = max(0.0, self.lost_s + lost_s)
        if self.spent_s > _OF_LATE_S:
            self.lost_s *= _OF_LATE_S / self.spent_s
            self.spent_s = _OF_LATE_S

    @property
    def share(self) -> float:
        """What was lost, of all."""
        return self.lost_s / self.spent_s if self.spent_s else 0.0

    def to_json(self) -> dict[str, float]:
        """Plain values; `from_json` reads them."""
        return {"spent_s": self.spent_s, "lost_s": self.lost_s}

    @classmethod
    def from_json(cls, values: Mapping[str, object]) -> Exploration:
        """What `to_json` wrote.

        Raises
        ------
        InputError
            If these are not seconds.
        """
        found = [values.get(name) for name in ("spent_s", "lost_s")]
        if not all(map(is_seconds, found)):
            raise InputError(f"exploration needs seconds for spent_s and lost_s, got {values!r}")
        spent_s, lost_s = (float(value) for value in found)  # type: ignore[arg-type]
        return cls(spent_s, lost_s)


@dataclass(slots=True)
class Memory:
    """The learned state of a schedule.

    Parameters
    ----------
    profile : Profile
    acceptance : dict of drafter to AcceptanceModel
    confidences : dict of drafter to Confidences
    usual_length : float
        Tokens of an answer, on average of late.
    exploration : Exploration
    """

    profile: Profile = field(default_factory=Profile)
    acceptance: dict[str, AcceptanceModel] = field(default_factory=dict)
    confidences: dict[str, Confidences] = field(default_factory=dict)
    usual_length: float = USUAL_LENGTH
    exploration: Exploration = field(default_factory=Exploration)

    @classmethod
    def of_startup(cls, startup: Startup, drafter: str) -> Memory:
        """What a first measurement teaches of a pair of models."""
        model, seen = AcceptanceModel(), Confidences()
        for each in startup.agreements:
            model = model.learn(each.confidence, 0, _AS_IF_AT, each.stood)
            for offset in (0, 1):
                seen.saw(offset, each.confidence)
        memory = cls(profile=Profile(startup.costs))
        if startup.agreements:
            memory.acceptance[drafter], memory.confidences[drafter] = model, seen
        return memory

    def acceptance_of(self, drafter: str) -> AcceptanceModel:
        """What lasts of this drafter; where nothing is known, it is taken at its word."""
        return self.acceptance.get(drafter) or AcceptanceModel()

    def confidences_of(self, drafter: str) -> Confidences:
        """How sure this drafter was of late."""
        return self.confidences.setdefault(drafter, Confidences())

    def answered(self, n_tokens: int) -> None:
        """An answer came to this many tokens."""
        self.usual_length += _LENGTH_LEARNING * (n_tokens - self.usual_length)

    def to_json(self) -> dict[str, object]:
        """Plain values; `from_json` reads them."""
        return {
            "version": VERSION,
            "profile": self.profile.to_json(),
            "acceptance": {name: model.to_json() for name, model in self.acceptance.items()},
            "confidences": {
                name: {"first": list(each.first), "later": list(each.later)}
                for name, each in self.confidences.items()
            },
            "usual_length": self.usual_length,
            "exploration": self.exploration.to_json(),
        }

    @classmethod
    def from_json(cls, values: object) -> Memory:
        """The memory that `to_json` wrote.

        Raises
        ------
        InputError
            If it was written by another version, or is not such.
        """
        found = _mapping("a memory", values)
        if found.get("version") != VERSION:
            raise InputError(f"a memory of version {found.get('version')!r} cannot be read, only {VERSION}")
        length = found.get("usual_length")
        if not is_finite(length) or length < 0:
            raise InputError(f"a memory needs a usual_length >= 0, got {length!r}")
        return cls(
            profile=Profile.from_json(_mapping("profile", found.get("profile"))),
            acceptance={
                name: AcceptanceModel.from_json(_mapping(name, each))
                for name, each in _mapping("acceptance", found.get("acceptance")).items()
            },
            confidences={
                name: Confidences(
                    first=_recent(_mapping(name, each).get("first")),
                    later=_recent(_mapping(name, each).get("later")),
                )
                for name, each in _mapping("confidences", found.get("confidences")).items()
            },
            usual_length=float(length),
            exploration=Exploration.from_json(_mapping("exploration", found.get("exploration"))),
        )


def recall(findings: Findings, key: str) -> Memory | None:
    """What was kept under `key`; None when there is nothing that this version can read."""
    try:
        return Memory.from_json(findings.read(key))
    except InputError:
        return None


def keep(findings: Findings, key: str, memory: Memory) -> None:
    """Write it down, for the next process."""
    findings.write(key, memory.to_json())


def _mapping(name: str, values: object) -> Mapping[str, object]:
    if not isinstance(values, dict):
        raise InputError(f"{name} must be a mapping, got {values!r}")
    return values


def _recent(values: object) -> deque[float]:
    given: Sequence[object] = values if isinstance(values, list) else ()
    numbers = [float(each) for each in given if isinstance(each, int | float) and 0 <= each <= 1]
    if not numbers or len(numbers) != len(given):
        raise InputError(f"confidences must be numbers in 0..1, got {values!r}")
    return deque(numbers, maxlen=_N_REMEMBERED)
