"""What every benchmark writes down: figures with their spread, and where they come from."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from leadout import __version__
from leadout.models.cpu import read_cpu, usable_cores


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A figure measured several times."""

    median: float
    low: float
    high: float
    n: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Median, smallest and largest of the values (at least one)."""
        return cls(median=float(np.median(values)), low=min(values), high=max(values), n=len(values))

    def __str__(self) -> str:
        """The median, with the range behind it."""
        return f"{self.median:.3g} ({self.low:.3g}..{self.high:.3g})"

    @property
    def ratio(self) -> str:
        """The same of a ratio; a single one has no range."""
        within = "" if self.n == 1 else f" ({self.low:.2f}..{self.high:.2f})"
        return f"{self.median:.2f}{within}"


def write_record(path: Path, name: str, arguments: dict[str, object], figures: dict[str, object]) -> None:
    """Write one benchmark's JSON file.

    Parameters
    ----------
    arguments : dict
        What the benchmark was asked for, seed included.
    figures : dict
        What it measured; `Spread` values become objects.
    """
    record = {
        "benchmark": name,
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "leadout": __version__,
        "commit": commit(),
        "machine": {
            "cpu": read_cpu().model,
            "cores": usable_cores(),
            "system": platform.system(),
            "python": platform.python_version(),
            "numpy": np.__version__,
        },
        "arguments": arguments,
        "figures": figures,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(
        f"{path.name}.new"
    )  # whoever reads meanwhile, or after a crash, finds a whole record
    new.write_text(json.dumps(record, indent=1, default=asdict) + "\n", encoding="utf-8")
    new.replace(path)


def commit() -> str | None:
    """The commit that was measured, "+" where files were changed since; None outside a checkout."""
    here = Path(__file__).parent
    asked = ["git", "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*"]
    try:
        done = subprocess.run(asked, cwd=here, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
