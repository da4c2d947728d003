"""Chat messages to prompt text and ids, by the model's own template.

Knows nothing of models beyond their vocabulary.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from types import CodeType

from jinja2 import Template, TemplateError

from leadout.errors import InputError
from leadout.models.base import Vocabulary
from leadout.models.conversation import Message
from leadout.models.sandbox import MAX_CHARACTERS, TemplateSandbox


def encode_chat(
    vocab: Vocabulary,
    messages: Sequence[Message],
    *,
    tools: Sequence[Mapping[str, object]] | None = None,
    add_generation_prompt: bool = True,
    variables: Mapping[str, object] | None = None,
    now: datetime | None = None,
) -> list[int]:
    """Prompt ids of a chat, by the template stored in the model.

    BOS stands in front once if the template writes it or the model adds it, and is never doubled. Marker
    texts such as ``<|im_start|>`` become single ids wherever they stand, inside a user's message too, as in
    every engine; whoever passes on text of strangers must take them out first.

    Parameters
    ----------
    vocab : Vocabulary
        The target's; its `chat_template` is used.
    messages, tools, add_generation_prompt, variables, now
        As in `render_chat`.

    Returns
    -------
    list of int
        Ids, BOS included.

    Raises
    ------
    InputError
        If the model has no template, or as in `render_chat`.
    """
    template = vocab.chat_template
    if template is None:
        raise InputError(
            "this model has no chat template, it is most likely a base model; "
            "give it plain text to go on with (--raw), or use an instruct model"
        )
    bos_text = "" if vocab.bos is None else vocab.text(vocab.bos)
    text = render_chat(
        template,
        messages,
        tools=tools,
        add_generation_prompt=add_generation_prompt,
        bos_text=bos_text,
        eos_text="" if vocab.eos is None else vocab.text(vocab.eos),
        variables=variables,
        now=now,
    )
    has_bos = bool(bos_text) and text.startswith(bos_text)
    return vocab.encode(text, add_bos=vocab.adds_bos and not has_bos, special=True)


def render_chat(
    template: str,
    messages: Sequence[Message],
    *,
    tools: Sequence[Mapping[str, object]] | None = None,
    add_generation_prompt: bool = True,
    bos_text: str = "",
    eos_text: str = "",
    variables: Mapping[str, object] | None = None,
    now: datetime | None = None,
) -> str:
    """Prompt text of a chat, as transformers' `apply_chat_template` renders it.

    Two things that clients of the OpenAI interface send are put into the form that templates expect: a list
    of text parts becomes one text, joined by newlines; tool-call arguments in JSON text become objects.

    Parameters
    ----------
    template : str
        Jinja source.
    messages : sequence of mappings, length >= 1
        Each with a ``role`` and, unless it has ``tool_calls``, a ``content``; other keys go to the template.
    tools : sequence of mappings or None
        Descriptions of callable functions.
    add_generation_prompt : bool
        End with the beginning of the assistant's answer.
    bos_text, eos_text : str
        What the template's ``bos_token`` and ``eos_token`` stand for.
    variables : mapping or None
        Further template variables, such as ``enable_thinking``.
    now : datetime or None
        The time templates see; None is the present local time.

    Raises
    ------
    InputError
        If a message has not the right form, or the template refuses, fails, or grows without end.
    """
    values = {
        **(variables or {}),
        "messages": _checked(messages),
        "tools": None if tools is None else list(tools),
        "add_generation_prompt": add_generation_prompt,
        "bos_token": bos_text,
        "eos_token": eos_text,
    }
    try:
        text = _rendered(template, values, now or datetime.now())
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"the messages are not valid Unicode text: {error}; remove lone surrogates"
        ) from error
    except TemplateError as error:
        raise InputError(_explained(error.message or type(error).__name__)) from error
    except Exception as error:  # whatever the template's own code runs into
        raise InputError(_explained(f"{type(error).__name__}: {error}")) from error
    return text


def _rendered(template: str, values: Mapping[str, object], now: datetime) -> str:
    pieces, length = [], 0
    sandbox = TemplateSandbox(now)
    compiled = Template.from_code(sandbox, _compiled(template), sandbox.make_globals(None))
    for piece in compiled.generate(values):
        length += len(piece)
        if length > MAX_CHARACTERS:
            raise TemplateError(f"it writes more than {MAX_CHARACTERS:,} characters")
        pieces.append(piece)
    return "".join(pieces)


@lru_cache(maxsize=8)  # compiling takes some ms, which every first token would wait for
def _compiled(template: str) -> CodeType:
    return TemplateSandbox(datetime.min).compile(template)


def _explained(reason: str) -> str:
    one_line = " ".join(reason.split())
    return (
        f"the model's chat template cannot take these messages: {one_line}; "
        "check roles and their order, or give plain text (--raw)"
    )


def _checked(messages: Sequence[Message]) -> list[dict[str, object]]:
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Sequence):
        raise InputError(f"messages is of type {type(messages).__name__}; it must be a list of messages")
    if not messages:
        raise InputError("messages is empty; give at least one message with role and content")
    return [_checked_message(at, message) for at, message in enumerate(messages)]


def _checked_message(at: int, message: Message) -> dict[str, object]:
    if not isinstance(message, Mapping):
        raise InputError(f"messages[{at}] is {message!r}; it must be a mapping with role and content")
    role = message.get("role")
    if not isinstance(role, str) or not role:
        raise InputError(
            f"messages[{at}] has role {role!r}; it must be a text such as system, user or assistant"
        )
    checked = dict(message)
    if "content" in checked:
        checked["content"] = _checked_content(
            at, checked["content"], has_calls=bool(checked.get("tool_calls"))
        )
    elif not checked.get("tool_calls"):
        raise InputError(f"messages[{at}] has no content; only a message with tool_calls may go without")
    if "tool_calls" in checked:
        checked["tool_calls"] = _checked_calls(at, checked["tool_calls"])
    return checked


def _checked_content(at: int, content: object, *, has_calls: bool) -> object:
    if isinstance(content, str) or (content is None and has_calls):
        return content
    if not isinstance(content, list | tuple):
        raise InputError(f"messages[{at}] has content {content!r}; it must be a text or a list of text parts")
    texts = []
    for part in content:
        kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
        text = part.get("text") if isinstance(part, Mapping) else None
        if kind != "text" or not isinstance(text, str):
            raise InputError(
                f"messages[{at}] has a content part of type {kind!r}; only text parts can be read"
            )
        texts.append(text)
    return "\n".join(texts)


def _checked_calls(at: int, calls: object) -> object:
    if calls is None:
        return None
    if not isinstance(calls, list | tuple) or not all(isinstance(call, Mapping) for call in calls):
        raise InputError(f"messages[{at}] has tool_calls {calls!r}; it must be a list of calls")
    return [_with_parsed_arguments(call) for call in calls]


def _with_parsed_arguments(call: Mapping[str, object]) -> dict[str, object]:
    function = call.get("function")
    if isinstance(function, Mapping):
        return {**call, "function": _with_parsed_arguments(function)}
    arguments = call.get("arguments")
    if not isinstance(arguments, str):
        return dict(call)
    try:
        parsed = json.loads(arguments)
    except ValueError:
        return dict(call)
    return {**call, "arguments": parsed} if isinstance(parsed, dict) else dict(call)
