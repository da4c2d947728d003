"""Replies come out the same in pieces of any size."""

import json

import pytest

from leadout.server.deltas import Message
from leadout.server.reply_parser import ReplyParser
from leadout.server.tool_syntax import HERMES, LLAMA, MISTRAL, tool_syntax

WRITE = {"filePath": "/p/f", "content": "x"}
CALL = json.dumps({"name": "write", "arguments": WRITE})
XML = (
    "<function=write>\n<parameter=filePath>\n/p/f\n</parameter>\n<parameter=content>\nx\n</parameter>\n"
    "</function>"
)
TYPES = {"write": {"filePath": {"type": "string"}, "n": {"type": "integer"}, "content": {"type": "string"}}}

CALLS = {
    "hermes": (HERMES, f"<tool_call>\n{CALL}\n</tool_call>"),
    "hermes, on one line": (HERMES, f"<tool_call>{CALL}</tool_call>"),
    "hermes, never closed": (HERMES, f"<tool_call>\n{CALL}"),
    "arguments first": (
        HERMES,
        f'<tool_call>{{"arguments": {json.dumps(WRITE)}, "name": "write"}}</tool_call>',
    ),
    "something after the arguments": (HERMES, f'<tool_call>{CALL[:-1]}, "id": "7"}}</tool_call>'),
    "arguments as text": (
        HERMES,
        f'<tool_call>{{"name": "write", "arguments": {json.dumps(json.dumps(WRITE))}}}</tool_call>',
    ),
    "xml": (HERMES, f"<tool_call>\n{XML}\n</tool_call>"),
    "mistral list": (MISTRAL, f"[TOOL_CALLS] [{CALL}]"),
    "mistral name": (MISTRAL, f"[TOOL_CALLS]write[ARGS]{json.dumps(WRITE)}"),
    "mistral name and id": (MISTRAL, f"[TOOL_CALLS]write[CALL_ID]a1b2c3d4e[ARGS]{json.dumps(WRITE)}"),
    "llama": (LLAMA, json.dumps({"name": "write", "parameters": WRITE})),
    "llama with its tag": (LLAMA, "<|python_tag|>" + json.dumps({"name": "write", "parameters": WRITE})),
}


def read(text, size, syntax=HERMES, **options):
    ids = iter(range(100))
    parser = ReplyParser(syntax, TYPES, new_id=lambda: f"call_{next(ids)}", **options)
    deltas = []
    for at in range(0, len(text), size):
        deltas += parser.feed(text[at : at + size])
    return Message.of(deltas + parser.finish())


def in_all_sizes(text, syntax=HERMES, **options):
    whole = read(text, len(text), syntax, **options)
    for size in range(1, len(text)):
        assert read(text, size, syntax, **options) == whole, size
    return whole


@pytest.mark.parametrize("name", CALLS)
def test_a_call_keeps_its_arguments_in_pieces_of_any_size(name):
    syntax, text = CALLS[name]
    message = in_all_sizes(text, syntax)
    assert [call.name for call in message.calls] == ["write"]
    assert json.loads(message.calls[0].arguments) == WRITE
    assert (message.text, message.reasoning) == ("", "")


@pytest.mark.parametrize("name", CALLS)
def test_text_before_a_call_stays_text(name):
    syntax, text = CALLS[name]
    if syntax is LLAMA and not text.startswith("<"):
        return  # a bare call is the whole reply
    message = in_all_sizes(f"I will write it.\n\n{text}", syntax)
    assert message.text == "I will write it."
    assert json.loads(message.calls[0].arguments) == WRITE


TWO = {
    "hermes": (HERMES, f"<tool_call>\n{CALL}\n</tool_call>\n<tool_call>\n{CALL}\n</tool_call>"),
    "xml": (HERMES, f"<tool_call>\n{XML}\n</tool_call>\n<tool_call>\n{XML}\n</tool_call>"),
    "mistral list": (MISTRAL, f"[TOOL_CALLS][{CALL}, {CALL}]"),
    "mistral names": (MISTRAL, f"[TOOL_CALLS]write[ARGS]{json.dumps(WRITE)}" * 2),
    "llama": (LLAMA, f"{CALL}; {CALL}"),
}


@pytest.mark.parametrize("name", TWO)
def test_two_calls_are_two(name):
    syntax, text = TWO[name]
    message = in_all_sizes(text, syntax)
    assert [(call.id, call.name) for call in message.calls] == [("call_0", "write"), ("call_1", "write")]
    assert [json.loads(call.arguments) for call in message.calls] == [WRITE, WRITE]


def test_arguments_with_braces_quotes_and_markers_in_strings_survive():
    arguments = {"a": 'he said "}" and {', "b": "</tool_call>", "c": [{"d": "\\"}], "e": "ü→𝄞"}
    text = f"<tool_call>{json.dumps({'name': 'f', 'arguments': arguments})}</tool_call>"
    assert json.loads(in_all_sizes(text).calls[0].arguments) == arguments


def test_a_call_without_arguments_has_an_empty_object():
    assert in_all_sizes('<tool_call>{"name": "now"}</tool_call>').calls[0].arguments == "{}"
    assert in_all_sizes("<tool_call><function=now></function></tool_call>").calls[0].arguments == "{}"


def test_xml_values_follow_their_declared_types():
    text = "<function=write><parameter=n>7</parameter><parameter=content>7</parameter></function>"
    call = in_all_sizes(f"<tool_call>{text}</tool_call>").calls[0]
    assert json.loads(call.arguments) == {"n": 7, "content": "7"}


@pytest.mark.parametrize("cut", range(len("<tool_call>\n" + CALL)))
def test_a_call_cut_short_loses_nothing(cut):
    text = ("<tool_call>\n" + CALL)[:cut]
    message = in_all_sizes(text) if cut else read("", 1)
    if message.calls:
        assert CALL.endswith(message.calls[0].arguments + CALL[cut - len("<tool_call>\n") :])
    else:
        assert "".join(message.text.split()) == "".join(text.split())


@pytest.mark.parametrize(
    "text",
    [
        "a < b and <tool",
        "<tool_call>no call</tool_call>",
        '<tool_call>{"no": "name"}</tool_call> and on',
        "<tool_call>{broken}</tool_call>",
        '{"name": "f", "arguments": {}}',
        "  leading and trailing \n",
    ],
)
def test_what_is_no_call_is_text(text):
    assert in_all_sizes(text).calls == ()
    assert "".join(in_all_sizes(text).text.split()) == "".join(text.split())


def test_without_tools_nothing_is_a_call():
    _, text = CALLS["hermes"]
    assert in_all_sizes(text, None).text == text


@pytest.mark.parametrize("space", ["", "\n", "\n\n"])
def test_reasoning_is_split_from_the_reply(space):
    message = in_all_sizes(f"<think>{space}2 < 3, so</think yes{space}</think>{space}Yes.")
    assert (message.reasoning, message.text) == ("2 < 3, so</think yes", "Yes.")


def test_an_answer_may_begin_inside_its_reasoning():
    message = in_all_sizes("\nwell\n</think>\n\nYes.", is_thinking=True)
    assert (message.reasoning, message.text) == ("well", "Yes.")


def test_a_call_may_follow_reasoning():
    message = in_all_sizes(f"<think>\nhm\n</think>\n\n<tool_call>\n{CALL}\n</tool_call>")
    assert (message.reasoning, message.text, len(message.calls)) == ("hm", "", 1)


def test_unfinished_reasoning_is_reasoning():
    assert in_all_sizes("<think>\nand so").reasoning == "and so"


def test_a_tag_in_the_middle_is_text():
    assert in_all_sizes("write <think> here").text == "write <think> here"


@pytest.mark.parametrize(
    ("template", "syntax"),
    [
        (None, None),
        ("{{ messages }}", None),
        ("{% if tools %}<tool_call>", HERMES),
        ("{{ tools }} [AVAILABLE_TOOLS] [TOOL_CALLS]", MISTRAL),
        ('{{ tools }} <|python_tag|> {"name": ..., "parameters": ...}', LLAMA),
        ("{{ tools }}", HERMES),
    ],
)
def test_the_template_says_how_calls_are_written(template, syntax):
    assert tool_syntax(template) is syntax
