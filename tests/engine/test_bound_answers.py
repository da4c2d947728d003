"""Speculation under real grammars: the same answers as plain decoding of the same constraint."""

import json
from dataclasses import replace

import jsonschema
import numpy as np
import pytest
from toys import engine, hashed

from leadout.constraints import Grammars, json_schema, regex
from leadout.core import law, verify
from leadout.core.constraint import ahead
from leadout.core.values import Distribution, History
from leadout.drafters.base import DraftPrompt, DraftRequest
from leadout.drafters.hybrid import HybridDrafter
from leadout.drafters.model import ModelDrafter
from leadout.drafters.ngram import NgramDrafter
from leadout.drafters.suffix import SuffixDrafter
from leadout.engine.events import Round
from leadout.engine.params import Params
from leadout.engine.rows import distributions
from leadout.engine.schedule import FixedSchedule
from leadout.loading import load
from leadout.models.base import Chunk
from leadout.models.options import GgufOptions
from leadout.testing import PieceVocabulary, TableModel
from leadout.testing.enumeration import continued, joint_law, largest_difference, outcomes
from real_models import real_model

A, B, AB, END, V = 0, 1, 2, 3, 4
SMALL = PieceVocabulary([b"a", b"b", b"ab", b""], eos=END)
ALTERNATING = Grammars(SMALL).compile(regex("(ab|ba)a?b"))


def small_model(seed):
    return TableModel(hashed(V, seed, 1.0), n_vocab=V, vocab=SMALL, n_ctx=64)


@pytest.mark.parametrize("rule", [verify.block, verify.token])
@pytest.mark.parametrize("before", [(), (A,)])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_law_of_a_round_under_a_grammar_is_that_of_plain_decoding_under_it(rule, before, k):
    params, prompt, length = Params(temperature=1.0, top_p=1.0), (B, A), 3

    def row(answer):
        state = ALTERNATING.begin()
        for token in answer:
            if state.is_over or token == V:
                return Distribution.point(V)
            state.advance(token)
        if state.is_over:
            return Distribution.point(V)
        logits = np.asarray(hashed(V, 1, 1.0)((*prompt, *answer)), dtype=np.float32)
        return law.shape(law.only(logits, state.mask()), params, History())

    def program(source):
        state = ALTERNATING.begin()
        for token in before:
            state.advance(token)
        drafter = ModelDrafter(small_model(2))
        drafter.begin(0, DraftPrompt(ids=prompt))
        context = [*prompt, *before]
        request = DraftRequest(
            slot=0, context=context, k=k, sampling=params, history=History(), position=len(before),
            noise=None, source=source, constraint=state,
        )  # fmt: skip
        (proposal,) = drafter.propose([request])
        tokens = (*context, *proposal.tokens)
        logits = small_model(1).forward([Chunk(slot=0, tokens=tokens, n_logits=1 + len(proposal.tokens))])[0]
        with ahead(state) as walk:
            verdict = rule(proposal, distributions(logits, params, History(), proposal.tokens, walk), source)
        said = []
        for token in (*proposal.tokens[: verdict.accepted], verdict.token):
            if state.is_over:
                break
            state.advance(token)
            said.append(token)
        return tuple(said)

    def after(answer):
        return row((*before, *answer))

    emitted = continued(outcomes(program), after, length)
    assert largest_difference(emitted, joint_law(after, length)) <= 1e-12


BYTES = PieceVocabulary([*(bytes([i]) for i in range(128)), b"", b'{"', b'": ', b'", "', b"no"], ends=[128])
GRAMMARS = Grammars(BYTES)
SCHEMA = {
    "type": "object",
    "properties": {
        "letter": {"enum": ["x", "y"]},
        "note": {"type": ["string", "null"], "maxLength": 6},
        "inner": {
            "type": "object",
            "properties": {"n": {"type": "integer", "maximum": 99, "minimum": 0}},
            "required": ["n"],
            "additionalProperties": False,
        },
        "list": {"type": "array", "items": {"type": "boolean"}, "maxItems": 3},
    },
    "required": ["letter", "note", "inner", "list"],
    "additionalProperties": False,
}
WRONG = '{"letter": "z", "note": 7} {"letter": "x", "note": nul, }} [x, y, {"inner": {}}] ```json {"letter":'


def byte_model(seed):
    return TableModel(hashed(BYTES.size, seed, 2.0), n_vocab=BYTES.size, vocab=BYTES, n_ctx=512)


DRAFTERS = {
    "lookups": lambda seed: HybridDrafter([SuffixDrafter(min_score=0), NgramDrafter(1, 3)]),
    "model": lambda seed: ModelDrafter(byte_model(seed + 1)),
    "both": lambda seed: HybridDrafter([NgramDrafter(1, 3)], ModelDrafter(byte_model(seed + 1))),
}


@pytest.mark.parametrize("kind", DRAFTERS)
@pytest.mark.parametrize("params", [Params(temperature=0.0), Params(temperature=1.0, seed=3)])
def test_answers_are_valid_and_those_of_plain_decoding_where_lookups_copy_what_is_not(kind, params):
    constraint, prompt = GRAMMARS.compile(json_schema(SCHEMA)), list(WRONG.encode())
    params = replace(params, constraint=constraint, max_tokens=200)
    for seed in range(8):
        plain = engine(byte_model(seed)).generate(prompt, params)
        result = engine(byte_model(seed), DRAFTERS[kind](seed), 6).generate(prompt, params)
        assert (result.ids, result.finish_reason) == (plain.ids, "stop")
        assert result.usage.drafted > 0
        jsonschema.validate(json.loads(result.text), SCHEMA)


@pytest.mark.parametrize("kind", DRAFTERS)
def test_the_state_is_that_of_the_committed_tokens_after_every_round(kind):
    constraint = GRAMMARS.compile(json_schema(SCHEMA))
    one = engine(byte_model(4), DRAFTERS[kind](4), 6)
    params = Params(temperature=1.2, seed=9, constraint=constraint, max_tokens=200)
    n_rejected = 0
    with one.lease() as batch:
        answer = batch.join(one.request(list(WRONG.encode()), params))
        while batch.running:
            progress = batch.step()
            rounds = [event for each in progress for event in each.events if isinstance(event, Round)]
            n_rejected += sum(each.drafted - each.accepted for each in rounds)
            session, rebuilt = answer.session, constraint.begin()
            for token in session.context[session.n_prompt :]:
                rebuilt.advance(token)
            assert session.constraint.is_over == rebuilt.is_over
            if not rebuilt.is_over:
                assert np.array_equal(session.constraint.mask(), rebuilt.mask())
                assert session.constraint.forced() == rebuilt.forced()
    assert n_rejected or kind == "lookups"


def test_forced_tokens_are_counted_and_have_no_passes_of_their_own():
    constraint = GRAMMARS.compile(json_schema({"const": {"note": [True, None], "letter": "x"}}))
    params = Params(temperature=0.0, constraint=constraint)
    plain = engine(byte_model(1)).generate([65], params)
    result = engine(byte_model(1), HybridDrafter([NgramDrafter()]), 8).generate([65], params)
    assert result.ids == plain.ids
    n_saved = plain.usage.target_passes - result.usage.target_passes
    assert result.usage.forced == result.usage.accepted == n_saved + 1  # the last pass gave none of its own
    assert n_saved > 20
    assert result.to_json()["forced"] == result.usage.forced
    assert (plain.usage.forced, plain.usage.target_passes) == (0, len(plain.ids))


@pytest.mark.parametrize("max_tokens", [1, 5, 9])
def test_an_answer_that_is_cut_is_reported_as_such(max_tokens):
    constraint = GRAMMARS.compile(json_schema(SCHEMA))
    params = Params(temperature=0.0, constraint=constraint, max_tokens=max_tokens)
    result = engine(byte_model(1), DRAFTERS["lookups"](1), 6).generate(list(b"x"), params)
    assert (result.finish_reason, len(result.ids)) == ("length", max_tokens)
    with pytest.raises(json.JSONDecodeError):
        json.loads(result.text)


@pytest.mark.model
def test_a_real_model_gives_100_valid_answers_of_100_as_plain_decoding_does():
    schema = {
        "type": "object",
        "properties": {
            "letter": {"enum": ["x", "y"]},
            "note": {"type": ["string", "null"], "maxLength": 8},
            "at": {
                "type": "object",
                "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 9}},
                "required": ["n"],
                "additionalProperties": False,
            },
        },
        "required": ["letter", "note", "at"],
        "additionalProperties": False,
    }
    options = GgufOptions(n_threads=1, n_ctx=512)
    forced = passes = tokens = 0
    with load(real_model("smollm2-135m"), "auto", options=options, schedule=FixedSchedule(6)) as one:
        constraint = Grammars(one.target.vocab).compile(json_schema(schema))
        for seed in range(100):
            temperature, given = (0.0, None) if seed % 2 else (1.0, seed)
            params = Params(temperature=temperature, seed=given, max_tokens=60, constraint=constraint)
            asked = [{"role": "user", "content": f"{WRONG} Answer with JSON, number {seed}."}]
            result, plain = one.chat(asked, params), one.chat(asked, replace(params, speculate=False))
            assert result.ids == plain.ids
            assert result.finish_reason == "stop"
            jsonschema.validate(json.loads(result.text), schema)
            forced, passes = forced + result.usage.forced, passes + result.usage.target_passes
            tokens += len(result.ids)
    assert forced >= 800
    assert passes < 0.5 * tokens
