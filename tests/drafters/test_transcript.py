"""What a draft model of another vocabulary reads is what was said, whatever the pieces it came in."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadout.drafters.prefix import common_prefix
from leadout.drafters.transcript import Phrasebook, Transcript
from leadout.errors import VocabularyError
from leadout.models.token_table import table_of_vocabulary
from leadout.models.writer import ByteWriter
from leadout.testing import PieceVocabulary

BYTES = [bytes([byte]) for byte in range(256)]
TARGET = PieceVocabulary(
    [*BYTES, b"the", b" th", b"e ", b"\n", b"    ", b"\t\t", "日本".encode(), b"\xf0\x9f", b"", b""],
    eos=264, markers=[("<|im_end|>", 264), ("<tool>", 265)],
)  # fmt: skip
DRAFT = PieceVocabulary(
    [*BYTES, b" the", b"th", b"\n    ", b"  ", b"\t", "日".encode(), "🌅".encode(), b""],
    eos=263, markers=[("<|im_end|>", 263)],
)  # fmt: skip
WORDS = ["the", " the ", "\n    x", "\t\t", "日本語", "🌅", "e", "  ", "naïve", "<tool>"]


def transcript(draft=DRAFT, head=(), markers=None):
    writer = ByteWriter(draft, table_of_vocabulary(draft).keys)
    book = Phrasebook(table_of_vocabulary(TARGET).keys, {264: 263} if markers is None else markers)
    return Transcript(writer, book, head)


def read(ids):
    return b"".join(DRAFT.piece(token, special=True) for token in ids)


def said(tokens):
    return b"".join(TARGET.piece(token, special=True) for token in tokens)


tokens_of_any_kind = st.lists(st.integers(0, TARGET.size - 1), max_size=40)


@given(chunks=st.lists(tokens_of_any_kind, max_size=6), guess=tokens_of_any_kind)
def test_the_text_read_is_the_text_said(chunks, guess):
    made, tokens = transcript(), []
    for chunk in chunks:
        made.extend(chunk)
        tokens += chunk
        assert read(made.ids) == said(tokens)
        assert read(made.followed_by(guess)) == said([*tokens, *guess])
        assert read(made.ids) == said(tokens)  # a guess leaves nothing behind


@given(texts=st.lists(st.sampled_from(WORDS), max_size=60), seed=st.integers(0, 99))
def test_ids_are_those_of_the_whole_text_however_it_was_cut(texts, seed):
    tokens = TARGET.encode("".join(texts), add_bos=False, special=True)
    whole, pieces, random = transcript(), transcript(), np.random.default_rng(seed)
    whole.extend(tokens)
    at = 0
    while at < len(tokens):
        n = int(random.integers(1, 6))
        pieces.extend(tokens[at : at + n])
        at += n
    assert pieces.ids == whole.ids


def test_thousands_of_tokens_do_not_drift_and_only_the_end_changes():
    random = np.random.default_rng(1)
    made, tokens, before = transcript(head=[1, 2]), [], []
    for _ in range(3000):
        words = "".join(random.choice(WORDS, size=2))
        new = TARGET.encode(words, add_bos=False, special=True)[: int(random.integers(1, 6))]
        made.extend(new)
        tokens += new
        changed = len(before) - common_prefix(before, made.ids)
        assert changed <= 4  # the pieces of one word
        before = made.ids
    assert read(made.ids[2:]) == said(tokens)


def test_a_text_without_words_is_cut_all_the_same():
    made = transcript()
    for _ in range(2000):
        made.extend(TARGET.encode("日本", add_bos=False, special=False))
    assert read(made.ids) == ("日本" * 2000).encode()
    assert len(made._tail) < 1100


def test_a_marker_of_the_same_role_is_the_drafts_own_and_another_is_spelled_out():
    made = transcript()
    made.extend([ord("a"), 264, ord("b"), 265])
    assert made.ids == [ord("a"), 263, ord("b"), *b"<tool>"]


def test_padding_rows_say_nothing():
    made = transcript()
    made.extend([ord("a"), 10_000])
    assert made.ids == [ord("a")]


def test_what_cannot_be_written_changes_nothing():
    class Lossy(PieceVocabulary):
        def encode(self, text, *, add_bos, special):
            return []

    made = transcript(draft=Lossy([b"a", b"b"]), markers={})
    made.extend([ord("a")])
    with pytest.raises(VocabularyError, match="byte 0x63"):
        made.extend([ord("b"), ord("c")])
    assert made.ids == [0]
