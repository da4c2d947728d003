"""One request's generation: the engine's events to pieces of answers, and their ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Literal

from leadout.engine.events import Event, Finished, Round, Token
from leadout.engine.params import Params
from leadout.engine.result import Result, ResultFold
from leadout.errors import InputError
from leadout.receipts import make_receipt, require_receiptable
from leadout.server.call_readers import ParameterTypes
from leadout.server.deltas import ArgumentsDelta, CallDelta, Delta, Message, TextDelta
from leadout.server.record import Record
from leadout.server.refusal import RefusedError
from leadout.server.registry import Prompt, Served
from leadout.server.reply_parser import ReplyParser

EndReason = Literal["stop", "length", "tool_calls"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is to be generated, and how its answers are read.

    Parameters
    ----------
    served : Served
    prompt : Prompt
    params : Params
    client : str
        Whose request it is.
    types : ParameterTypes or None
        Parameters of the tools that were offered; None where there were none.
    is_chat : bool
        Whether reasoning and calls are told from text.
    is_thinking : bool
        Answers begin inside their reasoning.
    max_calls : int or None
        Calls of an answer after this many are left out.
    deadline : float or None
        Time of the event loop's clock when the request is given up.
    receipt : bool or "with_prompt"
        Whether a receipt is wanted; with the prompt's ids only if asked.
    """

    served: Served
    prompt: Prompt
    params: Params
    client: str = ""
    types: ParameterTypes | None = None
    is_chat: bool = True
    is_thinking: bool = False
    max_calls: int | None = None
    deadline: float | None = None
    receipt: Literal["with_prompt"] | bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How an answer ended; `n_reasoning` of its tokens were reasoning.

    The one that ends last has the `receipt` of all answers, where that was asked for.
    """

    result: Result
    reason: EndReason
    n_reasoning: int
    receipt: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """What one event brought to answer `index`: deltas, the token they came with, or the end.

    `rounds` are those that were over since the piece before.
    """

    index: int
    deltas: Sequence[Delta] = ()
    token: Token | None = None
    end: End | None = None
    rounds: Sequence[Round] = ()


@dataclass(slots=True)
class _Answer:
    """One answer in progress."""

    job: Job
    fold: ResultFold
    parser: ReplyParser | None
    n_reasoning: int = 0
    n_calls: int = 0
    _rounds: list[Round] = field(default_factory=list)  # that no piece has told

    def take(self, event: Event) -> Piece | None:
        """The piece that this event makes, if any."""
        self.fold.add(event)
        match event:
            case Token():
                return Piece(index=event.index, deltas=self._read(event), token=event, rounds=self._untold())
            case Round():
                self._rounds.append(event)
            case Finished():
                return self._finish(event)
        return None

    def _untold(self) -> list[Round]:
        rounds, self._rounds = self._rounds, []
        return rounds

    def _read(self, token: Token) -> list[Delta]:
        was_reasoning = self.parser is not None and self.parser.is_reasoning
        deltas = self._deltas(token.text + self.job.served.style.markers.get(token.token, ""))
        if was_reasoning or (self.parser is not None and self.parser.is_reasoning):
            self.n_reasoning += 1
        return deltas

    def _deltas(self, text: str, *, is_last: bool = False) -> list[Delta]:
        if self.parser is None:
            return [TextDelta(text=text)] if text else []
        deltas = self.parser.feed(text)
        if is_last:
            deltas += self.parser.finish()
        limit = self.job.max_calls
        kept = [each for each in deltas if limit is None or _call_number(each) < limit]
        self.n_calls += sum(isinstance(each, CallDelta) for each in kept)
        return kept

    def _finish(self, event: Finished) -> Piece:
        if event.reason == "cancelled":
            raise RefusedError(503, "the server is closing; try again later", retry_after_s=5.0)
        deltas = self._deltas(event.text, is_last=True)
        has_called = self.n_calls > 0 and event.reason == "stop"
        end = End(
            result=self.fold.result(),
            reason="tool_calls" if has_called else event.reason,
            n_reasoning=self.n_reasoning,
        )
        return Piece(index=event.index, deltas=deltas, end=end, rounds=self._untold())


async def pieces(job: Job, record: Record) -> AsyncGenerator[Piece, None]:
    """The pieces of all answers as they come; the first is an empty one, once the prompt has been read.

    Raises
    ------
    InputError, BusyError
        Before the first piece.
    RefusedError
        If the deadline is over, or the server is closing.
    """
    provenance = job.served.engine.provenance(job.params)
    answers: dict[int, _Answer] = {}
    results: list[Result] = []
    if job.receipt:
        try:
            require_receiptable(job.params)
        except InputError as error:
            raise RefusedError(400, str(error), param="receipt", code="not_supported") from error
    loop = asyncio.get_running_loop()
    record.ask(job.prompt)
    async with aclosing(job.served.runner.events(job.prompt, job.params, client=job.client)) as events:
        async for event in events:
            record.take(event)
            answer = answers.get(event.index)
            if answer is None:
                parser = (
                    job.served.style.parser(job.types, is_thinking=job.is_thinking) if job.is_chat else None
                )
                answer = _Answer(job, ResultFold(provenance, job.params.logprobs is not None), parser)
                answers[event.index] = answer
                yield Piece(index=event.index)
            piece = answer.take(event)
            if piece is not None and piece.end is not None and job.receipt:
                results.append(piece.end.result)
                if len(results) == job.params.n:
                    piece = replace(piece, end=replace(piece.end, receipt=await _receipt(job, results)))
            if piece is not None:
                yield piece
            if job.deadline is not None and loop.time() > job.deadline:
                raise RefusedError(504, "the request took longer than this server allows", code="timeout")


async def _receipt(job: Job, results: Sequence[Result]) -> Mapping[str, object]:
    """The receipt for all answers; in a thread, as files may have to be hashed."""

    def make() -> Mapping[str, object]:
        engine = job.served.engine
        ids = engine.request(job.prompt, job.params).prompt.ids
        answers = sorted(results, key=lambda each: each.index)
        has_prompt = job.receipt == "with_prompt"
        return make_receipt(engine, ids, job.params, answers, has_prompt=has_prompt).to_json()

    return await asyncio.to_thread(make)


@dataclass(slots=True)
class Answers:
    """All answers of a request, folded from their pieces.

    Attributes
    ----------
    ends : mapping of index to End
        Of those that are complete.
    """

    _deltas: dict[int, list[Delta]] = field(default_factory=dict)
    ends: dict[int, End] = field(default_factory=dict)

    def add(self, piece: Piece) -> None:
        """Take one piece."""
        self._deltas.setdefault(piece.index, []).extend(piece.deltas)
        if piece.end is not None:
            self.ends[piece.index] = piece.end

    def message(self, index: int) -> Message:
        """What answer `index` says."""
        return Message.of(self._deltas.get(index, ()))

    @property
    def receipt(self) -> dict[str, object]:
        """The receipt under its name; empty where none was asked for."""
        return receipt_in(self.ends.values())

    def in_order(self) -> list[tuple[int, Message, End]]:
        """Complete answers by index."""
        return [(index, self.message(index), self.ends[index]) for index in sorted(self.ends)]


def receipt_in(ends: Iterable[End]) -> dict[str, object]:
    """The receipt that came with one of these, under its name; empty where none was asked for."""
    receipts = [end.receipt for end in ends if end.receipt is not None]
    return {"receipt": receipts[0]} if receipts else {}


def _call_number(delta: Delta) -> int:
    """Which call a delta belongs to; text and reasoning count as none."""
    return delta.at if isinstance(delta, CallDelta | ArgumentsDelta) else -1
