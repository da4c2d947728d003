"""Prometheus text to totals by metric name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from prometheus_client.parser import text_string_to_metric_families

from leadout.errors import ServerError


def read_totals(text: str) -> Mapping[str, float]:
    """Every sample's value, summed over its labels (several models, ranks or engines are one server here).

    A counter is known by its name with and without ``_total``: writers differ.

    Raises
    ------
    ServerError
        If it is no Prometheus text.
    """
    totals: dict[str, float] = defaultdict(float)
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                totals[sample.name.removesuffix("_total")] += sample.value
    except (ValueError, KeyError, IndexError) as error:
        raise ServerError(f"/metrics is no Prometheus text: {error}") from error
    return dict(totals)
