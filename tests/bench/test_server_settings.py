"""Which settings of llama-server are tried, by what its help knows."""

import pytest

from leadout.bench.server_settings import (
    PLAIN,
    ServerSetting,
    TuningPrompt,
    fastest,
    known_settings,
)
from leadout.errors import ProviderError

NEW = """
--spec-draft-n-max N     number of tokens to draft for speculative decoding (default: 3)
--spec-draft-p-min, --draft-p-min P   minimum speculative decoding probability (default: 0.00)
--spec-type none,draft-simple,ngram-simple,ngram-map-k,ngram-map-k4v,ngram-mod,ngram-cache
--spec-ngram-map-k-size-n N    ngram size
--spec-ngram-map-k-size-m N    draft size
--draft, --draft-n, --draft-max N    the argument has been removed. use --spec-draft-n-max or
                                     --spec-ngram-mod-n-max
"""
OLD = "-md FNAME\n--draft-max, --draft, --draft-n N   number of tokens to draft\n--draft-p-min P\n"
A, B = ServerSetting(name="a"), ServerSetting(name="b")


def flags(settings):
    return {each.name: each.flags for each in settings}


def test_new_builds_are_asked_in_their_words():
    found = flags(known_settings("draft", NEW, has_draft=True))
    assert found["draft k=1"] == ("--spec-type", "draft-simple", "--spec-draft-n-max", "1")
    assert found["draft k=4 p-min=0.75"][-2:] == ("--spec-draft-p-min", "0.75")
    assert list(found) == ["draft k=1", "draft k=2", "draft k=3", "draft k=4", "draft k=4 p-min=0.75"]


def test_old_builds_are_asked_in_theirs():
    found = flags(known_settings("draft", OLD, has_draft=True))
    assert found["draft k=3"] == ("--draft-max", "3")
    assert found["draft k=4 p-min=0.75"] == ("--draft-max", "4", "--draft-p-min", "0.75")


def test_very_old_builds_draft_as_they_like():
    assert flags(known_settings("draft", "-md FNAME", has_draft=True)) == {"draft": ()}


def test_every_kind_of_ngrams_is_tried_and_a_short_form_where_there_are_flags_for_it():
    found = flags(known_settings("lookup", NEW, has_draft=False))
    assert list(found) == [
        "ngram-simple", "ngram-map-k", "ngram-map-k short", "ngram-map-k4v", "ngram-mod", "ngram-cache",
    ]  # fmt: skip
    short = ("--spec-ngram-map-k-size-n", "4", "--spec-ngram-map-k-size-m", "8")
    assert found["ngram-map-k short"] == ("--spec-type", "ngram-map-k", *short)
    assert all(each.keeps_texts for each in known_settings("lookup", NEW, has_draft=False))


def test_best_is_the_best_of_all_and_drafts_only_where_there_is_a_draft():
    with_draft = known_settings("best", NEW, has_draft=True)
    assert with_draft[0] == PLAIN
    assert len(with_draft) == 1 + 5 + 6
    assert not any(each.drafts for each in known_settings("best", NEW, has_draft=False))


def test_what_a_build_cannot_do_is_said():
    with pytest.raises(ProviderError, match="llama-server cannot do draft here: there is no draft model"):
        known_settings("draft", NEW, has_draft=False)
    with pytest.raises(ProviderError, match="llama-server cannot do lookup here: this build is too old"):
        known_settings("lookup", OLD, has_draft=True)


def test_each_prompt_chooses_for_the_workloads_it_stands_for():
    prompts = [
        TuningPrompt(name="write", stands_for=("chat",), ids=(1,)),
        TuningPrompt(name="copy", stands_for=("edit", "agent"), ids=(2,)),
    ]
    tuned = fastest([A, B], prompts, {"write": {"a": 3.0, "b": 2.0}, "copy": {"b": 5.0}})
    assert tuned.to_json() == {
        "tokens_per_s": {"write": {"a": 3.0, "b": 2.0}, "copy": {"b": 5.0}},
        "chosen": {"chat": "a", "edit": "b", "agent": "b"},
    }
    with pytest.raises(ProviderError, match="gave no answer with any of: a, b"):
        fastest([A, B], prompts, {"write": {}})
