"""How the families of models write tool calls, recognised by their chat templates."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSyntax:
    """Where tool calls begin and end in the text of an answer.

    Parameters
    ----------
    name : str
        For reports.
    open, close : str
        Around calls; `close` is "" where nothing stands after them.
    is_bare : bool
        A reply that begins with ``{`` is a call too.
    has_lists, has_names : bool
        Calls may stand in a JSON list; a call may be its name before its arguments.
    markers : tuple of str
        Texts that may be control tokens of the vocabulary, which give no text of their own.
    """

    name: str
    open: str
    close: str = ""
    is_bare: bool = False
    has_lists: bool = False
    has_names: bool = False
    markers: tuple[str, ...] = ()


HERMES = ToolSyntax(
    name="hermes", open="<tool_call>", close="</tool_call>", markers=("<tool_call>", "</tool_call>")
)
"""Hermes, Qwen 2.5 and 3 (JSON) and Qwen3-Coder (XML) between the same tags."""

MISTRAL = ToolSyntax(
    name="mistral",
    open="[TOOL_CALLS]",
    has_lists=True,
    has_names=True,
    markers=("[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"),
)
"""Mistral: a JSON list, or since version 11 of its tokenizer ``name[ARGS]{...}``."""

LLAMA = ToolSyntax(name="llama", open="<|python_tag|>", is_bare=True, markers=("<|python_tag|>",))
"""Llama 3.1 and later: the reply is the call, with "parameters" for its arguments."""


def tool_syntax(template: str | None) -> ToolSyntax | None:
    """The syntax that a chat template teaches; None where it takes no tools."""
    if template is None or "tools" not in template:
        return None
    if "[TOOL_CALLS]" in template:
        return MISTRAL
    if "<tool_call>" not in template and ("<|python_tag|>" in template or '"parameters"' in template):
        return LLAMA
    return HERMES
