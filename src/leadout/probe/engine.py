"""The seam to an engine: how it is recognised, asked and read. Only ``engine_*.py`` know one by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

from leadout.errors import InputError, LeadoutError, ServerError
from leadout.probe.http import Http, Json
from leadout.probe.values import Ask, Counters, Inspection, Said

Fields = Mapping[str, object]


class Engine(Protocol):
    """One kind of server."""

    @property
    def name(self) -> str:
        """As in ``--engine``."""

    @property
    def takes_ids(self) -> bool:
        """Whether prompts can be ids and answers tell theirs."""

    @property
    def n_top(self) -> int:
        """Most log probabilities that it reports per token by default; 0 where it reports none."""

    @property
    def undrafted(self) -> Fields | None:
        """Fields with which one request is decoded plainly; None where the engine has no such switch."""

    @property
    def advice(self) -> str:
        """How else to find out, where the engine itself counts nothing."""

    def recognise(self, http: Http) -> str | None:
        """The engine's version ("" where it tells none), or None if this is another server."""

    def models(self, http: Http) -> Sequence[str]:
        """Names of the models that it serves; empty where requests need none."""

    def request(self, ask: Ask, model: str) -> tuple[str, Json]:
        """Path and body; the body asks for no stream."""

    def read(self, chunks: Sequence[Json]) -> Said:
        """An answer from its chunks; one that was not streamed is one chunk."""

    def text_in(self, chunk: Json) -> str:
        """The text that a chunk carries; "" for one that only counts or ends."""

    def ids(self, http: Http, model: str, text: str) -> tuple[int, ...] | None:
        """A text's tokens as the engine itself would read them; None where it does not tell."""

    def counters(self, http: Http) -> Counters | None:
        """What it counted so far; None where it counts nothing."""

    def inspect(self, http: Http, model: str) -> Inspection:
        """What it tells about its set-up, after it has answered once."""


@contextmanager
def reading(engine: str, http: Http) -> Iterator[None]:
    """Whatever an answer lacks or has in another form becomes an error that says so.

    Raises
    ------
    ServerError
    """
    try:
        yield
    except LeadoutError:
        raise
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise ServerError(
            f"{http.url} answers in a form that is not known of {engine} ({type(error).__name__}: {error}); "
            "is it another engine or a version that is not known here?"
        ) from error


def pick_model(engine: Engine, http: Http, wanted: str | None) -> str:
    """The model to ask for.

    Raises
    ------
    InputError
        If there are several and none was named, or the one that was named is not served.
    """
    served = engine.models(http)
    if wanted is not None:
        if served and wanted not in served:
            raise InputError(f"{http.url} does not serve {wanted!r}; it serves {', '.join(served[:10])}")
        return wanted
    if len(served) > 1:
        raise InputError(f"{http.url} serves {', '.join(served[:10])}; name one with --model NAME")
    return served[0] if served else ""
