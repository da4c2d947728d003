"""A draft model: what it is fed, what it may propose, and when it stops."""

from dataclasses import replace

import numpy as np
import pytest

from leadout.core import law
from leadout.core.noise import Noise, RandomSource
from leadout.core.values import Distribution, History, Sampling
from leadout.drafters.base import DraftPrompt, DraftRequest
from leadout.drafters.model import ModelDrafter
from leadout.drafters.prefix import common_prefix
from leadout.engine.engine import Engine
from leadout.engine.params import Params
from leadout.engine.schedule import FixedSchedule
from leadout.errors import InputError, RollbackError
from leadout.testing import PieceVocabulary, ScriptedDrafter, TableModel, constant, first_order, saying

GREEDY = Params(temperature=0.0)
PLUS_ONE = saying(lambda tokens: (tokens[-1] + 1) % 10, 10)


def counting(**options):
    return TableModel(PLUS_ONE, n_vocab=10, **options)


def run(target, draft, prompt, params, k=4, **options):
    return Engine(target, ModelDrafter(draft, **options), schedule=FixedSchedule(k)).generate(prompt, params)


def request(context, k, **changes):
    made = DraftRequest(
        slot=0, context=context, k=k, sampling=Sampling(temperature=0.0), history=History(), position=0,
        noise=None, source=RandomSource(np.random.default_rng(1)),
    )  # fmt: skip
    return replace(made, **changes)


def test_k_tokens_cost_k_passes_and_no_token_is_decoded_twice():
    draft = counting()
    result = run(counting(), draft, [1, 2, 3], replace(GREEDY, max_tokens=16), k=4)
    assert result.usage.accepted == result.usage.drafted == 12
    assert len(draft.passes) == 12
    fed = [(each.start + i) for (each,) in draft.passes for i in range(len(each.tokens))]
    assert fed == list(range(len(fed)))  # every position once, in order
    assert [len(each.tokens) for (each,) in draft.passes[:5]] == [4, 1, 1, 1, 2]


def test_cache_goes_back_to_the_accepted_part_and_never_further():
    draft = TableModel(saying(lambda t: (t[-1] + 1) % 10 if len(t) % 4 else (t[-1] + 2) % 10, 10), n_vocab=10)
    result = run(counting(), draft, [1, 2, 3], replace(GREEDY, max_tokens=30), k=5)
    context = (1, 2, 3, *result.ids)
    assert 0 < result.usage.accepted < result.usage.drafted
    assert draft.tokens(0) == context[: draft.length(0)]
    confirmed = 0
    for (fed,) in draft.passes:
        assert fed.start >= confirmed  # nothing that was verified is read again
        if fed.start == confirmed:
            confirmed += common_prefix(fed.tokens, context[fed.start :])


def test_draft_gets_the_very_ids_of_the_prompt():
    vocab = PieceVocabulary(
        [b"<s>", b"", b"", b"hi", b"user", b"\n"],
        bos=0,
        adds_bos=True,
        markers=[("<|im_start|>", 1), ("<|im_end|>", 2)],
    )
    target = TableModel(saying(lambda _: 3, 6), n_vocab=6, vocab=vocab)
    draft = TableModel(saying(lambda _: 3, 6), n_vocab=6, vocab=vocab)
    run(target, draft, "<|im_start|>user\nhi<|im_end|>\n", replace(GREEDY, max_tokens=4))
    assert target.tokens(0)[:7] == draft.tokens(0)[:7] == (0, 1, 4, 5, 3, 2, 5)


def test_prompt_is_read_at_the_first_proposal_in_pieces():
    draft = counting()
    run(counting(), draft, [1] * 11, replace(GREEDY, max_tokens=3), prefill_batch=4)
    assert [(len(fed.tokens), fed.n_logits) for (fed,) in draft.passes] == [(4, 0), (4, 0), (4, 1)]
    idle = counting()
    run(counting(), idle, [1] * 11, replace(GREEDY, max_tokens=1))
    assert idle.passes == []


def test_padded_rows_do_not_keep_a_pair_apart_and_an_unknown_id_pauses_drafting():
    answer = [1, 2, 3, 4, 5, 11, 6, 7, 8]
    target_rule = saying(lambda t: answer[min(len(t) - 1, 8)], 12)
    vocab = PieceVocabulary([*(f" {i}".encode() for i in range(10)), b"", b""])
    expected = Engine(TableModel(target_rule, n_vocab=12, vocab=vocab)).generate(
        [0], replace(GREEDY, max_tokens=9)
    )
    draft = counting()

    result = run(
        TableModel(target_rule, n_vocab=12, vocab=vocab), draft, [0], replace(GREEDY, max_tokens=9), k=2,
        forbidden=frozenset({10, 11}),
    )  # fmt: skip

    assert result.ids == expected.ids == tuple(answer)
    assert result.usage.accepted > 0
    assert result.speculation.reason == "off after 6 tokens: the draft table has no id 11 (it has 10)"
    assert all(max(fed.tokens) < 10 for (fed,) in draft.passes)


def test_prompt_with_an_id_the_draft_lacks_is_decoded_plainly():
    target = TableModel(saying(lambda _: 1, 12), n_vocab=12)
    result = run(target, counting(), [11, 1], replace(GREEDY, max_tokens=5))
    assert (result.usage.drafted, result.speculation.enabled) == (0, False)
    assert result.speculation.reason == "off: the draft table has no id 11 (it has 10)"


@pytest.mark.parametrize("params", [GREEDY, Params(temperature=2.0, seed=3), Params(temperature=2.0)])
def test_forbidden_ids_are_never_proposed(params):
    asked = []

    class Watched(TableModel):
        def forward(self, chunks):
            asked.extend(token for chunk in chunks for token in chunk.tokens[1:])
            return super().forward(chunks)

    draft = TableModel(constant(np.linspace(0, 3, 10)), n_vocab=10)
    drafter = ModelDrafter(draft, forbidden=frozenset({9, 8, 500}))
    target = Watched(constant(np.zeros(10)), n_vocab=10)
    result = Engine(target, drafter).generate([0], replace(params, max_tokens=100))
    assert result.usage.drafted > 50
    assert not {8, 9} & set(asked)


def test_draft_context_that_is_full_stops_drafting_with_that_reason():
    target, draft = counting(n_ctx=64), counting(n_ctx=16)
    long = run(target, draft, [1] * 20, replace(GREEDY, max_tokens=12))
    assert long.usage.drafted == 0
    assert long.usage.target_passes == 12
    assert long.speculation.reason == "off: the draft context is full (16 positions)"
    assert draft.passes == []
    short = run(counting(n_ctx=64), counting(n_ctx=16), [1] * 5, replace(GREEDY, max_tokens=40))
    assert short.ids == tuple((2 + i) % 10 for i in range(40))
    assert short.usage.drafted == short.usage.accepted > 0
    assert short.speculation.reason.endswith("the draft context is full (16 positions)")
    assert not short.speculation.enabled


@pytest.mark.parametrize("length", range(20, 32))
def test_draft_of_the_same_context_length_drafts_to_the_end(length):
    result = run(counting(n_ctx=32), counting(n_ctx=32), [i % 10 for i in range(length)], GREEDY, k=5)
    assert (len(result.ids), result.finish_reason) == (32 - length, "length")
    assert result.usage.accepted == result.usage.drafted
    assert result.speculation.enabled


def test_penalties_shape_the_draft_as_they_shape_the_target():
    params = replace(GREEDY, presence_penalty=1.5, frequency_penalty=1.0, max_tokens=20)
    rule = first_order(np.random.default_rng(2).normal(0, 1, (10, 10)))
    draft = TableModel(rule, n_vocab=10)
    result = run(TableModel(rule, n_vocab=10), draft, [1], params)
    assert result.usage.accepted == result.usage.drafted > 0


def test_rows_are_the_distributions_the_tokens_were_drawn_from():
    draft = TableModel(first_order(np.random.default_rng(2).normal(0, 1, (6, 6))), n_vocab=6)
    sampling = Sampling(temperature=0.9, top_k=3, frequency_penalty=0.5)
    drafter = ModelDrafter(draft)
    drafter.begin(0, DraftPrompt(ids=[1, 2]))
    history = History(generated=(2,))
    noise = Noise(5)
    (proposal,) = drafter.propose(
        [request([1, 2], 4, sampling=sampling, history=history, position=3, noise=noise)]
    )
    table = np.random.default_rng(2).normal(0, 1, (6, 6)).astype(np.float32)
    before = [2, *proposal.tokens]
    for i, (token, row) in enumerate(zip(proposal.tokens, proposal.rows, strict=True)):
        expected = law.shape(table[before[i]], sampling, history.after(proposal.tokens[:i]))
        assert same(row, expected)
        assert token == noise.draw(expected, 3 + i)


def same(one: Distribution, other: Distribution):
    return np.array_equal(one.ids, other.ids) and np.array_equal(one.probs, other.probs)


def test_bias_on_an_id_that_the_draft_lacks_is_left_to_the_target():
    params = replace(GREEDY, logit_bias={11: -5.0, 3: 1.0}, max_tokens=8)
    result = run(TableModel(saying(lambda _: 4, 12), n_vocab=12), counting(), [1], params)
    assert result.ids == (4,) * 8
    assert result.usage.drafted > 0


def test_all_slots_draft_in_the_same_passes():
    target, draft = counting(n_slots=3), counting(n_slots=3)
    drafter = ModelDrafter(draft)
    results = Engine(target, drafter).generate_many([1, 2], replace(GREEDY, max_tokens=11, n=3))
    assert {result.ids for result in results} == {tuple((3 + i) % 10 for i in range(11))}
    assert {len(each) for each in draft.passes} == {3}
    assert len(draft.passes) == 8


def test_failed_draft_pass_ends_drafting_not_the_answer():
    draft = counting()
    draft.fail_at(6)
    result = run(counting(), draft, [1], replace(GREEDY, max_tokens=20))
    assert result.ids == tuple((2 + i) % 10 for i in range(20))
    assert "the draft table failed: forward 6 failed, as it was told to" in result.speculation.reason
    assert draft.length(0) == 0


def test_drafting_is_back_at_the_next_request():
    draft = counting()
    draft.fail_at(2)
    one = Engine(counting(), ModelDrafter(draft))
    assert not one.generate([1], replace(GREEDY, max_tokens=9)).speculation.enabled
    again = one.generate([1], replace(GREEDY, max_tokens=9))
    assert again.speculation.enabled
    assert again.usage.accepted > 0


def test_draft_that_fails_to_go_back_stops_drafting():
    class Stuck(TableModel):
        def truncate(self, slot, length):
            if 0 < length < self.length(slot):
                super().truncate(slot, 0)
                raise RollbackError("no way back")
            super().truncate(slot, length)

    draft = Stuck(saying(lambda _: 0, 10), n_vocab=10)
    result = run(counting(), draft, [1], replace(GREEDY, max_tokens=20))
    assert result.ids == tuple((2 + i) % 10 for i in range(20))
    assert result.speculation.reason.endswith("the draft table could not roll back: no way back")


def test_draft_with_a_running_state_works_where_it_can_be_replayed():
    draft = TableModel(
        saying(lambda t: (t[-1] + 1 + len(t) % 3 // 2) % 10, 10), n_vocab=10, rollback="replay"
    )
    result = run(counting(), draft, [1], replace(GREEDY, max_tokens=20), k=8)
    assert result.ids == tuple((2 + i) % 10 for i in range(20))
    assert draft.replayed > 0


def test_draft_that_cannot_roll_back_is_refused():
    with pytest.raises(InputError, match="table cannot be a draft model: its state cannot roll back"):
        ModelDrafter(counting(rollback="none"))


def test_slot_beyond_the_drafts_slots_is_refused():
    with pytest.raises(InputError, match="slot 1 is beyond the 1 slots of the draft table"):
        ModelDrafter(counting()).begin(1, DraftPrompt(ids=[1]))


def test_scripted_drafter_sees_every_token_once_and_in_order():
    drafter = ScriptedDrafter(lambda r: [0] * r.k)  # it raises when what it was told is not the context
    result = Engine(counting(), drafter).generate([1, 2], replace(GREEDY, max_tokens=9))
    assert len(result.ids) == 9
    assert drafter.ended == [0]


def test_a_second_drafter_over_a_used_model_starts_from_an_empty_cache():
    draft = counting()
    run(counting(), draft, [1, 2, 3], replace(GREEDY, max_tokens=8))
    again = run(counting(), draft, [1, 2, 3], replace(GREEDY, max_tokens=8))
    assert again.usage.accepted == again.usage.drafted > 0


def test_an_interrupt_after_the_drafts_pass_leaves_it_right_for_the_next_request():
    class Interrupted(TableModel):
        interrupts = False

        def forward(self, chunks):
            logits = super().forward(chunks)
            if self.interrupts:
                raise KeyboardInterrupt
            return logits

    draft = Interrupted(PLUS_ONE, n_vocab=10)
    engine = Engine(counting(), ModelDrafter(draft), schedule=FixedSchedule(4))
    draft.interrupts = True
    with pytest.raises(KeyboardInterrupt):
        engine.generate([1, 2, 3], replace(GREEDY, max_tokens=8))
    draft.interrupts = False
    result = engine.generate([1, 2, 3, 4], replace(GREEDY, max_tokens=9))
    assert result.usage.accepted == result.usage.drafted > 0
