"""A picture of a benchmark's JSON file: `python -m leadout.bench.picture benchmarks/bench.json bench.svg`.

Left: speedup per workload, medians with the range, and the oracle where it is known. Then: what verify passes
cost by width. Last, where the record has it: predicted acceptance against what was accepted. Needs matplotlib
(the extra `plot`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leadout.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HAS_MATPLOTLIB = find_spec("matplotlib") is not None
NEEDS_MATPLOTLIB = "no picture: matplotlib is not installed; install it with: pip install 'leadout[plot]'"


def draw(record: Mapping[str, Any], out: Path) -> None:
    """Draw a benchmark.

    Parameters
    ----------
    record : mapping
        What `leadout bench` wrote, read back from its JSON.
    out : Path
        An .svg, .png or .pdf file.

    Raises
    ------
    InputError
        If matplotlib is not installed, or the record is of another kind.
    """
    if not HAS_MATPLOTLIB:
        raise InputError(NEEDS_MATPLOTLIB)
    if record.get("benchmark") != "bench":
        raise InputError("this is no record of `leadout bench`; give the JSON file that it wrote")
    from matplotlib.figure import Figure

    figures = record["figures"]
    calibration = {name: each for name, each in _calibrations(figures).items() if each["reliability"]}
    panels = 3 if calibration else 2
    widths = [2.4, 1.3, 1.0][:panels]
    figure = Figure(figsize=(4.2 * sum(widths) / 1.3, 4.4), layout="constrained")
    axes = figure.subplots(1, panels, width_ratios=widths, squeeze=False)[0]
    _speedups(axes[0], figures["workloads"], figures.get("hindsight") or {})
    _costs(axes[1], _verify_costs(figures))
    if calibration:
        _calibration(axes[2], calibration)
    figure.suptitle(_title(record), fontsize=9)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=150, metadata={"Date": None} if out.suffix == ".svg" else None)


def _title(record: Mapping[str, Any]) -> str:
    target = next(iter(record["figures"]["models"].values()))["target"]
    machine = record["machine"]
    return (
        f"{target['name']} ({target['provider']}) on {machine['cpu']}, {machine['cores']} cores; "
        f"leadout {record['leadout']} {record['commit'] or ''}, {record['date'][:10]}"
    )


def _calibrations(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Reliability tables by name: of schedules in the run, and on workloads held out."""
    found = dict(figures.get("calibration") or {})
    held_out = figures.get("held_out")
    return {**found, "held out": held_out["learning"]} if held_out else found


def _verify_costs(figures: Mapping[str, Any]) -> Mapping[str, Any]:
    """Costs that were timed for their own sake, by provider; else those of the run's passes."""
    timed = {name: each["verify_ms_by_width"] for name, each in (figures.get("costs") or {}).items()}
    return timed or dict(figures["verify_ms_by_width"])


def _speedups(axes: Axes, workloads: Mapping[str, Any], hindsight: Mapping[str, Any]) -> None:
    names = list(dict.fromkeys(name for by_name in workloads.values() for name in by_name))
    height = 0.8 / max(1, len(names))
    for i, name in enumerate(names):
        rows, medians, below, above = [], [], [], []
        for row, by_name in enumerate(workloads.values()):
            spread = by_name.get(name, {}).get("speedup")
            if spread is not None:
                rows.append(row + (i - (len(names) - 1) / 2) * height)
                medians.append(spread["median"])
                below.append(spread["median"] - spread["low"])
                above.append(spread["high"] - spread["median"])
        axes.barh(rows, medians, height=0.9 * height, label=name, xerr=[below, above], error_kw={"lw": 0.8})
    oracles = [(row, hindsight[name]["oracle"]) for row, name in enumerate(workloads) if name in hindsight]
    if oracles:
        rows_of, values = zip(*oracles, strict=True)
        axes.plot(values, rows_of, "k|", ms=16, label="oracle, in hindsight")
    axes.axvline(1.0, color="black", lw=0.8)
    axes.set_yticks(range(len(workloads)), [name.replace("_", " ") for name in workloads])
    axes.invert_yaxis()
    axes.set_xlabel("times plain decoding's speed, median and range")
    axes.legend(fontsize=7)


def _costs(axes: Axes, costs: Mapping[str, Any]) -> None:
    for name, by_width in costs.items():
        points = sorted((int(width), spread) for width, spread in by_width.items())
        medians = [spread["median"] for _, spread in points]
        axes.plot([width for width, _ in points], medians, "o-", ms=3, lw=1, label=name)
    axes.set_xlabel("width of a verify pass, tokens")
    axes.set_ylabel("median ms")
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=7)


def _calibration(axes: Axes, calibration: Mapping[str, Any]) -> None:
    axes.plot([0, 1], [0, 1], color="black", lw=0.8)
    for name, each in calibration.items():
        table = each["reliability"]
        predicted, stood = [row["predicted"] for row in table], [row["stood"] for row in table]
        axes.plot(predicted, stood, "o-", ms=3, lw=1, label=f"{name}, Brier {each['brier']:.3f}")
    axes.set_xlabel("predicted acceptance")
    axes.set_ylabel("share accepted")
    axes.legend(fontsize=7)


def main(
    record: Annotated[Path, typer.Argument(help="JSON file of leadout bench.")],
    out: Annotated[Path, typer.Argument(help="An .svg, .png or .pdf file.")],
) -> None:
    """Draw a benchmark's JSON file."""
    draw(json.loads(record.read_text(encoding="utf-8")), out)


if __name__ == "__main__":
    typer.run(main)
