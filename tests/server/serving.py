"""Applications in this process, and toy models that speak bytes."""

import asyncio
import json
from contextlib import asynccontextmanager

import httpx
import numpy as np

from leadout.engine.engine import Engine
from leadout.engine.schedule import FixedSchedule
from leadout.server.app import make_app
from leadout.server.batcher import Batcher
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
HELLO = [{"role": "user", "content": "hello"}]


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
    openings = [list(text.encode()) for text in ("<think>\n", "quick") if text in (template or "")]
    begin = vocab.encode("<|im_start|>assistant\n", add_bos=False, special=True)

    def rule(tokens):
        ends = (i for i in range(len(tokens), -1, -1) if list(tokens[i - len(begin) : i]) == begin)
        at = next(ends, 0)
        for opening in openings:
            at += len(opening) if list(tokens[at : at + len(opening)]) == opening else 0
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


def served(model, drafter=None, *, k=4, name="toy", max_queued=64):
    """The model behind a runner."""
    engine = Engine(model, drafter, schedule=FixedSchedule(k))
    return Served.of(engine, Batcher(engine, max_queued=max_queued), name)


def app_of(*models, options=None, **more):
    """The application that serves these."""
    return make_app(LoadedModels({each.name: each for each in models}), options, **more)


@asynccontextmanager
async def client_of(*models, options=None, **more):
    """A client of an application in this process that serves these models; they are closed at the end."""
    transport = httpx.ASGITransport(app=app_of(*models, options=options, **more), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as client:
        yield client
    await LoadedModels({each.name: each for each in models}).close(0.0)


def post(model, *bodies, path="/v1/chat/completions", times=1, options=None, **about):
    """The response to one request to the model; the responses to several."""

    async def ask():
        async with client_of(served(model, **about), options=options) as client:
            asked = [{"model": "toy", **body} for body in bodies * times]
            return [await client.post(path, json=body) for body in asked]

    responses = asyncio.run(ask())
    return responses[0] if len(responses) == 1 else responses


def chunks_of(response):
    """The chunks of a stream."""
    lines = [line.removeprefix("data: ") for line in response.text.split("\n\n") if line]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def deltas_of(chunks):
    """Their deltas."""
    return [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
