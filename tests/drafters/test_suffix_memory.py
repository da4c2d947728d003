"""What is remembered of earlier answers: for whom, how much, and what a file may do."""

import json
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadout.drafters.suffix_file import load_memory, save_memory
from leadout.drafters.suffix_index import BYTES_PER_TOKEN, Tail
from leadout.drafters.suffix_memory import N_CLIENTS, TOKENS_PER_CLIENT, SuffixMemory
from leadout.errors import InputError


def test_memory_is_bounded_whatever_is_remembered():
    memory = SuffixMemory(tokens_per_client=100, n_clients=3)
    for i in range(200):
        memory.remember(f"client {i % 7}", [i % 11] * (i % 40))
        assert memory.n_bytes <= memory.max_bytes == 3 * 100 * BYTES_PER_TOKEN
        assert len(memory.clients) <= 3


def test_default_bound_is_what_the_documentation_says():
    assert SuffixMemory().max_bytes == N_CLIENTS * TOKENS_PER_CLIENT * 52 == 54_525_952


def test_nothing_is_allocated_before_something_is_remembered():
    memory = SuffixMemory()
    memory.use("a")
    memory.remember("a", [])
    assert (memory.n_bytes, memory.clients, memory.index("a"), memory.texts("a")) == (0, (), None, [])


def test_client_unused_longest_is_forgotten_first():
    memory = SuffixMemory(tokens_per_client=100, n_clients=2)
    memory.remember("a", [1, 2])
    memory.remember("b", [3, 4])
    memory.use("a")
    memory.remember("c", [5, 6])
    assert memory.clients == ("a", "c")
    assert memory.texts("b") == []


def test_forgotten_client_leaves_nothing():
    memory = SuffixMemory(tokens_per_client=100)
    memory.remember("a", [1, 2, 3])
    memory.forget("a")
    memory.forget("never seen")
    assert (memory.n_bytes, memory.texts("a")) == (0, [])


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.lists(st.integers(0, 3), min_size=1, max_size=20)), max_size=20
    )
)
def test_clients_never_mix(said):
    together = SuffixMemory(tokens_per_client=60)
    alone = {client: SuffixMemory(tokens_per_client=60) for client in "abc"}
    for client, text in said:
        together.remember(client, text)
        alone[client].remember(client, text)
    for client, memory in alone.items():
        assert together.texts(client) == memory.texts(client)
        mine, theirs = together.index(client), memory.index(client)
        if mine is not None:
            assert mine.match(Tail.of((0, 1, 2))) == theirs.match(Tail.of((0, 1, 2)))


def test_saved_memory_comes_back_and_only_the_user_can_read_it(tmp_path):
    memory = SuffixMemory(tokens_per_client=100)
    memory.remember("é\n", [1, 2, 3])
    memory.remember("b", [4, 5])
    memory.remember("b", [6])
    file = tmp_path / "memory.json"
    file.write_text("what was there before")
    save_memory(memory, file, vocabulary="v")
    back = load_memory(file, vocabulary="v", n_vocab=7, tokens_per_client=100)
    assert back.clients == ("é\n", "b")
    assert [back.texts(client) for client in back.clients] == [[[1, 2, 3]], [[4, 5], [6]]]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["memory.json"]


def test_smaller_memory_takes_the_latest_of_a_file(tmp_path):
    memory = SuffixMemory(tokens_per_client=1000)
    for client in "abc":
        for i in range(20):
            memory.remember(client, [i] * 9)
    save_memory(memory, tmp_path / "m", vocabulary="v")
    back = load_memory(tmp_path / "m", vocabulary="v", n_vocab=20, tokens_per_client=40, n_clients=2)
    assert back.clients == ("b", "c")
    assert back.texts("c")[-3:] == [[17] * 9, [18] * 9, [19] * 9]


SOUND = {
    "format": "leadout suffix memory",
    "version": 1,
    "vocabulary": "v",
    "clients": [["a", [[1, 2], [3]]]],
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "other"}, "its format is not 'leadout suffix memory'"),
        ({"version": 2}, "has version 2; this leadout reads version 1"),
        ({"version": True}, "has version True; this leadout reads version 1"),
        ({"version": None}, "has version None; this leadout reads version 1"),
        ({"vocabulary": "w"}, "written for the vocabulary 'w', not 'v'; use another file"),
        ({"clients": {"a": []}}, "it has no list of clients"),
        ({"clients": [["a", [[1]]], "b"]}, "client 1 is not a name and a list of texts"),
        ({"clients": [[1, [[1]]]]}, "client 0 is not a name and a list of texts"),
        ({"clients": [["a", 5]]}, "client 0 is not a name and a list of texts"),
        ({"clients": [["a", [5]]]}, r"a text has something else than ids in 0\.\.9; delete it to start anew"),
        ({"clients": [["a", [[10]]]]}, r"a text has something else than ids in 0\.\.9"),
        ({"clients": [["a", [[-1]]]]}, r"a text has something else than ids in 0\.\.9"),
        ({"clients": [["a", [[True]]]]}, r"a text has something else than ids in 0\.\.9"),
        ({"clients": [["a", [[1.0]]]]}, r"a text has something else than ids in 0\.\.9"),
    ],
)
def test_file_that_is_not_what_it_should_be_is_refused(tmp_path, change, message):
    file = tmp_path / "m"
    file.write_text(json.dumps(SOUND))
    assert load_memory(file, vocabulary="v", n_vocab=10).texts("a") == [[1, 2], [3]]
    file.write_text(json.dumps({**SOUND, **change}))
    with pytest.raises(InputError, match=message):
        load_memory(file, vocabulary="v", n_vocab=10)


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe\x00", b"{", b"[" * 100_000, b"9" * 5000, b'{"a": 1', b"PK\x03\x04"]
)
def test_file_that_is_not_json_is_refused(tmp_path, content):
    file = tmp_path / "m"
    file.write_bytes(content)
    with pytest.raises(InputError, match=r"is not a suffix memory, or is damaged: it is not JSON"):
        load_memory(file, vocabulary="v", n_vocab=10)


@given(st.data())
def test_file_damaged_anywhere_is_an_error_of_ours_or_still_sound(tmp_path_factory, data):
    content = bytearray(json.dumps(SOUND).encode())
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] = data.draw(st.integers(0, 255))
    file = tmp_path_factory.mktemp("damaged") / "m"
    file.write_bytes(bytes(content[: data.draw(st.integers(at, len(content)))]))
    try:
        memory = load_memory(file, vocabulary="v", n_vocab=10)
    except InputError:
        return
    ids = [token for client in memory.clients for text in memory.texts(client) for token in text]
    assert all(0 <= token < 10 for token in ids)


def test_file_that_cannot_be_read_or_written_is_named(tmp_path):
    with pytest.raises(InputError, match=r"cannot be read from .*nothing"):
        load_memory(tmp_path / "nothing", vocabulary="v", n_vocab=10)
    with pytest.raises(InputError, match=r"cannot be written to .*no folder"):
        save_memory(SuffixMemory(), tmp_path / "no folder" / "m", vocabulary="v")
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match=r"cannot be written to .*folder"):
        save_memory(SuffixMemory(), tmp_path / "folder", vocabulary="v")
    assert [each.name for each in tmp_path.iterdir()] == ["folder"]


def test_sizes_out_of_range_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"n_vocab is 2147483649; it must be a whole number in 1\.\."):
        load_memory(tmp_path / "m", vocabulary="v", n_vocab=2**31 + 1)
    with pytest.raises(InputError, match="room for at least 1 client, got 0"):
        SuffixMemory(n_clients=0)
    with pytest.raises(InputError, match="room for at least 4 tokens, got 1"):
        SuffixMemory(tokens_per_client=1)
