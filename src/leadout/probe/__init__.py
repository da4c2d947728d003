"""`leadout probe`: is speculative decoding really on at a server, and is its output unharmed? Measured.

Counters are read before and after requests of our own; the mere presence of a metric proves nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leadout.probe.options import ProbeOptions
    from leadout.probe.probe import probe_server
    from leadout.probe.report import ProbeReport, Verdict

_HOMES = {
    "ProbeOptions": "leadout.probe.options",
    "ProbeReport": "leadout.probe.report",
    "Verdict": "leadout.probe.report",
    "probe_server": "leadout.probe.probe",
}

__all__ = ["ProbeOptions", "ProbeReport", "Verdict", "probe_server"]


def __getattr__(name: str) -> object:
    """Import a public name when it is first used: the command line must not wait for HTTP libraries."""
    if name not in _HOMES:
        raise AttributeError(f"module 'leadout.probe' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
