"""Receipts in answers: what is in them, through every OpenAI route, and that they can be replayed."""

import json

import pytest
from serving import HELLO, chunks_of, constant_chat, post, replying

from leadout.engine.engine import Engine
from leadout.receipts import Receipt, replay
from leadout.testing import ScriptedDrafter

ASKED = {"messages": HELLO, "max_tokens": 12, "temperature": 1.0, "receipt": "with_prompt"}


def replayed(receipt):
    """The receipt's answers, decoded by a model of its own without drafts."""
    with Engine(constant_chat([0.5, 0.3, 0.2])) as engine:
        return replay(Receipt.from_json(receipt), engine)


def test_an_unseeded_request_gets_a_seed_and_its_receipt_replays():
    response = post(constant_chat([0.5, 0.3, 0.2]), ASKED, drafter=ScriptedDrafter.always(ord("a"))).json()
    receipt = response["receipt"]
    assert 0 <= receipt["limits"]["seed"] < 2**53
    assert receipt["answers"][0]["accepted"] > 0
    done = replayed(receipt)
    assert done.is_same
    assert done.results[0].text == response["choices"][0]["message"]["content"]
    assert done.results[0].usage.drafted == 0


def test_two_unseeded_requests_get_two_seeds():
    first, second = post(constant_chat([0.5, 0.5]), ASKED, times=2)
    assert first.json()["receipt"]["limits"]["seed"] != second.json()["receipt"]["limits"]["seed"]


def test_greedy_answers_need_no_seed():
    receipt = post(replying("hi"), {**ASKED, "temperature": 0}).json()["receipt"]
    assert receipt["limits"]["seed"] is None


def test_prompts_are_in_receipts_only_where_that_was_asked_for():
    open_one = post(replying("hi"), ASKED).json()["receipt"]
    closed = post(replying("hi"), {**ASKED, "receipt": True}).json()["receipt"]
    assert closed["prompt"]["ids"] is None
    assert closed["prompt"]["sha256"] == open_one["prompt"]["sha256"]
    assert len(open_one["prompt"]["ids"]) == open_one["prompt"]["n_tokens"]


def test_no_receipt_comes_unasked():
    assert "receipt" not in post(replying("hi"), {"messages": HELLO}).json()
    assert "receipt" not in post(replying("hi"), {"messages": HELLO, "receipt": False}).json()


def test_a_stream_has_the_receipt_in_its_last_choice():
    chunks = chunks_of(post(replying("hi"), {**ASKED, "seed": 3, "stream": True}))
    assert ["receipt" in chunk for chunk in chunks] == [*[False] * (len(chunks) - 1), True]
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"


def test_several_answers_share_one_receipt():
    receipt = post(constant_chat([0.5, 0.3, 0.2]), {**ASKED, "n": 3}).json()["receipt"]
    assert [answer["index"] for answer in receipt["answers"]] == [0, 1, 2]
    assert replayed(receipt).is_same


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/completions", {"prompt": "say", "max_tokens": 5}),
        ("/v1/responses", {"input": "say", "max_output_tokens": 5}),
    ],
)
def test_every_openai_route_gives_receipts(path, body):
    asked = {**body, "receipt": True, "seed": 1}
    whole = post(constant_chat([0.6, 0.4]), asked, path=path).json()["receipt"]
    assert Receipt.from_json(whole).params.max_tokens == 5
    streamed = post(constant_chat([0.6, 0.4]), {**asked, "stream": True}, path=path).text
    assert streamed.count('"receipt":') == 1
    assert whole["answers"][0]["text_sha256"] in streamed


@pytest.mark.parametrize(
    ("path", "body"), [("/api/chat", {"messages": HELLO}), ("/api/generate", {"prompt": "say"})]
)
def test_ollamas_routes_give_receipts_with_the_last_line(path, body):
    asked = {**body, "receipt": "with_prompt", "options": {"num_predict": 5}, "stream": False}
    told = post(constant_chat([0.5, 0.3, 0.2]), asked, path=path).json()
    assert replayed(told["receipt"]).results[0].text in json.dumps(told)
    assert replayed(told["receipt"]).is_same


def test_an_answer_in_a_certain_form_gets_none():
    asked = {**ASKED, "response_format": {"type": "json_object"}}
    response = post(replying("{}"), asked)
    assert response.status_code == 400
    assert "receipt cannot be given for an answer in a certain form" in response.json()["error"]["message"]


def test_several_prompts_are_refused():
    response = post(replying("hi"), {"prompt": ["a", "b"], "receipt": True}, path="/v1/completions")
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "receipt"
    assert "one prompt alone" in response.json()["error"]["message"]


def test_other_values_are_refused_by_name():
    error = post(replying("hi"), {**ASKED, "receipt": "all"}).json()["error"]
    assert error["param"] == "receipt"
