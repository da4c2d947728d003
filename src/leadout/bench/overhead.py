"""What a round costs beside the model passes: `python -m leadout.bench.overhead`.

Target and draft are stand-ins whose passes take no time and whose rows have the size and the shape of a real
model's, so what is left is leadout's own work: planning, drawing drafts, verifying, text, events.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from leadout.bench.record import Spread, write_record
from leadout.drafters.model import ModelDrafter
from leadout.engine.engine import Engine
from leadout.engine.events import Round
from leadout.engine.params import Params
from leadout.engine.schedule import FixedSchedule
from leadout.models.base import Chunk, ModelInfo, Vocabulary
from leadout.testing import PieceVocabulary

N_VOCAB = 151_936
N_ROWS = 16
CASES = {
    "greedy": Params(temperature=0.0),
    "top-p": Params(temperature=0.8, top_p=0.95),
    "top-p, seeded": Params(temperature=0.8, top_p=0.95, seed=1),
    "temperature alone": Params(temperature=0.8, top_p=1.0),
}


def rows_like_a_model(noise: float, n_vocab: int = N_VOCAB) -> NDArray[np.float32]:
    """Rows shaped like a language model's: a few likely ids above a broad bell; shape (N_ROWS, V).

    Parameters
    ----------
    noise : float
        Standard deviation of what is added, to make a draft of a target.
    n_vocab : int
        V.
    """
    random = np.random.default_rng(0)
    rows = random.normal(scale=2.5, size=(N_ROWS, n_vocab))
    for row in rows:
        likely = random.choice(n_vocab, 40, replace=False)
        row[likely] = 14 + random.exponential(2.5, size=40)
    return (rows + np.random.default_rng(1).normal(scale=noise, size=rows.shape)).astype(np.float32)


class InstantModel:
    """A Model whose passes are look-ups; the row after position i is row i mod N_ROWS."""

    def __init__(self, rows: NDArray[np.float32], n_ctx: int, vocab: Vocabulary | None = None) -> None:
        self._rows = np.concatenate([rows, rows])
        self._length = 0
        self.vocab = vocab or PieceVocabulary.numbered(rows.shape[1])
        self.info = ModelInfo(
            name="instant",
            path=None,
            provider="none",
            architecture="none",
            n_layers=0,
            n_params=0,
            n_bytes=0,
            n_ctx=n_ctx,
            n_ctx_train=n_ctx,
            n_slots=1,
            n_vocab=rows.shape[1],
            rollback="cut",
        )

    def forward(self, chunks: Sequence[Chunk]) -> list[NDArray[np.float32]]:
        """Views of the prepared rows."""
        [chunk] = chunks
        self._length += len(chunk.tokens)
        first = (self._length - chunk.n_logits) % N_ROWS
        return [self._rows[first : first + chunk.n_logits]]

    def length(self, slot: int) -> int:  # noqa: ARG002
        """Tokens held."""
        return self._length

    def truncate(self, slot: int, length: int) -> None:  # noqa: ARG002
        """Forget the tail."""
        self._length = length

    def copy(self, source: int, target: int, length: int) -> None:
        """There is one slot only."""
        raise NotImplementedError

    def exact_widths(self) -> frozenset[int]:
        """All."""
        return frozenset(range(1, N_ROWS))

    def close(self) -> None:
        """Nothing to free."""


def measure(params: Params, k: int, n_tokens: int) -> tuple[float, float]:
    """Milliseconds per round, and acceptance, of one answer of `n_tokens`."""
    target = InstantModel(rows_like_a_model(0.0), n_tokens + 8)
    draft = ModelDrafter(InstantModel(rows_like_a_model(0.5), n_tokens + 8))
    engine = Engine(target, draft, schedule=FixedSchedule(k))
    rounds = []
    started = perf_counter()
    for event in engine.stream([1, 2, 3], params):
        if isinstance(event, Round):
            rounds.append(event)
            if len(rounds) == 1:
                started = perf_counter()  # the prompt's round is not counted
    spent = perf_counter() - started
    drafted = sum(each.drafted for each in rounds)
    return 1e3 * spent / (len(rounds) - 1), sum(each.accepted for each in rounds) / drafted


def main(
    k: Annotated[int, typer.Option(min=1, max=8, help="Tokens drafted in a round.")] = 4,
    tokens: Annotated[int, typer.Option(min=32, help="Tokens of an answer.")] = 160,
    repeats: Annotated[int, typer.Option(min=1, help="Answers per case; cases alternate.")] = 7,
    out: Annotated[Path, typer.Option(help="Where the figures go.")] = Path("benchmarks/overhead.json"),
) -> None:
    """Milliseconds of leadout's own work per round at V = 151,936."""
    spent: dict[str, list[float]] = {name: [] for name in CASES}
    accepted: dict[str, float] = {}
    for _ in range(repeats):
        for name, params in CASES.items():
            ms, accepted[name] = measure(params, k, tokens)
            spent[name].append(ms)
    figures = {name: Spread.of(values) for name, values in spent.items()}
    for name, figure in figures.items():
        print(f"{name:<18} {figure} ms per round, acceptance {accepted[name]:.2f}")
    arguments: dict[str, object] = {"n_vocab": N_VOCAB, "k": k, "tokens": tokens, "repeats": repeats}
    write_record(out, "overhead", arguments, {"ms_per_round": figures, "acceptance": accepted})


if __name__ == "__main__":
    typer.run(main)
