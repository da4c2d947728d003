from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from leadout.core import verify
from leadout.core.law import shape
from leadout.core.noise import Noise, RandomSource, Source
from leadout.core.values import Distribution, Proposal, Sampling, Verdict
from leadout.errors import InputError

Rule = Callable[[Proposal, Sequence[Distribution], Source], Verdict]
RULES = pytest.mark.parametrize("rule", [verify.token, verify.block])


class Lazy(Sequence):
    """Rows that note which of them were looked at."""

    def __init__(self, rows: Sequence) -> None:
        self._rows = rows
        self.seen: set[int] = set()

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index):
        self.seen.add(index)
        return self._rows[index]


def dense(*probs: float) -> Distribution:
    kept = np.flatnonzero(probs)
    return Distribution(ids=kept, probs=np.array(probs)[kept])


def chance(seed: int = 0) -> RandomSource:
    return RandomSource(np.random.default_rng(seed))


@st.composite
def distributions(draw, n_vocab: int = 5) -> Distribution:
    weights = draw(
        st.lists(
            st.sampled_from([0.0, 0.0, 1e-300, 0.01, 0.3, 1.0]) | st.floats(0, 1),
            min_size=n_vocab,
            max_size=n_vocab,
        )
    )
    weights[draw(st.integers(0, n_vocab - 1))] += 0.1
    probs = np.array(weights) / np.sum(weights)
    return dense(*probs)


@st.composite
def rounds(draw) -> tuple[Proposal, list[Distribution]]:
    k = draw(st.integers(0, 4))
    rows = [draw(distributions()) for _ in range(k)]
    tokens = tuple(int(draw(st.sampled_from(row.ids.tolist()))) for row in rows)
    is_point = draw(st.booleans())
    return Proposal(tokens=tokens, rows=None if is_point else tuple(rows)), [
        draw(distributions()) for _ in range(k + 1)
    ]


@RULES
@settings(deadline=None)
@given(case=rounds(), seed=st.integers(0, 2**32))
def test_accepted_tokens_are_a_prefix_and_all_emitted_ones_are_the_targets(rule, case, seed):
    proposal, targets = case
    verdict = rule(proposal, targets, chance(seed))
    assert 0 <= verdict.accepted <= len(proposal.tokens)
    emitted = (*proposal.tokens[: verdict.accepted], verdict.token)
    assert all(targets[i].prob(token) > 0 for i, token in enumerate(emitted))


@RULES
@settings(deadline=None)
@given(case=rounds(), seed=st.integers(0, 2**32))
def test_a_draft_from_the_targets_own_law_is_accepted_whole(rule, case, seed):
    rows = case[0].rows or ()
    proposal = Proposal(tokens=case[0].tokens[: len(rows)], rows=rows)
    assert rule(proposal, [*rows, case[1][-1]], chance(seed)).accepted == len(rows)


@settings(deadline=None)
@given(case=rounds(), seed=st.integers(0, 2**64 - 1), position=st.integers(0, 10**6))
def test_coupled_tokens_do_not_depend_on_the_draft(case, seed, position):
    proposal, targets = case
    noise = Noise(seed)
    verdict = verify.coupled(proposal.tokens, targets, noise, position)
    plain = tuple(noise.draw(row, position + i) for i, row in enumerate(targets))
    assert (*proposal.tokens[: verdict.accepted], verdict.token) == plain[: verdict.accepted + 1]
    assert verdict.accepted == len(proposal.tokens) or verdict.token != proposal.tokens[verdict.accepted]


def test_coupled_drafts_from_the_targets_own_law_are_accepted_whole():
    rows, noise = [dense(0.2, 0.5, 0.3)] * 4, Noise(5)
    drafted = [noise.draw(row, 30 + i) for i, row in enumerate(rows)]
    assert verify.coupled(drafted, [*rows, rows[0]], noise, 30).accepted == 4


@given(
    drafted=st.lists(st.integers(0, 2), max_size=5), best=st.lists(st.integers(0, 2), min_size=6, max_size=6)
)
def test_greedy_accepts_the_longest_agreeing_prefix(drafted, best):
    best = Lazy(best[: len(drafted) + 1])
    verdict = verify.greedy(drafted, best)
    assert best.seen == set(range(verdict.accepted + 1))
    assert drafted[: verdict.accepted] == [best[i] for i in range(verdict.accepted)]
    assert verdict.token == best[verdict.accepted]
    assert verdict.accepted == len(drafted) or drafted[verdict.accepted] != verdict.token


def test_without_a_draft_every_rule_is_one_plain_draw():
    p = dense(0.0, 0.7, 0.3)
    noise = Noise(1)
    assert verify.greedy((), [4]) == Verdict(accepted=0, token=4)
    assert verify.coupled((), [p], noise, 9) == Verdict(accepted=0, token=noise.draw(p, 9))
    for rule in (verify.token, verify.block):
        for proposal in (Proposal(), Proposal(rows=())):
            assert rule(proposal, [p], chance(3)) == Verdict(accepted=0, token=chance(3).draw(p))


def test_token_looks_at_no_row_beyond_the_rejection():
    targets = Lazy([dense(0.5, 0.5), dense(1.0, 0.0), dense(0.5, 0.5), dense(0.5, 0.5)])
    proposal = Proposal(tokens=(0, 1, 1), rows=(dense(0.5, 0.5),) * 3)
    assert verify.token(proposal, targets, chance()).accepted == 1
    assert targets.seen == {0, 1}


def test_block_looks_at_no_row_beyond_an_impossible_token():
    targets = Lazy([dense(0.5, 0.5), dense(1.0, 0.0), dense(0.5, 0.5), dense(0.5, 0.5)])
    proposal = Proposal(tokens=(0, 1, 1), rows=(dense(0.5, 0.5),) * 3)
    assert verify.block(proposal, targets, chance()) == Verdict(accepted=1, token=0)
    assert targets.seen == {0, 1}


def test_block_looks_at_the_bonus_row_only_after_a_whole_draft():
    p, q = dense(0.5, 0.5), dense(0.9, 0.1)
    for seed in range(50):
        targets = Lazy([p] * 3)
        verdict = verify.block(Proposal(tokens=(0, 0), rows=(q, q)), targets, chance(seed))
        assert (2 in targets.seen) == (verdict.accepted == 2)


@RULES
def test_a_residual_that_rounding_empties_gives_a_draw_from_the_target(rule):
    # Rejected although p < q only by rounding: nothing is left of max(p - q, 0).
    class Rejects:
        def accepts(self, probability: float) -> bool:
            return False

        def draw(self, distribution: Distribution) -> int:
            assert distribution is p
            return int(distribution.ids[-1])

    p = Distribution(ids=np.array([0, 1]), probs=np.array([0.25, 0.75]))
    q = Distribution(ids=np.array([0, 1]), probs=np.nextafter(p.probs, 1.0))
    assert rule(Proposal(tokens=(0,), rows=(q,)), [p, p], Rejects()) == Verdict(accepted=0, token=1)


def test_a_block_of_equal_laws_leaves_no_division_by_zero():
    # p = q at a middle row makes S_i + 1 - p_i zero; rejecting the longer length must stop there.
    class RejectsFirst:
        def __init__(self) -> None:
            self.asked: list[float] = []

        def accepts(self, probability: float) -> bool:
            self.asked.append(probability)
            return len(self.asked) > 1

        def draw(self, distribution: Distribution) -> int:
            return int(distribution.ids[0])

    p, source = dense(0.25, 0.75), RejectsFirst()
    verdict = verify.block(Proposal(tokens=(1, 1), rows=(p, p)), [p, p, p], source)
    assert (verdict, source.asked) == (Verdict(accepted=1, token=0), [1.0, 1.0])


@RULES
def test_a_token_that_its_row_cannot_give_is_refused(rule):
    proposal = Proposal(tokens=(0, 2), rows=(dense(0.5, 0.5), dense(0.5, 0.5)), drafter="toy")
    with pytest.raises(InputError, match="drafter toy proposed token 2 at index 1, which has probability 0"):
        rule(proposal, [dense(0.5, 0.5)] * 3, chance())


@pytest.mark.parametrize("n_rows", [0, 1, 3])
def test_rows_that_do_not_fit_the_draft_are_refused(n_rows):
    rows = [dense(0.5, 0.5)] * n_rows
    for call in (
        lambda: verify.greedy((0,), [0] * n_rows),
        lambda: verify.coupled((0,), rows, Noise(0), 0),
        lambda: verify.token(Proposal(tokens=(0,)), rows, chance()),
        lambda: verify.block(Proposal(tokens=(0,)), rows, chance()),
    ):
        with pytest.raises(InputError, match=f"1 drafted tokens need 2 target rows, got {n_rows}"):
            call()


def emitted(rule: Rule, p: Distribution, drafted: int, n_tokens: int) -> tuple[list[int], float]:
    """Tokens of rounds that draft `drafted` three times, and the share of first tokens accepted."""
    source, tokens, stood, n_rounds = chance(7), [], 0, 0
    proposal = Proposal(tokens=(drafted,) * 3)
    while len(tokens) < n_tokens:
        verdict = rule(proposal, [p] * 4, source)
        tokens += [*proposal.tokens[: verdict.accepted], verdict.token]
        stood += verdict.accepted > 0
        n_rounds += 1
    return tokens, stood / n_rounds


@RULES
def test_a_draft_that_always_says_the_same_leaves_the_law_alone(rule):
    p = shape(np.array([2.0, 1.5, 1.0, 0.5], dtype=np.float32), Sampling(temperature=1.0, top_p=1.0))
    tokens, acceptance = emitted(rule, p, drafted=0, n_tokens=40_000)
    shares = np.bincount(tokens) / len(tokens)
    np.testing.assert_allclose(shares, [0.4551, 0.2760, 0.1674, 0.1015], atol=0.01)
    assert stats.chisquare(np.bincount(tokens), len(tokens) * p.probs).pvalue > 0.001
    assert acceptance == pytest.approx(0.4551, abs=0.01)


@RULES
@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(temperature=1.0, top_p=1.0, min_p=0.4),
        Sampling(temperature=1.0, top_p=1.0, min_p=0.4, logit_bias={2: -100.0}),
    ],
)
def test_a_draft_of_a_forbidden_token_never_stands(rule, sampling):
    p = shape(np.log([0.5, 0.3, 0.15, 0.05]), sampling)
    tokens, acceptance = emitted(rule, p, drafted=2, n_tokens=25_000)
    assert acceptance == 0
    np.testing.assert_allclose(
        np.bincount(tokens, minlength=4) / len(tokens), [0.625, 0.375, 0, 0], atol=0.01
    )


@RULES
def test_a_biased_away_token_never_stands_without_min_p_either(rule):
    p = shape(np.log([0.5, 0.3, 0.15, 0.05]), Sampling(temperature=1.0, top_p=1.0, logit_bias={2: -100.0}))
    tokens, _ = emitted(rule, p, drafted=2, n_tokens=12_000)
    np.testing.assert_allclose(
        np.bincount(tokens) / len(tokens), np.array([0.5, 0.3, 0, 0.05]) / 0.85, atol=0.01
    )


def test_an_unset_temperature_is_the_documented_default_and_not_greedy():
    logits = np.log([0.5, 0.3, 0.15, 0.05])
    p, documented = shape(logits, Sampling(top_k=50)), shape(logits, Sampling(top_k=50, temperature=0.8))
    assert p.ids.size > 1
    assert p.probs.tolist() == documented.probs.tolist()
