"""What requests say of the form of their answers, and how that becomes a constraint on the model's tokens.

Whatever cannot be kept is refused by name; nothing is left out silently.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from leadout.constraints import Grammar, json_object, json_schema, lark, regex
from leadout.core.constraint import Constraint
from leadout.engine.params import Params
from leadout.errors import InputError
from leadout.server.answer_grammar import answer_grammar
from leadout.server.form import GrammarForm
from leadout.server.refusal import RefusedError
from leadout.server.registry import Served
from leadout.server.tool_form import Function


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerForm:
    """The form that an answer must have.

    Parameters
    ----------
    text : Grammar or None
        Of its text; None is free.
    text_field : str
        Name of the field that says so.
    must_call : bool
        The answer is one call of a tool, or several.
    only : str or None
        The one tool that must be called, once.
    tools_field : str
        Name of the field of a tool's function, with {} for its number.
    """

    text: Grammar | None = None
    text_field: str = ""
    must_call: bool = False
    only: str | None = None
    tools_field: str = "tools[{}].function"


FREE = AnswerForm()


def constraint_of(
    *,
    format_field: str,
    schema_field: str,
    format: Mapping[str, object] | None,
    tools: Sequence[Function] = (),
    tool_choice: str | None = None,
    only: str | None = None,
    tools_field: str = "tools[{}].function",
    grammar: GrammarForm | None = None,
) -> AnswerForm:
    """What the answer must look like.

    Parameters
    ----------
    format_field : str
        Name of the field that `format` comes from, for messages.
    schema_field : str
        Name of the field that its schema comes from.
    format : mapping or None
        ``{"type": "text"}``, ``{"type": "json_object"}`` or ``{"type": "json_schema", ...}`` with the schema
        under "schema", there or under "json_schema".
    tools : sequence of Function
    tool_choice : "auto", "none", "required" or None
    only : str or None
        The function that must be called, which may have any of these words as its name.
    tools_field : str
        Name of the field of a tool's function, with {} for its number.
    grammar : GrammarForm or None
        The field of that name.

    Raises
    ------
    RefusedError
        400, naming the field, for what cannot be honoured.
    """
    text, field = _format(format_field, schema_field, format)
    if grammar is not None:
        if text is not None:
            raise RefusedError(400, f"grammar and {format_field} contradict; give one", param="grammar")
        text, field = _grammar(grammar), "grammar.definition"
    if only is not None and only not in [each.name for each in tools]:
        raise RefusedError(400, f"tool_choice names {only!r}, which is not among tools", param="tool_choice")
    return AnswerForm(
        text=text,
        text_field=field,
        must_call=tool_choice == "required" or only is not None,
        only=only,
        tools_field=tools_field,
    )


async def constrained(
    params: Params,
    served: Served,
    form: AnswerForm,
    tools: Sequence[Function] = (),
    *,
    is_chat: bool = True,
    is_single: bool = False,
    is_thinking: bool = False,
) -> Params:
    """The parameters with the constraint that the form comes to, compiled in a thread.

    Parameters
    ----------
    params : Params
    served : Served
    form : AnswerForm
    tools : sequence of Function
        What may be called; those that are strict ask for a constraint of their own.
    is_chat : bool
        Whether the answer may have reasoning and calls in it.
    is_single : bool
        At most one call.
    is_thinking : bool
        The answer begins inside its reasoning.

    Raises
    ------
    RefusedError
        400, naming the field, where something cannot be kept.
    """
    parts: dict[str, Grammar] = {} if form.text is None else {form.text_field: form.text}
    arguments: dict[str, Grammar] = {}
    if form.text is not None or form.must_call or any(each.strict for each in tools):
        for at, each in enumerate(tools):
            if form.only in (None, each.name):
                field = f"{form.tools_field.format(at)}.parameters"
                arguments[each.name] = parts[field] = _arguments(field, each, form)
    if not parts:
        return params
    whole = form.text
    if is_chat or whole is None:
        whole = answer_grammar(
            served.style,
            None if form.must_call else form.text,
            arguments,
            must_call=form.must_call,
            is_single=is_single or form.only is not None,
            is_thinking=is_thinking,
        )
    return replace(params, constraint=await asyncio.to_thread(_compiled, served, parts, whole))


def _compiled(served: Served, parts: Mapping[str, Grammar], whole: Grammar) -> Constraint:
    """The whole grammar; its parts first, so that what is wrong is found where it stands."""
    for field, part in parts.items():
        with _blamed_on(field):
            served.grammars.compile(part)
    with _blamed_on(next(iter(parts))):
        return served.grammars.compile(whole)


def _format(field: str, schema_field: str, format: Mapping[str, object] | None) -> tuple[Grammar | None, str]:
    """The grammar of a format, and the field to name in messages about it."""
    kind = None if format is None else format.get("type")
    if format is None or kind in (None, "text"):
        return None, field
    if kind == "json_object":
        return json_object(), field
    inside = format.get("json_schema")
    schema = (inside if isinstance(inside, Mapping) else format).get("schema")
    if not isinstance(schema, Mapping):
        raise RefusedError(400, f"{schema_field} is missing", param=schema_field, code="missing_field")
    with _blamed_on(schema_field):
        return json_schema(schema), schema_field


def _grammar(grammar: GrammarForm) -> Grammar:
    with _blamed_on("grammar.definition"):
        return regex(grammar.definition) if grammar.syntax == "regex" else lark(grammar.definition)


def _arguments(field: str, function: Function, form: AnswerForm) -> Grammar:
    """Of a call: by the function's schema where it must be kept, else any object."""
    if not (form.must_call or function.strict):
        return json_object()
    given = function.parameters or {"properties": {}, "additionalProperties": False}
    with _blamed_on(field):
        return json_schema({"type": "object", **given})


@contextmanager
def _blamed_on(field: str) -> Iterator[None]:
    """Refuses what is wrong inside, naming the field."""
    try:
        yield
    except InputError as error:
        raise RefusedError(
            400, f"{field} cannot be kept: {error}", param=field, code="not_supported"
        ) from error
