"""Chat completions over the toy models."""

import asyncio
import json

from serial import app_of, client_of, replying, served

HELLO = [{"role": "user", "content": "hello"}]


def post(model, body, path="/v1/chat/completions", **options):
    """The response to one request."""

    async def ask():
        async with client_of(app_of(served(model, **options))) as client:
            return await client.post(path, json={"model": "toy", **body})

    return asyncio.run(ask())


def chunks_of(text):
    lines = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def test_a_chat_is_answered():
    answer = post(replying("Hi there."), {"messages": HELLO}).json()
    assert answer["object"] == "chat.completion"
    assert answer["choices"][0]["message"] == {"role": "assistant", "content": "Hi there.", "refusal": None}
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["usage"]["completion_tokens"] == len("Hi there.")


def test_a_stream_says_the_same():
    response = post(
        replying("Hi there."), {"messages": HELLO, "stream": True, "stream_options": {"include_usage": True}}
    )
    assert response.headers["content-type"].startswith("text/event-stream")
    chunks = chunks_of(response.text)
    assert "".join(c["choices"][0]["delta"].get("content", "") for c in chunks[:-1]) == "Hi there."
    assert [c["choices"][0]["finish_reason"] for c in chunks[:-1]][-1] == "stop"
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["completion_tokens"] == len("Hi there.")


def test_an_unknown_field_is_named():
    response = post(replying("x"), {"messages": HELLO, "best_of": 3})
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "best_of"
