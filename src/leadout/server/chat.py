"""``POST /v1/chat/completions``."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from leadout.server.body_route import BodyRoute
from leadout.server.chat_form import ChatForm
from leadout.server.chat_job import ChatRequest, chat_job
from leadout.server.chat_reply import ChatReply
from leadout.server.constraint import constraint_of
from leadout.server.desk import Desk
from leadout.server.refusal import RefusedError
from leadout.server.tool_form import Function, ToolChoiceForm


def chat_routes(desk: Desk) -> APIRouter:
    """The route, answering through `desk`."""
    router = APIRouter(tags=["OpenAI"], route_class=BodyRoute)

    @router.post("/v1/chat/completions", summary="Answer a conversation.", **desk.documented)
    async def chat_completions(request: Request, form: ChatForm) -> Response:
        served = await desk.served(request, form.model, form.keep_alive)
        job = await chat_job(served, chat_request(request, form, desk))
        options = form.stream_options
        reply = ChatReply(
            model=form.model,
            has_logprobs=bool(form.logprobs),
            has_usage=bool(form.stream and options and options.include_usage),
            has_origins=bool(options and options.include_origins),
        )
        pieces = desk.pieces(request, job)
        if form.stream:
            return await desk.stream(request, pieces, reply.chunks, job)
        return await desk.whole(request, reply.whole(pieces), job)

    return router


def chat_request(request: Request, form: ChatForm, desk: Desk) -> ChatRequest:
    """What the form asks for.

    Raises
    ------
    RefusedError
        If fields contradict one another, or one cannot be honoured.
    """
    tools = [each.function for each in form.tools or ()]
    _check(form, tools)
    choice = form.tool_choice
    return ChatRequest(
        messages=[message.to_template() for message in form.messages],
        params=form.to_params(
            max_tokens=form.max_tokens if form.max_completion_tokens is None else form.max_completion_tokens,
            n=form.n,
            stop=form.stop,
            logprobs=(form.top_logprobs or 0) if form.logprobs else None,
        ),
        tools=() if choice == "none" else tools,
        form=constraint_of(
            format_field="response_format",
            schema_field="response_format.json_schema.schema",
            format=None if form.response_format is None else form.response_format.model_dump(by_alias=True),
            tools=tools,
            tool_choice=choice if isinstance(choice, str) else None,
            only=choice.function.name if isinstance(choice, ToolChoiceForm) else None,
            grammar=form.grammar,
        ),
        client=desk.client(request),
        effort=form.reasoning_effort,
        variables=form.chat_template_kwargs,
        max_calls=1 if form.parallel_tool_calls is False else None,
        deadline=desk.deadline(),
        receipt=form.receipt or False,
    )


def _check(form: ChatForm, tools: list[Function]) -> None:
    if form.max_tokens is not None and form.max_completion_tokens is not None:
        raise RefusedError(
            400, "max_tokens and max_completion_tokens are the same; give one", param="max_tokens"
        )
    if form.top_logprobs is not None and not form.logprobs:
        raise RefusedError(400, "top_logprobs needs logprobs: true", param="top_logprobs")
    if form.stream_options is not None and not form.stream:
        raise RefusedError(400, "stream_options needs stream: true", param="stream_options")
    if form.tool_choice not in (None, "none") and not tools:
        raise RefusedError(400, "tool_choice needs tools", param="tool_choice")
