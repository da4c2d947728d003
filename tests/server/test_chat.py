"""Chat completions over models whose answers are known."""

import asyncio
import json
from dataclasses import replace

import pytest
from serving import CHATML, HELLO, TOOLS, chunks_of, client_of, constant_chat, deltas_of, post, replying

from leadout.core.cost import CostTable
from leadout.engine.engine import Engine
from leadout.engine.memory import Memory
from leadout.engine.pace import PacedSchedule
from leadout.engine.params import Params
from leadout.engine.profile import Profile
from leadout.engine.schedule import FixedSchedule
from leadout.server.batcher import Batcher
from leadout.server.registry import Served
from leadout.testing import ScriptedDrafter

WRITE = {"filePath": "/p/f", "content": "x"}
CALL = f'<tool_call>\n{{"name": "write", "arguments": {json.dumps(WRITE)}}}\n</tool_call>'
TOOL = {
    "type": "function",
    "function": {
        "name": "write",
        "description": "Write a file.",
        "parameters": {
            "type": "object",
            "properties": {"filePath": {"type": "string"}, "content": {"type": "string"}},
        },
    },
}


def drafting(text, right=3):
    """A drafter that knows the answer, and is wrong after `right` tokens of each draft."""
    return ScriptedDrafter.partly_right([*text.encode(), 257], right, 256)


def test_a_chat_is_answered():
    answer = post(replying("Hi there."), {"messages": HELLO}).json()
    assert answer["object"] == "chat.completion"
    assert answer["model"] == "toy"
    assert answer["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Hi there.", "refusal": None},
            "finish_reason": "stop",
            "logprobs": None,
        }
    ]
    assert answer["usage"]["completion_tokens"] == len("Hi there.")


@pytest.mark.parametrize("right", range(5))
def test_a_stream_says_the_same_with_any_drafts(right):
    said = "Grüße: 🐢歪é, and so on."
    body = {"messages": HELLO, "stream": True, "stream_options": {"include_usage": True}, "temperature": 0}
    response = post(replying(said), body, drafter=drafting(said, right))
    assert response.headers["content-type"].startswith("text/event-stream")
    chunks = chunks_of(response)
    texts = [each.get("content", "") for each in deltas_of(chunks)]
    assert "".join(texts) == said
    assert not any("\ufffd" in text for text in texts)
    assert [c["choices"][0]["finish_reason"] for c in chunks[:-1]] == [None] * (len(chunks) - 2) + ["stop"]
    assert chunks[-1]["choices"] == []
    usage = chunks[-1]["usage"]
    assert usage["completion_tokens"] == len(said.encode())
    assert usage["speculation"]["drafted"] > 0
    assert all(chunk["usage"] is None for chunk in chunks[:-1])


@pytest.mark.parametrize("is_stream", [False, True])
def test_a_character_cut_by_the_limit_is_left_out(is_stream):
    body = {"messages": HELLO, "max_tokens": 3, "temperature": 0, "stream": is_stream}
    response = post(replying("a🐢"), body, drafter=drafting("a🐢"))
    if is_stream:
        assert "".join(each.get("content", "") for each in deltas_of(chunks_of(response))) == "a"
    else:
        choice = response.json()["choices"][0]
        assert (choice["message"]["content"], choice["finish_reason"]) == ("a", "length")


@pytest.mark.parametrize("limit", range(1, 13))
@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_counts_logprobs_and_text_end_at_the_limit(limit, name):
    said = "0123456789"
    body = {"messages": HELLO, name: limit, "logprobs": True, "top_logprobs": 2, "temperature": 0}
    answer = post(replying(said), body, drafter=drafting(said, 5), k=5).json()
    n = min(limit, len(said))
    choice = answer["choices"][0]
    assert choice["message"]["content"] == said[:n]
    assert len(choice["logprobs"]["content"]) == answer["usage"]["completion_tokens"] == n
    assert choice["finish_reason"] == ("length" if limit <= len(said) else "stop")


@pytest.mark.parametrize("stop", ["45", ["x", "45"]])
@pytest.mark.parametrize("is_stream", [False, True])
def test_nothing_after_a_stop_text_is_sent(stop, is_stream):
    body = {"messages": HELLO, "stop": stop, "stream": is_stream, "temperature": 0}
    response = post(replying("0123456789"), body, drafter=drafting("0123456789", 5))
    if is_stream:
        assert "".join(each.get("content", "") for each in deltas_of(chunks_of(response))) == "0123"
    else:
        choice = response.json()["choices"][0]
        assert (choice["message"]["content"], choice["finish_reason"]) == ("0123", "stop")


def test_log_probabilities_are_the_models_own_for_every_origin():
    body = {"messages": HELLO, "logprobs": True, "top_logprobs": 3, "max_tokens": 60, "temperature": 1.0}
    body |= {"top_p": 1.0, "seed": 5, "stream": True, "stream_options": {"include_origins": True}}
    model = constant_chat([0.5, 0.3, 0.2])
    chunks = chunks_of(post(model, body, drafter=ScriptedDrafter.always(ord("a"))))
    seen = set()
    expected = {"a": -0.693147, "b": -1.203973, "c": -1.609438}
    for chunk in chunks:
        logprobs = chunk["choices"][0]["logprobs"]
        if logprobs is None:
            continue
        [entry], [token] = logprobs["content"], chunk["leadout"]["tokens"]
        seen.add(token["origin"])
        assert entry["logprob"] == pytest.approx(expected[entry["token"]], abs=1e-5)
        assert entry["bytes"] == list(entry["token"].encode())
        assert [top["token"] for top in entry["top_logprobs"]] == ["a", "b", "c"]
    assert seen == {"plain", "accepted", "corrected", "bonus"}


def test_several_answers_come_in_order():
    body = {"messages": HELLO, "n": 3, "max_tokens": 8, "seed": 3, "temperature": 1.0}
    model = constant_chat([0.4, 0.3, 0.3])
    answer = post(model, body).json()
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2]
    texts = [choice["message"]["content"] for choice in answer["choices"]]
    assert len(set(texts)) > 1
    assert answer["usage"]["completion_tokens"] == 24
    chunks = chunks_of(post(model, body | {"stream": True}))
    streamed = ["", "", ""]
    for chunk in chunks:
        streamed[chunk["choices"][0]["index"]] += chunk["choices"][0]["delta"].get("content", "")
    assert streamed == texts


def test_a_seed_gives_the_same_text_with_and_without_drafts_and_unseeded_ones_differ():
    model = constant_chat([0.4, 0.3, 0.3])
    drafter = ScriptedDrafter.always(ord("a"))
    body = {"messages": HELLO, "max_tokens": 30, "temperature": 2.0}

    def text(**more):
        return post(model, body | more, drafter=drafter).json()["choices"][0]["message"]["content"]

    seeded = {text(seed=42, speculation=speculation) for speculation in ("auto", "off", 1, 3)}
    assert len(seeded) == 1
    assert text(seed=43) not in seeded
    assert len({text() for _ in range(4)}) > 1


def test_fields_reach_the_law():
    """What a drafter proposes against min_p, a bias or top_k never appears."""
    model = constant_chat([0.5, 0.3, 0.15, 0.05])
    body = {"messages": HELLO, "max_tokens": 3000, "top_p": 1.0}
    for more, allowed, share in (
        ({"temperature": 1.0, "min_p": 0.4}, "ab", 0.625),
        ({"temperature": 1.0, "logit_bias": {"99": -100}}, "abd", 0.5882),
        ({"temperature": 1.0, "top_k": 2}, "ab", 0.625),
        ({}, "abcd", 0.0),  # the documented default is no argmax
    ):
        drafter = ScriptedDrafter.always(ord("c"))
        text = post(model, body | more, drafter=drafter).json()["choices"][0]["message"]["content"]
        assert set(text) == set(allowed)
        if share:
            assert text.count("a") / len(text) == pytest.approx(share, abs=0.04)


def test_a_reply_is_the_engines_own():
    params = Params(
        temperature=0.9, top_p=0.9, top_k=3, min_p=0.01, repetition_penalty=1.2, frequency_penalty=0.3
    )
    params = replace(params, presence_penalty=0.2, seed=7, max_tokens=40)
    model = constant_chat([0.4, 0.3, 0.2, 0.1])
    expected = Engine(model, schedule=FixedSchedule(4)).chat(HELLO, params)
    fields = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "frequency_penalty")
    body = {name: getattr(params, name) for name in (*fields, "presence_penalty", "seed", "max_tokens")}
    answer = post(constant_chat([0.4, 0.3, 0.2, 0.1]), body | {"messages": HELLO}).json()
    assert answer["choices"][0]["message"]["content"] == expected.text


def test_speculation_is_told_and_obeyed():
    said = "a long enough answer"

    def speculation(**more):
        body = {"messages": HELLO, "temperature": 0, **more}
        return post(replying(said), body, drafter=drafting(said, 8), k=8).json()["usage"]["speculation"]

    on, off, short = speculation(), speculation(speculation="off"), speculation(speculation=2)
    assert (on["enabled"], on["drafter"]) == (True, "scripted")
    assert on["tokens_per_pass"] > short["tokens_per_pass"] > off["tokens_per_pass"]
    assert (off["enabled"], off["drafted"]) == (False, 0)
    assert off["reason"] == "off: the request asked for plain decoding"
    assert (off["estimated_speedup"], off["basis"]) == (None, "none: speculation is off")
    assert on["basis"] == "unknown: this schedule does not predict what plain decoding would take"
    assert on["accepted"] <= on["drafted"]
    assert on["target_passes"] < off["target_passes"]


def test_usage_says_why_nothing_was_drafted():
    body = {"messages": HELLO, "temperature": 0}
    told = post(replying("Yes."), body, drafter=ScriptedDrafter(lambda _: [])).json()["usage"]["speculation"]
    assert told["reason"].endswith("; nothing was drafted: scripted found nothing worth drafting")
    assert (told["drafted"], told["estimated_speedup"]) == (0, None)
    assert told["basis"] == "none: nothing was drafted"


def test_a_busy_machine_is_no_speedup_where_nothing_was_drafted():
    dear = CostTable(widths=((1, 1e-6), (2, 1.0)))
    engine = Engine(
        replying("Yes."), ScriptedDrafter(lambda _: []), schedule=PacedSchedule(Memory(profile=Profile(dear)))
    )

    async def ask():
        async with client_of(Served.of(engine, Batcher(engine), "toy")) as client:
            return await client.post("/v1/chat/completions", json={"model": "toy", "messages": HELLO})

    told = asyncio.run(ask()).json()["usage"]["speculation"]
    assert (told["drafted"], told["estimated_speedup"]) == (0, None)


def test_a_repeated_conversation_comes_from_the_cache():
    model = replying("Yes.")
    first, again = (
        response.json()["usage"]["prompt_tokens_details"]["cached_tokens"]
        for response in post(model, {"messages": HELLO, "temperature": 0}, times=2)
    )
    assert first == 0
    assert again > 20


def test_old_reasoning_left_out_keeps_the_prefix_in_the_cache():
    model = replying("<think>\nhm\n</think>\n\nYes.")
    turn = {"messages": HELLO, "temperature": 0}
    later = [*HELLO, {"role": "assistant", "content": "Yes."}, {"role": "user", "content": "Why?"}]
    first, second = post(model, turn, {"messages": later, "temperature": 0})
    prefix = len("<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n") - 3 * 12 + 3
    assert second.json()["usage"]["prompt_tokens_details"]["cached_tokens"] >= prefix - 12
    assert first.json()["choices"][0]["message"]["reasoning_content"] == "hm"
    assert first.json()["choices"][0]["message"]["content"] == "Yes."


@pytest.mark.parametrize("right", range(6))
@pytest.mark.parametrize("is_stream", [False, True])
def test_a_tool_call_keeps_its_arguments(right, is_stream):
    body = {"messages": HELLO, "tools": [TOOL], "temperature": 0, "stream": is_stream}
    response = post(replying(CALL, TOOLS), body, drafter=drafting(CALL, right), k=6)
    if is_stream:
        chunks = chunks_of(response)
        calls = [call for delta in deltas_of(chunks) for call in delta.get("tool_calls", [])]
        assert (calls[0]["index"], calls[0]["type"], calls[0]["function"]["name"]) == (0, "function", "write")
        arguments = "".join(call["function"]["arguments"] for call in calls)
        reason = chunks[-1]["choices"][0]["finish_reason"]
        assert len(calls) > 10  # they come as they are written
    else:
        choice = response.json()["choices"][0]
        assert choice["message"]["content"] is None
        [call] = choice["message"]["tool_calls"]
        assert call["id"].startswith("call_")
        arguments, reason = call["function"]["arguments"], choice["finish_reason"]
    assert json.loads(arguments) == WRITE
    assert reason == "tool_calls"


@pytest.mark.parametrize(("parallel", "n"), [(None, 2), (True, 2), (False, 1)])
def test_parallel_calls_can_be_had_one_at_a_time(parallel, n):
    body = {"messages": HELLO, "tools": [TOOL], "parallel_tool_calls": parallel}
    answer = post(replying(f"{CALL}\n{CALL}", TOOLS), body).json()
    assert len(answer["choices"][0]["message"]["tool_calls"]) == n


def test_tools_reach_the_prompt_and_none_keeps_them_out():
    def seen(model_template, **more):
        prompts = []

        def reply(prompt):
            prompts.append(prompt)
            return CALL

        answer = post(replying(reply, model_template), {"messages": HELLO, "tools": [TOOL], **more}).json()
        return prompts[0], answer["choices"][0]["message"]

    for template in (TOOLS, CHATML):  # the second knows no tools, so they are written out for it
        prompt, message = seen(template)
        assert '"name": "write"' in prompt
        assert message["tool_calls"][0]["function"]["name"] == "write"
        prompt, message = seen(template, tool_choice="none")
        assert "write" not in prompt
        assert message["content"] == CALL


@pytest.mark.parametrize("template", [TOOLS, CHATML])
def test_earlier_calls_and_their_results_reach_the_prompt(template):
    prompts = []

    def reply(prompt):
        prompts.append(prompt)
        return "Done."

    call = {"id": "call_1", "type": "function", "function": {"name": "write", "arguments": json.dumps(WRITE)}}
    messages = [
        {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
        *HELLO,
        {"role": "assistant", "content": None, "tool_calls": [call], "refusal": None, "audio": None},
        {"role": "tool", "tool_call_id": "call_1", "content": "written"},
    ]
    answer = post(replying(reply, template), {"messages": messages, "tools": [TOOL]})
    assert answer.json()["choices"][0]["message"]["content"] == "Done."
    for part in ("<|im_start|>system\nBe brief.", '"filePath": "/p/f"', "written"):
        assert part in prompts[0]


def test_control_tokens_that_begin_calls_are_read():
    template = "{{ tools }} [TOOL_CALLS]" + CHATML
    said = f"[TOOL_CALLS]write[ARGS]{json.dumps(WRITE)}"
    model = replying(said, template, ["[TOOL_CALLS]", "[ARGS]"])
    answer = post(model, {"messages": HELLO, "tools": [TOOL], "temperature": 0}).json()
    [call] = answer["choices"][0]["message"]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == WRITE


@pytest.mark.parametrize("is_stream", [False, True])
def test_reasoning_is_told_apart(is_stream):
    said = "<think>\n2 and 2\n</think>\n\n4"
    response = post(
        replying(said),
        {"messages": HELLO, "temperature": 0, "stream": is_stream, "stream_options": None},
        drafter=drafting(said),
    )
    if is_stream:
        deltas = deltas_of(chunks_of(response))
        reasoning = "".join(each.get("reasoning_content", "") for each in deltas)
        content = "".join(each.get("content", "") for each in deltas)
        assert (reasoning, content) == ("2 and 2", "4")
    else:
        answer = response.json()
        message = answer["choices"][0]["message"]
        assert (message["reasoning_content"], message["content"]) == ("2 and 2", "4")
        n = answer["usage"]["completion_tokens_details"]["reasoning_tokens"]
        assert len("2 and 2") <= n < answer["usage"]["completion_tokens"]


def test_a_template_that_opens_the_reasoning_is_noticed():
    template = CHATML.replace(
        "assistant\n{% endif %}", "assistant\n{% if not quick %}<think>\n{% endif %}{% endif %}"
    )
    model = replying(lambda prompt: "so\n</think>\n\n4" if prompt.endswith("<think>\n") else "5", template)
    message = post(model, {"messages": HELLO}).json()["choices"][0]["message"]
    assert (message["reasoning_content"], message["content"]) == ("so", "4")
    quick = {"messages": HELLO, "chat_template_kwargs": {"quick": True}}
    assert post(model, quick).json()["choices"][0]["message"]["content"] == "5"


def test_effort_goes_to_templates_that_know_it():
    template = CHATML + "{% if enable_thinking is defined and not enable_thinking %}quick{% endif %}"
    model = replying(lambda prompt: "5" if prompt.endswith("quick") else "4", template)
    body = {"messages": HELLO, "reasoning_effort": "none"}
    assert post(model, body).json()["choices"][0]["message"]["content"] == "5"
    assert post(model, body | {"reasoning_effort": "high"}).json()["choices"][0]["message"]["content"] == "4"
    assert refused(replying("x"), body)["param"] == "reasoning_effort"


def test_harmless_fields_are_accepted():
    body = {
        "messages": HELLO,
        "user": "u",
        "metadata": {"a": "b"},
        "store": False,
        "service_tier": "auto",
        "safety_identifier": "s",
        "prompt_cache_key": "k",
        "modalities": ["text"],
        "verbosity": "medium",
        "response_format": {"type": "text"},
        "tool_choice": None,
        "logprobs": False,
        "functions": None,
    }
    assert post(replying("x"), body).status_code == 200


def refused(model, body, status=400):
    response = post(model, body)
    assert response.status_code == status, response.text
    return response.json()["error"]


@pytest.mark.parametrize(
    ("fields", "param", "said"),
    [
        ({"best_of": 3}, "best_of", "not a field that is honoured here"),
        ({"functions": []}, "functions", "not a field"),
        ({"prediction": {"type": "content", "content": "x"}}, "prediction", "not a field"),
        ({"temperature": -1}, "temperature", "must be a number >= 0"),
        ({"temperature": "hot"}, "temperature", "should be a valid number"),
        ({"temperature": True}, "temperature", "should be a valid number"),
        ({"top_p": 0}, "top_p", "must be a number in (0, 1]"),
        ({"top_k": -1}, "top_k", "whole number >= 0"),
        ({"min_p": 2}, "min_p", "number in [0, 1]"),
        ({"n": 0}, "n", "in 1..128"),
        ({"n": 2.5}, "n", "should be a valid integer"),
        ({"seed": -1}, "seed", "in 0..18446744073709551615"),
        ({"max_tokens": 0}, "max_tokens", ">= 1"),
        ({"max_tokens": 1, "max_completion_tokens": 1}, "max_tokens", "are the same"),
        ({"stop": [""]}, "stop", "non-empty"),
        ({"stop": 7}, "stop", ""),
        ({"logit_bias": {"x": 1}}, "logit_bias", "must be token ids"),
        ({"logit_bias": {"1": "a"}}, "logit_bias.1", "valid number"),
        ({"logit_bias": {"999999": 1}}, "logit_bias", "this model's ids are"),
        ({"top_logprobs": 2}, "top_logprobs", "needs logprobs: true"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs", "less than or equal to 20"),
        ({"speculation": "on"}, "speculation", ""),
        ({"speculation": 65}, "speculation", "off, auto or a whole number in 1..64"),
        ({"stream_options": {"include_usage": True}}, "stream_options", "needs stream: true"),
        ({"stream": True, "stream_options": {"x": 1}}, "stream_options.x", "not a field"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type", "'function'"),
        ({"tool_choice": "auto"}, "tool_choice", "needs tools"),
        ({"store": True}, "store", "nothing is stored here"),
        ({"service_tier": "priority"}, "service_tier", "one tier"),
        ({"modalities": ["audio"]}, "modalities", "text only"),
        ({"chat_template_kwargs": {"messages": []}}, "chat_template_kwargs.messages", "cannot be set"),
        ({"messages": []}, "messages", "at least 1"),
        ({"messages": "hello"}, "messages", "valid list"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role", "'system'"),
        ({"messages": [{"role": "user", "content": 7}]}, "messages[0].content", "valid string"),
        ({"messages": [{"role": "user", "content": "x", "weight": 1}]}, "messages[0].weight", "not a field"),
        ({"messages": None}, "messages", "missing"),
    ],
)
def test_what_is_not_honoured_is_named(fields, param, said):
    error = refused(replying("x"), {"messages": HELLO, **fields})
    assert error["param"] == param
    assert error["type"] == "invalid_request_error"
    assert said in error["message"]
    assert param in error["message"]


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,!!"}},
        {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}},
        {"type": "file", "file": {"file_id": "f"}},
    ],
)
def test_other_media_than_text_are_refused_and_the_server_lives(part):
    messages = [{"role": "user", "content": [{"type": "text", "text": "What is this?"}, part]}]
    bad, good = post(replying("Hi."), {"messages": messages}, {"messages": HELLO})
    assert bad.status_code == 400
    assert bad.json()["error"]["param"] == "messages[0].content[1]"
    assert (
        f"is of type '{part['type']}', but the models here read text only" in bad.json()["error"]["message"]
    )
    assert good.json()["choices"][0]["message"]["content"] == "Hi."


def test_a_model_without_a_template_cannot_chat():
    error = refused(replying("x", None), {"messages": HELLO})
    assert "has no chat template" in error["message"]
    assert error["param"] == "model"


def test_ten_thousand_messages_are_too_many_for_the_context():
    messages = [{"role": "user", "content": f"message {i}"} for i in range(10_000)]
    error = refused(replying("x"), {"messages": messages})
    assert error["code"] == "context_length_exceeded"


def test_an_unknown_model_is_not_found():
    error = refused(replying("x"), {"messages": HELLO, "model": "gpt"}, 404)
    assert (error["code"], error["param"]) == ("model_not_found", "model")
    assert error["message"] == (
        "there is no model 'gpt' here; there is toy; `leadout serve --name NAME` renames it"
    )


@pytest.mark.parametrize("is_stream", [False, True])
def test_a_failing_model_is_told(is_stream):
    model = replying("0123456789")
    model.fail_at(3)
    response = post(model, {"messages": HELLO, "stream": is_stream, "temperature": 0})
    if is_stream:
        assert response.status_code == 200
        assert '"type":"server_error"' in response.text
    else:
        assert response.status_code == 500
        assert "forward 3 failed" in response.json()["error"]["message"]


def test_what_nobody_expected_is_an_error_too(caplog):
    bad, good = post(
        replying(lambda prompt: str(1 / int("boom" not in prompt))),
        {"messages": [{"role": "user", "content": "boom"}]},
        {"messages": HELLO},
    )
    assert bad.status_code == 500
    error = bad.json()["error"]
    assert error["type"] == "server_error"
    assert bad.headers["x-request-id"] in error["message"]
    assert "ZeroDivisionError" in caplog.text
    assert good.json()["choices"][0]["message"]["content"] == "1.0"
