"""From names to an engine, with tiny real files."""

from dataclasses import replace
from importlib.util import find_spec

import pytest

from leadout import Params, load
from leadout.engine.schedule import FixedSchedule
from leadout.errors import InputError, ModelFileError, StoreError
from leadout.models.header import read_header
from leadout.models.options import GgufOptions
from leadout.testing.tiny_gguf import tiny_vocabulary, write_tiny_gguf

PROMPT = "the quick brown fox"
GREEDY = Params(temperature=0.0, max_tokens=24, logprobs=1)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models with spaces é")
    return {
        "target": write_tiny_gguf(folder / "target.gguf", seed=1, n_ctx_train=256),
        "draft": write_tiny_gguf(folder / "draft.gguf", seed=2, n_ctx_train=64),
        "recurrent": write_tiny_gguf(folder / "mamba.gguf", architecture="mamba", n_ctx_train=256),
        "other": write_tiny_gguf(folder / "other.gguf", architecture="qwen2"),
    }


def answer(params, *names, **options):
    with load(*names, **options) as engine:
        return engine.generate(PROMPT, params)


@pytest.mark.parametrize("provider", ["ik", "llama"])
@pytest.mark.parametrize("params", [GREEDY, replace(GREEDY, temperature=1.0, seed=7)])
def test_any_drafter_gives_the_same_text(files, provider, params):
    expected = answer(params, files["target"], provider=provider)
    assert expected.speculation.reason == "off: no draft was asked for"
    for draft in ("none", "auto", "suffix", "ngram", files["draft"], files["target"]):
        options = {} if draft == "none" else {"schedule": FixedSchedule()}
        if draft in (files["draft"], files["target"]):
            options["draft_provider"] = provider
        result = answer(params, files["target"], draft, provider=provider, **options)
        assert (result.ids, result.text) == (expected.ids, expected.text)
    assert result.usage.accepted > 0  # the target as its own draft
    assert result.speculation.reason == "on: draft suffix+ngram+target, fixed k=4"
    assert result.provenance.path == files["target"].resolve()


def test_draft_gets_no_more_context_than_it_was_trained_for(files):
    with load(
        files["target"], files["draft"], options=GgufOptions(n_ctx=128), schedule=FixedSchedule()
    ) as engine:
        result = engine.generate(PROMPT, replace(GREEDY, max_tokens=100))
    assert result.usage.drafted > 0
    assert result.speculation.reason.endswith("the draft context is full (64 positions)")


@pytest.mark.parametrize(("bridge", "words"), [("text", "by text"), ("shared", "by shared tokens")])
def test_draft_with_another_vocabulary_drafts_over_a_bridge_and_says_how(files, bridge, words):
    with (
        load(files["target"]) as plain,
        load(
            files["target"], files["other"], bridge=bridge, lookups=False, schedule=FixedSchedule()
        ) as engine,
    ):
        result = engine.generate(PROMPT, GREEDY)
        assert result.text == plain.generate(PROMPT, GREEDY).text
    assert result.usage.drafted > 0
    assert result.speculation.reason == f"on: draft other {words}, fixed k=4"
    assert engine.notes[0].startswith("the draft model is of another vocabulary")
    assert engine.notes[0].endswith(f"it drafts {words} as asked for")


def test_another_vocabulary_of_the_same_size_is_seen(files, tmp_path):
    like = tiny_vocabulary(seed=1)
    words = {token: f"other{token}" for token in range(260, len(like.tokens) - 2)}
    draft = write_tiny_gguf(tmp_path / "draft.gguf", seed=1, n_ctx_train=256, tokens=words)
    assert read_header(draft).n_vocab == read_header(files["target"]).n_vocab
    with load(files["target"]) as plain, load(files["target"], draft, schedule=FixedSchedule()) as engine:
        assert engine.notes[0].startswith("the draft model is of another vocabulary")
        result = engine.generate(PROMPT, GREEDY)
        assert result.text == plain.generate(PROMPT, GREEDY).text
    assert result.usage.drafted > 0


def test_a_bridge_without_a_draft_model_is_refused(files):
    with pytest.raises(InputError, match="bridge can only be given with a draft model"):
        load(files["target"], "ngram", bridge="text")


def test_an_unknown_bridge_is_refused(files):
    with pytest.raises(InputError, match="bridge is 'slem'"):
        load(files["target"], files["other"], bridge="slem")


def test_missing_draft_is_refused_before_the_target_is_loaded(files, tmp_path):
    with pytest.raises(ModelFileError, match=r"nothing\.gguf"):
        load(files["target"], tmp_path / "nothing.gguf")


@pytest.mark.parametrize(
    ("draft", "lookups", "name"),
    [
        ("auto", True, "suffix+ngram"),
        ("suffix", True, "suffix"),
        ("ngram", False, "ngram"),
        ("draft", True, "suffix+ngram+draft"),
        ("draft", False, "draft"),
    ],
)
def test_what_drafts_is_what_was_asked_for(files, draft, lookups, name):
    params = replace(GREEDY, temperature=1.0, seed=7)
    expected = answer(params, files["target"])
    result = answer(
        params, files["target"], files.get(draft, draft), lookups=lookups, schedule=FixedSchedule()
    )
    assert result.ids == expected.ids
    assert result.speculation.reason.partition(";")[0] == f"on: draft {name}, fixed k=4"


def test_draft_has_the_slots_of_the_target_whatever_else_it_was_given(files):
    options, params = GgufOptions(n_slots=2), replace(GREEDY, n=2)
    for draft_options in (None, GgufOptions(n_ctx=64), GgufOptions(n_slots=3)):
        with load(
            files["target"],
            files["draft"],
            options=options,
            draft_options=draft_options,
            schedule=FixedSchedule(),
        ) as engine:
            first, second = engine.generate_many(PROMPT, params)
        assert first.ids == second.ids
        assert min(first.usage.drafted, second.usage.drafted) > 0


def test_draft_with_fewer_slots_than_the_target_is_refused_with_both_numbers(files):
    with pytest.raises(InputError, match="draft_options has n_slots 2, but the target has 3 slots"):
        load(
            files["target"],
            files["draft"],
            options=GgufOptions(n_slots=3),
            draft_options=GgufOptions(n_slots=2),
        )


@pytest.mark.parametrize("draft", [None, "none", "ngram", "suffix", "auto"])
def test_what_is_for_a_draft_model_is_refused_without_one(files, draft):
    with pytest.raises(InputError, match=f"draft_options can only .* a draft model, but draft is {draft!r}"):
        load(files["target"], draft, draft_options=GgufOptions(n_ctx=64))
    with pytest.raises(InputError, match=f"draft_provider can only .* a draft model, but draft is {draft!r}"):
        load(files["target"], draft, draft_provider="llama")
    with pytest.raises(InputError, match="draft_options and draft_provider can only"):
        load(files["target"], draft, draft_options=GgufOptions(), draft_provider="ik")


@pytest.mark.parametrize("draft", [None, "none"])
def test_schedule_is_refused_where_nothing_drafts(files, draft):
    with pytest.raises(InputError, match=f"schedule says how much to draft, but draft is {draft!r}"):
        load(files["target"], draft, schedule=FixedSchedule(2))


def test_exact_mode_may_be_asked_for_in_the_options(files):
    with load(files["target"], "ngram", options=GgufOptions(n_slots=2, exact=True)) as engine:
        twice = engine.generate_many(PROMPT, replace(GREEDY, n=2))
    with load(files["target"], options=GgufOptions(n_slots=2), exact=True) as engine:
        assert engine.generate_many(PROMPT, replace(GREEDY, n=2))[1].ids == twice[1].ids
    with load(files["target"], "ngram", options=GgufOptions(exact=True), schedule=FixedSchedule(0)) as engine:
        assert engine.speculation.reason == "off: nothing may be drafted, as k is 0"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"options": {}}, r"options is \{\}; it must be a GgufOptions or None"),
        ({"options": {"n_ctx": 8}}, r"options is \{'n_ctx': 8\}; it must be a GgufOptions"),
        ({"draft_options": {}}, r"draft_options is \{\}; it must be a GgufOptions or None"),
        ({"schedule": 4}, r"schedule is 4; it must be a Schedule, such as FixedSchedule\(4\), or None"),
        ({"lookups": 1}, "lookups is 1; it must be True or False"),
        ({"longest": 65}, r"longest is 65; it must be a whole number in 0\.\.64"),
        ({"exact": "no"}, "exact is 'no'; it must be True or False"),
        ({"offline": 1}, "offline is 1; it must be True or False"),
        ({"provider": "vllm"}, "provider is 'vllm'; it must be one of auto, ik, llama"),
        ({"draft_provider": "vllm"}, "draft_provider is 'vllm'; it must be one of auto, ik, llama"),
        ({"draft": 5}, "draft is 5; it must be a name or a path or None"),
    ],
)
def test_argument_of_another_kind_is_refused(files, arguments, said):
    with pytest.raises(InputError, match=said):
        load(files["target"], **{"draft": "ngram", **arguments})


def test_target_that_is_no_name_is_refused():
    with pytest.raises(InputError, match="target is None; it must be a name or a path"):
        load(None)


@pytest.mark.parametrize("params", [GREEDY, replace(GREEDY, temperature=1.0, seed=7)])
@pytest.mark.parametrize("draft", ["ngram", "itself"])
def test_recurrent_target_says_the_same_with_drafts_turn_after_turn(files, draft, params):
    """Its state cannot be cut: a stop string may end an answer on any token of a round."""
    need_llama()
    name = files["recurrent"]
    with load(name, provider="llama") as engine:
        whole = engine.generate(PROMPT, params)
    for end in range(3, 18, 3):
        stop = whole.text[end : end + 2]
        until = replace(params, stop=(stop,)) if stop else params
        with load(name, "ngram" if draft == "ngram" else name, provider="llama") as engine:
            first = engine.generate(PROMPT, until)
            second = engine.generate(PROMPT + first.text + " and", params)
        with load(name, provider="llama") as fresh:
            assert fresh.generate(PROMPT, until).ids == first.ids
        with load(name, provider="llama") as fresh:
            assert fresh.generate(PROMPT + first.text + " and", params).ids == second.ids


def test_a_draft_of_a_stretched_target_is_stretched_too(files):
    """Its own context would end long before the target's does."""
    need_llama()
    stretched = GgufOptions(n_ctx=256, rope_scaling="linear", rope_freq_scale=0.25)
    with load(
        files["target"], files["draft"], options=stretched, provider="llama", schedule=FixedSchedule()
    ) as engine:
        result = engine.generate([5] * 150, replace(GREEDY, max_tokens=20))
    assert result.usage.drafted > 0
    with load(files["target"], files["draft"], options=GgufOptions(n_ctx=256), lookups=False) as engine:
        result = engine.generate([5] * 150, replace(GREEDY, max_tokens=20))
    assert "draft context" in result.speculation.reason
    assert not result.speculation.enabled


def need_llama():
    if find_spec("llama_cpp") is None:
        pytest.skip("the llama provider is not installed")


def test_what_differs_in_a_drafts_vocabulary_is_said(files, tmp_path):
    other_end = write_tiny_gguf(tmp_path / "end.gguf", seed=2, n_ctx_train=256, eos=3)
    with load(files["target"], other_end) as engine:
        [said] = engine.notes
    assert said.startswith("the draft's vocabulary is compatible, ")
    assert "EOS" in said
    with load(files["target"], files["draft"]) as engine:
        assert engine.notes == ()


def test_a_misspelled_draft_word_points_to_the_words(files):
    with pytest.raises(
        StoreError, match=r"the draft: model 'ngrm' is not .*; or use auto, suffix, ngram or none"
    ):
        load(files["target"], "ngrm")


def test_a_longest_draft_beside_a_schedule_of_its_own_is_refused(files):
    with pytest.raises(InputError, match="longest is 3, but the schedule 'fixed k=2' has its own"):
        load(files["target"], "ngram", schedule=FixedSchedule(2), longest=3)


class Told:
    """Remembers the labels of stages."""

    def __init__(self):
        self.labels, self.n_open = [], 0

    def start(self, total_bytes, label):
        self.labels.append(label)
        self.n_open += 1

    def advance(self, n_bytes):
        pass

    def finish(self):
        self.n_open -= 1


def test_the_first_measurement_is_said_and_only_made_where_something_may_be_drafted(tmp_path):
    target = write_tiny_gguf(tmp_path / "fresh.gguf", seed=5, n_ctx_train=128)
    measuring = "measuring what passes cost here, about 2 s, once for this pair run this way"
    never, once, again = Told(), Told(), Told()
    load(target, "ngram", longest=0, progress=never).close()
    assert measuring not in never.labels
    with load(target, "ngram", progress=once) as engine:
        assert "costs measured in" in engine.speculation.reason
        engine.generate(PROMPT, GREEDY)
    assert once.labels == [measuring]
    assert once.n_open == 0
    with load(target, "ngram", progress=again) as engine:
        assert "costs measured in" not in engine.speculation.reason
    assert again.labels == []
