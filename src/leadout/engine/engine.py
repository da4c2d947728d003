"""The engine: prompts in, events and results out; caches are kept between calls.

Every request goes through a `Batch`: a generation has it to itself, and whoever leases it serves many.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from types import TracebackType

import numpy as np

from leadout import __version__
from leadout.checks import check_kind, is_whole, shown
from leadout.drafters.base import Drafter, DraftPrompt
from leadout.engine.answer import Request
from leadout.engine.batch import Batch
from leadout.engine.events import Event, Finished, Speculation
from leadout.engine.params import Params
from leadout.engine.result import Provenance, Result, collect
from leadout.engine.schedule import FixedSchedule, Schedule
from leadout.errors import InputError, PromptTooLongError
from leadout.models.base import Model
from leadout.models.conversation import Conversation

PREFILL_BATCH = 512
DEFAULT_PARAMS = Params()

Prompt = str | Sequence[int] | Conversation
"""Raw text, ids, or a chat."""


class Engine:
    """Generates with a target and, where it can, a drafter.

    One generation at a time: a call during another one is refused, so give each thread an engine of its own,
    or lease the engine's batch, in which many requests run together.

    Parameters
    ----------
    target : Model
        Whose law the output follows.
    drafter : Drafter or None
        Who proposes; None decodes plainly.
    schedule : Schedule or None
        How much to draft; None is a fixed k of 4.
    exact : bool
        Keep every pass to one slot and to the widths at which the target gives the same bits as single
        tokens, so that output is plain decoding's bit for bit.
    prefill_batch : int >= 1
        Most tokens of prompts that are read in one pass.
    generator : callable
        Makes the random generator of each unseeded answer; the default takes fresh entropy each time.
    notes : tuple of str
        What a user of this pair of models should know.
    """

    def __init__(
        self,
        target: Model,
        drafter: Drafter | None = None,
        *,
        schedule: Schedule | None = None,
        exact: bool = False,
        prefill_batch: int = PREFILL_BATCH,
        generator: Callable[[], np.random.Generator] = np.random.default_rng,
        notes: tuple[str, ...] = (),
    ) -> None:
        if prefill_batch < 1:
            raise InputError(f"prefill_batch is {prefill_batch}; it must be at least 1")
        self._target, self._drafter = target, drafter
        self._batch = Batch(
            target,
            drafter,
            schedule or FixedSchedule(),
            widths=_exact_widths(target, drafter) if exact else None,
            prefill_batch=prefill_batch,
            generator=generator,
        )
        self._busy, self._closing = threading.Lock(), threading.Lock()
        self._cancelled = threading.Event()
        self._closed = False
        self._notes = notes

    @property
    def target(self) -> Model:
        """The target model."""
        return self._target

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user of this pair of models should know; most pairs have none."""
        return self._notes

    @property
    def speculation(self) -> Speculation:
        """Whether requests are decoded speculatively, before anything about a request is known."""
        return self._batch.speculation(DEFAULT_PARAMS)

    def generate(self, prompt: Prompt, params: Params = DEFAULT_PARAMS, *, client: str = "") -> Result:
        """The answer to a prompt.

        Parameters
        ----------
        prompt : str, sequence of int or Conversation
            Raw text (marker texts become single ids; the beginning-of-sequence id is added where the model
            wants it), ids, which are taken as they are, or a chat, which the model's template writes out.
        params : Params
        client : str
            Whose request it is: what is remembered of one client's answers is never drafted for another.

        Raises
        ------
        InputError
            If the prompt is empty or has an id outside the vocabulary, if ``params.n`` is not 1 (see
            `generate_many`), or if the engine is closed or busy.
        PromptTooLongError
            If the context has no room for the prompt and one more token.
        """
        check_kind("params", params, Params, "a Params")
        if params.n != 1:
            raise InputError(f"generate gives one answer, but n is {params.n}; use generate_many")
        return self.generate_many(prompt, params, client=client)[0]

    def generate_many(
        self, prompt: Prompt, params: Params = DEFAULT_PARAMS, *, client: str = ""
    ) -> list[Result]:
        """All ``params.n`` answers to a prompt; raises as `generate` does."""
        with closing(self.stream(prompt, params, client=client)) as events:
            return collect(events, self.provenance(params), has_logprobs=params.logprobs is not None)

    def stream(
        self, prompt: Prompt, params: Params = DEFAULT_PARAMS, *, client: str = ""
    ) -> Generator[Event, None, None]:
        """The events of a generation, as they come; raises as `generate` does.

        Closing the iterator cancels what is left; the engine can be used again at once.
        """
        return self._events(self.request(prompt, params, client=client))

    def request(self, prompt: Prompt, params: Params = DEFAULT_PARAMS, *, client: str = "") -> Request:
        """A request for the engine's batch; parameters and errors as those of `generate`."""
        check_kind("params", params, Params, "a Params")
        conversation = prompt if isinstance(prompt, Conversation) else None
        ids = self._ids(prompt)
        return Request(prompt=DraftPrompt(ids=ids, client=client, conversation=conversation), params=params)

    @contextmanager
    def lease(self) -> Iterator[Batch]:
        """The batch behind this engine, for whoever serves many requests; nobody else can generate meanwhile.

        What still runs at the end is abandoned.

        Raises
        ------
        InputError
            If the engine is busy or closed.
        """
        self._require_open()
        if not self._busy.acquire(blocking=False):
            raise InputError(
                "this engine is busy with another generation; finish or close that, or use a second engine"
            )
        try:
            yield self._batch
        finally:
            self._batch.abandon()
            self._busy.release()

    def chat(
        self,
        messages: Sequence[Mapping[str, object]],
        params: Params = DEFAULT_PARAMS,
        tools: Sequence[Mapping[str, object]] | None = None,
    ) -> Result:
        """The reply to a conversation, written out by the model's template; raises as `generate` does."""
        return self.generate(Conversation(messages=messages, tools=tools), params)

    def stream_chat(
        self,
        messages: Sequence[Mapping[str, object]],
        params: Params = DEFAULT_PARAMS,
        tools: Sequence[Mapping[str, object]] | None = None,
    ) -> Generator[Event, None, None]:
        """The events of a reply, as they come; see `stream` and `chat`."""
        return self.stream(Conversation(messages=messages, tools=tools), params)

    def chat_ids(
        self,
        messages: Sequence[Mapping[str, object]],
        tools: Sequence[Mapping[str, object]] | None = None,
    ) -> list[int]:
        """Ids of a conversation, up to where the reply begins."""
        return self._encode(Conversation(messages=messages, tools=tools))

    def provenance(self, params: Params = DEFAULT_PARAMS) -> Provenance:
        """Where results of this engine come from."""
        info = self._target.info
        return Provenance(
            model=info.name,
            path=info.path,
            provider=info.provider,
            draft=None if self._drafter is None else self._drafter.name,
            seed=params.seed,
            version=__version__,
        )

    def cancel(self) -> None:
        """End the running generation after its current pass, as "cancelled"; for any thread."""
        self._cancelled.set()

    def close(self) -> None:
        """End what is running after its current pass, and free target and drafter; for any thread.

        Closing twice is allowed. Who goes on reading events of a generation gets a BackendError.
        """
        self._cancelled.set()
        with self._closing, ExitStack() as closing:
            if self._closed:
                return
            self._closed = True
            closing.callback(self._target.close)
            if self._drafter is not None:
                closing.callback(self._drafter.close)
            closing.callback(self._batch.close)  # the first to be called: it waits for the running pass

    def __enter__(self) -> Engine:
        """The engine itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    def _require_open(self) -> None:
        if self._closed:
            raise InputError("this engine is closed; load the model again")

    def _ids(self, prompt: Prompt) -> list[int]:
        """Ids of the prompt, checked."""
        self._require_open()
        info = self._target.info
        ids = self._encode(prompt)
        if not ids:
            raise InputError(
                "the prompt is empty and this model has no token to begin with; give at least one token"
            )
        for token in ids:
            if not 0 <= token < info.n_vocab:
                raise InputError(f"the prompt has id {token}; ids of {info.name} are 0..{info.n_vocab - 1}")
        if len(ids) >= info.n_ctx:
            raise PromptTooLongError(
                f"the prompt has {len(ids)} tokens; a context of {info.n_ctx} takes {info.n_ctx - 1} at most"
                "; shorten it or load the model with a larger n_ctx"
            )
        return ids

    def _encode(self, prompt: Prompt) -> list[int]:
        vocab = self._target.vocab
        if isinstance(prompt, Conversation):
            from leadout.models.template import encode_chat  # jinja2 is needed for chat alone

            return encode_chat(vocab, prompt.messages, tools=prompt.tools, variables=prompt.variables)
        if not isinstance(prompt, str):
            return _whole_numbers(prompt)
        ids = vocab.encode(prompt, add_bos=vocab.adds_bos, special=True)
        if vocab.adds_bos and ids[:2] == [vocab.bos, vocab.bos]:
            return ids[1:]  # the text began with the marker itself
        return ids

    def _events(self, request: Request) -> Generator[Event, None, None]:
        with self.lease() as batch:
            self._cancelled.clear()
            waiting, n_left = deque(range(request.params.n)), request.params.n
            while n_left:
                events = self._advanced(batch, request, waiting)
                n_left -= sum(isinstance(event, Finished) for event in events)
                yield from events

    def _advanced(self, batch: Batch, request: Request, waiting: deque[int]) -> list[Event]:
        """Let answers join while there are slots, and take a step."""
        batch.require_open()
        if self._cancelled.is_set():
            events = [event for answer in batch.running for event in batch.leave(answer)]
            for index in waiting:
                events += batch.leave(batch.join(request, index))
            waiting.clear()
            return events
        while waiting and batch.n_free:
            batch.join(request, waiting.popleft())
        progress = batch.step()
        for each in progress:
            if each.error is not None:
                raise each.error
        return [event for each in progress for event in each.events]


def _exact_widths(target: Model, drafter: Drafter | None) -> frozenset[int]:
    """The widths that passes may have; where nothing drafts, single tokens need no measurement."""
    return frozenset({1}) if drafter is None else target.exact_widths()


def _whole_numbers(prompt: Sequence[int]) -> list[int]:
    """Ids as plain integers; numpy's are welcome, text and truth values are not."""
    if isinstance(prompt, np.ndarray):
        prompt = prompt.tolist()
    if not isinstance(prompt, Sequence) or isinstance(prompt, bytes | bytearray):
        raise InputError(f"the prompt is {shown(prompt)}; it must be text or a sequence of token ids")
    ids = [int(token) if isinstance(token, np.integer) else token for token in prompt]
    for token in ids:
        if not is_whole(token):
            raise InputError(f"the prompt has id {shown(token)}; ids are whole numbers")
    return ids
