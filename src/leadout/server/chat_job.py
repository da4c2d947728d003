"""From a chat request to what is to be generated; shared by all interfaces that chat."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from leadout.engine.params import Params
from leadout.models.conversation import Conversation
from leadout.server.constraint import FREE, AnswerForm, constrained
from leadout.server.refusal import RefusedError
from leadout.server.registry import Served
from leadout.server.reply import Job
from leadout.server.tool_form import Function, described, parameter_types
from leadout.server.tool_prompt import with_tools_written_out

_TAKEN = ("messages", "tools", "add_generation_prompt", "bos_token", "eos_token")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """A chat, whatever interface it came through.

    Parameters
    ----------
    messages : sequence of mappings
        As chat templates know them.
    tools : sequence of Function
        What may be called; empty for nothing.
    form : AnswerForm
        What the answer must look like.
    params : Params
    client : str
    effort : str or None
        How much to reason, from "none" to "xhigh".
    effort_field : str
        Name of the field that it came from.
    variables : mapping
        Of the chat template.
    max_calls : int or None
        Most calls of an answer.
    deadline : float or None
        Time of the event loop's clock.
    receipt : bool or "with_prompt"
        See `Job`.
    """

    messages: Sequence[Mapping[str, object]]
    params: Params
    tools: Sequence[Function] = ()
    form: AnswerForm = FREE
    client: str = ""
    effort: str | None = None
    effort_field: str = "reasoning_effort"
    variables: Mapping[str, object] | None = None
    max_calls: int | None = None
    deadline: float | None = None
    receipt: Literal["with_prompt"] | bool = False


async def chat_job(served: Served, request: ChatRequest) -> Job:
    """What is to be generated.

    Raises
    ------
    RefusedError
        If the model cannot chat, or its template cannot honour what was asked.
    """
    style = served.style
    if style.template is None:
        raise RefusedError(
            400,
            f"{served.name} has no chat template, it is most likely a base model; use /v1/completions",
            param="model",
        )
    variables = {**_reasoning(served, request), **_own_variables(request)}
    messages, tools = list(request.messages), described(request.tools)
    if style.syntax is None:
        conversation = Conversation(
            messages=with_tools_written_out(messages, tools), variables=variables or None
        )
    else:
        conversation = Conversation(messages=messages, tools=tools or None, variables=variables or None)
    is_thinking = style.can_think and await asyncio.to_thread(style.begins_thinking, variables)
    params = await constrained(
        request.params,
        served,
        request.form,
        request.tools,
        is_single=request.max_calls == 1,
        is_thinking=is_thinking,
    )
    return Job(
        served=served,
        prompt=conversation,
        params=params,
        client=request.client,
        types=parameter_types(request.tools) if request.tools else None,
        is_thinking=is_thinking,
        max_calls=request.max_calls,
        deadline=request.deadline,
        receipt=request.receipt,
    )


def _own_variables(request: ChatRequest) -> Mapping[str, object]:
    given = request.variables or {}
    for name in _TAKEN:
        if name in given:
            raise RefusedError(
                400, f"chat_template_kwargs.{name} cannot be set", param=f"chat_template_kwargs.{name}"
            )
    return given


def _reasoning(served: Served, request: ChatRequest) -> Mapping[str, object]:
    """The template's variable for how much to reason."""
    if request.effort is None:
        return {}
    if served.style.has_variable("reasoning_effort"):
        return {"reasoning_effort": request.effort}
    if served.style.has_variable("enable_thinking"):
        return {"enable_thinking": request.effort != "none"}
    field = request.effort_field
    raise RefusedError(
        400,
        f"{field} is not honoured, as the chat template of {served.name} knows no such setting",
        param=field,
        code="not_supported",
    )
