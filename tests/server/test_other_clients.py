"""Agent frameworks and clients that people use, unmodified, where they are installed (extra ``clients``)."""

import asyncio
import os
import subprocess
import sys

import pytest
from live import live
from serving import HELLO, TOOLS, replying, served

CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Paris"}}\n</tool_call>'
ANSWER = "It is 21 degrees in Paris."

pytestmark = [
    pytest.mark.clients,
    pytest.mark.filterwarnings("default"),  # theirs
]


def agent(prompt):
    return ANSWER if "21 degrees" in prompt else CALL


@pytest.fixture(scope="module")
def url():
    """Where a model is served that looks at the weather before it answers."""
    with live(served(replying(agent, TOOLS))) as server:
        yield f"{server.url}/v1"


def weather(city: str) -> str:
    """The weather in a city."""
    return f"21 degrees in {city}"


def test_pydantic_ai_runs_an_agent_with_a_tool(url):
    pydantic_ai = pytest.importorskip("pydantic_ai")
    openai = pytest.importorskip("pydantic_ai.models.openai")
    provider = pytest.importorskip("pydantic_ai.providers.openai").OpenAIProvider(
        base_url=url, api_key="none"
    )
    tool = pydantic_ai.Tool(weather, strict=False)  # strict arguments need constrained answers
    for kind in (openai.OpenAIChatModel, openai.OpenAIResponsesModel):
        made = pydantic_ai.Agent(kind("toy", provider=provider), tools=[tool], instructions="Be brief.")
        result = made.run_sync("How warm is it in Paris?")
        assert result.output == ANSWER

        async def streamed(made=made):
            async with made.run_stream("How warm is it in Paris?") as stream:
                return await stream.get_output()

        assert asyncio.run(streamed()) == ANSWER


def test_langchain_calls_a_tool_and_streams(url):
    langchain = pytest.importorskip("langchain_openai")
    tools = pytest.importorskip("langchain_core.tools")
    for responses in (False, True):
        model = langchain.ChatOpenAI(
            model="toy", base_url=url, api_key="none", use_responses_api=responses, max_retries=0
        )
        asked = [("user", "How warm is it in Paris?")]
        message = model.bind_tools([tools.tool(weather)]).invoke(asked)
        [call] = message.tool_calls
        assert (call["name"], call["args"]) == ("weather", {"city": "Paris"})
        assert message.usage_metadata["output_tokens"] == len(CALL)
        text = "".join(chunk.text for chunk in model.stream([("user", "21 degrees")]))
        assert text == ANSWER


def test_litellm_completes_and_streams(url):
    litellm = pytest.importorskip("litellm")
    more = {"model": "openai/toy", "api_base": url, "api_key": "none", "max_retries": 0}
    answer = litellm.completion(messages=[{"role": "user", "content": "21 degrees"}], **more)
    assert answer.choices[0].message.content == ANSWER
    chunks = litellm.completion(messages=[{"role": "user", "content": "21 degrees"}], stream=True, **more)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == ANSWER
    called = litellm.completion(messages=HELLO, tools=[TOOL], **more)
    assert called.choices[0].message.tool_calls[0].function.arguments == '{"city": "Paris"}'


def test_litellm_asks_over_the_ollama_route(url):
    litellm = pytest.importorskip("litellm")
    more = {"model": "ollama_chat/toy", "api_base": url.removesuffix("/v1"), "max_tokens": 60}
    asked = [{"role": "user", "content": "21 degrees"}]
    answer = litellm.completion(messages=asked, **more)
    assert answer.choices[0].message.content == ANSWER
    assert answer.usage.completion_tokens == len(ANSWER)
    chunks = litellm.completion(messages=asked, stream=True, keep_alive="-1", **more)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == ANSWER
    called = litellm.completion(messages=HELLO, tools=[TOOL], **more | {"max_tokens": 200})
    [call] = called.choices[0].message.tool_calls
    assert (call.function.name, call.function.arguments) == ("weather", '{"city": "Paris"}')


TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}


def test_llm_asks_over_its_openai_route(url, tmp_path):
    pytest.importorskip("llm")
    (tmp_path / "extra-openai-models.yaml").write_text(
        f"- model_id: toy\n  model_name: toy\n  api_base: {url}\n  api_key_name: none\n", encoding="utf-8"
    )
    for more in ((), ("--no-stream",)):
        done = subprocess.run(
            [sys.executable, "-m", "llm", "-m", "toy", "--key", "none", *more, "21 degrees?"],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env={**os.environ, "LLM_USER_PATH": str(tmp_path)},
        )
        assert done.stdout.strip() == ANSWER, done.stderr
