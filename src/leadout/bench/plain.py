"""Plain decoding through leadout against a bare decode + argmax loop: `python -m leadout.bench.plain MODEL`.

The bare loop calls the same library, with the same file and threads, and does nothing else: what leadout adds
to plain decoding is the difference. The two alternate in one process; each provider is measured on its own.
"""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Annotated, Literal

import numpy as np
import typer

from leadout.bench.record import Spread, write_record
from leadout.engine.engine import Engine
from leadout.engine.events import Token
from leadout.engine.params import Params
from leadout.models import binding_ik, binding_llama
from leadout.models.binding import DECODED, Context
from leadout.models.header import read_header
from leadout.models.open import open_model
from leadout.models.options import GgufOptions
from leadout.store import resolve

PROVIDERS: tuple[Literal["ik", "llama"], ...] = ("ik", "llama")
PROMPT = "Rain fell on the harbour all night. In the morning the old captain"


def bare_seconds(context: Context, prompt: list[int], n_tokens: int) -> float:
    """Seconds per token of a loop of decode and argmax, the prompt not counted."""
    context.remove(0, 0)
    batch = context.batch
    n_prompt = len(prompt)
    batch.tokens[:n_prompt], batch.slots[:n_prompt] = prompt, 0
    batch.positions[:n_prompt], batch.wanted[:n_prompt] = np.arange(n_prompt), 0
    batch.wanted[n_prompt - 1] = 1
    _decode(context, n_prompt)
    token = int(context.rows(n_prompt - 1, n_prompt - 1)[0].argmax())
    batch.wanted[0] = 1
    started = perf_counter()
    for position in range(n_prompt, n_prompt + n_tokens - 1):
        batch.tokens[0], batch.positions[0] = token, position
        _decode(context, 1)
        token = int(context.rows(0, 0)[0].argmax())
    return (perf_counter() - started) / (n_tokens - 1)


def _decode(context: Context, n_tokens: int) -> None:
    answer = context.decode(n_tokens)
    if answer != DECODED:
        raise RuntimeError(f"the library failed to decode: {answer}")


def leadout_seconds(engine: Engine, prompt: list[int], n_tokens: int) -> float:
    """Seconds per token through the engine, events included, the prompt not counted."""
    n_seen, started = 0, 0.0
    for event in engine.stream(prompt, Params(temperature=0.0, max_tokens=n_tokens)):
        if isinstance(event, Token):
            n_seen += 1
            if n_seen == 1:
                started = perf_counter()
    return (perf_counter() - started) / (n_seen - 1)


def compare(path: Path, provider: Literal["ik", "llama"], n_tokens: int, repeats: int) -> dict[str, Spread]:
    """Tokens per second of both, and leadout's rate as a share of the bare loop's, pair by pair."""
    options = GgufOptions(n_ctx=512)
    load = binding_ik.load if provider == "ik" else binding_llama.load
    binding = load(read_header(path), options)
    context = binding.open_context(n_ctx=512, n_slots=1)
    engine = Engine(open_model(path, name=path.stem, provider=provider, options=options))
    prompt = engine.target.vocab.encode(PROMPT, add_bos=engine.target.vocab.adds_bos, special=False)
    bare, own = [], []
    try:
        for turn in range(repeats + 1):  # the first pair warms up
            pair = bare_seconds(context, prompt, n_tokens), leadout_seconds(engine, prompt, n_tokens)
            if turn:
                bare.append(pair[0])
                own.append(pair[1])
    finally:
        engine.close()
        context.close()
        binding.close()
    return {
        "bare_tokens_per_s": Spread.of([1 / each for each in bare]),
        "leadout_tokens_per_s": Spread.of([1 / each for each in own]),
        "ratio": Spread.of([b / o for b, o in zip(bare, own, strict=True)]),
    }


def main(
    model: Annotated[str, typer.Argument(help="A model name or path.")] = "smollm2-135m",
    tokens: Annotated[int, typer.Option(min=16, max=400, help="Tokens of an answer.")] = 128,
    repeats: Annotated[int, typer.Option(min=1, help="Pairs per provider.")] = 7,
    out: Annotated[Path, typer.Option(help="Where the figures go.")] = Path("benchmarks/plain.json"),
) -> None:
    """Plain decoding through leadout as a share of a bare loop, for both providers."""
    path = resolve(model).path
    figures: dict[str, dict[str, Spread]] = {
        provider: compare(path, provider, tokens, repeats) for provider in PROVIDERS
    }
    for provider, figure in figures.items():
        print(
            f"{model} {provider:<6} bare {figure['bare_tokens_per_s']} tok/s, "
            f"leadout {figure['leadout_tokens_per_s']} tok/s, ratio {figure['ratio']}"
        )
    arguments: dict[str, object] = {"model": model, "tokens": tokens, "repeats": repeats}
    write_record(out, "plain", arguments, dict(figures))


if __name__ == "__main__":
    typer.run(main)
