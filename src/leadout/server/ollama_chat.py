"""``POST /api/chat``, and what it shares with ``POST /api/generate``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fastapi import APIRouter, Request, Response

from leadout.server.body_route import BodyRoute
from leadout.server.chat_job import ChatRequest, chat_job
from leadout.server.constraint import AnswerForm, constraint_of
from leadout.server.desk import Desk, record_of
from leadout.server.json_response import JsonResponse
from leadout.server.keep_alive import keep_alive_s
from leadout.server.ollama_form import OllamaChatForm, OllamaForm
from leadout.server.ollama_reply import NDJSON, OllamaReply, ndjson_lines
from leadout.server.refusal import RefusedError
from leadout.server.registry import Served
from leadout.server.reply import Job
from leadout.server.reply_parser import THINK
from leadout.server.tool_form import Function


@dataclass(frozen=True, slots=True, kw_only=True)
class OllamaDesk:
    """Answers requests of Ollama's clients."""

    desk: Desk

    async def served(self, request: Request, form: OllamaForm) -> Served:
        """The model, if it has the context that is asked for; raises RefusedError otherwise."""
        served = await self.desk.served(request, form.model, form.keep_alive)
        form.options.check_context(served.engine.target.info.n_ctx)
        return served

    async def load(self, request: Request, form: OllamaForm, reply: OllamaReply) -> Response:
        """The answer to a request without a prompt, which loads a model, or with keep_alive 0 unloads it."""
        is_to_leave = form.keep_alive is not None and keep_alive_s(form.keep_alive) == 0
        name = self.desk.registry.find(form.model)
        if not is_to_leave or name in [each.name for each in self.desk.registry.loaded()]:
            await self.served(request, form)
        return JsonResponse(reply.loaded("unload" if is_to_leave else "load"))

    async def chat_job(
        self,
        request: Request,
        form: OllamaForm,
        served: Served,
        messages: Sequence[Mapping[str, object]],
        tools: Sequence[Function] = (),
    ) -> Job:
        """What a conversation asks for; raises RefusedError for what cannot be honoured."""
        return await chat_job(
            served,
            ChatRequest(
                messages=messages,
                params=form.to_params(),
                tools=tools,
                form=form_of(form, tools),
                client=self.desk.client(request),
                effort=form.effort if _is_told(form, served) else None,
                effort_field="think",
                deadline=self.desk.deadline(),
            ),
        )

    async def answer(self, request: Request, form: OllamaForm, job: Job, reply: OllamaReply) -> Response:
        """The answer as lines, or as one object."""
        job = replace(job, receipt=form.receipt or False)
        pieces = self.desk.pieces(request, job)
        if form.stream:
            return await self.desk.stream(request, pieces, reply.chunks, job, ndjson_lines, media_type=NDJSON)
        return await self.desk.whole(request, reply.whole(pieces), job)


def ollama_chat_routes(desk: Desk) -> APIRouter:
    """The route, answering through `desk`."""
    router, ollama = APIRouter(tags=["Ollama"], route_class=BodyRoute), OllamaDesk(desk=desk)

    @router.post("/api/chat", summary="Answer a conversation.", **desk.documented_for(NDJSON))
    async def chat(request: Request, form: OllamaChatForm) -> Response:
        reply = reply_of(request, form, is_chat=True)
        if not form.messages:
            return await ollama.load(request, form, reply)
        served = await ollama.served(request, form)
        messages = [message.to_template() for message in form.messages]
        tools = [each.function for each in form.tools or ()]
        job = await ollama.chat_job(request, form, served, messages, tools)
        return await ollama.answer(request, form, job, reply)

    return router


def form_of(form: OllamaForm, tools: Sequence[Function] = ()) -> AnswerForm:
    """What the answer must look like; raises RefusedError for what cannot be honoured."""
    return constraint_of(
        format_field="format", schema_field="format", format=form.response_format, tools=tools
    )


def reply_of(request: Request, form: OllamaForm, *, is_chat: bool) -> OllamaReply:
    """How the answer to this request is told."""
    return OllamaReply(
        model=form.model, is_chat=is_chat, record=record_of(request), has_logprobs=bool(form.logprobs)
    )


def without_thinking(form: OllamaForm, served: Served) -> None:
    """Refuse `think` where no template is used that could honour it; raises RefusedError."""
    if form.think:
        raise RefusedError(
            400, f"{served.name} has no chat template here, so think is not honoured", param="think"
        )


def _is_told(form: OllamaForm, served: Served) -> bool:
    """Whether `think` has to be told to the template, or holds for this model anyway."""
    style = served.style
    if form.effort is None or style.has_variable("reasoning_effort") or style.has_variable("enable_thinking"):
        return True
    can_think = style.has_variable(THINK)
    return can_think != (form.effort != "none")  # else it is refused
