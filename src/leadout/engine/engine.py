"""The engine: prompts in, events and results out, one generation at a time; caches are kept between calls."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from types import TracebackType

import numpy as np

from leadout import __version__
from leadout.checks import check_kind, is_whole, shown
from leadout.drafters.base import Drafter
from leadout.engine.events import Event, Speculation
from leadout.engine.generation import Generation
from leadout.engine.params import Params
from leadout.engine.result import Provenance, Result, collect
from leadout.engine.schedule import FixedSchedule, Schedule
from leadout.errors import BackendError, InputError, PromptTooLongError
from leadout.models.base import Model

PREFILL_BATCH = 512
DEFAULT_PARAMS = Params()

Prompt = str | Sequence[int]
"""Raw text, or ids."""


class Engine:
    """Generates with a target and, where it can, a drafter.

    One generation at a time: a call during another one is refused, so give each thread an engine of its own.

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
        Longest piece of a prompt that is read in one pass.
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
        self._generation = Generation(
            target,
            drafter,
            schedule or FixedSchedule(),
            widths=_exact_widths(target, drafter) if exact else None,
            prefill_batch=prefill_batch,
            generator=generator,
        )
        self._busy = threading.Lock()
        # Held while caches change, not while a reader looks at an event. Reentrant, as a forgotten iterator
        # may be collected, and closed, in the middle of it.
        self._stepping = threading.RLock()
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
        return self._generation.speculation(DEFAULT_PARAMS)

    def generate(self, prompt: Prompt, params: Params = DEFAULT_PARAMS) -> Result:
        """The answer to a prompt.

        Parameters
        ----------
        prompt : str or sequence of int
            Raw text (marker texts become single ids; the beginning-of-sequence id is added where the model
            wants it), or ids, which are taken as they are.
        params : Params

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
        return self.generate_many(prompt, params)[0]

    def generate_many(self, prompt: Prompt, params: Params = DEFAULT_PARAMS) -> list[Result]:
        """All ``params.n`` answers to a prompt; raises as `generate` does."""
        with closing(self.stream(prompt, params)) as events:
            return collect(events, self.provenance(params), has_logprobs=params.logprobs is not None)

    def stream(self, prompt: Prompt, params: Params = DEFAULT_PARAMS) -> Generator[Event, None, None]:
        """The events of a generation, as they come; raises as `generate` does.

        Closing the iterator cancels what is left; the engine can be used again at once.
        """
        check_kind("params", params, Params, "a Params")
        return self._events(self._ids(prompt), params)

    def chat(
        self,
        messages: Sequence[Mapping[str, object]],
        params: Params = DEFAULT_PARAMS,
        tools: Sequence[Mapping[str, object]] | None = None,
    ) -> Result:
        """The reply to a conversation, written out by the model's template; raises as `generate` does."""
        return self.generate(self.chat_ids(messages, tools), params)

    def stream_chat(
        self,
        messages: Sequence[Mapping[str, object]],
        params: Params = DEFAULT_PARAMS,
        tools: Sequence[Mapping[str, object]] | None = None,
    ) -> Generator[Event, None, None]:
        """The events of a reply, as they come; see `stream` and `chat`."""
        return self.stream(self.chat_ids(messages, tools), params)

    def chat_ids(
        self,
        messages: Sequence[Mapping[str, object]],
        tools: Sequence[Mapping[str, object]] | None = None,
    ) -> list[int]:
        """Ids of a conversation, up to where the reply begins."""
        from leadout.models.template import encode_chat  # jinja2 is needed for chat alone

        return encode_chat(self._target.vocab, messages, tools=tools)

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
        with self._stepping:
            if self._closed:
                return
            self._closed = True
            self._generation.close()
        if self._drafter is not None:
            self._drafter.close()
        self._target.close()

    def __enter__(self) -> Engine:
        """The engine itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    def _ids(self, prompt: Prompt) -> list[int]:
        """Ids of the prompt, checked."""
        if self._closed:
            raise InputError("this engine is closed; load the model again")
        info = self._target.info
        ids = self._encode(prompt) if isinstance(prompt, str) else _whole_numbers(prompt)
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

    def _encode(self, text: str) -> list[int]:
        vocab = self._target.vocab
        ids = vocab.encode(text, add_bos=vocab.adds_bos, special=True)
        if vocab.adds_bos and ids[:2] == [vocab.bos, vocab.bos]:
            return ids[1:]  # the text began with the marker itself
        return ids

    def _events(self, prompt: list[int], params: Params) -> Generator[Event, None, None]:
        if not self._busy.acquire(blocking=False):
            raise InputError(
                "this engine is busy with another generation; finish or close that, or use a second engine"
            )
        try:
            self._cancelled.clear()
            with closing(self._generation.run(prompt, params, self._cancelled.is_set)) as steps:
                while (event := self._step(steps)) is not None:
                    yield event
        finally:
            self._busy.release()

    def _step(self, steps: Generator[Event, None, None]) -> Event | None:
        """The next event, or None after the last."""
        with self._stepping:
            if self._closed:
                raise BackendError("the engine was closed during this generation")
            return next(steps, None)


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
