"""Counters for Prometheus: folds over the engine's events. Every instance has a registry of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from leadout.engine.events import Round, Started
from leadout.server.registry import Served

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
_ROUND_SIZES = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 12.0, 16.0, 32.0, 65.0)


class Metrics:
    """What is counted.

    Parameters
    ----------
    loaded : callable
        Tells which models are in memory when somebody asks for the metrics.
    """

    def __init__(self, loaded: Callable[[], Sequence[Served]]) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(_LoadCollector(loaded))
        self._requests = self._counter("requests", "Requests answered.", "route", "status")
        self._seconds = self._histogram(
            "request_seconds", "Time from a request's arrival to its answer's end.", _SECONDS, "route"
        )
        self._first = self._histogram(
            "first_token_seconds", "Time from a request's arrival to its first token.", _SECONDS, "model"
        )
        self._prompt = self._counter("prompt_tokens", "Tokens of prompts.", "model")
        self._cached = self._counter(
            "cached_prompt_tokens", "Tokens of prompts that came from a cache.", "model"
        )
        self._completion = self._counter("completion_tokens", "Tokens of answers.", "model")
        self._passes = self._counter(
            "target_passes", "Forward passes of the target, for each answer.", "model"
        )
        self._drafted = self._counter("drafted_tokens", "Tokens proposed.", "model", "drafter")
        self._accepted = self._counter("accepted_tokens", "Proposed tokens that stood.", "model", "drafter")
        self._drafted_at = self._counter(
            "drafted_at", "Tokens proposed at this place of a draft, from 1.", "model", "drafter", "position"
        )
        self._accepted_at = self._counter(
            "accepted_at", "Tokens that stood at this place of a draft.", "model", "drafter", "position"
        )
        self._spent = self._counter("round_seconds", "Time of rounds: draft, verify, other.", "model", "part")
        self._plain_s = self._counter(
            "plain_seconds", "Predicted time of plain decoding for the tokens of predicted rounds.", "model"
        )
        self._actual_s = self._counter("predicted_round_seconds", "Time those rounds took.", "model")
        self._plain_rate = Gauge(
            "leadout_plain_tokens_per_second",
            "Predicted rate of plain decoding, at the last predicted round.",
            ["model"],
            registry=self.registry,
        )
        self._round_tokens = self._histogram(
            "round_tokens", "Tokens of the answer that one target pass gave.", _ROUND_SIZES, "model"
        )

    def answered(self, route: str, status: int, seconds: float) -> None:
        """A request is over."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def started(self, model: str, event: Started, seconds: float) -> None:
        """A prompt has been read, `seconds` after its request came."""
        self._first.labels(model).observe(seconds)
        self._prompt.labels(model).inc(event.prompt_tokens)
        self._cached.labels(model).inc(event.cached_tokens)

    def round(self, model: str, event: Round) -> None:
        """A round is over."""
        self._completion.labels(model).inc(event.emitted)
        self._passes.labels(model).inc()
        self._round_tokens.labels(model).observe(event.emitted)
        for part, seconds in (
            ("draft", event.draft_s),
            ("verify", event.verify_s),
            ("other", event.other_s),
        ):
            self._spent.labels(model, part).inc(seconds)
        if event.drafted:
            self._drafted.labels(model, event.drafter).inc(event.drafted)
            self._accepted.labels(model, event.drafter).inc(event.accepted)
        for at in range(event.drafted):
            self._drafted_at.labels(model, event.drafter, str(at + 1)).inc()
        for at in range(event.accepted):
            self._accepted_at.labels(model, event.drafter, str(at + 1)).inc()
        if event.forecast is not None and event.forecast.plain_s > 0:
            self._plain_s.labels(model).inc(event.emitted * event.forecast.plain_s)
            self._actual_s.labels(model).inc(event.draft_s + event.verify_s + event.other_s)
            self._plain_rate.labels(model).set(1 / event.forecast.plain_s)

    def exposition(self) -> bytes:
        """All of it in Prometheus' text format."""
        return generate_latest(self.registry)

    def _counter(self, name: str, help: str, *labels: str) -> Counter:
        return Counter(f"leadout_{name}", help, labels, registry=self.registry)

    def _histogram(self, name: str, help: str, buckets: Sequence[float], *labels: str) -> Histogram:
        return Histogram(f"leadout_{name}", help, labels, buckets=buckets, registry=self.registry)


class _LoadCollector(Collector):
    """What there is to do, asked when somebody looks."""

    def __init__(self, loaded: Callable[[], Sequence[Served]]) -> None:
        self._loaded = loaded

    def collect(self) -> Iterable[Metric]:
        """Requests and slots of every model."""
        families = {
            "requests_running": "Answers that hold a slot.",
            "requests_queued": "Requests that wait for a slot.",
            "slots": "Answers that can run together.",
            "kv_used_tokens": "Tokens in the target's cache, kept ones included.",
            "kv_capacity_tokens": "Tokens that the target's cache could hold.",
        }
        gauges = [
            GaugeMetricFamily(f"leadout_{name}", help, labels=["model"]) for name, help in families.items()
        ]
        for served in self._loaded():
            load = served.runner.load
            values = (load.running, load.queued, load.slots, load.cached_tokens, load.capacity_tokens)
            for gauge, value in zip(gauges, values, strict=True):
                gauge.add_metric([served.name], value)
        return gauges
