"""The form of an answer, from an option of the command line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from leadout.cli.prompts import read_json
from leadout.constraints import Grammar, Grammars, json_schema
from leadout.engine.engine import Engine
from leadout.engine.params import Params
from leadout.errors import InputError


def read_schema(path: Path | None) -> Grammar | None:
    """The JSON schema in a file; None without a file.

    Raises
    ------
    InputError
        If it cannot be read, or is no JSON object.
    """
    if path is None:
        return None
    schema = read_json(path, "schema file")
    try:
        return json_schema(schema)
    except (ValueError, RecursionError) as error:
        raise InputError(f"schema file {path}: {error}") from error


def bound(params: Params, engine: Engine, grammar: Grammar | None) -> Params:
    """The parameters, with the answer bound to the grammar if there is one.

    Raises
    ------
    InputError
        If it asks for what cannot be kept.
    """
    if grammar is None:
        return params
    try:
        return replace(params, constraint=Grammars(engine.target.vocab).compile(grammar))
    except InputError as error:
        raise InputError(f"the schema cannot be kept: {error}") from error
