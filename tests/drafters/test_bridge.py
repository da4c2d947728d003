"""Draft models of other vocabularies: nothing is lost, nothing leaks, and what is said is the target's."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadout.core import verify
from leadout.core.cost import CostTable
from leadout.core.noise import Noise, RandomSource
from leadout.core.values import History, Sampling
from leadout.drafters.base import DraftPrompt, DraftRequest, Willing
from leadout.drafters.bridge import BridgeDrafter
from leadout.drafters.connect import connect, way_over, why_this_way
from leadout.drafters.hybrid import HybridDrafter
from leadout.drafters.model import ModelDrafter
from leadout.drafters.ngram import NgramDrafter
from leadout.engine.engine import Engine
from leadout.engine.memory import Memory
from leadout.engine.pace import PacedSchedule
from leadout.engine.params import Params
from leadout.engine.profile import Profile
from leadout.engine.schedule import FixedSchedule
from leadout.errors import VocabularyError
from leadout.models.compare import compare
from leadout.models.conversation import Conversation
from leadout.testing import PieceVocabulary, TableModel
from leadout.testing.enumeration import continued, joint_law, largest_difference, outcomes, random_table

WAYS = ["shared", "text"]
TEMPLATE = (
    "{% for m in messages %}<|turn>{{ m.role }}\n{{ m.content }}<|over|>{% endfor %}"
    "<|turn>assistant{{ '\\n' }}"
)
BYTES = [bytes([byte]) for byte in range(128)]
TARGET = PieceVocabulary(
    [*BYTES, b"ab", b"abc", b" a", b"\n ", "é".encode(), b"\xc3", b"\xa9", b"", b"", b"", b""],
    bos=135, eos=136, markers=[("<s>", 135), ("</s>", 136), ("<start_of_turn>", 137), ("<tool>", 138)],
    chat_template="<start_of_turn>{{ messages[0].content }}</s>",
)  # fmt: skip
DRAFT = PieceVocabulary(
    [b"", b"", b"", b"bc", b"ab", b" ab", b"\n  ", "é".encode(), b"\xc3", b"\xa9", *BYTES],
    eos=0, markers=[("</s>", 0), ("<|turn>", 1), ("<|over|>", 2)], ends=[2], chat_template=TEMPLATE,
)  # fmt: skip
N_TARGET, N_DRAFT = TARGET.size, DRAFT.size
TEXT = "abc a\n b é abcabc"


def hashed(n_vocab, seed=0):
    """Random logits that depend on the last two tokens; control tokens are as likely as others."""
    known = {}

    def rule(tokens):
        key = tokens[-2:]
        if key not in known:
            known[key] = np.random.default_rng([seed, *key]).normal(0, 3, n_vocab)
        return known[key]

    return rule


def echo(vocab, text, *, least=0):
    """Says the rest of `text` again and again, by the longest pieces, whatever it is split into."""

    def rule(tokens):
        said = b"".join(map(vocab.piece, tokens))
        at = next((n for n in range(len(text) - 1, -1, -1) if said.endswith(text[:n])), 0)
        rest = text[at:] + text
        logits = np.zeros(vocab.size)
        fits = [token for token in range(vocab.size) if (p := vocab.piece(token)) and rest.startswith(p)]
        for token in fits:
            logits[token] = 5 + len(vocab.piece(token))
        return logits

    return rule


def models(seed=0, n_ctx=512):
    target = TableModel(hashed(N_TARGET, seed), n_vocab=N_TARGET, vocab=TARGET, n_ctx=n_ctx, name="big")
    draft = TableModel(hashed(N_DRAFT, seed + 1), n_vocab=N_DRAFT, vocab=DRAFT, n_ctx=n_ctx, name="small")
    return target, draft


def bridge(draft, way, target=TARGET):
    return BridgeDrafter(draft, target, compare(target, draft.vocab), way=way)


def run(target, drafter, prompt, params, k=4):
    return Engine(target, drafter, schedule=FixedSchedule(k)).generate(prompt, params)


def request(context, k=4, **changes):
    made = DraftRequest(
        slot=0, context=context, k=k, sampling=Sampling(temperature=0.0), history=History(), position=0,
        noise=None, source=RandomSource(np.random.default_rng(1)),
    )  # fmt: skip
    return replace(made, **changes)


def read(draft):
    """Everything the draft model has read, markers included."""
    return b"".join(DRAFT.piece(token, special=True) for token in draft.tokens(0))


PARAMS = [
    Params(temperature=0.0, max_tokens=40),
    Params(temperature=0.9, seed=3, max_tokens=40),
    Params(temperature=0.9, seed=4, top_k=5, repetition_penalty=1.3, frequency_penalty=0.4, max_tokens=40),
    Params(temperature=0.9, seed=5, logit_bias={1: 5.0, 137: 9.0, N_TARGET - 1: 2.0}, max_tokens=40),
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("params", PARAMS)
@settings(max_examples=40, deadline=None)
@given(prompt=st.lists(st.integers(0, N_TARGET - 1), min_size=1, max_size=12), seed=st.integers(0, 9))
def test_ids_equal_plain_ones_and_none_of_the_drafts_reaches_the_target(way, params, prompt, seed):
    target, draft = models(seed)
    plain = run(models(seed)[0], None, prompt, params)
    bridged = run(target, bridge(draft, way), prompt, params)
    assert (bridged.ids, bridged.finish_reason) == (plain.ids, plain.finish_reason)
    assert all(token < N_TARGET for each in target.passes for fed in each for token in fed.tokens)
    assert all(token < N_DRAFT for each in draft.passes for fed in each for token in fed.tokens)


@pytest.mark.parametrize("way", WAYS)
def test_a_draft_that_knows_the_text_has_it_accepted(way):
    text = b"abc a\n b abab "
    target = TableModel(echo(TARGET, text), n_vocab=N_TARGET, vocab=TARGET, n_ctx=512)
    draft = TableModel(echo(DRAFT, text), n_vocab=N_DRAFT, vocab=DRAFT, n_ctx=512)
    prompt = TARGET.encode(text.decode(), add_bos=False, special=False)
    result = run(target, bridge(draft, way), prompt, Params(temperature=0.0, max_tokens=60))
    rounds = result.usage.target_passes
    assert result.text.encode().startswith(text * 2)
    if way == "text":
        assert result.usage.accepted == result.usage.drafted
        assert 60 / rounds > 4
    else:
        assert result.usage.accepted > 0


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("schedule", ["fixed", "paced"])
def test_it_works_within_a_hybrid_under_every_schedule(way, schedule):
    text = b"abc a\n b abab "
    made = {
        "fixed": FixedSchedule(4),
        "paced": PacedSchedule(
            Memory(profile=Profile(CostTable(widths=((1, 1.0), (16, 1.1)), draft_s=0.01, read_s=0.001)))
        ),
    }[schedule]
    target = TableModel(hashed(N_TARGET), n_vocab=N_TARGET, vocab=TARGET, n_ctx=512)
    draft = TableModel(echo(DRAFT, text), n_vocab=N_DRAFT, vocab=DRAFT, n_ctx=512)
    drafter = HybridDrafter([NgramDrafter()], bridge(draft, way))
    prompt = TARGET.encode(text.decode() * 2, add_bos=False, special=False)
    params = Params(temperature=0.0, max_tokens=80)
    result = Engine(target, drafter, schedule=made).generate(prompt, params)
    assert result.usage.drafted > 0
    assert result.ids == run(models()[0], None, prompt, params).ids


@pytest.mark.parametrize("way", WAYS)
def test_between_rounds_the_draft_has_read_the_committed_text_or_less(way):
    target, draft = models()
    drafter = bridge(draft, way)
    engine = Engine(target, drafter, schedule=FixedSchedule(4))
    prompt = [ord(letter) for letter in "ab c"]
    tokens = list(prompt)
    for event in engine.stream(prompt, Params(temperature=0.0, max_tokens=60)):
        if type(event).__name__ == "Token":
            tokens.append(event.token)
        elif type(event).__name__ == "Round":
            said = b"".join(TARGET.piece(token, special=True) for token in tokens)
            assert said.replace(b"<start_of_turn>", b"<|turn>").startswith(read(draft))


def test_a_raw_prompt_keeps_its_role_markers():
    _, draft = models()
    drafter = bridge(draft, "text")
    prompt = TARGET.encode("<s><start_of_turn>a b</s><tool>", add_bos=False, special=True)
    drafter.begin(0, DraftPrompt(ids=prompt))
    drafter.propose([request([*prompt, ord("c")], k=1)])
    # a turn begins and ends as the draft knows it; what it does not know is spelled out; BOS is not its way
    assert read(draft).startswith(b"<|turn>a b</s><tool>")
    assert draft.tokens(0)[0] == 1


def test_a_chat_is_read_by_the_drafts_own_template():
    _, draft = models()
    drafter = bridge(draft, "text")
    conversation = Conversation(messages=[{"role": "user", "content": "ab é"}])
    prompt = TARGET.encode("<start_of_turn>ab é</s>", add_bos=True, special=True)
    drafter.begin(0, DraftPrompt(ids=prompt, conversation=conversation))
    drafter.propose([request(prompt, k=1)])
    assert read(draft).startswith("<|turn>user\nab é<|over|><|turn>assistant\n".encode())
    drafter.observe(0, [ord("c"), TARGET.encode("é", add_bos=False, special=False)[0]])
    drafter.propose([request([*prompt, ord("c"), 132], k=1)])
    assert "assistant\ncé".encode() in read(draft)


def test_a_conversation_that_the_drafts_template_refuses_is_read_as_it_stands():
    refusing = PieceVocabulary([b"", *BYTES], eos=0, chat_template="{{ raise_exception('no system') }}")
    draft = TableModel(hashed(129), n_vocab=129, vocab=refusing)
    drafter = bridge(draft, "text")
    conversation = Conversation(messages=[{"role": "user", "content": "ab"}])
    drafter.begin(0, DraftPrompt(ids=[97, 98, 99], conversation=conversation))
    drafter.propose([request([97, 98, 99], k=1)])
    assert [refusing.piece(token) for token in draft.tokens(0)[:3]] == [b"a", b"b", b"c"]


def test_a_lookups_guess_is_read_and_forgotten_again():
    _, draft = models()
    drafter = bridge(draft, "text")
    drafter.begin(0, DraftPrompt(ids=[97, 98]))
    drafter.propose([request([97, 98, 99, 100], k=1)])
    assert read(draft).startswith(b"abcd")
    drafter.observe(0, [101])
    drafter.propose([request([97, 98, 101], k=1)])
    assert read(draft).startswith(b"abe")


def test_the_last_token_of_the_text_may_turn_out_to_be_the_beginning_of_a_longer_one():
    # the target has said "\n", and the draft would have said "\n  " in one
    def rule(tokens):
        logits = np.zeros(N_DRAFT)
        logits[6 if tokens[-1] != 6 else 10 + ord("x")] = 9
        logits[10 + ord("\n")] = 1
        return logits

    draft = TableModel(rule, n_vocab=N_DRAFT, vocab=DRAFT)
    drafter = bridge(draft, "text")
    drafter.begin(0, DraftPrompt(ids=[97, 10]))
    (proposal,) = drafter.propose([request([97, 10], k=3)])
    assert b"".join(map(TARGET.piece, proposal.tokens)).startswith(b"  x")
    assert proposal.rows is None


def test_ends_of_answers_cross_over_as_ends():
    def rule(tokens):
        logits = np.zeros(N_DRAFT)
        logits[2] = 9
        return logits

    drafter = bridge(TableModel(rule, n_vocab=N_DRAFT, vocab=DRAFT), "text")
    drafter.begin(0, DraftPrompt(ids=[97, 98]))
    for judge in (Willing(), WantsConfidences()):
        (proposal,) = drafter.propose([request([97, 98], k=4, judge=judge)])
        assert proposal.tokens == (136,)
        assert len(proposal.confidences) == judge.wants_confidences
        drafter.observe(0, [])


def test_other_markers_of_the_draft_end_the_proposal():
    def rule(tokens):
        logits = np.zeros(N_DRAFT)
        logits[10 + ord("x") if tokens[-1] != 10 + ord("x") else 1] = 9
        return logits

    drafter = bridge(TableModel(rule, n_vocab=N_DRAFT, vocab=DRAFT), "text")
    drafter.begin(0, DraftPrompt(ids=[97, 98]))
    for judge in (Willing(), WantsConfidences()):
        (proposal,) = drafter.propose([request([97, 98], k=4, judge=judge)])
        assert proposal.tokens == (ord("x"),)
        assert len(proposal.confidences) == judge.wants_confidences
        drafter.observe(0, [])


def test_half_a_character_is_not_proposed():
    def rule(tokens):
        logits = np.zeros(N_DRAFT)
        logits[10 + ord("x") if tokens[-1] != 10 + ord("x") else 8] = 9
        return logits

    drafter = bridge(TableModel(rule, n_vocab=N_DRAFT, vocab=DRAFT), "text")
    drafter.begin(0, DraftPrompt(ids=[97, 98]))
    (proposal,) = drafter.propose([request([97, 98], k=1)])
    assert proposal.tokens == (ord("x"),)


class WantsConfidences:
    """Takes everything, and wants to know how sure the draft is."""

    wants_confidences = True

    def learns(self, outcome):
        raise AssertionError

    def weigh(self, drafter, confidences):
        raise AssertionError

    def promise(self, drafter, n_unread):
        return 1.0

    def after_run(self, drafter, run, n_unread):
        return self

    def takes(self, drafter, confidences):
        assert all(0 <= each <= 1 for each in confidences)
        return True

    def goes_on(self, drafter, confidences):
        return True


def test_confidences_of_a_text_multiply_to_those_of_the_draft():
    draft = TableModel(hashed(N_DRAFT, 5), n_vocab=N_DRAFT, vocab=DRAFT)
    drafter = bridge(draft, "text")
    drafter.begin(0, DraftPrompt(ids=[97, 120]))
    (proposal,) = drafter.propose([request([97, 120], k=4, judge=WantsConfidences())])
    assert len(proposal.confidences) == len(proposal.tokens) > 0
    assert all(0 < each <= 1 for each in proposal.confidences)


@pytest.mark.parametrize("way", WAYS)
def test_what_the_draft_cannot_read_pauses_it_with_the_reason(way):
    class Ascii(PieceVocabulary):
        def encode(self, text, *, add_bos, special):
            return super().encode(text, add_bos=add_bos, special=special) if text.isascii() else []

    vocab = Ascii([b"", *BYTES], eos=0)
    draft = TableModel(hashed(129), n_vocab=129, vocab=vocab)
    says = [97, 98, 132, 99, 100, 101, 102]

    def rule(tokens):
        logits = np.zeros(N_TARGET)
        logits[says[min(len(tokens) - 1, 6)]] = 9
        return logits

    target = TableModel(rule, n_vocab=N_TARGET, vocab=TARGET)
    result = run(target, bridge(draft, way), [97], Params(temperature=0.0, max_tokens=7))
    assert list(result.ids) == says
    assert "cannot read on: no token of this vocabulary writes the byte 0xc3" in result.speculation.reason


def test_a_padding_row_of_the_target_is_no_index_of_the_drafts():
    padded = PieceVocabulary([*BYTES, b"", b""])
    draft = TableModel(hashed(128), n_vocab=128, vocab=PieceVocabulary(BYTES))

    def rule(tokens):
        logits = np.zeros(130)
        logits[129 if len(tokens) == 3 else 97] = 9
        return logits

    for way in WAYS:
        target = TableModel(rule, n_vocab=130, vocab=padded)
        result = run(target, bridge(draft, way, padded), [97], Params(temperature=0.0, max_tokens=8))
        assert list(result.ids) == [97, 97, 129, 97, 97, 97, 97, 97]
        assert result.usage.drafted > 0


def test_a_draft_whose_context_is_full_says_so():
    target = TableModel(hashed(N_TARGET), n_vocab=N_TARGET, vocab=TARGET, n_ctx=512)
    draft = TableModel(hashed(N_DRAFT), n_vocab=N_DRAFT, vocab=DRAFT, n_ctx=24)
    result = run(target, bridge(draft, "text"), [97, 98], Params(temperature=0.0, max_tokens=80))
    assert "the draft context is full (24 positions)" in result.speculation.reason


def test_two_bridges_of_one_pair_live_side_by_side_and_leave_the_draft_as_it_was():
    _, draft = models()
    logits = draft.forward([one_chunk([5, 6, 7])])[0].copy()
    draft.truncate(0, 0)
    for _ in range(2):
        for way in WAYS:
            drafter = bridge(draft, way)
            drafter.begin(0, DraftPrompt(ids=[97, 98]))
            assert drafter.propose([request([97, 98], k=3)])[0].tokens
            drafter.end(0)
            draft.truncate(0, 0)
    assert np.array_equal(draft.forward([one_chunk([5, 6, 7])])[0], logits)


def one_chunk(tokens):
    from leadout.models.base import Chunk

    return Chunk(slot=0, tokens=tokens, n_logits=1)


def test_shared_tokens_are_drawn_with_the_noise_of_the_targets_ids():
    # the same model under other ids: with shared noise every draft stands
    shuffled = np.random.default_rng(0).permutation(128)
    vocab = PieceVocabulary([BYTES[i] for i in shuffled])
    ours = PieceVocabulary(BYTES)
    rule = hashed(128)
    target = TableModel(rule, n_vocab=128, vocab=ours)
    draft = TableModel(
        lambda tokens: rule(tuple(int(shuffled[t]) for t in tokens))[shuffled], n_vocab=128, vocab=vocab
    )
    params = Params(temperature=1.0, seed=11, max_tokens=40, frequency_penalty=0.5)
    result = run(target, bridge(draft, "shared", ours), [97, 98], params)
    assert result.usage.accepted == result.usage.drafted > 20


@pytest.mark.parametrize("rule", [verify.block, verify.token])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", range(3))
def test_the_law_over_a_bridge_is_the_targets(rule, way, seed):
    ours = PieceVocabulary([b"a", b"b", b"c", b"ab"])
    theirs = PieceVocabulary([b"ca", b"b", b"x", b"a"])
    target = random_table(seed, 4)
    table = np.random.default_rng(seed).normal(0, 1, (4, 4))
    found = compare(ours, theirs)
    assert found.to_target.tolist() == [-1, 1, -1, 0]

    def program(source):
        draft = TableModel(lambda tokens: table[tokens[-1]], n_vocab=4, vocab=theirs)
        drafter = BridgeDrafter(draft, ours, found, way=way)
        drafter.begin(0, DraftPrompt(ids=[0]))
        sampling = Sampling(temperature=1.0, top_p=1.0)
        (proposal,) = drafter.propose([request([0], k=3, sampling=sampling, source=source)])
        tokens = proposal.tokens
        verdict = rule(proposal, [target(tokens[:i]) for i in range(len(tokens) + 1)], source)
        return (*tokens[: verdict.accepted], verdict.token)

    emitted = list(outcomes(program))
    assert largest_difference(continued(emitted, target, 4), joint_law(target, 4)) <= 1e-12


def test_rows_of_shared_tokens_are_the_drafts_own_restricted_and_renormalised():
    ours = PieceVocabulary([b"a", b"b", b"c"])
    theirs = PieceVocabulary([b"x", b"b", b"a"])
    logits = np.log([0.5, 0.3, 0.2])
    draft = TableModel(lambda tokens: logits, n_vocab=3, vocab=theirs)
    drafter = bridge(draft, "shared", ours)
    drafter.begin(0, DraftPrompt(ids=[0]))
    sampling = Sampling(temperature=1.0, top_p=1.0)
    (proposal,) = drafter.propose([request([0], k=1, sampling=sampling, noise=Noise(1))])
    assert proposal.rows[0].ids.tolist() == [0, 1]
    assert np.allclose(proposal.rows[0].probs, [0.4, 0.6])


def test_one_vocabulary_needs_no_bridge_unless_one_is_asked_for():
    vocab = PieceVocabulary(BYTES)
    draft, found = TableModel(hashed(128), n_vocab=128, vocab=vocab), compare(vocab, vocab)
    assert isinstance(connect(draft, vocab, found), ModelDrafter)
    assert why_this_way(found) == ""
    assert connect(draft, vocab, found, "text").name == "table by text"


def test_the_bridge_follows_from_how_much_of_what_is_used_is_shared():
    ours, theirs = PieceVocabulary(BYTES), PieceVocabulary([b"", b"xx", *BYTES])
    found = compare(ours, theirs)
    assert way_over(found) == "text"
    assert way_over(found.with_sample([97, 98])) == "shared"
    assert way_over(found.with_sample([97, 98]), "text") == "text"
    assert why_this_way(found).endswith("it drafts by text")
    assert why_this_way(found, "shared").endswith("it drafts by shared tokens as asked for")


def test_shared_tokens_without_any_are_refused():
    ours, theirs = PieceVocabulary([b"a"]), PieceVocabulary([b"b"])
    draft = TableModel(hashed(1), n_vocab=1, vocab=theirs)
    with pytest.raises(VocabularyError, match="table shares no token with the target"):
        connect(draft, ours, compare(ours, theirs), "shared")
