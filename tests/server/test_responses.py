"""Responses over models whose answers are known."""

import json

import pytest
from serving import CHATML, HELLO, TOOLS, post, replying

from leadout.testing import ScriptedDrafter

THOUGHT = {"type": "reasoning_text", "text": "hm"}
IMAGE = {"type": "input_image", "image_url": "x"}
ARGUMENTS = {"city": "Paris"}
CALL = f'<tool_call>\n{{"name": "weather", "arguments": {json.dumps(ARGUMENTS)}}}\n</tool_call>'
TOOL = {
    "type": "function",
    "name": "weather",
    "parameters": {"type": "object", "properties": {}},
    "strict": False,
}


def ask(model, *bodies, **about):
    return post(
        model,
        *({"input": "hello", "temperature": 0, **body} for body in bodies),
        path="/v1/responses",
        **about,
    )


def events_of(response):
    events = []
    for block in response.text.split("\n\n")[:-1]:
        name, _, data = block.partition("\ndata: ")
        event = json.loads(data)
        assert name == f"event: {event['type']}"
        events.append(event)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    return events


def test_a_text_is_answered():
    response = ask(replying("Hi there."), {}).json()
    assert (response["object"], response["status"], response["error"]) == ("response", "completed", None)
    [item] = response["output"]
    assert (item["type"], item["role"], item["status"]) == ("message", "assistant", "completed")
    assert item["content"] == [
        {"type": "output_text", "text": "Hi there.", "annotations": [], "logprobs": []}
    ]
    usage = response["usage"]
    assert usage["output_tokens"] == len("Hi there.")
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    assert usage["speculation"]["reason"] == "off: no draft was asked for"


SAID = f"<think>\nwell\n</think>\n\nLet me see.\n{CALL}\n{CALL}"


@pytest.mark.parametrize("right", range(5))
def test_a_stream_tells_every_step_and_comes_to_the_same(right):
    drafter = ScriptedDrafter.partly_right([*SAID.encode(), 257], right, 256)
    body = {"tools": [TOOL], "stream": True}
    events = events_of(ask(replying(SAID, TOOLS), body, drafter=drafter))
    kinds = [event["type"] for event in events]
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert kinds[-1] == "response.completed"
    final = events[-1]["response"]
    assert [item["type"] for item in final["output"]] == [
        "reasoning",
        "message",
        "function_call",
        "function_call",
    ]
    whole = ask(replying(SAID, TOOLS), {"tools": [TOOL]}).json()
    assert _without_ids(final["output"]) == _without_ids(whole["output"])
    assert final["output"][0]["content"] == [{"type": "reasoning_text", "text": "well"}]
    for at, item in enumerate(final["output"]):
        mine = [event for event in events if event.get("output_index") == at]
        assert mine[0]["type"] == "response.output_item.added"
        assert mine[-1]["type"] == "response.output_item.done"
        assert mine[-1]["item"] == item
        joined = "".join(event["delta"] for event in mine if event["type"].endswith(".delta"))
        said = item["arguments"] if item["type"] == "function_call" else item["content"][0]["text"]
        assert joined == said
        assert {event["item_id"] for event in mine if "item_id" in event} == {item["id"]}
    assert json.loads(final["output"][2]["arguments"]) == ARGUMENTS


def _without_ids(items):
    return [{name: value for name, value in item.items() if name not in ("id", "call_id")} for item in items]


def test_a_cut_answer_is_incomplete():
    response = ask(replying("0123456789"), {"max_output_tokens": 4}).json()
    assert response["status"] == "incomplete"
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert response["output"][0]["content"][0]["text"] == "0123"
    events = events_of(ask(replying("0123456789"), {"max_output_tokens": 4, "stream": True}))
    assert events[-1]["type"] == "response.incomplete"


@pytest.mark.parametrize("template", [TOOLS, CHATML])
def test_items_become_the_conversation(template):
    prompts = []

    def reply(prompt):
        prompts.append(prompt)
        return "Warm."

    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "How warm is it?"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": [THOUGHT]},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Let me see.", "annotations": [], "logprobs": []}],
        },
        {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": json.dumps(ARGUMENTS)},
        {"type": "function_call_output", "call_id": "c1", "output": "21 degrees"},
    ]
    body = {"input": items, "instructions": "Be brief.", "tools": [TOOL], "store": False}
    response = ask(replying(reply, template), body | {"include": ["reasoning.encrypted_content"]}).json()
    assert response["output"][0]["content"][0]["text"] == "Warm."
    order = ["<|im_start|>system\n", "Be brief.", "How warm is it?", "Let me see.", '"Paris"', "21 degrees"]
    at = [prompts[0].index(part) for part in order]
    assert at == sorted(at) or template is TOOLS  # there the tools come first
    assert prompts[0].count("<|im_start|>assistant") == 2  # text and call are one message


def test_log_probabilities_of_all_tokens_are_told():
    response = ask(replying("abc"), {"top_logprobs": 1}).json()
    logprobs = response["output"][0]["content"][0]["logprobs"]
    assert [entry["token"] for entry in logprobs] == ["a", "b", "c"]
    assert all(len(entry["top_logprobs"]) == 1 for entry in logprobs)


def test_a_failing_model_ends_the_stream_as_failed():
    model = replying("0123456789")
    model.fail_at(3)
    events = events_of(ask(model, {"stream": True}))
    assert events[-1]["type"] == "response.failed"
    assert "forward 3 failed" in events[-1]["response"]["error"]["message"]


@pytest.mark.parametrize(
    ("fields", "param", "said"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id", "send the whole conversation in input"),
        ({"store": True}, "store", "nothing is stored here"),
        ({"background": True}, "background", "nothing is stored"),
        ({"truncation": "auto"}, "truncation", "prompts are never cut"),
        ({"conversation": "c"}, "conversation", "not a field"),
        ({"messages": HELLO}, "messages", "not a field"),
        ({"input": []}, "input", "at least 1"),
        (
            {"input": [{"type": "item_reference", "id": "x"}]},
            "input[0]",
            "is of no type that is honoured here",
        ),
        ({"input": [7]}, "input[0]", "is of no type"),
        ({"input": [{"role": "user", "content": [IMAGE]}]}, "input[0].content[0]", "read text only"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type", "'function'"),
        ({"tool_choice": "required"}, "tool_choice", "needs tools"),
        ({"text": {"verbosity": "low"}}, "text.verbosity", "no such setting"),
        ({"reasoning": {"effort": "high"}}, "reasoning.effort", "knows no such setting"),
        ({"reasoning": {"summary": "detailed"}}, "reasoning.summary", "told as it is"),
        ({"include": ["file_search_call.results"]}, "include[0]", ""),
        ({"max_output_tokens": 0}, "max_output_tokens", "greater than or equal to 1"),
        ({"top_logprobs": 21}, "top_logprobs", "less than or equal to 20"),
    ],
)
def test_what_is_not_honoured_is_named(fields, param, said):
    response = ask(replying("x"), fields)
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    assert error["param"] == param
    assert said in error["message"]
