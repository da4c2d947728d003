"""From names to an engine, with tiny real files."""

from dataclasses import replace

import pytest

from leadout import Params, load
from leadout.engine.schedule import FixedSchedule
from leadout.errors import ModelFileError, VocabularyError
from leadout.models.options import GgufOptions
from leadout.testing.tiny_gguf import write_tiny_gguf

PROMPT = "the quick brown fox"
GREEDY = Params(temperature=0.0, max_tokens=24, logprobs=1)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models with spaces é")
    return {
        "target": write_tiny_gguf(folder / "target.gguf", seed=1, n_ctx_train=256),
        "draft": write_tiny_gguf(folder / "draft.gguf", seed=2, n_ctx_train=64),
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
        result = answer(
            params,
            files["target"],
            draft,
            provider=provider,
            draft_provider=provider,
            schedule=FixedSchedule(),
        )
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


def test_draft_with_another_vocabulary_is_refused(files):
    with pytest.raises(VocabularyError, match="vocabulary cannot draft for the target's"):
        load(files["target"], files["other"])


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
    result = answer(params, files["target"], files.get(draft, draft), lookups=lookups)
    assert result.ids == expected.ids
    assert result.speculation.reason == f"on: draft {name}, fixed k=4"
