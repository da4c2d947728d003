"""The `openai` package, unmodified, against a real server on loopback."""

import asyncio
import json
from typing import Literal

import openai
import pydantic
import pytest
from live import live
from serving import CHATML, HELLO, TOOLS, replying, served

from leadout.engine.params import Params
from leadout.loading import load
from leadout.models.options import GgufOptions
from leadout.server.batcher import Batcher
from leadout.server.options import ServerOptions
from leadout.server.registry import Served
from real_models import real_model

CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Paris"}}\n</tool_call>'
TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}


def agent(prompt):
    return "It is 21 degrees in Paris." if "21 degrees" in prompt else f"Let me see.\n{CALL}"


@pytest.fixture(scope="module", params=[TOOLS, CHATML], ids=["tools in the template", "tools written out"])
def client(request):
    """A client of a model that looks at the weather before it answers."""
    options = ServerOptions(port=0, api_keys=("secret",))
    with (
        live(served(replying(agent, request.param)), options=options) as server,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="secret", max_retries=0) as made,
    ):
        yield made


def test_models_are_listed_and_fetched(client):
    [model] = client.models.list().data
    assert client.models.retrieve(model.id).id == model.id == "toy"


def test_an_agent_calls_a_tool_and_answers(client):
    messages = list(HELLO)
    first = client.chat.completions.create(model="toy", messages=messages, tools=[TOOL])
    choice = first.choices[0]
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", "Let me see.")
    [call] = choice.message.tool_calls
    assert json.loads(call.function.arguments) == {"city": "Paris"}
    messages += [choice.message, {"role": "tool", "tool_call_id": call.id, "content": "21 degrees"}]
    second = client.chat.completions.create(model="toy", messages=messages, tools=[TOOL])
    assert second.choices[0].message.content == "It is 21 degrees in Paris."
    assert second.choices[0].finish_reason == "stop"


def test_a_streamed_call_is_put_together_by_the_client(client):
    options = {"include_usage": True}
    with client.chat.completions.stream(
        model="toy", messages=HELLO, tools=[TOOL], stream_options=options
    ) as s:
        kinds = {event.type for event in s}
        completion = s.get_final_completion()
    assert {"chunk", "content.delta", "tool_calls.function.arguments.delta"} <= kinds
    [call] = completion.choices[0].message.tool_calls
    assert json.loads(call.function.arguments) == {"city": "Paris"}
    assert completion.usage.completion_tokens == len("Let me see.\n" + CALL)
    assert completion.usage.model_extra["speculation"]["enabled"] is False


def test_an_agent_works_through_responses(client):
    tool = {"type": "function", "name": "weather", "parameters": {"type": "object"}, "strict": False}
    items = [{"role": "user", "content": "How warm is it?"}]
    first = client.responses.create(model="toy", input=items, tools=[tool], instructions="Be brief.")
    assert first.output_text == "Let me see."
    call = first.output[-1]
    assert (call.type, json.loads(call.arguments)) == ("function_call", {"city": "Paris"})
    items += [
        *first.output,
        {"type": "function_call_output", "call_id": call.call_id, "output": "21 degrees"},
    ]
    with client.responses.stream(model="toy", input=items, tools=[tool]) as stream:
        text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        final = stream.get_final_response()
    assert text == final.output_text == "It is 21 degrees in Paris."
    assert final.status == "completed"


class City(pydantic.BaseModel):
    name: Literal["Paris", "Rome"]
    mayor: str | None = pydantic.Field(max_length=5)


def test_structured_output_is_parsed_by_the_client(client):
    chat = client.chat.completions.parse(
        model="toy", messages=HELLO, response_format=City, max_tokens=300, temperature=0
    )
    assert isinstance(chat.choices[0].message.parsed, City)
    response = client.responses.parse(model="toy", input="Hello", text_format=City, temperature=0)
    assert isinstance(response.output_parsed, City)


def test_strict_tools_are_parsed_by_the_client(client):
    tool = openai.pydantic_function_tool(City, name="city")
    chat = client.chat.completions.parse(
        model="toy", messages=HELLO, tools=[tool], tool_choice="required", max_tokens=300, temperature=0,
        parallel_tool_calls=False,
    )  # fmt: skip
    [call] = chat.choices[0].message.tool_calls
    assert isinstance(call.function.parsed_arguments, City)


def test_text_completions_work(client):
    prompt = "<|im_start|>assistant\n"
    assert client.completions.create(model="toy", prompt=prompt).choices[0].text.startswith("Let me see.")
    chunks = client.completions.create(model="toy", prompt=prompt, stream=True)
    assert "".join(chunk.choices[0].text for chunk in chunks).startswith("Let me see.")


def test_errors_are_those_that_the_client_knows(client):
    with pytest.raises(openai.BadRequestError, match="temperature is -1"):
        client.chat.completions.create(model="toy", messages=HELLO, temperature=-1)
    with pytest.raises(openai.NotFoundError, match="there is no model 'gpt' here"):
        client.chat.completions.create(model="gpt", messages=HELLO)
    with pytest.raises(openai.AuthenticationError, match="an API key is needed"):
        client.with_options(api_key="wrong").models.list()


def test_many_asynchronous_clients_get_their_own_answers():
    def reply(prompt):
        return prompt.partition("user\n")[2].partition("<")[0].upper()

    async def ask(client, i):
        messages = [{"role": "user", "content": f"marker {i} of many"}]
        if i % 2:
            stream = await client.chat.completions.create(model="toy", messages=messages, stream=True)
            return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
        answer = await client.chat.completions.create(model="toy", messages=messages)
        return answer.choices[0].message.content

    async def ask_all(url):
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none") as client:
            return await asyncio.gather(*(ask(client, i) for i in range(24)))

    with live(served(replying(reply, n_slots=4))) as server:
        answers = asyncio.run(ask_all(server.url))
    assert answers == [f"MARKER {i} OF MANY" for i in range(24)]


@pytest.mark.model
def test_a_real_model_says_over_http_what_its_engine_says():
    path = real_model("smollm2-135m")
    options = GgufOptions(n_threads=1, n_ctx=1024, n_slots=2)
    engine = load(path, "ngram", options=options)

    asked = [{"role": "user", "content": "Name three rivers, then name them again."}]
    greedy = engine.chat(asked, Params(temperature=0.0, max_tokens=40)).text
    seeded = engine.chat(asked, Params(temperature=0.9, seed=7, max_tokens=40)).text
    model = Served.of(engine, Batcher(engine), "smollm2-135m")
    with live(model) as server, openai.OpenAI(base_url=f"{server.url}/v1", api_key="none") as client:
        create = client.chat.completions.create
        for speculation in ("auto", "off"):
            more = {"model": "smollm2-135m", "messages": asked, "max_tokens": 40}
            more["extra_body"] = {"speculation": speculation}
            assert create(temperature=0, **more).choices[0].message.content == greedy
            stream = create(temperature=0.9, seed=7, stream=True, **more)
            assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == seeded
        response = client.responses.create(
            model="smollm2-135m", input=asked, temperature=0, max_output_tokens=40
        )
        assert response.output_text == greedy
        assert response.usage.input_tokens_details.cached_tokens > 20
