"""Text completions over models whose answers are known."""

import pytest
from serving import HELLO, chunks_of, constant_chat, post, replying

from leadout.testing import ScriptedDrafter

PROMPT = "<|im_start|>assistant\n"


def ask(body, *more, model=None, **about):
    model = model or replying("0123456789")
    return post(
        model,
        *({"prompt": PROMPT, "temperature": 0, **each} for each in (body, *more)),
        path="/v1/completions",
        **about,
    )


def test_text_is_continued():
    answer = ask({}).json()
    assert answer["object"] == "text_completion"
    assert answer["choices"] == [
        {"index": 0, "text": "0123456789", "finish_reason": "stop", "logprobs": None}
    ]
    assert answer["usage"]["completion_tokens"] == 10


@pytest.mark.parametrize("right", range(5))
def test_a_stream_says_the_same(right):
    drafter = ScriptedDrafter.partly_right([*b"0123456789", 257], right, 256)
    body = {"stream": True, "stream_options": {"include_usage": True, "include_origins": True}}
    chunks = chunks_of(ask(body, drafter=drafter))
    assert "".join(choice["text"] for chunk in chunks for choice in chunk["choices"]) == "0123456789"
    assert chunks[-1]["usage"]["completion_tokens"] == 10
    tokens = [token for chunk in chunks if "leadout" in chunk for token in chunk["leadout"]["tokens"]]
    assert bytes(token["id"] for token in tokens) == b"0123456789"


def test_think_tags_are_text_here():
    assert ask({}, model=replying("<think>a</think>b")).json()["choices"][0]["text"] == "<think>a</think>b"


@pytest.mark.parametrize("is_stream", [False, True])
def test_several_prompts_and_answers_are_counted_through(is_stream):
    def reply(prompt):
        return prompt.removesuffix(PROMPT)

    body = {"prompt": ["a" + PROMPT, "b" + PROMPT, [ord("c"), 256, *b"assistant\n"]], "n": 2}
    body["prompt"][2] = "c" + PROMPT
    response = ask(body | {"stream": is_stream}, model=replying(reply))
    if is_stream:
        texts = [""] * 6
        for chunk in chunks_of(response):
            for choice in chunk["choices"]:
                texts[choice["index"]] += choice["text"]
    else:
        answer = response.json()
        texts = [choice["text"] for choice in answer["choices"]]
        assert answer["usage"]["completion_tokens"] == 6
        assert answer["usage"]["prompt_tokens"] == 3 * (1 + 1 + len("assistant\n"))
    assert texts == ["a", "a", "b", "b", "c", "c"]


@pytest.mark.parametrize("prompt", [[256, *b"assistant\n"], [[256, *b"assistant\n"]]])
def test_ids_are_taken_as_they_are(prompt):
    assert ask({"prompt": prompt}).json()["choices"][0]["text"] == "0123456789"


@pytest.mark.parametrize("is_stream", [False, True])
def test_one_bad_prompt_fails_the_request_alone(is_stream):
    bad, good = ask({"prompt": [PROMPT, "x" * 9000], "stream": is_stream}, {})
    if bad.status_code != 400:  # a stream may have begun with the other prompt's answer
        assert is_stream
    assert '"code":"context_length_exceeded"' in bad.text
    assert good.json()["choices"][0]["text"] == "0123456789"


def test_log_probabilities_have_the_older_form():
    answer = ask({"logprobs": 2, "max_tokens": 4, "top_p": 1.0}, model=constant_chat([0.5, 0.3, 0.2])).json()
    logprobs = answer["choices"][0]["logprobs"]
    assert logprobs["tokens"] == ["a"] * 4
    assert logprobs["text_offset"] == [0, 1, 2, 3]
    assert logprobs["token_logprobs"] == pytest.approx([-0.693147] * 4, abs=1e-5)
    assert logprobs["top_logprobs"][0] == pytest.approx({"a": -0.693147, "b": -1.203973}, abs=1e-5)


@pytest.mark.parametrize(
    ("fields", "param", "said"),
    [
        ({"echo": True}, "echo", "prompts are not repeated"),
        ({"best_of": 2}, "best_of", "answers are not ranked"),
        ({"suffix": "x"}, "suffix", "continued"),
        ({"prompt": []}, "prompt", "at least 1"),
        ({"prompt": [""]}, None, "the prompt is empty"),
        ({"prompt": [[]]}, None, "the prompt is empty"),
        ({"prompt": [1.5]}, "prompt[0]", "valid integer"),
        ({"prompt": [-1]}, None, "the prompt has id -1"),
        ({"prompt": ["a", 1]}, "prompt[1]", "valid string"),
        ({"logprobs": 21}, "logprobs", "in 0..20"),
        ({"stream_options": {}}, "stream_options", "needs stream: true"),
        ({"messages": HELLO}, "messages", "not a field"),
    ],
)
def test_what_is_not_honoured_is_named(fields, param, said):
    response = ask(fields)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == param
    assert said in response.json()["error"]["message"]
