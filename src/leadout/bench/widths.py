"""Verify cost by width and provider, in turns: `python -m leadout.bench.widths MODEL --provider ik,llama`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter
from typing import Annotated, cast

import numpy as np
import typer
from rich.console import Console

from leadout.bench.record import Spread, write_record
from leadout.bench.table import widths_table
from leadout.errors import InputError
from leadout.models.base import Chunk, Model
from leadout.models.open import Provider, open_model
from leadout.models.options import GgufOptions
from leadout.store import resolve

WIDTHS = (1, 2, 3, 4, 5, 6, 8, 12, 16)
PROVIDERS = ("ik", "llama")
_PIECE = 512


def measure(
    models: Mapping[str, Model], widths: Sequence[int], *, length: int, repeats: int, seed: int = 0
) -> dict[str, dict[int, Spread]]:
    """Milliseconds of a pass with logits for every row, models in turns; parameters as of `pass_times`."""
    times = pass_times(models, widths, length=length, repeats=repeats, seed=seed)
    return {
        name: {width: Spread.of([1e3 * each for each in seconds]) for width, seconds in of.items()}
        for name, of in times.items()
    }


def pass_times(
    models: Mapping[str, Model], widths: Sequence[int], *, length: int, repeats: int, seed: int = 0
) -> dict[str, dict[int, list[float]]]:
    """Seconds of each pass with logits for every row, models in turns.

    Parameters
    ----------
    models : mapping of name to Model
        Slot 0 of each is used.
    widths : sequence of int >= 1
        Tokens of the pass; their order changes from repeat to repeat.
    length : int >= 1
        Tokens in the cache before the pass.
    repeats : int >= 1
        Timed passes per model and width, after one that warms up.
    seed : int
        Of the text and of the orders.
    """
    random = np.random.default_rng(seed)
    n_vocab = min(model.vocab.size for model in models.values())
    text = random.integers(0, n_vocab, length + max(widths)).tolist()
    for model in models.values():
        model.truncate(0, 0)
        for at in range(0, length, _PIECE):
            model.forward([Chunk(slot=0, tokens=text[at : min(at + _PIECE, length)], n_logits=0)])
    seen: dict[str, dict[int, list[float]]] = {name: {width: [] for width in widths} for name in models}
    for turn in range(repeats + 1):
        for width in random.permutation(np.array(widths)).tolist():
            for name in list(models) if turn % 2 else list(models)[::-1]:
                spent_s = _pass_s(models[name], text[length : length + width], length)
                if turn:
                    seen[name][width].append(spent_s)
    return seen


def _pass_s(model: Model, tokens: Sequence[int], length: int) -> float:
    model.truncate(0, length)
    started = perf_counter()
    model.forward([Chunk(slot=0, tokens=tokens, n_logits=len(tokens))])
    return perf_counter() - started


def main(  # noqa: PLR0917
    model: Annotated[str, typer.Argument(help="A model name or path.")] = "smollm2-135m",
    provider: Annotated[str, typer.Option(help="ik, llama, or both with a comma.")] = "ik,llama",
    length: Annotated[int, typer.Option(min=1, help="Tokens in the cache before each pass.")] = 128,
    repeats: Annotated[int, typer.Option(min=1, help="Timed passes per provider and width.")] = 9,
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads; default: physical cores.")] = None,
    out: Annotated[Path, typer.Option(help="Where the figures go.")] = Path("benchmarks/widths.json"),
) -> None:
    """What a pass of several tokens costs, by width and provider."""
    path = resolve(model).path
    options = GgufOptions(n_ctx=length + max(WIDTHS) + 8, n_threads=threads)
    with ExitStack() as closing:
        models: dict[str, Model] = {}
        for name in (part.strip() for part in provider.split(",")):
            if name not in PROVIDERS:
                raise InputError(f"provider is {name!r}; it must be ik, llama or ik,llama")
            models[name] = open_model(path, provider=cast("Provider", name), options=options)
            closing.callback(models[name].close)
        costs = measure(models, WIDTHS, length=length, repeats=repeats)
    Console().print(widths_table(costs))
    arguments: dict[str, object] = {
        "model": model,
        "length": length,
        "repeats": repeats,
        "threads": threads,
        "seed": 0,
    }
    write_record(out, "widths", arguments, {"verify_ms_by_width": costs})


if __name__ == "__main__":
    typer.run(main)
