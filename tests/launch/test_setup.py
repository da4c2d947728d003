import pytest

from leadout.launch.setup import has_secret, without_secrets


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        (["--api-key", "abc", "--port", "1"], ["--api-key", "***", "--port", "1"]),
        (["--api-key=abc"], ["--api-key=***"]),
        (["--api_key", "abc"], ["--api_key", "***"]),
        (["--hf-token", "abc"], ["--hf-token", "***"]),
        (["--admin-api-key", "abc"], ["--admin-api-key", "***"]),
        (["HF_TOKEN=abc"], ["HF_TOKEN=***"]),
    ],
)
def test_secret_is_not_shown(argv, shown):
    assert without_secrets(argv) == shown
    assert has_secret(argv)


@pytest.mark.parametrize(
    "argv",
    [
        ["--spec-tokens", "3"],
        ["--speculative-num-draft-tokens", "4"],
        ["--tokenizer", "t"],
        ["--num-draft-tokens=3"],
        ["--max-num-batched-tokens", "512"],
        ["--speculative-config", '{"method": "ngram"}'],
    ],
)
def test_numbers_of_tokens_are_no_secret(argv):
    assert without_secrets(argv) == argv
    assert not has_secret(argv)
