"""Ollama's interface, asked by its own client over HTTP on loopback."""

import json
import re

import httpx
import pytest
from live import live
from serving import CHATML, HELLO, TOOLS, post, replying, served

from leadout import GgufOptions, load
from leadout.server.batcher import Batcher
from leadout.server.options import ServerOptions
from leadout.server.registry import Served
from leadout.testing import ScriptedDrafter
from real_models import real_model

ollama = pytest.importorskip("ollama")

SAID = "Good day to you."
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Paris"}}\n</tool_call>'
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather in a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
THINKING = CHATML + "{# knows <think> and enable_thinking #}"


@pytest.fixture(scope="module")
def url():
    """Where a model is served whose drafter is right now and then."""
    drafter = ScriptedDrafter.partly_right([*SAID.encode(), 257], 2, 256)
    with live(served(replying(SAID), drafter, name="some/toy:v1")) as server:
        yield server.url


@pytest.fixture
def client(url):
    with ollama.Client(host=url) as made:
        yield made


def ask(model, *bodies, path="/api/chat", **about):
    return post(
        model,
        *({"messages": HELLO, **body} if path == "/api/chat" else body for body in bodies),
        path=path,
        **about,
    )


def lines_of(response):
    assert response.headers["content-type"] == "application/x-ndjson"
    return [json.loads(line) for line in response.text.splitlines()]


def test_its_client_chats(client):
    answer = client.chat("some/toy:v1", HELLO, options={"temperature": 0})
    assert answer.message.content == SAID
    assert (answer.done, answer.done_reason, answer.model) == (True, "stop", "some/toy:v1")
    assert answer.eval_count == len(SAID)
    assert answer.prompt_eval_count > 0
    assert answer.total_duration >= answer.eval_duration > 0


def test_its_client_reads_a_stream(client):
    parts = list(client.chat("some/toy:v1", HELLO, stream=True, options={"temperature": 0}))
    assert "".join(part.message.content for part in parts) == SAID
    assert [part.done for part in parts] == [False] * (len(parts) - 1) + [True]
    assert len(parts) > 2
    assert parts[-1].done_reason == "stop"


def test_its_client_generates_and_goes_on_from_the_context(client):
    answer = client.generate("some/toy:v1", "hello", system="Be kind.", options={"temperature": 0})
    assert answer.response == SAID
    begun = (
        b"<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"
    )
    assert written(answer.context) == begun + SAID.encode()
    after = client.generate("some/toy:v1", "and?", context=answer.context, options={"temperature": 0})
    turn = b"<|im_end|>\n<|im_start|>user\nand?<|im_end|>\n<|im_start|>assistant\n"
    assert written(after.context) == begun + SAID.encode() + turn + SAID.encode()


def written(ids):
    markers = {256: b"<|im_start|>", 257: b"<|im_end|>"}
    return b"".join(markers.get(each, bytes([each % 256])) for each in ids)


def test_its_client_lists_and_shows_models(client, url):
    [listed] = client.list().models
    assert listed.model == "some/toy:v1"
    assert [each["id"] for each in httpx.get(f"{url}/v1/models").json()["data"]] == [listed.model]
    assert re.fullmatch("[0-9a-f]{64}", listed.digest)
    shown = client.show("some/toy:v1")
    assert (shown.template, shown.capabilities) == (CHATML, ["completion"])
    [running] = client.ps().models
    assert (running.model, running.context_length) == ("some/toy:v1", 8192)
    assert running.expires_at.year == 2300


def test_its_client_is_told_what_is_wrong(client):
    with pytest.raises(ollama.ResponseError, match="there is no model 'other' here") as error:
        client.chat("other", HELLO)
    assert error.value.status_code == 404
    with pytest.raises(ollama.ResponseError, match="there is no model"):
        client.show("../toy")
    for work, said in (
        (lambda: client.delete("some/toy:v1"), "/api/delete is not supported: models are files here"),
        (lambda: client.copy("some/toy:v1", "b"), "/api/copy is not supported"),
        (lambda: client.push("some/toy:v1"), "/api/push is not supported"),
        (lambda: client.create("b", from_="some/toy:v1"), "/api/create is not supported"),
        (lambda: client.embed("some/toy:v1", "text"), "/api/embed is not supported: there are no embeddings"),
        (lambda: client.embeddings("some/toy:v1", "text"), "/api/embeddings is not supported"),
    ):
        with pytest.raises(ollama.ResponseError, match=said) as error:
            work()
        assert error.value.status_code == 501


def test_pulling_succeeds_where_the_model_is_there(client):
    with pytest.raises(ollama.ResponseError, match="models are not fetched by requests") as error:
        client.pull("other")
    assert error.value.status_code == 400
    assert client.pull("some/toy:v1").status == "success"
    assert [each.status for each in client.pull("some/toy:v1", stream=True)] == ["success"]


def test_its_client_calls_a_tool_and_sends_the_result():
    with live(served(replying(lambda asked: "21 degrees." if "sunny" in asked else CALL, TOOLS))) as server:
        client = ollama.Client(host=server.url)
        messages = [{"role": "user", "content": "How warm is it in Paris?"}]
        answer = client.chat("toy", messages, tools=[WEATHER], options={"temperature": 0})
        [call] = answer.message.tool_calls
        assert (call.function.name, call.function.arguments) == ("weather", {"city": "Paris"})
        streamed = list(client.chat("toy", messages, tools=[WEATHER], stream=True))
        calls = [each for part in streamed for each in part.message.tool_calls or ()]
        assert [each.function.arguments for each in calls] == [{"city": "Paris"}]
        assert "".join(part.message.content for part in streamed) == ""
        messages += [answer.message, {"role": "tool", "tool_name": "weather", "content": "sunny"}]
        assert client.chat("toy", messages, tools=[WEATHER]).message.content == "21 degrees."
        client._client.close()


def test_a_call_that_is_cut_short_is_told_as_text():
    answer = ask(replying(CALL, TOOLS), {"tools": [WEATHER], "stream": False, "options": {"num_predict": 60}})
    told = answer.json()
    assert told["done_reason"] == "length"
    assert "tool_calls" not in told["message"]
    assert '"city"' in told["message"]["content"]


def test_thinking_is_told_apart():
    answer = ask(replying("<think>Hm.</think>Yes.", THINKING), {"stream": False}).json()
    assert answer["message"] == {"role": "assistant", "content": "Yes.", "thinking": "Hm."}
    parts = lines_of(ask(replying("<think>Hm.</think>Yes.", THINKING), {"think": True}))
    assert "".join(each["message"].get("thinking", "") for each in parts) == "Hm."
    assert "".join(each["message"]["content"] for each in parts) == "Yes."


def test_think_is_refused_where_the_template_knows_nothing_of_it():
    refused, honoured = ask(replying(SAID), {"think": True}, {"think": False, "stream": False})
    assert refused.status_code == 400
    assert refused.json()["error"].startswith("think is not honoured")
    assert honoured.json()["message"]["content"] == SAID


def test_the_last_line_tells_what_speculation_brought():
    drafter = ScriptedDrafter.partly_right([*SAID.encode(), 257], 2, 256)
    on, off = ask(replying(SAID), {"options": {"temperature": 0}}, {"speculation": "off"}, drafter=drafter)
    *_, last = lines_of(on)
    assert last["speculation"]["drafted"] > last["speculation"]["accepted"] > 0
    assert lines_of(off)[-1]["speculation"]["drafted"] == 0


def test_logprobs_come_with_each_token():
    whole, streamed = ask(
        replying("Hi"), *({"logprobs": True, "top_logprobs": 2, "stream": each} for each in (False, True))
    )
    entries = whole.json()["logprobs"]
    assert [each["token"] for each in entries] == ["H", "i"]
    assert [len(each["top_logprobs"]) for each in entries] == [2, 2]
    assert [each for line in lines_of(streamed) for each in line.get("logprobs", ())] == entries


def test_raw_prompts_go_past_the_template():
    raw = ask(
        replying(lambda asked: "never"),
        {"prompt": "a" * 9, "raw": True, "stream": False},
        path="/api/generate",
    )
    assert raw.json()["prompt_eval_count"] == 9
    assert "context" not in raw.json()


def test_stops_lengths_and_seeds_are_honoured():
    cut, stopped = ask(
        replying(SAID),
        {"stream": False, "options": {"num_predict": 4, "seed": 7, "num_ctx": 512, "repeat_last_n": -1}},
        {"stream": False, "options": {"stop": ["day"], "seed": -1, "num_predict": -1}},
    )
    assert (cut.json()["message"]["content"], cut.json()["done_reason"]) == ("Good", "length")
    assert (stopped.json()["message"]["content"], stopped.json()["done_reason"]) == ("Good ", "stop")


SCHEMA = {
    "type": "object",
    "properties": {"city": {"enum": ["Paris", "Rome"]}},
    "required": ["city"],
    "additionalProperties": False,
}


def test_formats_are_kept(client):
    for answer in (
        client.chat("some/toy:v1", HELLO, format=SCHEMA).message.content,
        client.generate("some/toy:v1", "Where?", format=SCHEMA).response,
        client.generate("some/toy:v1", "Where?", raw=True, format=SCHEMA).response,
    ):
        assert json.loads(answer)["city"] in ("Paris", "Rome")
    said = ask(
        replying('{"a": 1} and more'), {"format": "json", "stream": False, "options": {"temperature": 0}}
    )
    assert said.json()["message"]["content"] == '{"a": 1}'


def test_a_format_that_cannot_be_kept_is_refused():
    format, generate = {"format": {"not": {}}}, "/api/generate"
    for response in (
        ask(replying(SAID), format),
        ask(replying(SAID), {"prompt": "x", **format}, path=generate),
        ask(replying(SAID), {"prompt": "x", "raw": True, **format}, path=generate),
    ):
        assert response.status_code == 400
        assert response.json()["param"] == "format"
        assert "Unimplemented" in response.json()["error"]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"options": {"num_thread": 4}}, "options.num_thread"),
        ({"options": {"num_gpu": 1}}, "options.num_gpu"),
        ({"options": {"use_mmap": True}}, "options.use_mmap"),
        ({"options": {"mirostat": 2}}, "options.mirostat"),
        ({"options": {"tfs_z": 0.5}}, "options.tfs_z"),
        ({"options": {"typical_p": 0.5}}, "options.typical_p"),
        ({"options": {"repeat_last_n": 64}}, "options.repeat_last_n"),
        ({"options": {"num_ctx": 100_000}}, "options.num_ctx"),
        ({"options": {"num_predict": 0}}, "options.num_predict"),
        ({"options": {"repeat_penalty": -1.0}}, "options.repeat_penalty"),
        ({"options": {"temperature": -1.0}}, "options.temperature"),
        ({"options": {"warmth": 1}}, "options.warmth"),
        ({"format": "xml"}, "format"),
        ({"truncate": True}, "truncate"),
        ({"speculation": 99}, "speculation"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"keep_alive": "soon"}, "keep_alive"),
        ({"keep_alive": "5m"}, "keep_alive"),
        ({"nonsense": 1}, "nonsense"),
        ({"messages": [{"role": "user", "content": "x", "images": ["aGk="]}]}, "messages[0].images"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
    ],
)
def test_what_is_not_honoured_is_named(body, param):
    response = ask(replying(SAID), body)
    assert response.status_code == 400
    told = response.json()
    assert isinstance(told["error"], str)
    assert told["param"] == param
    assert param.split(".")[-1] in told["error"]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"suffix": "}"}, "suffix"),
        ({"template": "{{ .Prompt }}"}, "template"),
        ({"images": ["aGk="]}, "images"),
        ({"raw": True, "system": "Be kind."}, "system"),
        ({"raw": True, "context": [1]}, "context"),
        ({"raw": True, "think": True}, "think"),
        ({"context": [1], "system": "Be kind."}, "system"),
        ({"width": 100}, "width"),
    ],
)
def test_what_generate_does_not_honour_is_named(body, param):
    response = ask(replying(SAID), {"prompt": "x", **body}, path="/api/generate")
    assert response.status_code == 400
    assert response.json()["param"] == param


def test_empty_texts_of_clients_in_go_are_taken_for_nothing():
    empty = {"suffix": "", "system": "", "template": "", "format": "", "context": None, "options": None}
    response = ask(replying(SAID), {"prompt": "x", "stream": False, **empty}, path="/api/generate")
    assert response.json()["response"] == SAID


def test_the_tag_latest_may_be_there_or_not():
    asked = {"model": "toy:latest", "stream": False}
    assert ask(replying(SAID), asked).json()["model"] == "toy:latest"
    assert ask(replying(SAID), {"model": "toy", "stream": False}, name="toy:latest").status_code == 200


def test_requests_as_curl_sends_them_are_read_but_not_those_of_pages(url):
    body = json.dumps({"model": "some/toy:v1", "messages": HELLO, "stream": False})
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert httpx.post(f"{url}/api/chat", content=body, headers=form).status_code == 200
    page = httpx.post(f"{url}/api/chat", content=body, headers={**form, "Origin": "https://evil.example"})
    assert page.status_code == 415
    assert isinstance(page.json()["error"], str)
    assert httpx.post(f"{url}/v1/chat/completions", content=body, headers=form).status_code == 415


def test_errors_outside_routes_have_its_form_too():
    with live(served(replying(SAID)), options=ServerOptions(port=0, api_keys=("key",))) as server:
        denied = httpx.post(f"{server.url}/api/chat", json={})
        missing = httpx.get(f"{server.url}/api/none", headers={"Authorization": "Bearer key"})
    assert (denied.status_code, denied.json()["error"]) == (
        401,
        "an API key is needed: Authorization: Bearer KEY",
    )
    assert (missing.status_code, missing.json()["code"]) == (404, "unknown_route")


def test_a_heartbeat_and_a_version_are_there(url):
    assert httpx.head(url).status_code == 200
    assert re.fullmatch(r"\d+\.\d+\.\d+", httpx.get(f"{url}/api/version").json()["version"])


def test_a_request_without_a_prompt_loads_the_model(client):
    assert client.generate("some/toy:v1").done_reason == "load"
    assert client.chat("some/toy:v1").done_reason == "load"


@pytest.mark.parametrize("path", ["/api/chat", "/api/generate"])
@pytest.mark.parametrize("raw", [{}, {"raw": True}])
def test_answers_have_the_form_that_is_asked_for(path, raw):
    schema = {
        "type": "object",
        "properties": {"mood": {"enum": ["good", "bad"]}},
        "required": ["mood"],
        "additionalProperties": False,
    }
    body = {"prompt": "x", **raw} if path == "/api/generate" else {}
    model = replying('never {"mood"')
    asked = ({"format": form, "stream": False, **body} for form in (schema, "json"))
    bound, free = ask(model, *asked, path=path)
    for response in (bound, free):
        said = response.json().get("response") or response.json()["message"]["content"]
        assert isinstance(json.loads(said), dict)
    refused = ask(model, {"format": {"type": "riddle"}, **body}, path=path)
    assert refused.status_code == 400
    assert refused.json()["error"].startswith("format cannot be kept")


@pytest.mark.model
def test_its_client_asks_a_real_model_with_drafts_and_a_schema():
    with live(real()) as server:
        client = ollama.Client(host=server.url)
        asked = {"model": "smollm2-135m:latest", "options": {"temperature": 0, "num_predict": 40}}
        messages = [{"role": "user", "content": "Count: one two three one two three one two three."}]
        whole = client.chat(messages=messages, **asked)
        parts = list(client.chat(messages=messages, stream=True, **asked))
        assert "".join(part.message.content for part in parts) == whole.message.content != ""
        shown = client.show("smollm2-135m")
        assert (shown.details.family, shown.details.format) == ("llama", "gguf")
        assert shown.modelinfo["general.parameter_count"] > 1e8
        schema = {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 20}, "warm": {"type": "boolean"}},
            "required": ["city", "warm"],
            "additionalProperties": False,
        }
        told = client.chat(messages=[{"role": "user", "content": "Is Cairo warm?"}], format=schema, **asked)
        assert set(json.loads(told.message.content)) == {"city", "warm"}
        first = client.generate(prompt="My name is Ada.", **asked)
        after = client.generate(prompt="What is my name?", context=first.context, **asked)
        assert after.prompt_eval_count > first.prompt_eval_count + first.eval_count
        client._client.close()


def real():
    """The real small model behind a runner, with lookups."""
    engine = load(real_model("smollm2-135m"), "suffix", options=GgufOptions(n_ctx=2048, n_slots=2))
    return Served.of(engine, Batcher(engine), "smollm2-135m")


def test_embeddings_are_refused_by_name_in_the_other_interface_too():
    response = post(replying("x"), {"input": "text"}, path="/v1/embeddings")
    assert (response.status_code, response.json()["error"]["code"]) == (501, "not_supported")
    assert (
        "/v1/embeddings is not supported: there are no embeddings here" in response.json()["error"]["message"]
    )
