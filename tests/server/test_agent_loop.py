"""An agent that calls tools in a loop over HTTP, and what is remembered of it for whom."""

import json

import httpx
import pytest
from live import live
from serving import TOOLS, replying, served

from leadout.drafters.suffix import SuffixDrafter
from leadout.server.options import ServerOptions

N_CALLS = 10
READ = {
    "type": "function",
    "function": {
        "name": "read_lines",
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string"}, "first": {"type": "integer"}},
        },
    },
}
SECRET = "the quick brown fox jumps over the lazy dog and sees seven other zebras"


def next_call(asked):
    """The agent's model: one more page of the same file, until all were read."""
    n = asked.count("<|im_start|>tool")
    if n == N_CALLS:
        return "All pages were read."
    arguments = {"path": "src/package/a_module_with_a_long_name.py", "first": 40 * n}
    return "<tool_call>" + json.dumps({"name": "read_lines", "arguments": arguments}) + "</tool_call>"


def run_agent(client, **settings):
    """The calls that were made, what was said last, and the passes that took."""
    messages = [{"role": "user", "content": "Read the file."}]
    calls, n_passes = [], 0
    while True:
        body = {"model": "toy", "messages": messages, "tools": [READ], "temperature": 0, **settings}
        answer = client.post("/v1/chat/completions", json=body).json()
        n_passes += answer["usage"]["speculation"]["target_passes"]
        [choice] = answer["choices"]
        messages.append({key: value for key, value in choice["message"].items() if value is not None})
        if choice["finish_reason"] != "tool_calls":
            return calls, choice["message"]["content"], n_passes
        for call in choice["message"]["tool_calls"]:
            calls.append(json.loads(call["function"]["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": f"page {len(calls)}"})


def test_an_agent_of_ten_calls_takes_far_fewer_passes_and_says_the_same():
    toy = served(replying(next_call, TOOLS), SuffixDrafter(), k=16)
    with live(toy) as server, httpx.Client(base_url=server.url, timeout=60) as client:
        plain = run_agent(client, speculation="off")
        drafted = run_agent(client)
    assert [call["first"] for call in plain[0]] == [40 * n for n in range(N_CALLS)]
    assert drafted[:2] == plain[:2]
    assert plain[1] == "All pages were read."
    assert drafted[2] < plain[2] / 3


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses"])
def test_what_one_key_was_told_is_never_drafted_for_another(path):
    toy = served(replying(SECRET), SuffixDrafter(), k=8)
    options = ServerOptions(port=0, api_keys=("key-a", "key-b"))
    texts = {"input": "x"} if "responses" in path else {"messages": [{"role": "user", "content": "x"}]}
    with live(toy, options=options) as server, httpx.Client(base_url=server.url, timeout=60) as client:

        def accepted(key):
            headers = {"Authorization": f"Bearer {key}"}
            body = {"model": "toy", "temperature": 0, **texts}
            answer = client.post(path, json=body, headers=headers).json()
            return answer["usage"]["speculation"]["accepted"]

        first, again, other, other_again = (accepted(key) for key in ("key-a", "key-a", "key-b", "key-b"))
    assert again > first + len(SECRET) // 2
    assert other == first  # as if nobody had asked before
    assert other_again == again
