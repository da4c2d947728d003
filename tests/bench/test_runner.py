"""Turns, fresh caches, and peers that fail."""

from collections import Counter
from itertools import pairwise, permutations

import pytest
from talk import answer, talker

from leadout.bench.contenders import Contender, engine_contender, own_contender
from leadout.bench.runner import in_order, run
from leadout.bench.specs import parse_specs
from leadout.bench.workloads import Unit
from leadout.engine.engine import Engine
from leadout.engine.params import Params
from leadout.errors import InputError, ProviderError
from leadout.loading import LoadedModels
from leadout.models.compare import compare

GREEDY = Params(temperature=0.0)
ONE = Unit(workload="chat", name="one", calls=(tuple(b"hello there"),), max_tokens=7)
TWO = Unit(workload="code", name="two", calls=(tuple(b"hello there you"),), max_tokens=5)
LOOP = Unit(
    workload="agent", name="loop", calls=(tuple(b"do this"), tuple(b"do this and that")), max_tokens=4
)


class Scribe:
    """An answerer that writes down what it is asked, and fails when told to."""

    def __init__(self, name, diary, fails_at=()):
        self.name, self.diary, self.fails_at = name, diary, fails_at

    def answer(self, prompt, params):
        self.diary.append((self.name, bytes(prompt), params.max_tokens))
        if len([each for each in self.diary if each[0] == self.name]) in self.fails_at:
            raise ProviderError("it fell over")
        return answer([1, 2], 1.0)


def scribes(diary, *names, fails_at=()):
    return [
        Contender(
            name=name,
            fresh=lambda workload, name=name: Scribe(name, diary, fails_at if name == names[-1] else ()),
        )
        for name in names
    ]


def own(text, target, draft=None, *, drafts_ngrams=False):
    comparison = None if draft is None else compare(target.vocab, draft.vocab)
    models = LoadedModels(target=target, draft=draft, comparison=comparison)
    return [
        own_contender(spec, models, drafts_ngrams=drafts_ngrams, exact=False) for spec in parse_specs(text)
    ]


def test_everybody_begins_equally_often():
    firsts = Counter(in_order("abc", turn)[0] for turn in range(6))
    assert firsts == {"a": 2, "b": 2, "c": 2}
    assert all(sorted(in_order("abc", turn)) == ["a", "b", "c"] for turn in range(6))


def test_everybody_goes_after_each_other_equally_often():
    after = Counter(pair for turn in range(6) for pair in pairwise(in_order("abc", turn)))
    assert after == dict.fromkeys(permutations("abc", 2), 2)
    assert ["".join(in_order("ab", turn)) for turn in range(4)] == ["ab", "ba", "ba", "ab"]


def test_contenders_take_turns_unit_by_unit():
    diary = []
    done = run([ONE, TWO], scribes(diary, "a", "b"), GREEDY, repeats=2)
    assert [(who, what) for who, what, _ in diary[2:]] == [
        ("a", b"hello there"), ("b", b"hello there"), ("b", b"hello there you"), ("a", b"hello there you"),
        ("b", b"hello there"), ("a", b"hello there"), ("b", b"hello there you"), ("a", b"hello there you"),
    ]  # fmt: skip
    assert {longest for _, _, longest in diary[2:]} == {7, 5}
    assert [(each.contender, each.unit, each.repeat) for each in done.answers[:2]] == [
        ("a", "one", 0),
        ("b", "one", 0),
    ]


def test_warm_up_is_asked_before_anything_and_is_no_prompt_of_the_run():
    diary = []
    done = run([ONE, TWO], scribes(diary, "a", "b"), GREEDY, repeats=1)
    assert [who for who, _, _ in diary[:2]] == ["a", "b"]
    assert not {what for _, what, _ in diary[:2]} & {what for _, what, _ in diary[2:]}
    assert len(done.answers) == len(diary) - 2


def test_every_unit_is_read_from_its_first_token_and_loops_reuse_their_prefix():
    target = talker()
    run([ONE, LOOP], own("plain,ngram:2", target), GREEDY, repeats=2)
    starts = [
        fed.start for step in target.passes for fed in step if len(fed.tokens) > 1 and fed.n_logits == 1
    ]
    # per repeat and contender: one unit with a single prompt, one loop whose second call goes on where it may
    assert Counter(starts)[0] == 2 + 2 * 2 * 2
    assert Counter(starts)[len(b"do this")] == 4


def test_draft_model_starts_every_unit_with_empty_caches():
    target, draft = talker(), talker(name="draft")
    done = run([ONE, TWO], own("fixed:2", target, draft), GREEDY, repeats=3)
    drafted = [each.answer for each in done.answers if each.contender == "fixed:2"]
    assert all(each.drafted == each.accepted > 0 for each in drafted)
    starts = [fed.start for step in draft.passes for fed in step if len(fed.tokens) > 5]
    assert len(starts) == 1 + 6  # the warm-up and six units
    assert set(starts) == {0}


def test_answers_do_not_depend_on_the_contender():
    done = run([ONE, LOOP], own("ngram:3,fixed:4,step:2", talker(), talker(3)), GREEDY, repeats=1)
    by_place = {}
    for each in done.answers:
        by_place.setdefault(each.place, set()).add(each.answer.ids)
    assert len(by_place) == 3
    assert all(len(ids) == 1 for ids in by_place.values())


def test_ngrams_are_the_draft_where_the_run_says_so():
    [_, fixed] = own("fixed:2", talker(), drafts_ngrams=True)
    assert fixed.fresh("chat").answer(list(b"abcabc"), Params(temperature=0.0, max_tokens=30)).drafted > 0


def test_drafting_without_a_draft_is_refused():
    with pytest.raises(
        InputError, match="contender fixed:2 needs a draft; give one with --draft ngram or --draft"
    ):
        own("fixed:2", talker())


@pytest.mark.parametrize(("fails_at", "n_answers"), [((1,), 0), ((3,), 1)])
def test_peer_that_fails_is_left_out_from_there_on(fails_at, n_answers):
    diary = []
    done = run([ONE, TWO], scribes(diary, "a", "b", fails_at=fails_at), GREEDY, repeats=2)
    assert done.notes == ("b was left out: it fell over",)
    assert Counter(each.contender for each in done.answers) == Counter({"a": 4, "b": n_answers})


class Impatient(Scribe):
    """Somebody presses Ctrl-C while it answers what was told."""

    def answer(self, prompt, params):
        if bytes(prompt) == b"hello there you":
            raise KeyboardInterrupt
        return super().answer(prompt, params)


def test_ctrl_c_keeps_whole_units():
    contenders = [*scribes([], "a"), Contender(name="b", fresh=lambda workload: Impatient("b", []))]
    done = run([ONE, TWO], contenders, GREEDY, repeats=2)
    assert not done.is_complete
    assert done.notes == ("stopped after 1 of 4 units",)
    assert [(each.contender, each.unit) for each in done.answers] == [("a", "one"), ("b", "one")]


def test_what_there_is_is_handed_over_after_every_unit():
    kept = []
    done = run([ONE, TWO], scribes([], "a"), GREEDY, repeats=1, keep=kept.append)
    assert [(len(each.answers), each.is_complete) for each in kept] == [(1, False), (2, True)]
    assert kept[-1] == done


def test_contenders_are_told_the_workload():
    told = []

    def fresh(workload):
        told.append(workload)
        return Scribe("a", [])

    run([ONE, TWO], [Contender(name="a", fresh=fresh)], GREEDY, repeats=1)
    assert told == ["chat", "chat", "code"]  # the warm-up is of the first unit's kind


def test_progress_is_told_unit_by_unit():
    told = []
    run([ONE, TWO], scribes([], "a"), GREEDY, repeats=2, progress=lambda *step: told.append(step))
    assert told == [("chat", 0, 4), ("code", 1, 4), ("chat", 2, 4), ("code", 3, 4)]


def test_engine_contender_takes_nothing_from_a_target_that_is_in_use():
    target = talker()
    contender = engine_contender("mine", lambda: Engine(target))
    first, second = (contender.fresh("chat").answer(list(b"abcdefgh"), GREEDY_5) for _ in range(2))
    assert first.ids == second.ids
    assert [fed.start for step in target.passes for fed in step if len(fed.tokens) == 8] == [0, 0]


GREEDY_5 = Params(temperature=0.0, max_tokens=5)
