"""`leadout probe`: is speculative decoding really on at a server, and is its output unharmed? Measured.

Counters are read before and after requests of our own; the mere presence of a metric proves nothing.
"""

from leadout.probe.options import ProbeOptions
from leadout.probe.probe import probe_server
from leadout.probe.report import ProbeReport, Verdict

__all__ = ["ProbeOptions", "ProbeReport", "Verdict", "probe_server"]
