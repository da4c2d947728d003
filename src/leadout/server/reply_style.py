"""What a model's chat template tells of its answers: where reasoning begins, how tools are called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from leadout.errors import LeadoutError
from leadout.models.base import Vocabulary
from leadout.models.template import render_chat
from leadout.server.call_readers import ParameterTypes
from leadout.server.reply_parser import END_OF_THINK, THINK, ReplyParser
from leadout.server.tool_syntax import HERMES, ToolSyntax, tool_syntax


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyStyle:
    """How to read the answers of one model.

    Parameters
    ----------
    template : str or None
        The model's chat template.
    syntax : ToolSyntax or None
        How it writes tool calls; None where its template takes no tools, and they are written out for it.
    markers : mapping of id to str
        Control tokens that matter to the parser although they give no text.
    """

    template: str | None = None
    syntax: ToolSyntax | None = None
    markers: Mapping[int, str] = field(default_factory=dict)

    @classmethod
    def of(cls, vocab: Vocabulary) -> ReplyStyle:
        """The style of a model, by its vocabulary and template."""
        syntax = tool_syntax(vocab.chat_template)
        texts = (THINK, END_OF_THINK, *(syntax or HERMES).markers)
        return cls(template=vocab.chat_template, syntax=syntax, markers=_hidden(vocab, texts))

    def has_variable(self, name: str) -> bool:
        """Whether the template knows a variable of that name."""
        return self.template is not None and name in self.template

    @property
    def can_think(self) -> bool:
        """Whether the template knows of reasoning at all."""
        return self.template is not None and THINK in self.template

    def begins_thinking(self, variables: Mapping[str, object] | None = None) -> bool:
        """Whether the template itself opens the reasoning of an answer. Renders it, which takes a moment."""
        if self.template is None or not self.can_think:
            return False
        try:
            prompt = render_chat(self.template, [{"role": "user", "content": "hello"}], variables=variables)
        except LeadoutError:  # the request itself will tell
            return False
        return prompt.rstrip().endswith(THINK)

    def parser(self, types: ParameterTypes | None, *, is_thinking: bool) -> ReplyParser:
        """A parser for one answer; `types` of the tools that were offered, or None."""
        tools = None if types is None else self.syntax or HERMES
        return ReplyParser(tools, types, is_thinking=is_thinking)


def _hidden(vocab: Vocabulary, texts: tuple[str, ...]) -> dict[int, str]:
    """Those of `texts` that are one token without text, by id."""
    found = {}
    for text in texts:
        try:
            ids = vocab.encode(text, add_bos=False, special=True)
        except LeadoutError:  # a vocabulary that cannot write it
            continue
        if len(ids) == 1 and not vocab.piece(ids[0]):
            found[ids[0]] = text
    return found
