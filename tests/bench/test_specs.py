"""How contenders are named on the command line, and what is refused."""

import pytest

from leadout.bench.options import BenchOptions
from leadout.bench.specs import DEFAULT_K, Spec, parse_specs
from leadout.errors import InputError


def test_plain_always_comes_first_and_once():
    assert [spec.name for spec in parse_specs("fixed:2, plain ,ngram:3")] == ["plain", "fixed:2", "ngram:3"]
    assert parse_specs("") == (Spec(kind="plain"),)


def test_names_round_trip():
    text = "plain,plain@llama,fixed:4,step:2@ik,ngram:1,auto,auto@ik"
    text += ",llama-server:lookup,llama-cpp-python,openvino:draft"
    names = [spec.name for spec in parse_specs(text)]
    assert names == text.split(",")
    assert parse_specs(",".join(names)) == parse_specs(text)


def test_k_has_a_default():
    assert parse_specs("fixed")[1] == Spec(kind="fixed", k=DEFAULT_K)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("medusa:4", "contender 'medusa:4' is not known; there are plain, ngram"),
        ("fixed:0", "contender 'fixed:0': what follows fixed: is k, a whole number in 1..64"),
        ("ngram:two", "contender 'ngram:two': what follows ngram: is k"),
        ("fixed:", "contender 'fixed:': what follows fixed: is k"),
        ("auto:", "contender 'auto:': auto takes no number"),
        ("openvino:", "contender 'openvino:': openvino can do"),
        ("step:65", "what follows step: is k"),
        ("fixed:" + "9" * 5000, "what follows fixed: is k"),
        ("plain:3", "contender 'plain:3': plain takes no number"),
        ("auto:3", "contender 'auto:3': auto takes no number"),
        ("fixed:2@cuda", "contender 'fixed:2@cuda': @ik or @llama may follow"),
        ("openvino@ik", "contender 'openvino@ik': @ik or @llama may follow"),
        (
            "llama-cpp-python:draft",
            "contender 'llama-cpp-python:draft': llama-cpp-python can do lookup, plain",
        ),
        ("fixed:2,fixed:2", "fixed:2 stands twice in 'fixed:2,fixed:2'; name every contender once"),
    ],
)
def test_bad_contenders_are_refused(text, said):
    with pytest.raises(InputError) as error:
        parse_specs(text)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"n_prompts": 0}, "prompts is 0; it must be a whole number >= 1"),
        ({"n_calls": 0}, "calls is 0; it must be a whole number >= 1"),
        ({"repeats": 0}, "repeats is 0; it must be a whole number in 1..100"),
        ({"max_tokens": 1}, "max_tokens is 1; it must be a whole number in 2..4096"),
        ({"workloads": "chat,poems"}, "workload 'poems' does not exist; there are chat"),
        ({"workloads": ""}, "workload '' does not exist"),
        ({"workloads": "chat:0"}, "workload 'chat:0': what follows chat: is a whole number of prompts >= 1"),
        ({"workloads": "chat:two"}, "workload 'chat:two': what follows chat: is a whole number"),
        ({"workloads": "chat:" + "9" * 5000}, "what follows chat: is a whole number"),
        ({"temperature": -1.0}, "temperature"),
    ],
)
def test_bad_options_are_refused(change, said):
    with pytest.raises(InputError) as error:
        BenchOptions(**change)
    assert said in str(error.value)


def test_picture_must_be_one(tmp_path):
    with pytest.raises(InputError, match=r"it must end in \.svg, \.png or \.pdf"):
        BenchOptions(picture=tmp_path / "bench.txt")


def test_workload_names_stand_once_and_in_order():
    assert BenchOptions(workloads="maths, chat,maths").workload_names == ("maths", "chat")
    assert len(BenchOptions().workload_names) == 7


def test_prompts_are_counted_per_workload():
    assert BenchOptions(workloads="chat:2,maths", n_prompts=1).limits == {"chat": 2, "maths": 1}
    assert set(BenchOptions().limits.values()) == {None}
