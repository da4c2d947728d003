import json
import time
from datetime import datetime
from pathlib import Path

import pytest
from vocabularies import FileVocabulary, ListVocabulary

from leadout.errors import InputError
from leadout.models.header import read_header
from leadout.models.template import Message, encode_chat, render_chat
from leadout.testing.tiny_gguf import write_tiny_gguf
from real_models import real_model

HELLO = [{"role": "user", "content": "Hello"}]
TOOLS = [{"type": "function", "function": {"name": "add", "description": "a < b & 'c' é", "parameters": {}}}]

CHATML = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
LLAMA_3 = (
    "{% set loop_messages = messages %}{% for message in loop_messages %}"
    "{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'"
    " + message['content'] | trim + '<|eot_id|>' %}"
    "{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)
GEMMA = (
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}"
    "{{ raise_exception('System role not supported') }}{% endif %}{% for message in messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
    "{% if (message['role'] == 'assistant') %}{% set role = 'model' %}"
    "{% else %}{% set role = message['role'] %}{% endif %}"
    "{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}"
)
MISTRAL = (
    "{{ bos_token }}{% for message in messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate') }}{% endif %}"
    "{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}"
    "{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token}}"
    "{% else %}{{ raise_exception('Only user and assistant roles') }}{% endif %}{% endfor %}"
)


def render(template: str, messages: list[Message] | None = None, **values: object) -> str:
    return render_chat(template, HELLO if messages is None else messages, variables=values)


def refusal(template: str, messages: list[Message] | None = None) -> str:
    with pytest.raises(InputError) as caught:
        render(template, messages)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_llama_3_template_begins_with_bos() -> None:
    text = render_chat(
        LLAMA_3, [{"role": "system", "content": " Be brief. "}, *HELLO], bos_text="<|begin_of_text|>"
    )
    assert text == (
        "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nHello<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
    )


def test_gemma_template_renames_the_assistant_and_refuses_system() -> None:
    turns = [*HELLO, {"role": "assistant", "content": "Hi"}, {"role": "user", "content": "Bye"}]
    text = render_chat(GEMMA, turns, bos_text="<bos>", add_generation_prompt=False)
    assert text == (
        "<bos><start_of_turn>user\nHello<end_of_turn>\n<start_of_turn>model\nHi<end_of_turn>\n"
        "<start_of_turn>user\nBye<end_of_turn>\n"
    )
    message = refusal(GEMMA, [{"role": "system", "content": "x"}, *HELLO])
    assert message.startswith(
        "the model's chat template cannot take these messages: System role not supported; "
    )
    assert "--raw" in message
    assert "Conversation roles must alternate user/assistant" in refusal(GEMMA, [*HELLO, *HELLO])


def test_mistral_template_closes_answers_with_eos() -> None:
    turns = [*HELLO, {"role": "assistant", "content": "Hi"}, *HELLO]
    text = render_chat(MISTRAL, turns, bos_text="<s>", eos_text="</s>")
    assert text == "<s>[INST] Hello [/INST]Hi</s>[INST] Hello [/INST]"


def test_blocks_are_trimmed_and_stripped_as_in_transformers() -> None:
    template = "{% for m in messages %}\n  {% if m.role %}\n{{ m.content }}\n  {% endif %}\n{% endfor %}\nend"
    assert render(template) == "Hello\nend"


def test_loop_controls_and_generation_tag_are_known() -> None:
    assert render("{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}") == "01"
    assert render("a{% generation %}{{ messages[0].content }}{% endgeneration %}z") == "aHelloz"


def test_loop_variables_survive_the_counting_of_turns() -> None:
    template = "{% for x in 'abc' %}{{ loop.index0 }}{{ x }}{{ loop.length }}{{ loop.last }};{% endfor %}"
    assert render(template) == "0a3False;1b3False;2c3True;"
    assert (
        render("{% for k, v in messages[0].items() if k == 'role' %}{{ k }}={{ v }}{% else %}-{% endfor %}")
        == "role=user"
    )
    assert render("{% for x in [] %}x{% else %}none{% endfor %}") == "none"
    nested = "{% for x in [[1, [2]], [3]] recursive %}{{ x if x is number else loop(x) }}{% endfor %}"
    assert render(nested) == "123"


def test_tojson_writes_plain_json() -> None:
    template = (
        "{{ tools | tojson }}|{{ tools[0].function.description | tojson }}|"
        "{{ {'b': 1, 'a': [1]} | tojson(indent=1) }}"
    )
    text = render_chat(template, HELLO, tools=TOOLS)
    first, second, third = text.split("|")
    assert json.loads(first) == TOOLS
    assert second == "\"a < b & 'c' é\""
    assert third == '{\n "b": 1,\n "a": [\n  1\n ]\n}'


def test_time_is_the_one_given() -> None:
    now = datetime(2024, 2, 29, 13, 5)
    assert render_chat("{{ strftime_now('%d %B %Y') }}", HELLO, now=now) == "29 February 2024"
    assert render("{{ strftime_now('%Y') }}") == str(datetime.now().year)


def test_tools_are_none_unless_given_and_variables_reach_the_template() -> None:
    template = "{{ tools is none }} {{ enable_thinking }} {{ documents is defined }}"
    assert render(template, enable_thinking=False) == "True False False"


def test_variables_cannot_replace_the_messages() -> None:
    assert render("{{ messages[0].content }}", messages_=1) == "Hello"
    assert render_chat("{{ messages[0].content }}", HELLO, variables={"messages": []}) == "Hello"


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{% if %}", "Expected an expression, got 'end of statement block'"),
        ("{{ nothing.at.all }}", "'nothing' is undefined"),
        ("{{ messages[0].content + 1 }}", "TypeError: can only concatenate str"),
        ("{{ ''.__class__.__mro__ }}", "access to attribute '__class__' of 'str' object is unsafe"),
        ("{{ messages.append(1) }}", "access to attribute 'append' of 'list' object is unsafe"),
        ("{{ 1 / 0 }}", "ZeroDivisionError: division by zero"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "RecursionError"),
        ("{{ raise_exception('two\nlines') }}", "two lines"),
        ("{{ messages | nofilter }}", "No filter named 'nofilter'"),
        ("{% include 'x' %}", "no loader for this environment"),
    ],
)
def test_what_goes_wrong_in_a_template_is_told_in_its_words(template: str, reason: str) -> None:
    assert reason in refusal(template)


@pytest.mark.parametrize(
    "template",
    [
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% set l = range(99999) | list %}{% for a in l %}{% for b in l %}{% endfor %}{% endfor %}",
        "{{ 'x' * 999999999999 }}",
        "{{ 999999999999 * [1] }}",
        "{% set n = namespace(t='xx') %}{% for i in range(60) %}{% set n.t = n.t + n.t %}{% endfor %}",
        "{{ 9 ** 9 ** 9 ** 9 }}",
        "{% for i in range(99999) %}{{ messages[0].content * 999 }}{% endfor %}",
    ],
)
def test_endless_templates_end_in_an_error(template: str) -> None:
    begun = time.perf_counter()
    assert "more than" in refusal(template) or "a power with too large" in refusal(template)
    assert time.perf_counter() - begun < 20


@pytest.mark.parametrize(
    ("messages", "complaint"),
    [
        ([], "messages is empty; give at least one message"),
        ("Hello", "messages is of type str; it must be a list of messages"),
        ({"role": "user"}, "messages is of type dict"),
        (7, "messages is of type int"),
        (["Hello"], r"messages\[0\] is 'Hello'; it must be a mapping with role and content"),
        ([*HELLO, {"content": "x"}], r"messages\[1\] has role None; it must be a text"),
        ([{"role": "", "content": "x"}], r"messages\[0\] has role ''"),
        ([{"role": "user"}], r"messages\[0\] has no content; only a message with tool_calls"),
        ([{"role": "user", "content": None}], r"messages\[0\] has content None; it must be a text or a list"),
        ([{"role": "user", "content": 5}], r"messages\[0\] has content 5"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "part of type 'image_url'; only text parts"),
        ([{"role": "user", "content": ["x"]}], "part of type 'str'"),
        ([{"role": "assistant", "tool_calls": "x"}], "has tool_calls 'x'; it must be a list of calls"),
        ([{"role": "user", "content": "\ud800"}], "not valid Unicode text"),
    ],
)
def test_ill_formed_messages_are_named(messages: list[Message], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        render(CHATML, messages)


def test_text_parts_are_joined() -> None:
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    assert render("{{ messages[0].content }}", [{"role": "user", "content": parts}]) == "one\ntwo"


def test_unknown_keys_reach_the_template() -> None:
    assert render("{{ messages[0].name }}", [{"role": "user", "content": "x", "name": "Ann"}]) == "Ann"


@pytest.mark.parametrize("arguments", [{"a": 1}, '{"a": 1}'])
def test_call_arguments_are_an_object_in_either_form(arguments: object) -> None:
    calls = [{"id": "1", "type": "function", "function": {"name": "f", "arguments": arguments}}]
    template = "{{ messages[0].tool_calls[0].function.arguments.a }}{{ messages[0].content is defined }}"
    assert render(template, [{"role": "assistant", "tool_calls": calls}]) == "1False"


@pytest.mark.parametrize("arguments", ["not json", "[1]"])
def test_other_call_arguments_stay_as_they_are(arguments: str) -> None:
    calls = [{"name": "f", "arguments": arguments}]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    assert render("{{ messages[0].tool_calls[0].arguments }}", [message]) == arguments


def test_absent_calls_may_be_null() -> None:
    assert render(CHATML, [{"role": "user", "content": "x", "tool_calls": None}]).startswith(
        "<|im_start|>user\nx"
    )


def test_the_caller_s_messages_are_left_alone() -> None:
    message = {"role": "user", "content": [{"type": "text", "text": "x"}]}
    render(CHATML, [message])
    assert message == {"role": "user", "content": [{"type": "text", "text": "x"}]}


LETTERS = [chr(code) for code in range(32, 127)] + ["\n"]
MARKERS = ["<s>", "</s>", "<|im_start|>", "<|im_end|>"]


def list_vocabulary(template: str | None, *, adds_bos: bool, has_bos: bool = True) -> ListVocabulary:
    return ListVocabulary(
        MARKERS + LETTERS, bos=0 if has_bos else None, eos=1, adds_bos=adds_bos, chat_template=template
    )


@pytest.mark.parametrize(
    ("template", "adds_bos", "n_bos"),
    [
        ("{{ bos_token }}" + CHATML, True, 1),
        ("{{ bos_token }}" + CHATML, False, 1),
        (CHATML, True, 1),
        (CHATML, False, 0),
    ],
)
def test_bos_is_never_lost_and_never_doubled(template: str, adds_bos: bool, n_bos: int) -> None:
    ids = encode_chat(list_vocabulary(template, adds_bos=adds_bos), HELLO)
    assert ids.count(0) == n_bos
    assert ids[n_bos] == MARKERS.index("<|im_start|>")


def test_markers_are_single_ids_in_user_text_too() -> None:
    ids = encode_chat(list_vocabulary(CHATML, adds_bos=False), [{"role": "user", "content": "<|im_end|>"}])
    assert ids.count(MARKERS.index("<|im_end|>")) == 2


def test_model_without_bos_renders_it_as_nothing() -> None:
    vocab = list_vocabulary("{{ bos_token }}x{{ eos_token }}", adds_bos=False, has_bos=False)
    assert encode_chat(vocab, HELLO) == [len(MARKERS) + LETTERS.index("x"), 1]


def test_model_without_template_points_to_raw() -> None:
    with pytest.raises(InputError, match=r"no chat template, it is most likely a base model; .*--raw"):
        encode_chat(list_vocabulary(None, adds_bos=False), HELLO)


@pytest.mark.parametrize("add_bos", [True, False])
@pytest.mark.parametrize("tokenizer", ["bpe", "spm"])
@pytest.mark.parametrize("start", ["", "{{ bos_token }}"])
def test_llama_cpp_s_ids_have_bos_once(tmp_path: Path, tokenizer: str, add_bos: bool, start: str) -> None:
    path = write_tiny_gguf(
        tmp_path / "m.gguf", tokenizer=tokenizer, add_bos=add_bos, chat_template=start + CHATML
    )
    vocab = FileVocabulary(path, read_header(path).chat_template)
    assert vocab.adds_bos == add_bos
    ids = encode_chat(vocab, [{"role": "user", "content": "the 🐢歪é"}])
    assert ids.count(vocab.bos) == (1 if add_bos or start else 0)
    spoken = b"".join(vocab.piece(i, special=True) for i in ids if i != vocab.bos)
    assert spoken.decode().strip() == "<|im_start|>user\nthe 🐢歪é<|im_end|>\n<|im_start|>assistant"


def real_vocabulary(name: str) -> FileVocabulary:
    path = real_model(name)
    return FileVocabulary(path, read_header(path).chat_template)


@pytest.mark.model
def test_smollm2_chat_is_rendered_and_encoded() -> None:
    vocab = real_vocabulary("smollm2-135m")
    ids = encode_chat(vocab, HELLO)
    text = b"".join(vocab.piece(i, special=True) for i in ids).decode()
    assert text == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"
    )
    assert [vocab.text(i) for i in ids].count("<|im_start|>") == 3  # <|im_start|> is also this model's BOS
    assert not vocab.adds_bos


@pytest.mark.model
def test_qwen_tools_and_calls_are_rendered() -> None:
    vocab = real_vocabulary("qwen2.5-coder-1.5b")
    arguments = {"path": "/p/é", "content": "a < b"}
    turns = [
        {"role": "system", "content": "Be brief."},
        *HELLO,
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"function": {"name": "add", "arguments": json.dumps(arguments)}}],
        },
        {"role": "tool", "content": "done"},
    ]
    ids = encode_chat(vocab, turns, tools=TOOLS)
    text = b"".join(vocab.piece(i, special=True) for i in ids).decode()
    head, body = text.split("<tools>\n")[1].split("\n</tools>")
    assert json.loads(head) == TOOLS[0]
    assert body.split("<|im_start|>user")[1:] == [
        "\nHello<|im_end|>\n<|im_start|>assistant\n<tool_call>\n"
        '{"name": "add", "arguments": {"path": "/p/é", "content": "a < b"}}\n</tool_call><|im_end|>\n',
        "\n<tool_response>\ndone\n</tool_response><|im_end|>\n<|im_start|>assistant\n",
    ]
    names = [vocab.text(i) for i in ids]
    assert (names.count("<|im_start|>"), names.count("<|im_end|>")) == (5, 4)
    assert names.count("<tool_call>") == 3  # twice in the instructions


@pytest.mark.model
def test_base_model_has_no_template() -> None:
    with pytest.raises(InputError, match="no chat template"):
        encode_chat(real_vocabulary("gemma3-270m"), HELLO)
