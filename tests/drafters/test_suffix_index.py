"""The index finds what a search through all texts finds, forgets what it must, and never slows down."""

import random
import sys
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadout.drafters.suffix_index import (
    BYTES_PER_TOKEN,
    LEVELS,
    MAX_MATCH,
    MAX_PLACES,
    NO_MATCH,
    SuffixIndex,
    Tail,
)
from leadout.errors import InputError


def index_of(*texts, capacity=4096):
    index = SuffixIndex(capacity)
    for text in texts:
        index.start()
        index.extend(text)
    return index


def continuations(index, tail, n=1):
    match = index.match(Tail.of(tail))
    return match.length, [index.following(place, n) for place in match.places]


def shared(before, tail):
    """Tokens at the end of both, at most MAX_MATCH."""
    n = 0
    while n < min(len(before), len(tail), MAX_MATCH) and before[-n - 1] == tail[-n - 1]:
        n += 1
    return n


def searched(texts, tail, n=1):
    """The longest match of `tail` that something follows, looking everywhere; what follows, oldest first."""
    found = [(shared(text[:at], tail), text[at : at + n]) for text in texts for at in range(1, len(text))]
    longest = max((length for length, _ in found), default=0)
    if longest < LEVELS[0]:
        return 0, []
    # the latest occurrences of the longest context that is looked up directly
    level = max(size for size in LEVELS if size <= longest)
    latest = [each for each in found if each[0] >= level][-MAX_PLACES:]
    longest = max(length for length, _ in latest)
    return longest, [after for length, after in latest if length == longest]


def test_longest_match_and_all_its_places_are_found():
    index = index_of([1, 2, 3, 50, 9, 3, 60, 1, 2, 3, 70, 2, 3, 80])
    assert continuations(index, [1, 2, 3]) == (3, [[50], [70]])
    assert continuations(index, [7, 2, 3]) == (2, [[50], [70], [80]])
    assert continuations(index, [7, 7, 3]) == (0, [])


def test_end_of_a_text_never_matches_itself():
    index = index_of([1, 2, 3, 1, 2])
    assert continuations(index, index.tail.tokens, 3) == (2, [[3, 1, 2]])
    assert index_of([1, 2, 3]).match(Tail.of((1, 2, 3))) == NO_MATCH


def test_no_context_and_no_continuation_reaches_across_texts():
    index = index_of([1, 2, 3], [4, 5, 6])
    assert index.match(Tail.of((3, 4))) == index.match(Tail.of((2, 3))) == NO_MATCH
    assert continuations(index, [1, 2], 9) == (2, [[3]])
    assert continuations(index, [3, 4, 5], 9) == (2, [[6]])


@pytest.mark.parametrize("length", [2, 3, 4, 5, 7, 8, 31, 32, 33, 63, 64])
def test_matches_of_every_length_up_to_64_are_told_apart(length):
    text = list(range(100, 200))
    tail = [7, *text[80 - length : 80]]
    assert continuations(index_of(text), tail) == (length, [[text[80]]])


def test_matches_longer_than_64_count_as_64():
    text = list(range(100, 300))
    assert continuations(index_of(text), text[:150]) == (64, [[text[150]]])


def test_of_many_places_the_latest_are_looked_at():
    texts = [[1, 2, 100 + i] for i in range(50)]
    length, after = continuations(index_of(*texts), [1, 2])
    assert (length, after) == (2, [[100 + i] for i in range(50 - MAX_PLACES, 50)])


SMALL_TEXTS = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=80), min_size=1, max_size=4)


@given(SMALL_TEXTS, st.lists(st.integers(0, 2), min_size=1, max_size=70))
def test_match_equals_a_search_through_all_texts(texts, tail):
    index = index_of(*texts)
    assert continuations(index, tail, 3) == searched(texts, tail, 3)
    assert continuations(index, index.tail.tokens, 3) == searched(texts, texts[-1], 3)


@given(SMALL_TEXTS, st.integers(1, 7))
def test_longest_of_all_is_found_where_no_context_is_frequent(texts, step):
    texts = [[token + step * i for i, token in enumerate(text)] for text in texts]  # few repetitions
    tail = texts[0][: len(texts[0]) // 2 + 1]
    everywhere = max(
        (shared(text[:at], tail) for text in texts for at in range(1, len(text))),
        default=0,
    )
    assert index_of(*texts).match(Tail.of(tail)).length == (everywhere if everywhere > 1 else 0)


@given(
    st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=30), min_size=1, max_size=12),
    st.integers(4, 60),
    st.lists(st.integers(0, 3), min_size=2, max_size=8),
)
def test_full_index_equals_one_of_what_it_still_holds(texts, capacity, tail):
    index = index_of(*texts, capacity=capacity)
    kept = list(index.texts())
    assert len(index) <= capacity
    everything = [token for text in texts for token in text]
    assert [token for text in kept for token in text] == everything[-sum(map(len, kept)) :] or not kept
    assert sum(map(len, kept)) >= min(len(everything), capacity * 3 // 4 - len(texts))
    assert continuations(index, tail, 3) == searched(kept, tail, 3)


def test_forgotten_text_is_never_returned():
    index = SuffixIndex(100)
    for i in range(40):
        index.start()
        index.extend([1, 2, 100 + i, 3, 4])
        recent = {100 + j for j in range(i - 17, i + 1)}  # 6 places a text, at most 100 of them
        for place in index.match(Tail.of((1, 2))).places:
            assert index.following(place, 1)[0] in recent
    assert len(index.match(Tail.of((1, 2))).places) > 12


def test_text_longer_than_the_index_keeps_its_end():
    index = index_of(range(1000, 1500), capacity=100)
    (kept,) = index.texts()
    assert kept == list(range(1500 - len(kept), 1500))
    assert 75 <= len(kept) <= 100
    assert index.match(Tail.of(kept[:10])).length == 10
    assert index.match(Tail.of(range(1000, 1010))) == NO_MATCH


@given(st.lists(st.lists(st.integers(0, 2), max_size=5), max_size=8))
def test_index_built_in_pieces_equals_one_built_at_once(pieces):
    index = SuffixIndex(512)
    index.start()
    for piece in pieces:
        index.extend(piece)
    whole = index_of([token for piece in pieces for token in piece], capacity=512)
    assert index.tail == whole.tail
    assert index.match(index.tail) == whole.match(whole.tail)


def test_memory_is_52_bytes_per_token_of_capacity_however_much_is_indexed():
    assert BYTES_PER_TOKEN == 52
    capacity, text = 2_000, [i * i % 1013 for i in range(500)]
    tracemalloc.start()
    index = SuffixIndex(capacity)
    empty, _ = tracemalloc.get_traced_memory()
    for _ in range(10):
        index.extend(text)
    full, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert index.n_bytes == capacity * BYTES_PER_TOKEN
    assert index.n_bytes <= empty < index.n_bytes + 10_000
    assert full - empty < 10_000


@pytest.mark.parametrize("capacity", [4, 100, 2048, 2049, 10_001, 16_384])
def test_memory_grows_with_the_text_up_to_the_capacity_and_no_match_is_lost(capacity):
    source = random.Random(capacity)
    index, text = SuffixIndex(capacity), []
    assert index.n_bytes <= min(capacity, 2048) * BYTES_PER_TOKEN
    while len(text) < capacity - 1:
        new = [source.randrange(200) for _ in range(max(1, capacity // 7))][: capacity - 1 - len(text)]
        text += new
        index.extend(new)
        assert index.n_bytes <= max(2048, 2 * len(text)) * BYTES_PER_TOKEN
        assert list(index.texts()) == [text]
        for _ in range(3):
            at = source.randrange(len(text))
            tail = text[max(0, at - source.randrange(2, 40)) : at]
            assert continuations(index, tail, 3) == searched([text], tail, 3)
    index.extend(text[:2])
    assert index.n_bytes <= capacity * BYTES_PER_TOKEN
    assert len(index) <= capacity


def operations(work):
    """How many bytecode instructions `work` executes."""
    count = 0

    def tracer(frame, event, arg):
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return tracer

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


MOST_OPERATIONS = 3000  # of a match, however the text is made


@pytest.mark.parametrize("n_distinct", [1, 4, 3000])
def test_cost_of_a_token_and_of_a_match_does_not_depend_on_how_much_is_indexed(n_distinct):
    source = random.Random(5)
    index = SuffixIndex(65_536)

    def costs_at(n):
        index.extend([source.randrange(n_distinct) for _ in range(n - len(index))])
        new = [source.randrange(n_distinct) for _ in range(20)]
        return operations(lambda: index.extend(new)), operations(lambda: index.match(index.tail))

    extend, match = costs_at(2_000)
    extend_later, match_later = costs_at(60_000)
    assert extend > 20
    assert extend_later == extend
    assert max(match, match_later) < MOST_OPERATIONS


def test_forgetting_costs_little_per_token():
    index = SuffixIndex(4096)
    index.extend([i % 50 for i in range(4096)])
    once = operations(lambda: index.extend([1] * 100))  # forgets a quarter at its start
    again = operations(lambda: index.extend([1] * 100))
    assert once - again < 1000


def test_capacity_too_small_is_refused():
    with pytest.raises(InputError, match="room for at least 4 tokens, got 3"):
        SuffixIndex(3)
