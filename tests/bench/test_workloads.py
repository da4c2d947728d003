"""The prompts: enough of them, different, of the promised size, and put together as promised."""

import pytest
from talk import VOCAB

from leadout.bench.workloads import WORKLOADS, make_units, read_workload
from leadout.errors import InputError
from leadout.testing import PieceVocabulary


def no_reply(prompt, longest):
    raise AssertionError("a single prompt needs no reply")


@pytest.mark.parametrize("name", [name for name in WORKLOADS if name != "agent"])
def test_workload_has_several_prompts_of_one_turn(name):
    conversations = read_workload(name).conversations
    assert len(conversations) >= 3
    assert all(len(each.turns) == 1 for each in conversations)


def test_no_prompt_stands_twice():
    everything = [each for name in WORKLOADS for each in read_workload(name).conversations]
    turns = [turn for each in everything for turn in each.turns]
    assert all(turn and turn == turn.strip() for turn in turns)
    single = [each.turns[0] for each in everything]
    assert len(set(single)) == len(single)
    assert len({each.name for each in everything}) == len(everything)


def test_edits_give_files_of_about_a_hundred_lines():
    for each in read_workload("edit").conversations:
        _, _, rest = each.turns[0].partition("```")
        file, fence, after = rest.partition("\n```")
        assert fence
        assert not after
        assert 55 <= file.count("\n") <= 120, each.name


def test_long_documents_are_long_and_ask_for_quotations():
    for each in read_workload("long_document").conversations:
        assert 1100 <= len(each.turns[0].split()) <= 1900, each.name
        assert "quote" in each.turns[0]


def test_agent_loop_has_twenty_short_calls():
    workload = read_workload("agent")
    [loop] = workload.conversations
    assert len(loop.turns) == 20
    assert workload.max_tokens <= 64
    [unit] = make_units(workload, VOCAB, lambda prompt, longest: b"{}", max_tokens=200)
    assert unit.max_tokens == workload.max_tokens
    assert make_units(workload, VOCAB, lambda prompt, longest: b"{}", max_tokens=16)[0].max_tokens == 16


def test_calls_of_a_loop_share_a_growing_prefix_with_the_replies_in_it():
    asked = []

    def reply(prompt, longest):
        asked.append((tuple(prompt), longest))
        return f"reply {len(asked)}".encode()

    [unit] = make_units(read_workload("agent"), VOCAB, reply, max_tokens=200)
    assert [prompt for prompt, _ in asked] == list(unit.calls[:-1])
    for number, (before, after) in enumerate(zip(unit.calls, unit.calls[1:], strict=False), 1):
        assert after[: len(before)] == before
        assert bytes(after[len(before) :]).startswith(f"reply {number}\n".encode())


def test_system_message_comes_first_and_limit_takes_the_first_prompts():
    workload = read_workload("chat")
    units = make_units(workload, VOCAB, no_reply, max_tokens=9)
    [with_system] = [unit for unit, each in zip(units, workload.conversations, strict=True) if each.system]
    assert bytes(with_system.calls[0]).startswith(b"<system>You are")
    assert make_units(workload, VOCAB, no_reply, max_tokens=9, limit=2) == units[:2]


def test_model_without_template_is_refused():
    bare = PieceVocabulary([bytes([i]) for i in range(256)])
    with pytest.raises(InputError, match="this model has no chat template"):
        make_units(read_workload("chat"), bare, no_reply, max_tokens=9)


def test_unknown_workload_is_refused():
    with pytest.raises(InputError, match="workload 'poems' does not exist; there are chat, code"):
        read_workload("poems")
