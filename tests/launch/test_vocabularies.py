import json

import pytest

from leadout.errors import ModelFileError
from leadout.launch.vocabularies import compare, read_json
from leadout.testing.tiny_gguf import tiny_vocabulary, write_tiny_gguf


def write_folder(folder, tokens, *, n_rows=0, added=(), architecture="Qwen2ForCausalLM"):
    """A model folder without weights that count: tokenizer.json, config.json and a file for the weights."""
    folder.mkdir()
    vocab = {text: token for token, text in enumerate(tokens)}
    tokenizer = {
        "model": {"type": "BPE", "vocab": vocab},
        "added_tokens": list(added),
        "decoder": {"type": "ByteLevel"},
    }
    config = {
        "architectures": [architecture],
        "vocab_size": n_rows or len(tokens),
        "max_position_embeddings": 2048,
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes(b"\0" * 100)
    return folder


LETTERS = [f"t{n}" for n in range(40)]


def test_same_tokens_and_rows_are_the_same(tmp_path):
    found = compare(write_folder(tmp_path / "a", LETTERS), write_folder(tmp_path / "b", LETTERS))
    assert (found.agreement, found.n_target, found.n_draft) == ("same", 40, 40)
    assert found.sentence.startswith("the draft's vocabulary is compatible")


def test_padding_is_told_from_other_tokens(tmp_path):
    target = write_folder(tmp_path / "a", LETTERS, n_rows=64)
    padded = compare(target, write_folder(tmp_path / "b", LETTERS))
    assert (padded.agreement, padded.n_target, padded.n_draft) == ("padded", 64, 40)
    other = compare(target, write_folder(tmp_path / "c", LETTERS[::-1]))
    assert other.agreement == "different"


def test_few_differing_ids_are_close(tmp_path):
    near = [*LETTERS[:38], "x", "y"]
    assert (
        compare(write_folder(tmp_path / "a", LETTERS), write_folder(tmp_path / "b", near)).agreement
        == "close"
    )


def test_a_token_more_of_the_draft_is_close(tmp_path):
    target = write_folder(tmp_path / "a", LETTERS, n_rows=64)
    more = write_folder(tmp_path / "b", [*LETTERS, "<call>"], n_rows=64)
    assert compare(target, more).agreement == "close"


def test_gguf_and_folder_of_one_tokenizer_are_the_same(tmp_path):
    gguf = write_tiny_gguf(tmp_path / "t.gguf", architecture="qwen2")
    tokens = tiny_vocabulary(architecture="qwen2").tokens
    added = [{"id": at, "content": text, "special": True} for at, text in enumerate(tokens)][-3:]
    folder = write_folder(tmp_path / "b", tokens[:-3], n_rows=len(tokens), added=added)
    assert compare(gguf, folder).agreement == "same"
    assert compare(write_folder(tmp_path / "c", LETTERS), gguf).agreement == "different"


def test_added_tokens_belong_to_the_vocabulary(tmp_path):
    added = [{"id": 40, "content": "<end>"}]
    target = write_folder(tmp_path / "a", LETTERS, n_rows=41, added=added)
    assert compare(target, write_folder(tmp_path / "b", [*LETTERS, "<end>"])).agreement == "same"


def test_models_that_are_not_here_are_not_compared(tmp_path):
    found = compare(write_folder(tmp_path / "a", LETTERS), None)
    assert found.agreement == "unknown"
    assert "were not compared" in found.sentence


@pytest.mark.parametrize(
    ("text", "said"), [(None, "is missing"), ("[1]", "is not a JSON object"), ("{", "cannot be read")]
)
def test_damaged_json_is_named(tmp_path, text, said):
    path = tmp_path / "config.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ModelFileError, match=said):
        read_json(path)


def test_folder_without_tokens_is_named(tmp_path):
    with pytest.raises(ModelFileError, match="so it is no tokenizer"):
        compare(write_folder(tmp_path / "a", []), write_folder(tmp_path / "b", LETTERS))
