"""`docs/benchmarks.md`, made from the records of the standard set: `python -m leadout.bench.page`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from leadout.bench.bars import Finding, check
from leadout.bench.record import Spread
from leadout.bench.standard import FOLDER, StandardRun, read_set

PAGE = Path("docs/benchmarks.md")
_NONE = "-"

HEAD = """\
# Benchmarks

This page is made from the JSON files in [benchmarks](../benchmarks) by `python -m leadout.bench.page`;
`make bench` measures them anew. Every contender answers the same prompts, in turns, with fresh caches;
no prompt is repeated. A speed is a multiple of plain decoding's over the tokens after the first one,
paired answer by answer: the median, with the smallest and largest behind it. "Best plain" is the faster
of plain decoding through either provider in the same run. `auto` is what leadout does by itself; the
costs and the acceptance it goes by are learned in the run, no text is. Q8_0 and F16 are made from the
Q4_K_M file: they say the same, at the cost of their format. A + behind a commit: files beside it were
changed, as records are by the runs before.

*In hindsight* says what the run would have allowed: from the answers, what each drafter would have
proposed at every token, and the costs measured in the same run, the speed of every fixed choice is
worked out, that of the rounds that `auto` made, and that of an oracle that knows the future, which
nothing real can reach; *auto measured* has in it what the machine did meanwhile. *Acceptance
predicted* holds each workload out in turn: a predictor that learned from the others is scored on it
(Brier score, lower is better) against always predicting the share that stood so far.
"""

SPEEDS = (
    "workload",
    "contender",
    "over plain",
    "over best plain",
    "with prompt",
    "tok/s",
    "acceptance",
    "tokens per pass",
    "same text",
)
HINDSIGHT = (
    "in hindsight",
    "best fixed choice",
    "its speed",
    "auto",
    "share of it",
    "auto measured",
    "oracle",
)
PREDICTIONS = ("acceptance predicted for", "verdicts", "Brier", "of the running mean", "better by")


def page(
    runs: Sequence[StandardRun],
    records: Mapping[str, Mapping[str, Any]],
    checked: Mapping[str, Any] | None = None,
) -> str:
    """The page as text.

    Parameters
    ----------
    runs : sequence of StandardRun
    records : mapping of run name to record
        Those that are missing are said to be so.
    checked : mapping or None
        The record of `leadout.bench.predictions`.
    """
    parts = [HEAD]
    for run in runs:
        parts.append(f"## {run.title}\n")
        if run.name in records:
            parts += _run(run, records[run.name])
        else:
            parts.append(f"Not measured yet: `make bench` writes `benchmarks/{run.name}.json`.\n")
    if checked is not None:
        parts += _checked(checked)
    return "\n".join(parts)


def read_records(runs: Sequence[StandardRun], folder: Path) -> dict[str, dict[str, Any]]:
    """The records that are there."""
    found = {run.name: folder / f"{run.name}.json" for run in runs}
    return {
        name: json.loads(file.read_text(encoding="utf-8")) for name, file in found.items() if file.is_file()
    }


def read_checked(folder: Path) -> dict[str, Any] | None:
    """The record of `leadout.bench.predictions`, if it is there."""
    file = folder / "predictions.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None


def write_page(root: Path = Path()) -> None:
    """Make the page anew from what is under `root`."""
    runs, folder = read_set(), root / FOLDER
    text = page(runs, read_records(runs, folder), read_checked(folder))
    (root / PAGE).write_text(text, encoding="utf-8")


def _run(run: StandardRun, record: Mapping[str, Any]) -> Iterator[str]:
    figures, machine = record["figures"], record["machine"]
    yield (
        f"{machine['cpu']}, {machine['cores']} cores; leadout {record['leadout']} {record['commit'] or ''}, "
        f"{record['date'][:10]}; [{run.name}.json](../benchmarks/{run.name}.json).\n"
    )
    yield f"```console\nleadout {' '.join(record['command'][1:])}\n```\n"
    yield from _speeds(figures["workloads"])
    yield f"![speeds, costs and predictions](../benchmarks/{run.name}.svg)\n"
    for note in figures["notes"]:
        yield f"Note: {note}\n"
    yield from _settings(figures.get("peer_settings") or {}, figures["workloads"])
    yield from _hindsight(figures.get("hindsight") or {})
    yield from _predictions(figures.get("held_out"))
    yield from _memory(figures.get("remembering"))
    yield from _bars(run, figures)


def _speeds(workloads: Mapping[str, Any]) -> Iterator[str]:
    rows = []
    for workload, by_name in workloads.items():
        for i, (name, each) in enumerate(by_name.items()):
            rate, acceptance, per_pass = (
                each[key] for key in ("tokens_per_s", "acceptance", "tokens_per_pass")
            )
            rows.append(
                (
                    workload.replace("_", " ") if i == 0 else "",
                    name,
                    _ratio(each["speedup"]),
                    _ratio(each["speedup_best_plain"]),
                    _ratio(each["speedup_whole"]),
                    _NONE if rate is None else f"{rate['median']:.1f}",
                    _NONE if acceptance is None else f"{acceptance:.0%}",
                    _number(per_pass, 2),
                    f"{each['n_same']}/{each['n_answers']}",
                )
            )
    yield from _table(SPEEDS, rows)


def _settings(of_peers: Mapping[str, Any], workloads: Mapping[str, Any]) -> Iterator[str]:
    for name, tried in of_peers.items():
        used = {workload: tried["chosen"][workload] for workload in workloads if workload in tried["chosen"]}
        chosen = "; ".join(f"{workload}: {setting}" for workload, setting in used.items())
        yield f"Settings of {name} that were fastest on prompts not measured here: {chosen}.\n"


def _hindsight(hindsight: Mapping[str, Any]) -> Iterator[str]:
    if hindsight:
        rows = [
            (
                workload.replace("_", " "),
                each["best_fixed"],
                f"{each['best']:.2f}",
                _NONE if each["by_costs"] is None else f"{each['by_costs']:.2f}",
                _NONE if each["share"] is None else f"{each['share']:.0%}",
                _NONE if each["reached"] is None else f"{each['reached']:.2f}",
                f"{each['oracle']:.2f}",
            )
            for workload, each in hindsight.items()
        ]
        yield from _table(HINDSIGHT, rows)


def _predictions(held_out: Mapping[str, Any] | None) -> Iterator[str]:
    if held_out:
        scores = {
            **held_out["by_workload"],
            "all, learning on": held_out["learning"],
            "all, learning nothing there": held_out["frozen"],
        }
        rows = [
            (
                name.replace("_", " "),
                str(each["n"]),
                _number(each["brier"]),
                _number(each["brier_of_mean"]),
                _NONE if each["gain"] is None else f"{each['gain']:.0%}",
            )
            for name, each in scores.items()
        ]
        yield from _table(PREDICTIONS, rows)
        table = held_out["learning"]["reliability"]
        yield from _table(
            ("predicted", "stood", "tokens"),
            [(f"{row['predicted']:.2f}", f"{row['stood']:.2f}", str(row["n"])) for row in table],
        )


def _checked(record: Mapping[str, Any]) -> Iterator[str]:
    figures = record["figures"]
    error, n_wrong = f"{figures['median_error']:.0%}", figures["n_wrong"]
    yield "## What a check predicts, and what is measured then\n"
    yield (
        "`leadout check`, and then `leadout bench` with prompts that the check does not have: means over six "
        f"workloads, as multiples of plain decoding's speed. Median error {error}; wrong about whether "
        f"drafting pays at all, by more than 5 %: {n_wrong}. {_of_kinds(figures['pairs'])}"
        f"leadout {record['commit'] or ''}, {record['date'][:10]}; "
        "[predictions.json](../benchmarks/predictions.json).\n"
    )
    rows = [
        (
            each["pair"],
            f"{each['predicted']:.2f} ({each['low']:.2f}..{each['high']:.2f})",
            f"{each['measured']:.2f}",
            f"{each['error']:.0%}",
        )
        for each in figures["pairs"]
    ]
    yield from _table(("pair", "predicted", "measured", "error"), rows)


def _of_kinds(pairs: Sequence[Mapping[str, Any]]) -> str:
    errors = [abs(told / came - 1) for each in pairs for told, came in each.get("kinds", {}).values()]
    if not errors:
        return ""
    return f"Of single workloads the median error is {median(errors):.0%}, the largest {max(errors):.0%}. "


def _memory(remembering: Mapping[str, Any] | None) -> Iterator[str]:
    if remembering:
        first, second = (remembering[key] / 1e6 for key in ("n_bytes", "n_bytes_after_twice"))
        each, n_tokens = remembering["bytes_per_token"], remembering["n_tokens"]
        yield (
            f"Earlier answers take {each:.0f} bytes per remembered token, measured, for up to {n_tokens:,} "
            f"tokens of a client: {first:.1f} MB, and {second:.1f} MB after twice as many.\n"
        )


def _bars(run: StandardRun, figures: Mapping[str, Any]) -> Iterator[str]:
    findings = check(run.bars, figures)
    if findings:
        rows = [(each.what, f"{each.wanted:.2f}", _found(each), each.verdict) for each in findings]
        yield from _table(("bar", "wanted", "found", ""), rows)


def _found(bar: Finding) -> str:
    """With one digit more where the bar is missed by less than the others show."""
    near = bar.found is not None and bar.found < bar.wanted and round(bar.found, 2) >= bar.wanted
    return _number(bar.found, 3 if near else 2)


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    lines = [headings, ["---"] * len(headings), *rows]
    yield "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _ratio(spread: Mapping[str, Any] | None) -> str:
    return _NONE if spread is None else Spread(**spread).ratio


def _number(value: float | None, digits: int = 3) -> str:
    return _NONE if value is None else f"{value:.{digits}f}"


if __name__ == "__main__":
    write_page()
