"""Answers in the form that requests ask for, by models that would rather say something else."""

import json

import jsonschema
import numpy as np
import pytest
from serving import CHATML, HELLO, TOOLS, byte_vocabulary, chunks_of, deltas_of, post, replying

from leadout.drafters.hybrid import HybridDrafter
from leadout.drafters.ngram import NgramDrafter
from leadout.testing import TableModel

LLAMA = TOOLS.replace("<tool_call>", "<|python_tag|>").replace("</tool_call>", "")
MISTRAL = TOOLS.replace("<tool_call>", "[TOOL_CALLS]").replace("</tool_call>", "")
NAMED = MISTRAL + "{# [ARGS] #}"
OPENED = CHATML.replace("assistant\n{% endif", "assistant\n<think>\n{% endif")
THINKS = CHATML + "{# <think> #}"

PERSON = {
    "type": "object",
    "properties": {"letter": {"enum": ["x", "y"]}, "note": {"type": ["string", "null"], "maxLength": 4}},
    "required": ["letter", "note"],
    "additionalProperties": False,
}
CITY = {
    "type": "object",
    "properties": {"city": {"enum": ["Paris", "Rome"]}},
    "required": ["city"],
    "additionalProperties": False,
}
DAY = {
    "type": "object",
    "properties": {"day": {"type": "integer", "minimum": 1, "maximum": 7}},
    "required": ["day"],
    "additionalProperties": False,
}
FUNCTIONS = [
    {"name": "weather", "parameters": CITY, "strict": True},
    {"name": "plan", "parameters": DAY, "strict": True},
]
STRICT = [{"type": "function", "function": each} for each in FUNCTIONS]
LOOSE = [{"type": "function", "function": {**each, "strict": False}} for each in FUNCTIONS]
FORMAT = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON, "strict": True}}


def rambling(seed, template=CHATML, extra=()):
    """A model that says anything."""
    vocab, known = byte_vocabulary(template, extra), {}

    def rule(tokens):
        key = (len(tokens), tokens[-1])
        if key not in known:
            known[key] = np.random.default_rng([seed, *key]).normal(0, 3, vocab.size)
        return known[key]

    return TableModel(rule, n_vocab=vocab.size, n_ctx=8192, vocab=vocab)


def asked(model, **fields):
    response = post(model, {"messages": HELLO, "temperature": 0, "max_tokens": 600, **fields})
    assert response.status_code == 200, response.text
    return response.json()["choices"][0]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", ["json_schema", "json_object"])
def test_response_formats_are_kept(kind, seed):
    format = FORMAT if kind == "json_schema" else {"type": "json_object"}
    model = rambling(seed) if kind == "json_schema" else replying('{"a": [1, {"b": null}]} and more')
    choice = asked(model, response_format=format)
    assert choice["finish_reason"] == "stop"
    said = json.loads(choice["message"]["content"])
    jsonschema.validate(said, PERSON if kind == "json_schema" else {"type": "object"})


def test_a_cut_answer_is_no_valid_one_and_says_length():
    choice = asked(rambling(0), response_format=FORMAT, max_tokens=9)
    assert choice["finish_reason"] == "length"


def test_text_is_free_with_format_text():
    assert asked(replying("Hello!"), response_format={"type": "text"})["message"]["content"] == "Hello!"


@pytest.mark.parametrize(
    ("grammar", "said"),
    [
        ({"syntax": "regex", "definition": "(yes|no), [0-9]{2}"}, "no, "),
        ({"syntax": "lark", "definition": 'start: "no, " ("ha" | "ho"){2}'}, "no, h"),
    ],
)
def test_grammars_are_followed_in_every_interface(grammar, said):
    model = replying("not at all")
    settings = {"temperature": 0, "grammar": grammar}
    chat = asked(model, **settings)["message"]["content"]
    prompt = {"prompt": "<|im_start|>assistant\n", "max_tokens": 20}
    completion = post(model, {**prompt, **settings}, path="/v1/completions").json()["choices"][0]["text"]
    response = post(model, {"input": "hello", **settings}, path="/v1/responses").json()
    texts = [chat, completion, response["output"][0]["content"][0]["text"]]
    assert len(set(texts)) == 1
    assert texts[0].startswith(said)


def test_text_completions_and_responses_take_schemas():
    completion = post(
        rambling(1),
        {"prompt": "x", "max_tokens": 600, "temperature": 0, "response_format": FORMAT},
        path="/v1/completions",
    ).json()
    jsonschema.validate(json.loads(completion["choices"][0]["text"]), PERSON)
    format = {"type": "json_schema", "name": "person", "schema": PERSON}
    response = post(
        rambling(2), {"input": "x", "temperature": 0, "text": {"format": format}}, path="/v1/responses"
    ).json()
    jsonschema.validate(json.loads(response["output"][0]["content"][0]["text"]), PERSON)
    assert response["text"]["format"]["schema"] == PERSON


SYNTAXES = {
    "hermes": (TOOLS, ()),
    "hermes with control tokens": (TOOLS, ("<tool_call>", "</tool_call>")),
    "written out": (CHATML, ()),
    "mistral": (MISTRAL, ("[TOOL_CALLS]",)),
    "mistral as text": (MISTRAL, ()),
    "mistral by name": (NAMED, ("[TOOL_CALLS]", "[ARGS]")),
    "llama": (LLAMA, ("<|python_tag|>",)),
}


def valid_calls(choice):
    calls = [call["function"] for call in choice["message"].get("tool_calls", [])]
    for call in calls:
        jsonschema.validate(json.loads(call["arguments"]), {"weather": CITY, "plan": DAY}[call["name"]])
    return [call["name"] for call in calls]


@pytest.mark.parametrize("syntax", SYNTAXES)
@pytest.mark.parametrize("seed", range(3))
def test_a_required_call_is_made_with_valid_arguments(syntax, seed):
    choice = asked(rambling(seed, *SYNTAXES[syntax]), tools=LOOSE, tool_choice="required")
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] is None
    assert 1 <= len(valid_calls(choice)) <= 16


@pytest.mark.parametrize("syntax", SYNTAXES)
@pytest.mark.parametrize("name", ["weather", "plan"])
def test_a_named_function_is_called_once(syntax, name):
    choice = asked(
        rambling(3, *SYNTAXES[syntax]),
        tools=LOOSE,
        tool_choice={"type": "function", "function": {"name": name}},
    )
    assert valid_calls(choice) == [name]


@pytest.mark.parametrize("name", ["auto", "none", "required"])
def test_a_named_function_may_have_the_name_of_a_choice(name):
    functions = [{"name": each, "parameters": CITY} for each in ("other", name)]
    tools = [{"type": "function", "function": each} for each in functions]
    choice = asked(
        rambling(3, TOOLS), tools=tools, tool_choice={"type": "function", "function": {"name": name}}
    )
    assert [call["function"]["name"] for call in choice["message"]["tool_calls"]] == [name]
    body = {
        "input": "hello",
        "temperature": 0,
        "max_output_tokens": 600,
        "tools": [{"type": "function", **each} for each in functions],
        "tool_choice": {"type": "function", "name": name},
    }
    response = post(rambling(3, TOOLS), body, path="/v1/responses").json()
    calls = [item["name"] for item in response["output"] if item["type"] == "function_call"]
    assert calls == [name]


def test_calls_that_may_not_be_parallel_are_single():
    model = rambling(1, TOOLS)
    assert len(valid_calls(asked(model, tools=LOOSE, tool_choice="required", parallel_tool_calls=False))) == 1


@pytest.mark.parametrize("syntax", SYNTAXES)
def test_strict_tools_leave_text_free_and_keep_the_arguments_of_calls(syntax):
    template, extra = SYNTAXES[syntax]
    free = asked(replying("It is {warm}.", template, extra), tools=STRICT)
    assert (free["message"]["content"], free["finish_reason"]) == ("It is {warm}.", "stop")
    call = {
        "mistral": '[TOOL_CALLS][{"name": "weather", "arguments": {"city": "Osaka"}}]',
        "mistral as text": '[TOOL_CALLS][{"name": "weather", "arguments": {"city": "Osaka"}}]',
        "mistral by name": '[TOOL_CALLS]weather[ARGS]{"city": "Osaka"}',
        "llama": '{"name": "weather", "parameters": {"city": "Osaka"}}',
    }.get(syntax, '<tool_call>\n{"name": "weather", "arguments": {"city": "Osaka"}}\n</tool_call>')
    loose = asked(replying(call, template, extra), tools=LOOSE)
    assert json.loads(loose["message"]["tool_calls"][0]["function"]["arguments"]) == {"city": "Osaka"}
    assert valid_calls(asked(replying(call, template, extra), tools=STRICT, max_tokens=120))[0] == "weather"


def test_a_strict_call_may_come_after_text():
    call = 'Let me see.\n<tool_call>\n{"name": "plan", "arguments": {"day": 9}}\n</tool_call>'
    choice = asked(replying(call, TOOLS), tools=STRICT)
    assert choice["message"]["content"] == "Let me see."
    assert valid_calls(choice)[0] == "plan"


def test_an_answer_with_a_format_and_tools_is_one_of_the_two():
    seen = set()
    for seed in range(12):
        choice = asked(rambling(seed, TOOLS), tools=STRICT, response_format=FORMAT)
        if not valid_calls(choice):
            jsonschema.validate(json.loads(choice["message"]["content"]), PERSON)
        seen.add(choice["finish_reason"])
    assert seen == {"stop", "tool_calls"}


@pytest.mark.parametrize(
    ("template", "start", "extra"),
    [
        (OPENED, "", ()),
        (OPENED, "", ("</think>",)),
        (THINKS, "<think>", ()),
        (THINKS, "<think>", ("<think>", "</think>")),
    ],
)
def test_reasoning_stays_free_before_the_form(template, start, extra):
    said = f'{start}Is it "x"?</think>\n\n{{"letter": "y", "note": null}}'
    choice = asked(replying(said, template, extra), response_format=FORMAT)
    assert choice["message"]["reasoning_content"] == 'Is it "x"?'
    assert json.loads(choice["message"]["content"]) == {"letter": "y", "note": None}


def test_streamed_answers_keep_the_form_too():
    body = {"messages": HELLO, "temperature": 0, "tools": LOOSE, "tool_choice": "required", "stream": True}
    deltas = deltas_of(chunks_of(post(rambling(4, TOOLS), body)))
    parts = [call for delta in deltas for call in delta.get("tool_calls", []) if call["index"] == 0]
    text = "".join(part["function"]["arguments"] for part in parts)
    jsonschema.validate(json.loads(text), {"weather": CITY, "plan": DAY}[parts[0]["function"]["name"]])


def test_usage_tells_how_many_tokens_were_forced():
    body = {"messages": HELLO, "temperature": 0, "response_format": FORMAT, "max_tokens": 600}
    plain = post(rambling(0), body).json()
    response = post(rambling(0), body, drafter=HybridDrafter([NgramDrafter()])).json()
    assert response["choices"][0]["message"] == plain["choices"][0]["message"]
    told, before = response["usage"]["speculation"], plain["usage"]["speculation"]
    assert told["forced"] > 10
    n_saved = before["target_passes"] - told["target_passes"]
    assert n_saved == told["accepted"] - 1  # the last pass gave no token of its own
    assert before["forced"] == 0


SCHEMA_OF = "response_format.json_schema.schema"
WRONG = {"type": "object", "properties": {"a": {"not": {}}}}


@pytest.mark.parametrize(
    ("fields", "param", "said"),
    [
        ({"response_format": {"type": "json_schema"}}, SCHEMA_OF, "missing"),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}}, SCHEMA_OF, "missing"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": WRONG}}},
            SCHEMA_OF,
            'Unimplemented keys: ["not"]',
        ),
        ({"response_format": {"type": "xml"}}, "response_format.type", "'json_schema'"),
        ({"grammar": {"syntax": "regex", "definition": "a("}}, "grammar.definition", "unclosed group"),
        ({"grammar": {"syntax": "lark", "definition": "x: y"}}, "grammar.definition", "start"),
        ({"grammar": {"syntax": "gbnf", "definition": "x"}}, "grammar.syntax", "'lark' or 'regex'"),
        (
            {"grammar": {"syntax": "regex", "definition": ""}},
            "grammar.definition",
            "must be text, and not empty",
        ),
        (
            {"grammar": {"syntax": "regex", "definition": "a"}, "response_format": FORMAT},
            "grammar",
            "contradict; give one",
        ),
        (
            {"tools": [{"type": "function", "function": {"name": "f", "parameters": WRONG, "strict": True}}]},
            "tools[0].function.parameters",
            "Unimplemented",
        ),
        (
            {
                "tools": [*LOOSE, {"type": "function", "function": {"name": "f", "parameters": WRONG}}],
                "tool_choice": "required",
            },
            "tools[2].function.parameters",
            "Unimplemented",
        ),
        (
            {"tools": LOOSE, "tool_choice": {"type": "function", "function": {"name": "g"}}},
            "tool_choice",
            "'g', which is not among tools",
        ),
    ],
)
def test_what_cannot_be_kept_is_refused_and_named(fields, param, said):
    response = post(replying("x"), {"messages": HELLO, **fields})
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    assert error["param"] == param
    assert said in error["message"]


def test_a_grammar_that_takes_too_much_work_ends_its_own_answer_alone():
    rules = "\n".join(f"a{i}: a{i + 1} a{i + 1}" for i in range(40))
    grammar = {"syntax": "lark", "definition": f'start: a0\n{rules}\na40: "x"'}
    bad, good = post(replying("hi"), {"messages": HELLO, "grammar": grammar}, {"messages": HELLO})
    assert bad.status_code == 400
    assert "cannot be followed any further" in bad.json()["error"]["message"]
    assert good.json()["choices"][0]["message"]["content"] == "hi"


def test_a_tool_without_parameters_is_called_without_any():
    tool = {"type": "function", "function": {"name": "now", "strict": True}}
    choice = asked(rambling(2, TOOLS), tools=[tool], tool_choice="required", parallel_tool_calls=False)
    [call] = choice["message"]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {}
