"""Answers bound to a constraint: the law is that of constrained plain decoding, whatever is drafted."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toys import GREEDY, engine, hashed

from leadout.core import law, verify
from leadout.core.constraint import ahead
from leadout.core.values import Distribution, History
from leadout.drafters.base import DraftPrompt, DraftRequest
from leadout.drafters.hybrid import HybridDrafter
from leadout.drafters.model import ModelDrafter
from leadout.drafters.ngram import NgramDrafter
from leadout.drafters.suffix import SuffixDrafter
from leadout.engine.params import Params
from leadout.engine.rows import distributions
from leadout.errors import BackendError, InputError
from leadout.models.base import Chunk
from leadout.testing import PieceVocabulary, RuleConstraint, ScriptedDrafter, TableModel, constant
from leadout.testing.enumeration import continued, joint_law, largest_difference, outcomes

V, END = 5, 4
SAMPLED = Params(temperature=1.0, top_p=1.0)


def bracketed(tokens):
    """0 opens, 1 closes, 2 and 3 fill in, at most two deep; an answer is over when all is closed."""
    depth, most = 0, 0
    for token in tokens:
        depth += (token == 0) - (token == 1)
        most = max(most, depth)
    if not tokens:
        return [0]
    if depth == 0:
        return [END] if most < 2 else []  # may end, or is over
    return [1, 2, 3] if depth == 2 or len(tokens) > 8 else [0, 1, 3]


def bound(rule=bracketed, n_vocab=V):
    return RuleConstraint(rule, n_vocab=n_vocab, ends=[END])


def model(seed=0, n_vocab=V, **options):
    vocab = PieceVocabulary.numbered(n_vocab, eos=END)
    return TableModel(hashed(n_vocab, seed, 1.0), n_vocab=n_vocab, vocab=vocab, **{"n_ctx": 64, **options})


DRAFTERS = {
    "model": lambda seed: ModelDrafter(model(seed + 1)),
    "padded model": lambda seed: ModelDrafter(model(seed + 1, n_vocab=V + 2)),
    "smaller model": lambda seed: ModelDrafter(
        TableModel(hashed(3, seed, 1.0), n_vocab=3, n_ctx=64), forbidden=[2]
    ),
    "hybrid": lambda seed: HybridDrafter(
        [SuffixDrafter(min_score=0), NgramDrafter(1, 2)], ModelDrafter(model(seed + 1))
    ),
    "lookups": lambda seed: HybridDrafter([NgramDrafter(1, 2)]),
    "noise": lambda seed: ScriptedDrafter(lambda r: [(r.position + i) % V for i in range(r.k)]),
}


def constrained(seed, params, prompt):
    """The target's own law under the constraint; a text that is over goes on with an id of its own."""
    rule, whole = hashed(V, seed, 1.0), bound()

    def row(answer):
        state = whole.begin()
        for token in answer:
            if state.is_over:
                return Distribution.point(V)
            state.advance(token)
        if state.is_over:
            return Distribution.point(V)
        mask = state.mask()
        logits = np.asarray(rule((*prompt, *answer)), dtype=np.float32)
        masked = logits if mask is None else law.only(logits, mask)
        return law.shape(masked, params, History(generated=answer))

    return row


@pytest.mark.parametrize("rule", [verify.block, verify.token])
@pytest.mark.parametrize("kind", ["model", "padded model", "smaller model", "hybrid", "lookups"])
@pytest.mark.parametrize("before", [(), (0,), (0, 3)])
@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("params", [SAMPLED, replace(SAMPLED, top_k=2, presence_penalty=0.7)])
def test_law_of_a_round_is_that_of_constrained_plain_decoding(rule, kind, before, k, params):
    prompt, seed = (0, 3, 1, 0, 3, 2, 0, 3), 1
    table = constrained(seed, params, prompt)
    constraint = bound()

    def program(source):
        state = constraint.begin()
        for token in before:
            state.advance(token)
        drafter = DRAFTERS[kind](seed)
        context = [*prompt, *before]
        drafter.begin(0, DraftPrompt(ids=prompt))
        if before:
            drafter.observe(0, before)
        history = History(generated=before)
        request = DraftRequest(
            slot=0, context=context, k=k, sampling=params, history=history, position=len(before),
            noise=None, source=source, constraint=state,
        )  # fmt: skip
        (proposal,) = drafter.propose([request])
        assert state.tokens == list(before)
        logits = model(seed).forward([chunk(context, proposal.tokens)])[0]
        with ahead(state) as walk:
            rows = distributions(logits, params, history, proposal.tokens, walk)
            verdict = rule(proposal, rows, source)
        assert state.tokens == list(before)
        said = list(before)
        for token in (*proposal.tokens[: verdict.accepted], verdict.token):
            if state.is_over:
                break
            state.advance(token)
            said.append(token)
        return tuple(said[len(before) :])

    def after(answer):
        return table((*before, *answer))

    length = 3
    emitted = continued(outcomes(program), after, length)
    assert largest_difference(emitted, joint_law(after, length)) <= 1e-12


def chunk(context, tokens):
    return Chunk(slot=0, tokens=(*context, *tokens), n_logits=1 + len(tokens))


@settings(max_examples=120, deadline=None)
@given(
    kind=st.sampled_from(sorted(DRAFTERS)),
    seed=st.integers(0, 3),
    k=st.integers(1, 6),
    params=st.sampled_from(
        [GREEDY, Params(temperature=1.2, seed=5), Params(temperature=0.8, seed=6, repetition_penalty=1.3)]
    ),
    max_tokens=st.integers(1, 20),
)
def test_seeded_and_greedy_answers_equal_constrained_plain_decoding(kind, seed, k, params, max_tokens):
    params = replace(params, max_tokens=max_tokens, logprobs=1)
    alone = bound()
    expected = engine(model(seed)).generate([1, 0, 3], replace(params, constraint=alone))
    constraint = bound()
    result = engine(model(seed), DRAFTERS[kind](seed), k).generate(
        [1, 0, 3], replace(params, constraint=constraint)
    )
    assert (result.ids, result.text, result.finish_reason) == (
        expected.ids, expected.text, expected.finish_reason,
    )  # fmt: skip
    assert [each.logprob for each in result.tokens] == [each.logprob for each in expected.tokens]
    (state,) = constraint.states
    assert state.tokens == list(result.ids) == alone.states[0].tokens
    is_short = len(result.ids) < max_tokens
    assert result.finish_reason == ("stop" if state.is_over or is_short else "length")


def test_state_is_that_of_the_committed_tokens_after_every_round():
    constraint = bound()
    one = engine(model(2), HybridDrafter([NgramDrafter(1, 2)], ModelDrafter(model(3))))
    params = Params(temperature=1.5, seed=1, constraint=constraint, max_tokens=20)
    with one.lease() as batch:
        answer = batch.join(one.request([0, 2], params))
        while batch.running:
            batch.step()
            session = answer.session
            assert constraint.states[0].tokens == session.context[session.n_prompt :]


def test_forced_tokens_are_drafted_for_free_and_save_their_passes():
    form = [0, 1, 2, 3, 0, 1, None, 2, 3, 0]

    def rule(tokens):
        if len(tokens) == len(form):
            return []
        wanted = form[len(tokens)]
        return [0, 1, 2, 3] if wanted is None else [wanted]

    def run(drafter):
        target = model(1)
        params = replace(GREEDY, constraint=bound(rule))
        return engine(target, drafter, 8).generate([1, 2], params), target

    plain, target = run(None)
    assert len(target.passes) == len(form)
    result, target = run(HybridDrafter([NgramDrafter()]))
    assert result.ids == plain.ids
    assert result.finish_reason == plain.finish_reason == "stop"
    assert len(target.passes) == 3  # the prompt's, the forced run up to the choice, the rest
    assert result.usage.acceptance == 1.0


def test_lookups_are_held_to_what_the_constraint_allows():
    asked = []

    class Recorded(NgramDrafter):
        def look_up(self, request):
            found = super().look_up(request)
            asked.append(found)
            return found

    def only_zeros_and_ones(tokens):
        return [0, 1] if len(tokens) < 12 else []

    prompt = [0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3]
    drafter = HybridDrafter([Recorded(1, 2)])
    result = engine(model(4), drafter, 6).generate(
        prompt, replace(GREEDY, constraint=bound(only_zeros_and_ones))
    )
    assert any(2 in each.tokens for each in asked)  # the text goes on in ways that are not allowed
    assert set(result.ids) <= {0, 1}
    plain = engine(model(4)).generate(prompt, replace(GREEDY, constraint=bound(only_zeros_and_ones)))
    assert result.ids == plain.ids


def test_an_end_token_ends_the_answer_only_where_it_is_allowed():
    eager = TableModel(
        constant([0.0, 1.0, 2.0, 3.0, 9.0]), n_vocab=V, vocab=PieceVocabulary.numbered(V, eos=END)
    )

    def rule(tokens):
        return [0, 1, 2, 3] if len(tokens) < 3 else [0, END]

    result = engine(eager).generate([1], replace(GREEDY, constraint=bound(rule)))
    assert (result.ids, result.finish_reason) == ((3, 3, 3), "stop")


def test_answers_of_one_request_have_states_of_their_own():
    constraint = bound()
    params = Params(temperature=1.3, seed=2, n=4, constraint=constraint, max_tokens=20)
    results = engine(model(1, n_slots=2), ModelDrafter(model(2, n_slots=2))).generate_many([0, 1], params)
    assert [tuple(state.tokens) for state in constraint.states] == [each.ids for each in results]


def test_a_constraint_that_allows_nothing_is_an_error_of_its_answer():
    class Nothing(RuleConstraint):
        def begin(self):
            state = super().begin()
            state.mask = lambda: np.zeros(V, dtype=bool)
            return state

    one = engine(model())
    with pytest.raises(BackendError, match="no id is allowed to follow"):
        one.generate([1], replace(GREEDY, constraint=Nothing(bracketed, n_vocab=V)))
    assert one.generate([1], replace(GREEDY, max_tokens=2)).ids


def test_a_mask_of_another_length_is_refused():
    with pytest.raises(BackendError, match=r"a mask of shape \(7,\) does not fit a row of shape \(5,\)"):
        engine(model()).generate([1], replace(GREEDY, constraint=bound(n_vocab=7)))


def test_what_is_no_constraint_is_refused():
    with pytest.raises(InputError, match="constraint is 'json'; it must be a Constraint"):
        Params(constraint="json")


@pytest.mark.parametrize("max_draft", [1, 2, None])
def test_no_round_drafts_more_than_the_request_allows(max_draft):
    drafter = ScriptedDrafter.always(1)
    engine(model(), drafter, 4).generate([1], replace(GREEDY, max_tokens=12, max_draft=max_draft))
    assert max(k for _, _, k in drafter.asked) == (max_draft or 4)
