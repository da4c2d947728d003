"""Text to ids and back, on tiny vocabularies of both kinds."""

import pytest

from leadout.errors import BackendError, InputError
from leadout.models.open import open_model
from leadout.models.options import GgufOptions
from leadout.testing.tiny_gguf import write_tiny_gguf
from leadout.testing.tiny_vocab import CONTROL

TEXTS = ["Hello, world", "日本語のテキスト", "naïve 歪é", "🐢🤦🏽‍♂️ emoji", "a\tb\n\n  c\r\n", " leading", "x" * 300, "\0"]


@pytest.fixture(params=["llama", "qwen2"])
def vocab(load, request):
    return load(request.param).vocab


@pytest.mark.parametrize("text", TEXTS)
def test_text_survives_ids_and_back(vocab, text):
    ids = vocab.encode(text, add_bos=False, special=False)
    pieces = b"".join(vocab.piece(token) for token in ids)
    assert pieces in (text.encode(), b" " + text.encode())  # SentencePiece puts a space in front


def test_empty_text_has_no_ids(vocab):
    assert vocab.encode("", add_bos=False, special=True) == []


def test_bos_is_added_once_and_only_when_asked(vocab):
    plain = vocab.encode("abc", add_bos=False, special=True)
    assert vocab.encode("abc", add_bos=True, special=True) == [vocab.bos, *plain]
    assert vocab.bos not in plain


def test_markers_are_single_ids_only_where_they_are_special(vocab):
    marker = vocab.text(vocab.eos)
    assert vocab.encode(marker, add_bos=False, special=True)[-1] == vocab.eos
    assert len(vocab.encode(marker, add_bos=False, special=False)) > 1


def test_control_tokens_add_no_text_unless_asked(vocab):
    assert vocab.piece(vocab.eos) == b""
    assert vocab.piece(vocab.eos, special=True) == vocab.text(vocab.eos).encode()


def test_the_end_token_ends_and_letters_do_not(vocab):
    assert vocab.is_end(vocab.eos)
    assert not any(vocab.is_end(token) for token in vocab.encode("abc", add_bos=False, special=False))


def test_ids_outside_are_refused_not_crashed_on(vocab):
    for token in (-1, vocab.size, 2**40):
        with pytest.raises(BackendError, match=rf"token id {token} is outside"):
            vocab.piece(token)
        with pytest.raises(BackendError, match=rf"token id {token} is outside"):
            vocab.text(token)
        assert not vocab.is_end(token)


def test_a_lone_surrogate_is_refused(vocab):
    with pytest.raises(InputError, match="lone surrogate at character 2"):
        vocab.encode("ab\ud800", add_bos=False, special=False)


def test_padding_rows_have_no_text_and_do_not_crash(tmp_path, provider):
    path = write_tiny_gguf(tmp_path / "padded.gguf", architecture="qwen2", n_pad=5)
    model = open_model(path, provider=provider, options=GgufOptions(n_ctx=32, n_threads=1))
    vocab = model.vocab
    assert [vocab.piece(token) for token in range(vocab.size - 5, vocab.size)] == [b""] * 5
    assert vocab.text(vocab.size - 1).startswith("[PAD")
    assert not vocab.is_end(vocab.size - 1)
    model.close()


def test_markers_of_a_chat_template_are_single_ids(tmp_path, provider):
    size = 400
    path = write_tiny_gguf(
        tmp_path / "chat.gguf",
        architecture="qwen2",
        n_vocab=size,
        tokens={size - 2: "<|turn|>", size - 1: "<|over|>"},
        types={size - 2: CONTROL, size - 1: CONTROL},
        eos=size - 1,
        add_bos=False,
        chat_template="{{ messages }}",
    )
    model = open_model(path, provider=provider, options=GgufOptions(n_ctx=32, n_threads=1))
    vocab = model.vocab
    ids = vocab.encode("<|turn|>hi<|over|>", add_bos=False, special=True)
    assert (ids[0], ids[-1]) == (size - 2, size - 1)
    assert vocab.is_end(size - 1)
    assert not vocab.adds_bos
    assert vocab.chat_template == "{{ messages }}"
    model.close()


def test_a_model_without_template_says_none(vocab):
    assert vocab.chat_template is None
