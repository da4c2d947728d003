"""Grammars, compiled for vocabularies in which each byte is a token, or nearly so."""

import json

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadout.constraints import Grammars, json_object, json_schema, lark, regex
from leadout.constraints.grammar import MAX_CHARACTERS
from leadout.errors import InputError
from leadout.testing import PieceVocabulary

END, MARK, TWICE = 256, 257, 258
PIECES = [bytes([i]) for i in range(256)] + [b"", b"", b"a", b'{"', b'": "', b'", "', b"name", b"ab", b"00"]
VOCAB = PieceVocabulary(PIECES, ends=[END], markers=[("<|im_end|>", END), ("<|mark|>", MARK)])
GRAMMARS = Grammars(VOCAB)

LETTER = {"enum": ["x", "y"]}
SCHEMAS = {
    "enum and nullable": {
        "type": "object",
        "properties": {"letter": LETTER, "note": {"type": ["string", "null"], "maxLength": 5}},
        "required": ["letter", "note"],
        "additionalProperties": False,
    },
    "nested": {
        "type": "object",
        "properties": {
            "a": {
                "type": "object",
                "properties": {"b": {"type": "integer", "minimum": -5, "maximum": 120}, "c": LETTER},
                "required": ["b"],
                "additionalProperties": False,
            }
        },
        "required": ["a"],
        "additionalProperties": False,
    },
    "array": {"type": "array", "items": LETTER, "minItems": 1, "maxItems": 3},
    "tuple": {"type": "array", "prefixItems": [LETTER, {"type": "boolean"}], "items": False, "minItems": 2},
    "any of": {"anyOf": [{"type": "null"}, {"type": "string", "pattern": "^[a-c]{2,3}$"}]},
    "one of": {
        "oneOf": [
            {"type": "object", "properties": {"k": {"const": "p"}}, "required": ["k"], "maxProperties": 1},
            {"type": "integer", "minimum": 1, "maximum": 9},
        ]
    },
    "reference": {
        "$defs": {"tree": {"type": "array", "items": {"$ref": "#/$defs/tree"}, "maxItems": 1}},
        "$ref": "#/$defs/tree",
    },
    "date": {"type": "string", "format": "date"},
    "multiple": {"type": "integer", "multipleOf": 7, "minimum": 0, "maximum": 700},
    "all of": {"allOf": [{"type": "string", "minLength": 2}, {"maxLength": 3}]},
    "constant": {"const": {"a": [1, None, "ä"], "b": {}}},
}


def walked(state, choose, limit=400):
    """An answer that `choose` takes from the masks, without its end token; None when it is too long."""
    tokens = []
    while not state.is_over:
        if len(tokens) == limit:
            return None
        token = choose(np.flatnonzero(state.mask()))
        if VOCAB.is_end(token):
            break
        state.advance(token)
        tokens.append(token)
    return tokens


def text_of(tokens):
    return b"".join(PIECES[token] for token in tokens).decode()


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_every_answer_is_valid_by_the_schema(schema):
    constraint, seen = GRAMMARS.compile(json_schema(schema)), set()
    for seed in range(40):
        rng = np.random.default_rng(seed)
        tokens = walked(constraint.begin(), lambda ids, rng=rng: int(rng.choice(ids)))
        if tokens is not None:
            text = text_of(tokens)
            jsonschema.validate(json.loads(text), schema)
            seen.add(text)
    assert len(seen) == 1 if "const" in schema else len(seen) > 1


def test_json_has_one_space_after_colons_and_commas_and_no_other():
    schema = {"type": "object", "properties": {"a": {"const": [1, 2]}, "b": LETTER}, "required": ["a", "b"]}
    state = GRAMMARS.compile(json_schema({**schema, "additionalProperties": False})).begin()
    assert text_of(walked(state, min)) == '{"a": [1, 2], "b": "x"}'


@settings(max_examples=60, deadline=None)
@given(data=st.data(), name=st.sampled_from(sorted(SCHEMAS)), seed=st.integers(0, 9))
def test_a_state_is_that_of_its_tokens_whatever_was_taken_back(data, name, seed):
    constraint, rng = GRAMMARS.compile(json_schema(SCHEMAS[name])), np.random.default_rng(seed)
    state, tokens = constraint.begin(), []
    for _ in range(data.draw(st.integers(1, 12))):
        if tokens and data.draw(st.booleans()):
            n = data.draw(st.integers(1, len(tokens)))
            state.rollback(n)
            del tokens[len(tokens) - n :]
        elif not state.is_over:
            token = int(rng.choice(np.flatnonzero(state.mask())))
            state.advance(token)
            tokens.append(token)
        rebuilt = constraint.begin()
        for token in tokens:
            rebuilt.advance(token)
        assert state.is_over == rebuilt.is_over
        if not state.is_over:
            assert np.array_equal(state.mask(), rebuilt.mask())
            assert state.forced() == rebuilt.forced()


@pytest.mark.parametrize("name", SCHEMAS)
def test_forced_tokens_are_the_only_ones_that_masks_allow(name):
    state, rng, n_forced = GRAMMARS.compile(json_schema(SCHEMAS[name])).begin(), np.random.default_rng(1), 0
    for _ in range(30):
        for token in state.forced():
            assert np.flatnonzero(state.mask()).tolist() == [token]
            state.advance(token)
            n_forced += 1
        if state.is_over:
            break
        token = int(rng.choice(np.flatnonzero(state.mask())))
        if VOCAB.is_end(token):
            break
        state.advance(token)
    assert n_forced > 1 or name not in ("enum and nullable", "nested", "constant")


def test_forced_text_is_split_as_the_tokenizer_splits_it():
    state = GRAMMARS.compile(json_schema({"const": {"name": "abb"}})).begin()
    assert [PIECES[token] for token in state.forced()] == [b'{"', b"name", b'": "', b"ab", b"b", b'"', b"}"]


def test_a_tokenizer_that_puts_a_space_in_front_does_not_change_what_is_forced():
    class Spaced(PieceVocabulary):
        def encode(self, text, *, add_bos, special):
            return super().encode(" " + text, add_bos=add_bos, special=special)

    vocab = Spaced(PIECES, ends=[END], markers=[("<|im_end|>", END), ("<|mark|>", MARK)])
    state = Grammars(vocab).compile(json_schema({"const": {"name": "abb"}})).begin()
    assert text_of(state.forced()) == '{"name": "abb"}'


def test_tokens_that_write_the_same_are_both_allowed():
    mask = GRAMMARS.compile(regex("[a-c]x")).begin().mask()
    assert np.flatnonzero(mask).tolist() == [*b"abc", TWICE]


def test_control_tokens_are_not_allowed_and_end_tokens_only_where_the_answer_may_end():
    state = GRAMMARS.compile(regex("(?s:.*)b")).begin()
    assert not state.mask()[END]
    state.advance(ord("b"))
    assert state.mask()[END]
    assert not state.mask()[MARK]
    assert not state.is_over
    state.advance(END)
    assert state.is_over
    state.rollback(1)
    assert not state.is_over


def test_an_answer_that_cannot_go_on_is_over_without_an_end_token():
    state = GRAMMARS.compile(regex("ab")).begin()
    for token in b"ab":
        assert not state.is_over
        state.advance(token)
    assert state.is_over


@pytest.mark.parametrize("pattern", ["a/b", r"a\/b", "x\ny", "x\\\ny", "x\ry", r"\\/"])
def test_patterns_may_have_slashes_and_line_breaks(pattern):
    state = GRAMMARS.compile(regex(pattern)).begin()
    wanted = {r"a\/b": "a/b", "x\\\ny": "x\ny", r"\\/": "\\/"}.get(pattern, pattern)
    assert text_of(walked(state, min)) == wanted


def test_a_lark_grammar_is_followed():
    grammar = lark('start: "sum " number ("+" number)*\nnumber: /[0-9]/')
    rng = np.random.default_rng(5)
    tokens = walked(GRAMMARS.compile(grammar).begin(), lambda ids: int(rng.choice(ids)))
    head, *numbers = text_of(tokens).replace("sum ", "sum+").split("+")
    assert head == "sum"
    assert all(number.isdigit() and len(number) == 1 for number in numbers)


def test_a_grammar_is_compiled_once():
    assert GRAMMARS.compile(json_object()) is GRAMMARS.compile(json_object())


def test_the_oldest_compiled_grammars_are_forgotten():
    grammars = Grammars(VOCAB)
    first = grammars.compile(regex("a"))
    for n in range(1, 70):
        grammars.compile(regex(f"b{{{n}}}"))
    assert grammars.compile(regex("a")) is not first


def nested(depth):
    schema = {"type": "integer"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    return schema


def branches(i):
    return [{"properties": {f"p{i}{j}": {"type": "integer"}}} for j in range(4)]


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"not": {}}, 'Unimplemented keys: \\["not"\\]'),
        ({"type": "array", "uniqueItems": True}, 'Unimplemented keys: \\["uniqueItems"\\]'),
        ({"not": {}, "x-guidance": {"lenient": True}}, 'Unimplemented keys: \\["not"\\]'),
        ({"properties": {"a": {"if": {}, "x-guidance": {"lenient": True}}}}, "Unimplemented keys"),
        ({"type": "strng"}, "Invalid type: strng"),
        ({"type": "string", "format": "nonsense"}, "Unknown format: nonsense"),
        ({"$ref": "#/nowhere"}, "Pointer '/nowhere' does not exist"),
        ({"$ref": "http://example.com/x"}, "not present in a registry"),
        ({"$ref": "#"}, "no text fits it"),
        ({"enum": []}, "Unsatisfiable schema"),
        ({"type": "string", "pattern": "a(?=b)"}, "look-around"),
        ({"oneOf": [{"type": "string"}, {"minLength": 2}]}, "oneOf constraints are not supported"),
        (nested(200), "recursion limit"),
        ({"allOf": [{"anyOf": branches(i)} for i in range(10)]}, "schema too large"),
    ],
)
def test_schemas_that_cannot_be_kept_are_refused_with_the_reason(schema, reason):
    with pytest.raises(InputError, match=reason):
        GRAMMARS.compile(json_schema(schema))


@pytest.mark.parametrize(
    ("grammar", "reason"),
    [
        (regex("a("), "unclosed group"),
        (regex("(" * 5000 + "a" + ")" * 5000), "invalid regex"),
        (lark("start: foo"), 'unknown name: "foo"'),
        (lark("start: start"), "no text fits it"),
        (lark("start: " + "(" * 5000 + '"a"' + ")" * 5000), "too deeply nested"),
        (
            lark("start: A0\n" + "\n".join(f"A{i}: A{i + 1} A{i + 1}" for i in range(25)) + '\nA25: "x"'),
            "too big",
        ),
    ],
    ids=["open group", "deep pattern", "unknown rule", "endless rule", "deep grammar", "exploding terminal"],
)
def test_wrong_patterns_and_grammars_are_refused_with_the_reason(grammar, reason):
    with pytest.raises(InputError, match=reason):
        GRAMMARS.compile(grammar)


def test_a_grammar_that_needs_too_much_work_for_a_step_ends_in_an_error():
    rules = "\n".join(f"a{i}: a{i + 1} a{i + 1}" for i in range(40))
    state = GRAMMARS.compile(lark(f'start: a0\n{rules}\na40: "x"')).begin()
    with pytest.raises(InputError, match=r"cannot be followed any further: .*Too many items"):
        walked(state, min)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: json_schema([]), r"schema is \[\]; it must be a JSON schema, which is an object"),
        (lambda: json_schema({"const": float("nan")}), "cannot be written as JSON"),
        (lambda: json_schema({"const": object()}), "cannot be written as JSON"),
        (lambda: json_schema({"const": "x" * MAX_CHARACTERS}), "schema has 1000.* 100000 are the most"),
        (lambda: regex(""), "pattern is ''; it must be text, and not empty"),
        (lambda: regex("x" * MAX_CHARACTERS), f"pattern has 1000.* {MAX_CHARACTERS} are the most"),
        (lambda: lark(7), "grammar is 7; it must be text, and not empty"),
        (lambda: lark("x" * (MAX_CHARACTERS + 1)), f"grammar has 1000.* {MAX_CHARACTERS} are the most"),
    ],
)  # fmt: skip
def test_what_is_no_grammar_is_refused(make, reason):
    with pytest.raises(InputError, match=reason):
        make()


def test_a_vocabulary_without_an_end_token_is_refused():
    with pytest.raises(InputError, match="has no end token"):
        Grammars(PieceVocabulary(PIECES)).compile(json_object())
