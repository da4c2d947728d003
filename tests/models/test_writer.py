"""Ids that write exactly the bytes they are asked for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadout.errors import VocabularyError
from leadout.models.token_table import table_of_vocabulary
from leadout.models.writer import ByteWriter, LongerTokens, whole_characters
from leadout.testing import PieceVocabulary
from real_models import real_model

BYTES = [bytes([byte]) for byte in range(256)]
MERGES = [b"ab", b"abc", b"  ", b"\n  ", "é".encode(), "日".encode(), "🌅".encode(), b"\xf0\x9f"]


class Spacing(PieceVocabulary):
    """Puts a space before every text, as sentencepiece models of the Llama 2 kind do."""

    def encode(self, text, *, add_bos, special):
        return super().encode(" " + text, add_bos=add_bos, special=special)


def writer(kind=PieceVocabulary, pieces=(*BYTES, *MERGES)):
    vocab = kind(pieces)
    return ByteWriter(vocab, table_of_vocabulary(vocab).keys)


def written(by, ids):
    return b"".join(map(by.piece, ids))


@given(data=st.binary(max_size=60) | st.text(max_size=30).map(str.encode))
@pytest.mark.parametrize("kind", [PieceVocabulary, Spacing])
def test_any_bytes_are_written_exactly(kind, data):
    by = writer(kind)
    assert written(by, by.write(data)) == data


def test_the_tokenizer_decides_how_text_is_split():
    by = writer()
    assert [by.piece(token) for token in by.write(b"abc\n  \xe6\x97\xa5")] == [b"abc", b"\n  ", "日".encode()]


def test_a_space_that_the_tokenizer_puts_in_front_is_taken_off():
    by = writer(Spacing)
    assert [by.piece(token) for token in by.write(b"abc")] == [b"abc"]
    assert written(by, by.write(b" abc")) == b" abc"


def test_bytes_that_are_no_text_take_the_longest_tokens():
    by = writer()
    assert [by.piece(token) for token in by.write(b"ab\xf0\x9f\x99")] == [b"ab", b"\xf0\x9f", b"\x99"]


def test_a_byte_that_no_token_writes_is_named():
    class Lossy(PieceVocabulary):
        def encode(self, text, *, add_bos, special):
            return []

    with pytest.raises(VocabularyError, match="no token of this vocabulary writes the byte 0x62"):
        writer(Lossy, [b"a", b"c"]).write(b"ab")


@pytest.mark.parametrize("text", ["é", "日", "🌅", "a"])
def test_whole_characters_leaves_out_the_beginning_of_one(text):
    data = text.encode()
    for size in range(len(data)):
        assert whole_characters(b"x" + data[:size]) == b"x"
    assert whole_characters(b"x" + data) == b"x" + data


def test_bytes_that_can_never_become_a_character_are_left_alone():
    assert whole_characters(b"\x80\x80\x80\x80\x80") == b"\x80\x80\x80\x80\x80"
    assert whole_characters(b"x\xff") == b"x\xff"


def test_longer_tokens_begin_with_the_same_text():
    by = writer()
    longer = LongerTokens(by)
    assert [by.piece(token) for token in longer.of(ord("a"))] == [b"ab", b"abc"]
    assert [by.piece(token) for token in longer.of(0xF0)] == [b"\xf0\x9f", "🌅".encode()]
    assert len(longer.of(ord("z"))) == 0


def test_a_token_without_text_has_no_longer_ones():
    vocab = PieceVocabulary([b"a", b"ab", b""], eos=2, markers=[("</s>", 2)])
    assert len(LongerTokens(ByteWriter(vocab, table_of_vocabulary(vocab).keys)).of(2)) == 0


@pytest.mark.model
@pytest.mark.parametrize("name", ["smollm2-135m", "qwen2.5-coder-1.5b", "gemma3-270m"])
def test_real_tokenizers_write_every_kind_of_text(name):
    from vocabularies import FileVocabulary

    from leadout.models.token_table import read_table

    path = real_model(name)
    by = ByteWriter(FileVocabulary(path, None), read_table(path).keys)
    text = "def f(x):\n\treturn  x\n\n\n    # 早上好 🌅👩‍👩‍👧 <think>\r\n</think>"
    text += ' <tool_call>{"a": 1}</tool_call> naïve \u00a0 ﷽'
    data = text.encode()
    for start in range(len(data)):
        assert written(by, by.write(data[start:])) == data[start:]
