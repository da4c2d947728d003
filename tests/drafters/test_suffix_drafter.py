"""Suffix drafts: what is proposed, how sure it is, what is remembered; and never a word that differs."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadout.core.noise import RandomSource
from leadout.core.values import History, Sampling
from leadout.drafters.base import DraftPrompt, DraftRequest, Weighed, Willing
from leadout.drafters.suffix import SuffixDrafter, most_frequent
from leadout.drafters.suffix_memory import SuffixMemory
from leadout.engine.engine import Engine
from leadout.engine.events import Round
from leadout.engine.params import Params
from leadout.engine.schedule import FixedSchedule
from leadout.errors import InputError
from leadout.testing import TableModel, saying

GREEDY = Params(temperature=0.0)


def request(context, k, slot=0, **changes):
    made = DraftRequest(
        slot=slot, context=context, k=k, sampling=Sampling(), history=History(), position=0, noise=None,
        source=RandomSource(None),
    )  # fmt: skip
    return replace(made, **changes)


def proposed(drafter, text, k, slot=0, **changes):
    (proposal,) = drafter.propose([request(text, k, slot, **changes)])
    assert proposal.rows is None
    assert len(proposal.confidences) == len(proposal.tokens)
    return proposal


def drafted(text, k, **options):
    drafter = SuffixDrafter(**{"min_score": 0.0, **options})
    drafter.begin(0, DraftPrompt(ids=text))
    return list(proposed(drafter, text, k).tokens)


def answered(drafter, prompt, answer, slot=0, client=""):
    """One whole request."""
    drafter.begin(slot, DraftPrompt(ids=prompt, client=client))
    drafter.observe(slot, answer)
    drafter.end(slot)


def test_longest_match_beats_a_later_shorter_one():
    assert drafted([1, 2, 3, 50, 9, 2, 3, 60, 1, 2, 3], 1) == [50]


def test_most_frequent_continuation_is_taken_and_of_equals_the_latest():
    assert drafted([1, 2, 7, 1, 2, 7, 1, 2, 8, 1, 2], 1) == [7]
    assert drafted([1, 2, 7, 9, 1, 2, 8, 9, 1, 2], 1) == [8]


def test_occurrences_that_disagree_with_the_guess_are_not_asked_further():
    guess = most_frequent([[5, 1], [5, 2], [5, 2], [6, 1], [6, 1]], 4, 2, 0.0)
    assert guess.tokens == (5, 2)
    assert guess.confidences == pytest.approx((3 / (5 + 2 / 4), 2 / (3 + 2 / 5)))


def test_text_with_a_period_is_continued_periodically():
    assert drafted([5, 6, 7, 5, 6, 7], 8) == [5, 6, 7, 5, 6, 7, 5, 6]
    assert drafted([4, 4, 4], 3) == [4, 4, 4]


def test_nothing_is_proposed_without_a_match_or_a_wish():
    assert drafted([1, 2, 3], 4) == drafted([4], 4) == drafted([4] * 9, 0) == []


def test_belief_rises_with_the_length_of_the_match_and_with_the_share_that_agrees():
    def belief(counts, length):
        followed = [[token] for token, n in enumerate(counts) for _ in range(n)]
        return most_frequent(followed, length, 1, 0.0).confidences[0]

    lengths = [belief([1], length) for length in (2, 3, 4, 8, 16, 32, 64)]
    assert lengths == sorted(lengths)
    assert lengths[0] == pytest.approx(1 / 2)
    assert lengths[-1] == pytest.approx(32 / 33)
    shares = [belief([4 - others, others], 8) for others in (2, 1, 0)]
    assert shares == sorted(shares)
    assert belief([1], 4) < belief([2], 4) < belief([9], 4) < 1


def test_proposal_ends_where_it_is_no_longer_probable_enough():
    text = list(range(100, 140))
    lengths = []
    for matched in (2, 4, 8, 16):
        drafter = SuffixDrafter(min_score=0.1)
        context = [*text, 9, *text[:matched]]
        drafter.begin(0, DraftPrompt(ids=context))
        proposal = proposed(drafter, context, 64)
        lengths.append(len(proposal.tokens))
        score = 1.0
        for confidence in proposal.confidences:
            score *= confidence
        assert score >= 0.1
    assert lengths == sorted(lengths)
    assert lengths == [5, 9, 18, 35]


class Cutter(Willing):
    """A judge that keeps one token of what it is shown."""

    def __init__(self):
        self.shown = []

    def weigh(self, drafter, confidences):
        self.shown.append((drafter, len(confidences)))
        return Weighed(k=1, worth=1.0)


def test_judge_decides_how_much_of_a_proposal_is_kept():
    drafter, judge = SuffixDrafter(min_score=0.0), Cutter()
    drafter.begin(0, DraftPrompt(ids=[1, 2, 3, 4, 1, 2]))
    assert proposed(drafter, [1, 2, 3, 4, 1, 2], 3, judge=judge).tokens == (3,)
    assert judge.shown == [("suffix", 3)]


def test_earlier_answers_of_the_client_are_looked_through_from_their_first_token():
    drafter = SuffixDrafter(min_score=0.0)
    answered(drafter, [50, 51, 52], [1, 2, 3, 4])
    drafter.begin(0, DraftPrompt(ids=[60, 51, 52]))
    assert proposed(drafter, [60, 51, 52], 8).tokens == (1, 2, 3, 4)


def test_longer_match_wins_between_text_and_memory_and_equals_are_counted_together():
    drafter = SuffixDrafter(min_score=0.0)
    answered(drafter, [9], [1, 2, 3, 70])
    answered(drafter, [9], [4, 2, 3, 71])
    text = [8, 2, 3, 71, 1, 2, 3]
    drafter.begin(0, DraftPrompt(ids=text))
    assert proposed(drafter, text, 1).tokens == (70,)
    text = [8, 2, 3, 71, 5, 2, 3]
    drafter.begin(1, DraftPrompt(ids=text))
    both = proposed(drafter, text, 1, slot=1)
    assert both.tokens == (71,)
    assert both.confidences == pytest.approx((2 / (3 + 2 / 2),))


def test_answers_never_serve_another_client():
    memory = SuffixMemory()
    drafter = SuffixDrafter(memory, min_score=0.0)
    answered(drafter, [1, 2], [3, 4, 5], client="ann")
    answered(drafter, [1, 2], [6, 7, 8], client="eve")
    for client, expected in (("ann", (3, 4, 5)), ("bob", ()), ("eve", (6, 7, 8)), ("", ())):
        drafter.begin(0, DraftPrompt(ids=[1, 2], client=client))
        assert proposed(drafter, [1, 2], 5).tokens == expected


CLIENTS = st.sampled_from(["a", "b"])
TOKENS = st.lists(st.integers(0, 2), min_size=1, max_size=12)


@given(st.lists(st.tuples(CLIENTS, TOKENS, TOKENS), max_size=8), TOKENS)
def test_what_a_client_gets_does_not_depend_on_the_others(requests, text):
    shared, alone = SuffixDrafter(), SuffixDrafter()
    for client, prompt, answer in requests:
        answered(shared, prompt, answer, client=client)
        if client == "a":
            answered(alone, prompt, answer, client=client)
    for drafter in (shared, alone):
        drafter.begin(0, DraftPrompt(ids=text, client="a"))
    assert proposed(shared, text, 6) == proposed(alone, text, 6)


def test_running_requests_know_nothing_of_each_other_and_leave_only_their_answer():
    memory = SuffixMemory()
    drafter = SuffixDrafter(memory, min_score=0.0)
    drafter.begin(0, DraftPrompt(ids=list(range(100))))
    drafter.begin(1, DraftPrompt(ids=[10, 11]))
    assert proposed(drafter, [10, 11], 3, slot=1).tokens == ()
    drafter.observe(0, [7, 8])
    drafter.end(0)
    drafter.end(1)
    drafter.end(1)
    assert memory.texts("") == [[*range(36, 100), 7, 8]]


def test_request_longer_than_its_index_is_drafted_from_its_end():
    drafter = SuffixDrafter(tokens_per_request=50, min_score=0.0)
    text = [*range(200), 190, 191]
    drafter.begin(0, DraftPrompt(ids=text))
    assert proposed(drafter, text, 2).tokens == (192, 193)
    drafter.observe(0, [*range(300, 400), 350, 351])
    assert proposed(drafter, [*text, *range(300, 400), 350, 351], 2).tokens == ()
    assert proposed(drafter, [], 0).tokens == ()


def test_suffix_is_never_blocked_and_closes_twice():
    drafter = SuffixDrafter()
    drafter.begin(0, DraftPrompt(ids=[1, 2]))
    assert (drafter.blocked(0), drafter.limited(0), drafter.name) == ("", "", "suffix")
    drafter.close()
    drafter.close()


def test_options_out_of_range_are_refused():
    with pytest.raises(InputError, match=r"min_score is 1\.5; it must be a number in 0\.\.1"):
        SuffixDrafter(min_score=1.5)
    with pytest.raises(InputError, match="room for at least 4 tokens, got 2"):
        SuffixDrafter(tokens_per_request=2)


def scripted(prompt, answer, n_vocab):
    """A model that says `answer` after `prompt`, as far as chance lets it."""
    rule = saying(lambda tokens: answer[min(len(tokens) - len(prompt), len(answer) - 1)], n_vocab)
    return TableModel(rule, n_vocab=n_vocab, n_ctx=2048)


@pytest.mark.parametrize(("k", "right"), [(k, right) for k in range(1, 9) for right in range(k + 1)])
@pytest.mark.parametrize("params", [GREEDY, Params(temperature=0.7, seed=3)])
def test_speculation_says_what_plain_decoding_says_for_every_accept_pattern(k, right, params):
    prompt = [30, 31, 1, 2, 3, 4, 5, 6, 7, 8, 9, 32]
    answer = [
        30,
        31,
        *range(1, right + 1),
        *range(40, 52),
    ]  # copies `right` tokens of the prompt, and no more
    params = replace(params, max_tokens=len(answer), logprobs=1)
    expected = Engine(scripted(prompt, answer, 60)).generate(prompt, params)

    drafter = SuffixDrafter(min_score=0.0)
    result = Engine(scripted(prompt, answer, 60), drafter, schedule=FixedSchedule(k)).generate(prompt, params)

    assert (result.ids, result.text) == (expected.ids, expected.text)
    assert [token.logprob for token in result.tokens] == [token.logprob for token in expected.tokens]
    if params.temperature == 0:
        assert result.ids == tuple(answer)
        drafter = SuffixDrafter(min_score=0.0)
        events = Engine(scripted(prompt, answer, 60), drafter, schedule=FixedSchedule(k)).stream(
            prompt, params
        )
        assert (k, right) in [(each.drafted, each.accepted) for each in events if isinstance(each, Round)]


def agent_calls(n_calls):
    """Prompts that grow by each answer and a tool's output, and answers that repeat earlier ones."""
    system, history = list(range(200, 260)), []
    for call in range(n_calls):
        question = [300, 301, 400 + call, 302]
        prompt = [*system, *history, *question]
        answer = [10, 11, 12, 13, 14, 400 + call, *range(15, 40), 41]
        yield prompt, answer
        history += [*question, *answer]


def test_agent_loop_is_predicted_nearly_whole():
    drafter = SuffixDrafter()
    passes, tokens = [], []
    for prompt, answer in agent_calls(20):
        engine = Engine(scripted(prompt, answer, 500), drafter, schedule=FixedSchedule(16))
        result = engine.generate(prompt, replace(GREEDY, max_tokens=len(answer)))
        assert result.ids == tuple(answer)
        passes.append(result.usage.target_passes)
        tokens.append(len(result.ids))
    assert passes[0] == tokens[0]  # nothing is known at the first call
    assert sum(tokens[2:]) / sum(passes[2:]) > 5
    assert sum(tokens) / sum(passes) > 4
