"""Figures as tables for the terminal."""

from __future__ import annotations

from collections.abc import Mapping

from rich.table import Table

from leadout.bench.heldout import HeldOut
from leadout.bench.nearness import LookBack
from leadout.bench.record import Spread
from leadout.bench.report import Figures

_NONE = "-"


def figures_table(figures: Mapping[str, Mapping[str, Figures]]) -> Table:
    """One row per workload and contender; medians with the range behind them."""
    several = any(each.speedup_best_plain for by_name in figures.values() for each in by_name.values())
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("workload")
    table.add_column("contender", overflow="fold")
    headings = ["speedup", *(["over best plain"] if several else []), "with prompt", "tok/s"]
    for heading in (*headings, "tokens/pass", "acceptance", "same text"):
        table.add_column(heading, justify="right")
    for workload, by_name in figures.items():
        for i, (name, each) in enumerate(by_name.items()):
            best = [_ratio(each.speedup_best_plain)] if several else []
            table.add_row(
                workload if i == 0 else "",
                name,
                _ratio(each.speedup),
                *best,
                _ratio(each.speedup_whole),
                _NONE if each.tokens_per_s is None else f"{each.tokens_per_s.median:.1f}",
                _NONE if each.tokens_per_pass is None else f"{each.tokens_per_pass:.2f}",
                _NONE if each.acceptance is None else f"{each.acceptance:.0%}",
                f"{each.n_same}/{each.n_answers}",
                end_section=i == len(by_name) - 1,
            )
    return table


def look_back_table(looks_back: Mapping[str, LookBack]) -> Table:
    """One row per workload: what the best choices would have reached, and how near `auto` came."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("in hindsight")
    table.add_column("best fixed choice")
    for heading in ("its speed", "auto", "share of it", "auto measured", "oracle"):
        table.add_column(heading, justify="right")
    for workload, each in looks_back.items():
        table.add_row(
            workload,
            each.best_fixed,
            f"{each.best:.2f}",
            _NONE if each.by_costs is None else f"{each.by_costs:.2f}",
            _NONE if each.share is None else f"{each.share:.0%}",
            _NONE if each.reached is None else f"{each.reached:.2f}",
            f"{each.oracle:.2f}",
        )
    return table


def held_out_table(held_out: HeldOut) -> Table:
    """Brier scores of predicted acceptance, one row per workload that was held out."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("acceptance predicted for")
    for heading in ("verdicts", "Brier", "of the running mean", "better by"):
        table.add_column(heading, justify="right")
    rows = {
        **held_out.by_workload,
        "all, learning on": held_out.learning,
        "all, learning nothing there": held_out.frozen,
    }
    for name, each in rows.items():
        brier, of_mean = each.brier, each.brier_of_mean
        scores = [_NONE, _NONE, _NONE]
        if brier is not None and of_mean:
            scores = [f"{brier:.3f}", f"{of_mean:.3f}", f"{1 - brier / of_mean:.0%}"]
        table.add_row(name, str(each.n), *scores)
    return table


def widths_table(costs: Mapping[str, Mapping[int, Spread]], unit: str = "ms") -> Table:
    """One row per name, one column per width."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(f"verify pass, {unit}")
    widths = sorted({width for by_width in costs.values() for width in by_width})
    for width in widths:
        table.add_column(f"w={width}", justify="right")
    for name, by_width in costs.items():
        cells = [f"{by_width[width].median:.3g}" if width in by_width else _NONE for width in widths]
        table.add_row(name, *cells)
    return table


def _ratio(spread: Spread | None) -> str:
    return _NONE if spread is None else spread.ratio
