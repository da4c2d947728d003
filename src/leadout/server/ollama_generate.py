"""``POST /api/generate``: one prompt, through the chat template or raw."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from fastapi import APIRouter, Request, Response

from leadout.models.base import Vocabulary
from leadout.models.conversation import Conversation
from leadout.models.template import encode_chat, render_chat
from leadout.server.body_route import BodyRoute
from leadout.server.constraint import constrained
from leadout.server.desk import Desk
from leadout.server.ollama_chat import OllamaDesk, form_of, reply_of, without_thinking
from leadout.server.ollama_form import OllamaGenerateForm
from leadout.server.ollama_reply import NDJSON
from leadout.server.refusal import RefusedError
from leadout.server.registry import Served
from leadout.server.reply import Job

_SAID = "\N{BLACK SQUARE}said\N{BLACK SQUARE}"  # stands for the answer that a context ends with


def ollama_generate_routes(desk: Desk) -> APIRouter:
    """The route, answering through `desk`."""
    router, ollama = APIRouter(tags=["Ollama"], route_class=BodyRoute), OllamaDesk(desk=desk)

    @router.post("/api/generate", summary="Answer a prompt.", **desk.documented_for(NDJSON))
    async def generate(request: Request, form: OllamaGenerateForm) -> Response:
        reply = reply_of(request, form, is_chat=False)
        if not form.prompt:
            return await ollama.load(request, form, reply)
        _check(form)
        served = await ollama.served(request, form)
        if form.raw or served.style.template is None:
            job = await _raw_job(request, form, served, desk)
            return await ollama.answer(request, form, job, reply)
        messages = [{"role": "user", "content": form.prompt}]
        if form.system:
            messages = [{"role": "system", "content": form.system}, *messages]
        job = await ollama.chat_job(request, form, served, messages)
        ids = await asyncio.to_thread(_prompt_ids, served.engine.target.vocab, job, form)
        if form.context:
            job = replace(job, prompt=ids)
        return await ollama.answer(request, form, job, replace(reply, prompt_ids=ids))

    return router


def _check(form: OllamaGenerateForm) -> None:
    """Refuse fields that contradict one another."""
    if form.raw and (form.system or form.context):
        name = "system" if form.system else "context"
        raise RefusedError(
            400, f"{name} cannot be honoured with raw: true; leave out one of them", param=name
        )
    if form.system and form.context:
        raise RefusedError(
            400, "system cannot be honoured with context, which begins with one; leave it out", param="system"
        )


async def _raw_job(request: Request, form: OllamaGenerateForm, served: Served, desk: Desk) -> Job:
    """The prompt as it is."""
    without_thinking(form, served)
    for name, value in (("system", form.system), ("context", form.context)):
        if value:
            raise RefusedError(400, f"{name} needs a chat template, which {served.name} has not", param=name)
    return Job(
        served=served,
        prompt=form.prompt,
        params=await constrained(form.to_params(), served, form_of(form), is_chat=False),
        client=desk.client(request),
        is_chat=False,
        deadline=desk.deadline(),
    )


def _prompt_ids(vocab: Vocabulary, job: Job, form: OllamaGenerateForm) -> Sequence[int]:
    """Ids of the prompt, behind those of the context if there is one."""
    if not isinstance(job.prompt, Conversation):
        raise TypeError("a chat's job has no conversation")
    chat = job.prompt
    if not form.context:
        return encode_chat(vocab, chat.messages, tools=chat.tools, variables=chat.variables)
    turn = _turn_after_answer(vocab, chat.messages, chat.variables or {})
    return [*form.context, *vocab.encode(turn, add_bos=False, special=True)]


def _turn_after_answer(
    vocab: Vocabulary, messages: Sequence[Mapping[str, object]], variables: Mapping[str, object]
) -> str:
    """What a chat template writes behind an answer: its end, these messages, and the next one's beginning."""
    before = [{"role": "user", "content": "?"}, {"role": "assistant", "content": _SAID}]
    text = render_chat(
        vocab.chat_template or "",
        [*before, *messages],
        bos_text="" if vocab.bos is None else vocab.text(vocab.bos),
        eos_text="" if vocab.eos is None else vocab.text(vocab.eos),
        variables=variables,
    )
    _, said, turn = text.partition(_SAID)
    if not said:
        raise RefusedError(
            400, "context is not honoured, as the chat template leaves answers out; use chat", param="context"
        )
    return turn
