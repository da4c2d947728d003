"""A runner that runs requests one after the other, and toy models that speak bytes."""

import asyncio
import contextlib
from dataclasses import dataclass

import httpx
import numpy as np

from leadout.engine.engine import Engine
from leadout.engine.schedule import FixedSchedule
from leadout.errors import BusyError
from leadout.models.conversation import Conversation
from leadout.models.template import encode_chat
from leadout.server.app import make_app
from leadout.server.registry import LoadedModels, Served
from leadout.testing import PieceVocabulary, TableModel

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TOOLS = (
    "{% if tools %}<|im_start|>system\nTools: {{ tools | tojson }} <tool_call><|im_end|>\n{% endif %}"
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content or '' }}"
    "{% for call in message.tool_calls or [] %}<tool_call>{{ call.function | tojson }}</tool_call>"
    "{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
START, END = 256, 257


@dataclass
class SerialLoad:
    running: int
    queued: int
    slots: int = 1
    cached_tokens: int = 0
    capacity_tokens: int = 8192


class SerialRunner:
    """Runs requests of an engine one after the other; each pass in a thread."""

    def __init__(self, engine, max_queued=64):
        self.engine, self.max_queued = engine, max_queued
        self.lock = asyncio.Lock()
        self.n_waiting = 0
        self.is_closed = False

    @property
    def load(self):
        return SerialLoad(running=int(self.lock.locked()), queued=self.n_waiting)

    async def events(self, prompt, params, *, client=""):
        if self.n_waiting > self.max_queued or self.is_closed:
            raise BusyError("too many requests wait; try again in 2 seconds", 2.0)
        self.n_waiting += 1
        try:
            ids = await asyncio.to_thread(self._ids, prompt)
            await self.lock.acquire()
        finally:
            self.n_waiting -= 1
        stream = self.engine.stream(ids, params)
        try:
            while (event := await self._next(stream)) is not None:
                yield event
        finally:
            stream.close()
            self.lock.release()

    async def _next(self, stream):
        step = asyncio.ensure_future(asyncio.to_thread(next, stream, None))
        try:
            return await asyncio.shield(step)
        except asyncio.CancelledError:
            self.engine.cancel()
            await asyncio.wait([step])
            raise

    def _ids(self, prompt):
        if isinstance(prompt, Conversation):
            vocab = self.engine.target.vocab
            return encode_chat(vocab, prompt.messages, tools=prompt.tools, variables=prompt.variables)
        return self.engine._ids(prompt)

    async def close(self, grace_s=10.0):
        self.is_closed = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_s), self.lock:
                pass


def byte_vocabulary(template=CHATML, extra=()):
    """Ids 0..255 are bytes, then the chat's two markers, then `extra` control markers."""
    markers = ["<|im_start|>", "<|im_end|>", *extra]
    return PieceVocabulary(
        [bytes([i]) for i in range(256)] + [b""] * len(markers),
        ends=[END],
        chat_template=template,
        markers=[(marker, START + i) for i, marker in enumerate(markers)],
    )


def replying(reply, template=CHATML, extra=(), n_ctx=8192, **options):
    """A model that answers every chat with `reply`: text, or a function from the prompt's text to it."""
    vocab = byte_vocabulary(template, extra)
    n_vocab = vocab.size
    begin = vocab.encode("<|im_start|>assistant\n", add_bos=False, special=True)

    def rule(tokens):
        at = next(i for i in range(len(tokens), -1, -1) if list(tokens[i - len(begin) : i]) == begin)
        if callable(reply):
            asked = b"".join(vocab.piece(token, special=True) for token in tokens[:at]).decode()
            said = reply(asked)
        else:
            said = reply
        answer = [*vocab.encode(said, add_bos=False, special=True), END]
        n = len(tokens) - at
        logits = np.zeros(n_vocab)
        logits[answer[n] if n < len(answer) else END] = 20.0
        return logits

    return TableModel(rule, n_vocab=n_vocab, n_ctx=n_ctx, vocab=vocab, **options)


def constant_chat(probabilities, template=CHATML):
    """A model with the same probabilities for the letters a, b, c, ... after every text."""
    vocab = byte_vocabulary(template)
    logits = np.full(vocab.size, -60.0)
    for i, p in enumerate(probabilities):
        logits[ord("a") + i] = np.log(p)
    return TableModel(lambda tokens: logits, n_vocab=vocab.size, n_ctx=16384, vocab=vocab)


def served(model, drafter=None, *, k=4, name="toy", generator=np.random.default_rng, runner=SerialRunner):
    """The model behind a runner."""
    engine = Engine(model, drafter, schedule=FixedSchedule(k), generator=generator)
    return Served.of(engine, runner(engine), name)


def app_of(*models, options=None):
    """The application that serves these."""
    return make_app(LoadedModels({each.name: each for each in models}), options)


def client_of(app, **options):
    """A client that speaks to the application in this process."""
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60, **options)
