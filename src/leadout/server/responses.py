"""``POST /v1/responses``."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from leadout.server.body_route import BodyRoute
from leadout.server.chat_job import ChatRequest, chat_job
from leadout.server.constraint import constraint_of
from leadout.server.desk import Desk
from leadout.server.refusal import RefusedError
from leadout.server.response_form import ResponseForm, ResponseToolChoice
from leadout.server.response_reply import ResponseReply
from leadout.server.sse import event_lines
from leadout.server.tool_form import Function


def response_routes(desk: Desk) -> APIRouter:
    """The route, answering through `desk`."""
    router = APIRouter(tags=["OpenAI"], route_class=BodyRoute)

    @router.post("/v1/responses", summary="Answer input items.", **desk.documented)
    async def responses(request: Request, form: ResponseForm) -> Response:
        served = await desk.served(request, form.model, form.keep_alive)
        job = await chat_job(served, response_request(request, form, desk))
        reply = ResponseReply(asked=_asked(form), has_logprobs=form.logprobs is not None)
        pieces = desk.pieces(request, job)
        if form.stream:
            return await desk.stream(request, pieces, reply.events, job, event_lines)
        return await desk.whole(request, reply.whole(pieces), job)

    return router


def response_request(request: Request, form: ResponseForm, desk: Desk) -> ChatRequest:
    """What the form asks for.

    Raises
    ------
    RefusedError
        If fields contradict one another, or one cannot be honoured.
    """
    tools = [each.to_function() for each in form.tools or ()]
    _check(form, tools)
    choice = form.tool_choice
    format = None if form.text is None else form.text.format
    return ChatRequest(
        messages=form.messages(),
        params=form.to_params(max_tokens=form.max_output_tokens, logprobs=form.logprobs),
        tools=() if choice == "none" else tools,
        form=constraint_of(
            format_field="text.format",
            schema_field="text.format.schema",
            format=None if format is None else format.model_dump(by_alias=True),
            tools=tools,
            tool_choice=choice if isinstance(choice, str) else None,
            only=choice.name if isinstance(choice, ResponseToolChoice) else None,
            tools_field="tools[{}]",
            grammar=form.grammar,
        ),
        client=desk.client(request),
        effort=None if form.reasoning is None else form.reasoning.effort,
        effort_field="reasoning.effort",
        max_calls=1 if form.parallel_tool_calls is False else None,
        deadline=desk.deadline(),
        receipt=form.receipt or False,
    )


def _check(form: ResponseForm, tools: list[Function]) -> None:
    if form.tool_choice not in (None, "none", "auto") and not tools:
        raise RefusedError(400, "tool_choice needs tools", param="tool_choice")


def _asked(form: ResponseForm) -> dict[str, object]:
    """What a response tells again of its request."""
    params = form.to_params(max_tokens=form.max_output_tokens)
    format, choice = None if form.text is None else form.text.format, form.tool_choice
    return {
        "model": form.model,
        "instructions": form.instructions,
        "max_output_tokens": form.max_output_tokens,
        "metadata": form.metadata or {},
        "parallel_tool_calls": form.parallel_tool_calls is not False,
        "previous_response_id": None,
        "reasoning": {"effort": form.reasoning.effort if form.reasoning else None, "summary": None},
        "store": False,
        "temperature": params.temperature,
        "text": {"format": {"type": "text"} if format is None else format.model_dump(by_alias=True)},
        "tool_choice": choice.model_dump() if isinstance(choice, ResponseToolChoice) else choice or "auto",
        "tools": [tool.model_dump() for tool in form.tools or ()],
        "top_p": params.top_p,
        "truncation": "disabled",
        "user": form.user,
    }
