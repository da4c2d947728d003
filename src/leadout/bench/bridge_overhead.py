"""What a vocabulary bridge costs beside the draft's passes: `python -m leadout.bench.bridge_overhead`.

Both vocabularies are real, the draft's passes are look-ups; a long text is committed a few tokens at a time,
and each round is followed and drafted for.
"""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Annotated

import numpy as np
import typer

from leadout.bench.overhead import InstantModel, rows_like_a_model
from leadout.bench.record import Spread, write_record
from leadout.core.noise import RandomSource
from leadout.core.values import History, Sampling
from leadout.drafters.base import DraftPrompt, DraftRequest
from leadout.drafters.bridge import BridgeDrafter, Way
from leadout.loading import LoadedModels, load_models
from leadout.models.compare import Comparison
from leadout.proof.prompts import TEXTS, mixed_texts

WAYS: tuple[Way, ...] = ("text", "shared")
N_COMMITTED = 3  # tokens of a round


def measure(
    models: LoadedModels, comparison: Comparison, way: Way, context: int, n_rounds: int
) -> list[float]:
    """Milliseconds of each round after `context` tokens: following what was said, and drafting 4 tokens."""
    vocab = models.target.vocab
    text = "\n".join((*TEXTS, *mixed_texts(40))) * 20
    ids = vocab.encode(text, add_bos=False, special=True)[: context + N_COMMITTED * n_rounds]
    draft_vocab = models.draft.vocab if models.draft is not None else vocab
    rows = rows_like_a_model(0.0, comparison.draft.size)
    drafter = BridgeDrafter(InstantModel(rows, 4 * len(ids), draft_vocab), vocab, comparison, way=way)
    drafter.begin(0, DraftPrompt(ids=ids[:context]))
    source = RandomSource(np.random.default_rng(0))
    spent = []
    for at in range(context, len(ids), N_COMMITTED):
        request = DraftRequest(
            slot=0,
            context=ids[:at],
            k=4,
            sampling=Sampling(temperature=0.0),
            history=History(),
            position=at - context,
            noise=None,
            source=source,
        )
        started = perf_counter()
        drafter.propose([request])
        drafter.observe(0, ids[at : at + N_COMMITTED])
        spent.append(1e3 * (perf_counter() - started))
    return spent[2:]  # the first reads the prompt


def main(
    target: Annotated[str, typer.Argument(help="Name or path.")] = "qwen2.5-coder-1.5b",
    draft: Annotated[str, typer.Argument(help="Name or path of a draft model.")] = "smollm2-135m",
    context: Annotated[int, typer.Option(min=1, help="Tokens before the first round.")] = 4000,
    rounds: Annotated[int, typer.Option(min=4, help="Rounds that are timed.")] = 400,
    out: Annotated[Path, typer.Option(help="Where the figures go.")] = Path(
        "benchmarks/bridge_overhead.json"
    ),
) -> None:
    """Milliseconds per round that a bridge takes, both ways."""
    models = load_models(target, draft, offline=True)
    if models.comparison is None:
        raise typer.BadParameter(f"{draft} is no draft model")
    figures = {way: Spread.of(measure(models, models.comparison, way, context, rounds)) for way in WAYS}
    for way, figure in figures.items():
        print(f"{way:<8} {figure} ms per round at {context} tokens")
    models.close()
    arguments: dict[str, object] = {"target": target, "draft": draft, "context": context, "rounds": rounds}
    write_record(out, "bridge overhead", arguments, {"ms_per_round": figures})


if __name__ == "__main__":
    typer.run(main)
