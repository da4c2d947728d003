"""Answers in a certain form: JSON by a schema, a regular expression, a grammar.

A `Grammar` says what form and knows no model; `Grammars` makes a `Constraint` of it, for one model's tokens::

    grammars = Grammars(engine.target.vocab)
    params = Params(constraint=grammars.compile(json_schema({"type": "object", ...})))
"""

from leadout.constraints.compiler import Grammars
from leadout.constraints.grammar import Grammar, json_object, json_schema, lark, regex

__all__ = ["Grammar", "Grammars", "json_object", "json_schema", "lark", "regex"]
