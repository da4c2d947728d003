"""Random models, prompts, drafts, stops and schedules: speculation says what plain decoding says."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from toys import hashed, said

from leadout.drafters.model import ModelDrafter
from leadout.drafters.ngram import NgramDrafter
from leadout.engine.engine import Engine
from leadout.engine.params import Params
from leadout.engine.schedule import FixedSchedule, StepSchedule
from leadout.testing import PieceVocabulary, ScriptedDrafter, TableModel

V = 6
VOCAB = PieceVocabulary([b"a", b"ab", b"b", b"\xc3", b"\xa9", b"<eos>"], eos=5)

laws = st.builds(
    Params,
    temperature=st.sampled_from([0.0, 0.7, 1.5]),
    seed=st.integers(0, 2**64 - 1),
    top_p=st.sampled_from([1.0, 0.8]),
    top_k=st.sampled_from([0, 2]),
    min_p=st.sampled_from([0.0, 0.2]),
    repetition_penalty=st.sampled_from([1.0, 1.3]),
    frequency_penalty=st.sampled_from([0.0, 0.6]),
    logit_bias=st.sampled_from([{}, {5: -3.0}, {0: 2.0}]),
    max_tokens=st.one_of(st.none(), st.integers(1, 30)),
    stop=st.lists(st.text("abé", min_size=1, max_size=3), max_size=2).map(tuple),
    logprobs=st.sampled_from([None, 0, 2]),
)
schedules = st.one_of(
    st.integers(0, 9).map(FixedSchedule),
    st.tuples(st.integers(1, 3), st.integers(3, 8)).map(lambda ends: StepSchedule(ends[0], ends[0], ends[1])),
)


@st.composite
def drafters(draw, n_slots):
    kind = draw(st.sampled_from(["ngram", "model", "noise", "none"]))
    if kind == "ngram":
        return NgramDrafter(1, draw(st.integers(1, 4)))
    if kind == "model":
        rule = hashed(V, draw(st.integers(0, 2)), 1.0)
        options = {
            "n_ctx": draw(st.sampled_from([8, 40, 64])),
            "rollback": draw(st.sampled_from(["cut", "replay"])),
        }
        return ModelDrafter(TableModel(rule, n_vocab=V, n_slots=n_slots, **options), prefill_batch=3)
    if kind == "noise":
        tokens = draw(st.lists(st.integers(0, V - 1), min_size=1, max_size=7))
        return ScriptedDrafter(lambda request: tokens[: request.k])
    return None


@settings(max_examples=300, deadline=None)
@given(
    data=st.data(),
    seed=st.integers(0, 2),
    params=laws,
    prompts=st.lists(st.lists(st.integers(0, V - 1), min_size=1, max_size=20), min_size=1, max_size=3),
    rollback=st.sampled_from(["cut", "replay"]),
    n_slots=st.integers(1, 2),
)
def test_any_request_after_any_others_equals_plain_decoding(data, seed, params, prompts, rollback, n_slots):
    def target(**options):
        return TableModel(hashed(V, seed, 1.0), n_vocab=V, n_ctx=40, n_slots=n_slots, vocab=VOCAB, **options)

    speculative = Engine(
        target(rollback=rollback), data.draw(drafters(n_slots)), schedule=data.draw(schedules),
        prefill_batch=data.draw(st.integers(1, 9)),
    )  # fmt: skip
    reference = Engine(target(rollback=rollback))
    for prompt in prompts:
        result, expected = speculative.generate(prompt, params), reference.generate(prompt, params)
        if rollback == "cut":
            assert said(result) == said(expected)
        assert said(result)[:4] == said(expected)[:4]
        assert len(result.ids) == result.usage.completion_tokens
        assert result.usage.accepted <= result.usage.drafted

    many = replace(params, n=3)
    pairs = zip(
        speculative.generate_many(prompts[0], many), reference.generate_many(prompts[0], many), strict=True
    )
    assert all(said(result)[:4] == said(expected)[:4] for result, expected in pairs)
