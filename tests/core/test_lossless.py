"""Output laws of the rules, enumerated exactly, against the target's own law; and rules broken on purpose."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from leadout.core import verify
from leadout.core.noise import Noise, Source
from leadout.core.values import Distribution, Proposal, Verdict
from leadout.testing.enumeration import (
    Branches,
    Table,
    Tokens,
    continued,
    joint_law,
    largest_difference,
    outcomes,
    random_table,
)

Rule = Callable[[Proposal, Sequence[Distribution], Branches], Verdict]
EXACT = 1e-12
SIZES = [(3, 0), (3, 1), (3, 2), (3, 3), (3, 4), (4, 3), (5, 2)]  # V, k


class Rows(Sequence):
    """The target's rows along a draft."""

    def __init__(self, table: Table, tokens: Tokens) -> None:
        self._table, self._tokens = table, tokens

    def __len__(self) -> int:
        return len(self._tokens) + 1

    def __getitem__(self, index):
        if not 0 <= index < len(self):
            raise IndexError(index)
        return self._table(self._tokens[:index])


def mixed(p: Table, q: Table, share: float, n_vocab: int) -> Table:
    """Rows share * p + (1 - share) * q."""
    ids = np.arange(n_vocab)

    def row(prefix: Tokens) -> Distribution:
        return Distribution(
            ids=ids, probs=share * p(prefix).probs_of(ids) + (1 - share) * q(prefix).probs_of(ids)
        )

    return row


def point(table: Table) -> Table:
    """Point masses on the largest of each row."""
    return lambda prefix: Distribution.point(int(table(prefix).ids[np.argmax(table(prefix).probs)]))


def pairs(v: int) -> dict[str, tuple[Table, Table]]:
    """(target, draft) pairs of every structure."""
    p, q = random_table(1, v), random_table(2, v)
    few_p, few_q = random_table(3, v, n_kept=v - 1), random_table(4, v, n_kept=2)
    return {
        "unrelated": (p, q),
        "equal": (p, p),
        "near": (p, mixed(p, q, 0.9, v)),
        "disjoint": (
            random_table(5, v, only=tuple(range(v // 2))),
            random_table(6, v, only=tuple(range(v // 2, v))),
        ),
        "truncated target": (few_p, q),
        "truncated draft": (p, few_q),
        "both truncated": (few_p, few_q),
        "sure target": (point(p), q),
        "sure draft": (p, point(q)),
        "both sure": (point(p), point(q)),
    }


STRUCTURES = list(pairs(3))


def everything(row: Distribution) -> bool:
    return True


def drafted(
    draft: Table, k: int, source: Source, goes_on: Callable[[Distribution], bool] = everything
) -> Proposal:
    """Up to k tokens; the draft ends before a row it does not want to draw from."""
    tokens: Tokens = ()
    rows: tuple[Distribution, ...] = ()
    while len(tokens) < k and goes_on(draft(tokens)):
        rows = (*rows, draft(tokens))
        tokens = (*tokens, source.draw(rows[-1]))
    return Proposal(tokens=tokens, rows=rows)


def one_round(
    rule: Rule, target: Table, propose: Callable[[Branches], Proposal]
) -> Callable[[Branches], tuple[Tokens, int]]:
    """A program: draft, verify; gives the emitted tokens and how many of them were accepted."""

    def program(source: Branches) -> tuple[Tokens, int]:
        proposal = propose(source)
        verdict = rule(proposal, Rows(target, proposal.tokens), source)
        return (*proposal.tokens[: verdict.accepted], verdict.token), verdict.accepted

    return program


def error(rule: Rule, target: Table, propose: Callable[[Branches], Proposal], k: int) -> float:
    """How far the law of k+1 tokens, a round and plain decoding after it, is from the target's."""
    emitted = ((tokens, weight) for (tokens, _), weight in outcomes(one_round(rule, target, propose)))
    return largest_difference(continued(emitted, target, k + 1), joint_law(target, k + 1))


def mean_accepted(rule: Rule, target: Table, propose: Callable[[Branches], Proposal]) -> float:
    return sum(accepted * weight for (_, accepted), weight in outcomes(one_round(rule, target, propose)))


@pytest.mark.parametrize(("v", "k"), SIZES)
@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("rule", [verify.token, verify.block])
def test_the_output_law_is_the_targets(rule, structure, v, k):
    target, draft = pairs(v)[structure]
    assert error(rule, target, lambda source: drafted(draft, k, source), k) <= EXACT


@pytest.mark.parametrize(("v", "k"), SIZES)
@pytest.mark.parametrize("rule", [verify.token, verify.block])
def test_point_drafts_without_rows_keep_the_law(rule, v, k):
    target, draft = random_table(1, v), point(random_table(2, v))

    def propose(source: Branches) -> Proposal:
        return Proposal(tokens=drafted(draft, k, source).tokens)

    assert error(rule, target, propose, k) <= EXACT


@pytest.mark.parametrize(("v", "k"), SIZES)
def test_greedy_keeps_the_law_of_greedy_decoding(v, k):
    target, draft = point(random_table(1, v)), random_table(2, v)

    def rule(proposal: Proposal, targets: Sequence[Distribution], source: Branches) -> Verdict:
        return verify.greedy(proposal.tokens, [int(row.ids[0]) for row in targets])

    assert error(rule, target, lambda source: drafted(draft, k, source), k) <= EXACT


@pytest.mark.parametrize(("v", "k"), SIZES)
@pytest.mark.parametrize("structure", STRUCTURES)
def test_block_accepts_no_less_than_token(structure, v, k):
    target, draft = pairs(v)[structure]
    by_token, by_block = (
        mean_accepted(rule, target, lambda source: drafted(draft, k, source))
        for rule in (verify.token, verify.block)
    )
    assert by_block >= by_token - EXACT
    if structure in ("unrelated", "near") and k > 1:
        assert by_block > by_token + 1e-4
    if "sure" in structure:  # a point mass leaves nothing to gain, and nothing to lose
        assert by_block == pytest.approx(by_token, abs=EXACT)
    if structure == "equal":
        assert by_token == by_block == pytest.approx(k, abs=EXACT)


def test_the_worked_example_of_the_block_paper():
    # arXiv 2403.10444, section 2: p = (1/3, 2/3), q = (2/3, 1/3), two tokens; 10/9 by token, 11/9 by block.
    p = Distribution(ids=np.arange(2), probs=np.array([1, 2]) / 3)
    q = Distribution(ids=np.arange(2), probs=np.array([2, 1]) / 3)
    means = [
        mean_accepted(rule, lambda prefix: p, lambda source: drafted(lambda prefix: q, 2, source))
        for rule in (verify.token, verify.block)
    ]
    assert means == pytest.approx([10 / 9, 11 / 9], abs=EXACT)


@pytest.mark.parametrize("rule", [verify.token, verify.block])
def test_a_draft_that_ends_on_a_row_before_drawing_keeps_the_law(rule):
    target, draft, k = random_table(1, 3), random_table(2, 3), 4

    def propose(source: Branches) -> Proposal:
        return drafted(draft, k, source, lambda row: row.probs.max() > 0.6)

    lengths = {len(proposal.tokens) for proposal, _ in outcomes(propose)}
    assert len(lengths) > 2
    assert error(rule, target, propose, k) <= EXACT


@pytest.mark.parametrize("rule", [verify.token, verify.block])
def test_a_draft_that_drops_a_token_after_seeing_it_is_caught(rule):
    target, draft, k = random_table(1, 3), random_table(2, 3), 2

    def propose(source: Branches) -> Proposal:
        whole = drafted(draft, k, source)
        assert whole.rows is not None
        sure = [row.prob(token) > 0.4 for row, token in zip(whole.rows, whole.tokens, strict=True)]
        n_kept = sure.index(False) if False in sure else k
        return Proposal(tokens=whole.tokens[:n_kept], rows=whole.rows[:n_kept])

    assert error(rule, target, propose, k) > 1e-3


@pytest.mark.parametrize("rule", [verify.token, verify.block])
def test_rows_that_the_tokens_were_not_drawn_from_are_caught(rule):
    target, draft, claimed = random_table(1, 3), random_table(2, 3), random_table(7, 3)

    def propose(source: Branches) -> Proposal:
        tokens = drafted(draft, 2, source).tokens
        return Proposal(tokens=tokens, rows=tuple(claimed(tokens[:i]) for i in range(2)))

    assert error(rule, target, propose, 2) > 1e-3


def broken_token(residual: Callable[[Distribution, Distribution], Distribution]) -> Rule:
    """The token rule with another residual."""

    def rule(proposal: Proposal, targets: Sequence[Distribution], source: Branches) -> Verdict:
        assert proposal.rows is not None
        for i, (token, q) in enumerate(zip(proposal.tokens, proposal.rows, strict=True)):
            if not source.accepts(min(1.0, targets[i].prob(token) / q.prob(token))):
                return Verdict(accepted=i, token=source.draw(residual(targets[i], q)))
        return Verdict(accepted=len(proposal.tokens), token=source.draw(targets[len(proposal.tokens)]))

    return rule


def excess(p: Distribution, q: Distribution) -> Distribution:
    return Distribution(ids=p.ids, probs=np.maximum(p.probs - q.probs_of(p.ids), 0))


def normalised(p: Distribution) -> Distribution:
    return Distribution(ids=p.ids, probs=p.probs / p.probs.sum())


@pytest.mark.parametrize(
    ("residual", "is_lossless"),
    [
        (lambda p, q: normalised(excess(p, q)), True),  # the machinery itself, on the right rule
        (excess, False),  # not renormalised
        (lambda p, q: p, False),  # from p, not from p - q
        (lambda p, q: normalised(excess(q, p)), False),  # the wrong way round
    ],
)
def test_a_wrong_residual_is_caught(residual, is_lossless):
    target, draft = random_table(1, 3), random_table(2, 3)
    off = error(broken_token(residual), target, lambda source: drafted(draft, 3, source), 3)
    assert (off <= EXACT) == is_lossless
    assert is_lossless or off > 1e-3


class Grid:
    """Chance whose uniform number is one of 0/1024 .. 1023/1024: there u <= p is not u < p."""

    def __init__(self, source: Branches, *, is_strict: bool) -> None:
        self._source, self._surplus = source, 0 if is_strict else 1

    def accepts(self, probability: float) -> bool:
        n_below = min(int(np.ceil(probability * 1024)) + self._surplus, 1024)
        return self._source.accepts(n_below / 1024)

    def draw(self, distribution: Distribution) -> int:
        return self._source.draw(distribution)


@pytest.mark.parametrize("rule", [verify.token, verify.block])
@pytest.mark.parametrize("is_strict", [True, False])
def test_accepting_at_equality_is_caught(rule, is_strict):
    # Ratios of 0, 1/4, 1/2 and 1, so that the grid is exact for u < p; u <= p accepts a little too often.
    p = Distribution(ids=np.array([0, 1, 2]), probs=np.array([0.125, 0.25, 0.625]))
    q = Distribution(ids=np.array([0, 1, 3]), probs=np.array([0.5, 0.25, 0.25]))

    def on_grid(proposal: Proposal, targets: Sequence[Distribution], source: Branches) -> Verdict:
        return rule(proposal, targets, Grid(source, is_strict=is_strict))

    off = error(on_grid, lambda prefix: p, lambda source: drafted(lambda prefix: q, 1, source), 1)
    assert (off <= EXACT) == is_strict
    assert is_strict or off > 1e-4


def test_accepting_at_zero_emits_what_the_target_cannot_say():
    p = Distribution(ids=np.array([0, 1]), probs=np.array([0.5, 0.5]))

    def emitted(is_strict: bool) -> set[Tokens]:
        def rule(proposal: Proposal, targets: Sequence[Distribution], source: Branches) -> Verdict:
            return verify.token(proposal, targets, Grid(source, is_strict=is_strict))

        program = one_round(rule, lambda prefix: p, lambda source: Proposal(tokens=(2,)))
        return {tokens for (tokens, _), _ in outcomes(program)}

    assert emitted(is_strict=True) == {(0,), (1,)}
    assert (2, 0) in emitted(is_strict=False)


def races(q: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Joint law of (winner under q, winner under p) of one exponential race E_id / weight, in closed form.

    x wins under q and y under p where E_k > max(q_k E_x / q_x, p_k E_y / p_y) for all other k. With E_x = a
    and E_y = r a that is an integral over a, then of 1 / (alpha + beta r)^2 over the r that x and y allow;
    alpha and beta change where the maximum of some k does.
    """
    n = len(p)
    joint = np.zeros((n, n))
    for x in np.flatnonzero(q):
        for y in np.flatnonzero(p):
            if x == y:
                joint[x, x] = 1 / np.maximum(q / q[x], p / p[x]).sum()
                continue
            low, high = q[y] / q[x], (p[y] / p[x] if p[x] else np.inf)
            others = [k for k in range(n) if k not in (x, y)]
            turns = [(q[k] / q[x]) / (p[k] / p[y]) for k in others if p[k]]
            ends = [low, *sorted(r for r in turns if low < r < high), high]
            for start, end in itertools.pairwise(ends):
                if start >= end:
                    continue
                middle = (start + end) / 2 if np.isfinite(end) else start + 1
                by_q = [q[k] / q[x] >= middle * p[k] / p[y] for k in others]
                alpha = 1 + sum(q[k] / q[x] for k, is_q in zip(others, by_q, strict=True) if is_q)
                beta = 1 + sum(p[k] / p[y] for k, is_q in zip(others, by_q, strict=True) if not is_q)
                last = 1 / (beta * (alpha + beta * start))
                joint[x, y] += last if np.isinf(end) else last - 1 / (beta * (alpha + beta * end))
    return joint


def arrays(p: Distribution, q: Distribution, n_vocab: int) -> tuple[np.ndarray, np.ndarray]:
    ids = np.arange(n_vocab)
    return p.probs_of(ids), q.probs_of(ids)


class SharedRaces(Noise):
    """Noise that has given the draft's tokens already and now gives the target's, in every possible way."""

    def __init__(self, proposal: Proposal, source: Branches, n_vocab: int) -> None:
        super().__init__(0)
        self._proposal, self._source, self._n_vocab = proposal, source, n_vocab

    def draw(self, distribution: Distribution, position: int) -> int:
        if position == len(self._proposal.tokens):
            return self._source.draw(distribution)
        assert self._proposal.rows is not None
        p, q = arrays(distribution, self._proposal.rows[position], self._n_vocab)
        x = self._proposal.tokens[position]
        return self._source.choose((y, weight) for y, weight in enumerate(races(q, p)[x] / q[x]))


def coupled_rule(n_vocab: int) -> Rule:
    def rule(proposal: Proposal, targets: Sequence[Distribution], source: Branches) -> Verdict:
        return verify.coupled(proposal.tokens, targets, SharedRaces(proposal, source, n_vocab), 0)

    return rule


@pytest.mark.parametrize("v", [3, 4, 5])
@pytest.mark.parametrize("structure", STRUCTURES)
def test_races_have_both_laws_as_margins(structure, v):
    target, draft = pairs(v)[structure]
    p, q = arrays(target(()), draft(()), v)
    joint = races(q, p)
    np.testing.assert_allclose(joint.sum(axis=0), p, atol=EXACT)
    np.testing.assert_allclose(joint.sum(axis=1), q, atol=EXACT)
    distance = np.abs(p - q).sum() / 2
    acceptance = np.trace(joint)
    assert (1 - distance) / (1 + distance) - EXACT <= acceptance <= 1 - distance + EXACT
    assert joint[1, 2] == pytest.approx(races(p, q)[2, 1], abs=EXACT)


@pytest.mark.parametrize(("v", "k"), [(3, 0), (3, 1), (3, 2), (3, 3), (4, 2), (5, 1)])
@pytest.mark.parametrize("structure", STRUCTURES)
def test_the_output_law_of_coupled_draws_is_the_targets(structure, v, k):
    target, draft = pairs(v)[structure]
    assert error(coupled_rule(v), target, lambda source: drafted(draft, k, source), k) <= EXACT


def test_coupled_acceptance_is_the_diagonal_of_the_races():
    target, draft = pairs(4)["unrelated"]
    p, q = arrays(target(()), draft(()), 4)
    mean = mean_accepted(coupled_rule(4), target, lambda source: drafted(draft, 1, source))
    assert mean == pytest.approx(np.trace(races(q, p)), abs=EXACT)


def test_a_race_of_two_is_worked_out_by_hand():
    # 1/(1 + max(1, 1/9)) and 1/(max(1, 9) + 1) on the diagonal; the rest is what the margins leave.
    joint = races(np.array([0.9, 0.1]), np.array([0.5, 0.5]))
    np.testing.assert_allclose(joint, [[0.5, 0.4], [0.0, 0.1]], atol=EXACT)


def test_a_rule_that_believes_the_draft_is_caught():
    target, draft = random_table(1, 3), random_table(2, 3)

    def rule(proposal: Proposal, targets: Sequence[Distribution], source: Branches) -> Verdict:
        return Verdict(accepted=len(proposal.tokens), token=source.draw(targets[len(proposal.tokens)]))

    assert error(rule, target, lambda source: drafted(draft, 2, source), 2) > 1e-3


def test_real_noise_follows_the_races():
    target, draft = pairs(4)["near"]
    p, q = target(()), draft(())
    noise, n = Noise(99), 10_000
    counts = np.zeros((4, 4))
    for position in range(n):
        counts[noise.draw(q, position), noise.draw(p, position)] += 1
    expected = races(*arrays(q, p, 4)) * n
    likely = expected > 5
    statistic = ((counts - expected)[likely] ** 2 / expected[likely]).sum()
    assert statistic < 2 * likely.sum() + 15
    assert np.trace(counts) / n == pytest.approx(np.trace(expected) / n, abs=0.02)
