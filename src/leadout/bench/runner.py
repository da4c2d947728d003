"""The run: every contender answers every unit once per repeat, in turns, with fresh caches.

Which contender goes first changes from unit to unit, and who goes after whom does, so that neither a machine
that slows down nor what the one before left behind favours any.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from leadout.bench.answer import Answer
from leadout.bench.contenders import Contender
from leadout.bench.progress import Progress
from leadout.bench.workloads import Unit
from leadout.engine.params import Params
from leadout.errors import ProviderError

WARM_UP_TOKENS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """One answer of the run, and what it is an answer to."""

    workload: str
    unit: str
    call: int
    repeat: int
    contender: str
    prompt_tokens: int
    answer: Answer

    @property
    def place(self) -> tuple[str, str, int, int]:
        """What answers are paired by."""
        return (self.workload, self.unit, self.call, self.repeat)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """All answers, in the order they were given, and what went wrong on the way.

    `is_complete` is false while units are missing.
    """

    answers: tuple[Taken, ...]
    notes: tuple[str, ...] = ()
    is_complete: bool = True


def run(
    units: Sequence[Unit],
    contenders: Sequence[Contender],
    params: Params,
    *,
    repeats: int,
    progress: Progress | None = None,
    keep: Callable[[Run], None] | None = None,
) -> Run:
    """Let the contenders answer in turns.

    Parameters
    ----------
    units : sequence of Unit, length >= 1
    contenders : sequence of Contender
        The first is the one that others are compared with.
    params : Params
        How answers are drawn; `max_tokens` is each unit's own.
    repeats : int >= 1
        Times that everything is answered.
    progress : Progress or None
    keep : callable or None
        Given what there is after every unit.

    Returns
    -------
    Run
        An engine of somebody else's that failed is left out from there on, with a note. Ctrl-C ends the run;
        what it has is returned, less the unit that was cut off.
    """
    in_it, notes = list(contenders), []

    def drop(contender: Contender, error: ProviderError) -> None:
        in_it.remove(contender)
        notes.append(f"{contender.name} was left out: {error}")

    taken: list[Taken] = []
    turns = [(repeat, number) for repeat in range(repeats) for number in range(len(units))]
    try:
        for contender in contenders:
            try:
                _warm_up(contender, units[0], params)
            except ProviderError as error:
                drop(contender, error)
        for done, (repeat, number) in enumerate(turns):
            if progress is not None:
                progress(units[number].workload, done, len(turns))
            of_unit: list[Taken] = []
            for contender in in_order(in_it, repeat + number):
                try:
                    of_unit += _answers(units[number], contender, params, repeat)
                except ProviderError as error:
                    drop(contender, error)
            taken += of_unit
            if keep is not None:
                keep(Run(answers=tuple(taken), notes=tuple(notes), is_complete=done + 1 == len(turns)))
    except KeyboardInterrupt:
        n_done = len({(each.unit, each.workload, each.repeat) for each in taken})
        notes.append(f"stopped after {n_done} of {len(turns)} units")
        return Run(answers=tuple(taken), notes=tuple(notes), is_complete=False)
    return Run(answers=tuple(taken), notes=tuple(notes))


def in_order(contenders: Sequence[Contender], turn: int) -> list[Contender]:
    """The contenders in the order of this turn.

    Each begins once in as many turns as there are contenders, and then they go round the other way.
    """
    n_rounds, first = divmod(turn, max(1, len(contenders)))
    order = [*contenders[first:], *contenders[:first]]
    return order[::-1] if n_rounds % 2 else order


def _answers(unit: Unit, contender: Contender, params: Params, repeat: int) -> list[Taken]:
    answerer = contender.fresh(unit.workload)
    params = replace(params, max_tokens=unit.max_tokens)
    return [
        Taken(
            workload=unit.workload,
            unit=unit.name,
            call=call,
            repeat=repeat,
            contender=contender.name,
            prompt_tokens=len(prompt),
            answer=answerer.answer(prompt, params),
        )
        for call, prompt in enumerate(unit.calls)
    ]


def _warm_up(contender: Contender, unit: Unit, params: Params) -> None:
    """Ask something that no unit asks: the end of the first one, backwards."""
    prompt = list(reversed(unit.calls[0][-24:]))
    contender.fresh(unit.workload).answer(prompt, replace(params, max_tokens=WARM_UP_TOKENS))
