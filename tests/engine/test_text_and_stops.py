"""Text from pieces, and stop strings in text, however the pieces are cut."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toys import GREEDY, engine

from leadout.engine.stop import StopStrings
from leadout.engine.text import TextDecoder
from leadout.testing import PieceVocabulary, ScriptedDrafter, TableModel, saying

BYTES = [b"\xf0\x9f", b"\x90\xa2", b"\xe6\xad", b"\xaa", b"\xc3", b"\xa9"]


def byte_model():
    return TableModel(
        saying(lambda tokens: min(len(tokens) - 1, 6), 7),
        n_vocab=7,
        vocab=PieceVocabulary([*BYTES, b""], eos=6),
    )


@pytest.mark.parametrize("lengths", list(itertools.product(range(4), repeat=4)))
def test_characters_over_token_borders_come_out_whole_in_every_grouping(lengths):
    script = iter([*lengths, *[0] * 9])

    def propose(request):
        return list(range(request.position, min(6, request.position + next(script))))

    events = list(engine(byte_model(), ScriptedDrafter(propose), 3).stream([0], GREEDY))
    deltas = [event.text for event in events if hasattr(event, "text")]
    assert "".join(deltas) == "\N{TURTLE}歪é"
    assert all("�" not in delta for delta in deltas)


def test_character_cut_by_the_budget_is_dropped_in_stream_and_result():
    params = replace(GREEDY, max_tokens=1)
    assert engine(byte_model()).generate([0], params).text == ""
    assert [event.text for event in engine(byte_model()).stream([0], params) if hasattr(event, "text")] == [
        "",
        "",
    ]


@pytest.mark.parametrize("budget", range(1, 7))
@pytest.mark.parametrize("right", range(4))
def test_character_cut_by_the_budget_inside_a_round_is_dropped_as_plain_decoding_drops_it(budget, right):
    params = replace(GREEDY, max_tokens=budget)
    drafter = ScriptedDrafter.partly_right(range(6), right, 7)
    deltas = [
        event.text for event in engine(byte_model(), drafter, 3).stream([0], params) if hasattr(event, "text")
    ]
    expected = engine(byte_model()).generate([0], params)
    assert "".join(deltas) == expected.text == b"".join(BYTES[:budget]).decode(errors="ignore")


@given(st.binary(max_size=24), st.data())
def test_decoder_gives_the_same_text_for_every_split(raw, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=6)))
    decoder, whole = TextDecoder(), TextDecoder()
    pieces = [raw[a:b] for a, b in itertools.pairwise([0, *cuts, len(raw)])]
    assert "".join(map(decoder.feed, pieces)) == whole.feed(raw)


def test_invalid_bytes_become_replacement_characters():
    decoder = TextDecoder()
    assert decoder.feed(b"a\xff") + decoder.feed(b"\xc3b") == "a��b"


texts = st.text("abc", max_size=20)
stop_lists = st.lists(st.text("abc", min_size=1, max_size=4), max_size=3)


@given(texts, stop_lists, st.data())
def test_stop_strings_are_found_alike_in_every_split(text, stops, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[a:b] for a, b in itertools.pairwise([0, *cuts, len(text)])]
    assert scan(pieces, stops) == scan([text], stops) == scan(list(text), stops)


def scan(pieces, stops):
    watch, out = StopStrings(stops), ""
    for piece in pieces:
        found = watch.feed(piece)
        out += found.text
        if found.found:
            return out, True
    return out + watch.flush(), False


@given(texts, stop_lists)
def test_scanned_text_has_no_stop_string_and_only_held_text_may_begin_one(text, stops):
    out, found = scan([text], stops)
    assert text.startswith(out)
    assert found == any(stop in text for stop in stops)
    assert not any(stop in out for stop in stops)


@given(texts, stop_lists)
def test_nothing_is_held_back_without_a_reason(text, stops):
    watch = StopStrings(stops)
    scan = watch.feed(text)
    held = watch.flush()
    if not scan.found:
        assert scan.text + held == text
        assert not held or any(stop.startswith(held) for stop in stops)
