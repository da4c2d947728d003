"""Answers in a certain form: JSON by a schema, a regular expression, a grammar.

A `Grammar` says what form and knows no model; `Grammars` makes a `Constraint` for one model's tokens of it.
"""

from leadout.constraints.compiler import Grammars
from leadout.constraints.grammar import Grammar, json_object, json_schema, lark, regex

__all__ = ["Grammar", "Grammars", "json_object", "json_schema", "lark", "regex"]
