"""What a constraint costs and its forced tokens save: `python -m leadout.bench.constraints`.

The same answers by a JSON schema, decoded plainly and with lookups; every mask is computed again afterwards,
alone, to see what one takes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from leadout.bench.record import Spread, write_record
from leadout.constraints import Grammars, json_schema
from leadout.core.constraint import Constraint
from leadout.engine.engine import Engine
from leadout.engine.params import Params
from leadout.engine.result import Result
from leadout.loading import load
from leadout.models.options import GgufOptions

SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {
        "letter": {"enum": ["x", "y"]},
        "note": {"type": ["string", "null"], "maxLength": 40},
        "place": {
            "type": "object",
            "properties": {
                "street_address": {"type": "string", "maxLength": 30},
                "postal_code": {"type": "integer", "minimum": 0, "maximum": 99999},
            },
            "required": ["street_address", "postal_code"],
            "additionalProperties": False,
        },
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 12}, "maxItems": 3},
    },
    "required": ["letter", "note", "place", "tags"],
    "additionalProperties": False,
}
_ASKED = '{{"letter": "z", "note": 7}} {number} [x, {{]}} Describe a person of your choice in JSON.'


def costs(constraint: Constraint, answers: Sequence[Result]) -> dict[str, dict[str, object]]:
    """Microseconds of each kind of work, per token of the answers; the mean has the few slow steps in it."""
    spent: dict[str, list[float]] = {"mask": [], "advance": [], "forced": []}
    for answer in answers:
        state = constraint.begin()
        for token in answer.ids:
            for name, work in (
                ("mask", state.mask),
                ("forced", state.forced),
                ("advance", lambda state=state, token=token: state.advance(token)),
            ):
                started = perf_counter()
                work()
                spent[name].append(1e6 * (perf_counter() - started))
    return {
        name: {"mean": sum(values) / len(values), "spread": Spread.of(values)}
        for name, values in spent.items()
    }


def answered(engine: Engine, params: Params, n_answers: int) -> list[Result]:
    """One answer to each of the questions; every other one greedy, the rest seeded."""
    return [
        engine.chat(
            [{"role": "user", "content": _ASKED.format(number=at)}],
            replace(params, temperature=0.0 if at % 2 else 1.0, seed=None if at % 2 else at),
        )
        for at in range(n_answers)
    ]


def summary(results: Sequence[Result]) -> dict[str, object]:
    """Counts and rates of the answers together."""
    usages = [each.usage for each in results]
    seconds = sum(each.decode_seconds for each in usages)
    return {
        "tokens": sum(each.completion_tokens for each in usages),
        "target_passes": sum(each.target_passes for each in usages),
        "drafted": sum(each.drafted for each in usages),
        "accepted": sum(each.accepted for each in usages),
        "forced": sum(each.forced for each in usages),
        "tokens_per_second": sum(each.completion_tokens - 1 for each in usages) / seconds,
        "complete": sum(each.finish_reason == "stop" for each in results),
    }


def main(
    target: Annotated[str, typer.Argument(help="A model's name or path.")] = "smollm2-135m",
    draft: Annotated[str, typer.Option(help="What drafts; see leadout run.")] = "ngram",
    answers: Annotated[int, typer.Option(min=1, help="Answers of each kind.")] = 20,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads.")] = 1,
    out: Annotated[Path, typer.Option(help="Where the figures go.")] = Path("benchmarks/constraints.json"),
) -> None:
    """Passes and speed of answers bound to a schema, plainly and with drafts."""
    with load(target, draft, options=GgufOptions(n_threads=threads, n_ctx=1024)) as engine:
        started = perf_counter()
        constraint = Grammars(engine.target.vocab).compile(json_schema(SCHEMA))
        compile_s = perf_counter() - started
        params = Params(max_tokens=200, constraint=constraint)
        answered(engine, params, 2)  # what is measured once is measured now
        drafted = answered(engine, params, answers)
        plain = answered(engine, replace(params, speculate=False), answers)
        spent = costs(constraint, plain)
    figures: dict[str, object] = {
        "compile_s": compile_s,
        "microseconds_per_token": spent,
        "plain": summary(plain),
        "drafted": summary(drafted),
        "same_text": sum(a.ids == b.ids for a, b in zip(plain, drafted, strict=True)),
    }
    print(json.dumps(figures, indent=1, default=str))
    arguments: dict[str, object] = {
        "target": target,
        "draft": draft,
        "answers": answers,
        "threads": threads,
        "schema": SCHEMA,
    }
    write_record(out, "constraints", arguments, figures)


if __name__ == "__main__":
    typer.run(main)
