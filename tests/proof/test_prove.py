"""The proof passes what is lossless and fails what is broken on purpose."""

import json

import numpy as np
import pytest

from leadout.core.values import Distribution, Proposal
from leadout.engine.engine import Engine
from leadout.engine.params import Params
from leadout.engine.schedule import FixedSchedule
from leadout.errors import InputError
from leadout.proof.equality import compare_answers
from leadout.proof.prove import ProofOptions, prove
from leadout.proof.widths import measure_widths
from leadout.testing import PieceVocabulary, ScriptedDrafter, TableModel, first_order

V = 128
BYTES = PieceVocabulary([bytes([i]) for i in range(V)])
QUICK = ProofOptions(n_prompts=2, n_tokens=12, n_draws=400, k=3)


class ByteModel(TableModel):
    """A model over ASCII bytes; other bytes of a text are taken modulo 128."""

    def __init__(self, table, **options):
        super().__init__(first_order(table), n_vocab=V, n_ctx=512, vocab=_Folded(), **options)


class _Folded(PieceVocabulary):
    def __init__(self):
        super().__init__([bytes([i]) for i in range(V)])

    def encode(self, text, *, add_bos, special):
        return [byte % V for byte in text.encode()]


def table(seed=0, spread=2.0):
    """Logits over a dozen likely followers of each token; everything else is unlikely."""
    random = np.random.default_rng(seed)
    rows = np.full((V, V), -20.0)
    for row in rows:
        row[random.choice(V, 12, replace=False)] = random.normal(size=12) * spread
    return rows


def near(rows, seed=1):
    """A draft's table: the target's, disturbed."""
    return rows + np.random.default_rng(seed).normal(size=rows.shape) * 0.7


def test_a_lossless_pair_passes_every_part():
    report = prove(ByteModel(table()), ByteModel(near(table())), QUICK)
    assert report.faults == ()
    assert report.is_lossless
    assert report.greedy.n_equal == report.greedy.n_pairs == 4
    assert report.seeded.accepted > 0
    assert all(fit.drafted > fit.accepted > 0 for fit in report.law)
    assert all(each.is_bit_identical and each.is_causal for each in report.widths)
    parts = json.loads(json.dumps(report.to_json()))
    assert {"lossless", "greedy", "seeded", "law", "widths"} <= parts.keys()


def test_every_number_of_accepted_tokens_is_tried():
    model, seen = ByteModel(table()), set()

    class Watching(FixedSchedule):
        def observe(self, slot, outcome):
            seen.add(outcome.accepted)

    compare_answers(
        model,
        ScriptedDrafter(lambda request: ()),
        [list(b"abc")],
        Params(temperature=0.0, max_tokens=40),
        make_engine=lambda target, drafter: Engine(target, drafter, schedule=Watching(3)),
    )
    assert seen >= {0, 1, 2, 3}


def test_a_rule_that_accepts_too_often_fails_the_law():
    class Halved(np.random.Generator):
        def random(self, *args, **kwargs):
            return super().random(*args, **kwargs) / 2

    def broken(target, drafter, generator):
        rigged = lambda: Halved(generator().bit_generator)  # noqa: E731
        return Engine(target, drafter, schedule=FixedSchedule(3), generator=rigged)

    report = prove(ByteModel(table()), ByteModel(near(table())), QUICK, make_engine=broken)
    assert not report.is_lossless
    assert any("do not fit the target's law" in fault for fault in report.faults)
    assert report.greedy.is_lossless


def test_a_drafter_that_lies_about_its_rows_fails_the_law():
    uniform = Distribution(ids=np.arange(V), probs=np.full(V, 1 / V))

    def lie(request):
        best = int(np.argmax(table()[request.context[-1]]))
        return Proposal(tokens=(best,), rows=(uniform,), drafter="liar")

    def with_liar(target, drafter, generator):
        given = None if drafter is None else ScriptedDrafter(lie)
        return Engine(target, given, schedule=FixedSchedule(1), generator=generator)

    report = prove(ByteModel(table()), None, QUICK, make_engine=with_liar)
    assert any("do not fit the target's law" in fault for fault in report.faults)


class Leaking(ByteModel):
    """Rows lean towards the token that follows in the same pass."""

    def forward(self, chunks):
        results = super().forward(chunks)
        for chunk, rows in zip(chunks, results, strict=True):
            followers = list(chunk.tokens)[len(chunk.tokens) - chunk.n_logits + 1 :]
            for row, token in zip(rows, followers, strict=False):
                row[token] += 9.0
        return results


def test_a_target_whose_rows_see_later_tokens_fails():
    report = prove(Leaking(table()), ByteModel(near(table())), QUICK)
    assert not report.is_lossless
    assert any("drafts leak into p" in fault for fault in report.faults)
    assert any(each.verdict == "fault" for each in report.greedy.differences)


class Forgetful(ByteModel):
    """Keeps what it should cut: logits come from a cache with rejected tokens in it."""

    def __init__(self, rows):
        super().__init__(rows)
        self.rejected = {}

    def truncate(self, slot, length):
        if 0 < length < self.length(slot):
            self.rejected[slot] = self.rejected.get(slot, 0) + 1
        super().truncate(slot, length)

    def forward(self, chunks):
        results = super().forward(chunks)
        for chunk, rows in zip(chunks, results, strict=True):
            if chunk.slot in self.rejected:
                np.add(rows, np.roll(table(9)[0], self.rejected[chunk.slot]), out=rows)
        return results


def test_a_cache_that_keeps_rejected_tokens_fails():
    report = prove(Forgetful(table()), ByteModel(near(table())), QUICK)
    assert any(fault.startswith("greedy") for fault in report.faults)


class Rounding(ByteModel):
    """Logits differ a little between widths, as those of batched kernels do."""

    def forward(self, chunks):
        results = super().forward(chunks)
        for chunk, rows in zip(chunks, results, strict=True):
            if len(chunk.tokens) > 1:
                rows[:, ::2] += 0.05
        return results


def tied(seed=0):
    """A table whose best two followers are 0.02 apart."""
    rows = table(seed)
    order = np.argsort(rows, axis=1)
    for row, (second, first) in zip(rows, order[:, -2:], strict=True):
        row[second] = row[first] - 0.02
    return rows


def test_rounding_at_a_near_tie_is_told_from_a_fault():
    report = prove(Rounding(tied()), ByteModel(near(tied())), QUICK)
    greedy = report.greedy
    assert greedy.differences
    assert {each.verdict for each in greedy.differences} == {"near-tie"}
    for each in greedy.differences:
        assert each.top_two_gap == pytest.approx(0.02, abs=1e-5)
        assert each.rounding == pytest.approx(0.05, abs=1e-5)
    assert greedy.is_lossless
    assert not any(each.is_bit_identical for each in report.widths)


def test_exact_mode_takes_no_difference_at_all():
    class Claims(Rounding):
        def exact_widths(self):
            return frozenset({1, 2, 3, 4})

    options = ProofOptions(n_prompts=2, n_tokens=12, n_draws=100, k=3, exact=True)
    report = prove(Claims(tied()), ByteModel(near(tied())), options)
    assert any("differ in exact mode" in fault for fault in report.faults)


def test_without_a_single_draft_nothing_is_shown():
    def plain(target, drafter, generator):
        return Engine(target, None, generator=generator)

    report = prove(ByteModel(table()), None, QUICK, make_engine=plain)
    assert [fault for fault in report.faults if "nothing was drafted" in fault]
    assert not report.is_lossless


def test_the_proof_can_be_repeated():
    reports = [prove(ByteModel(table()), ByteModel(near(table())), QUICK).to_json() for _ in range(2)]
    assert reports[0] == reports[1]


def test_progress_covers_every_part():
    told = []
    prove(
        ByteModel(table()), None, QUICK, progress=lambda part, done, total: told.append((part, done, total))
    )
    assert {part for part, _, _ in told} == {"greedy", "seeded", "law 1", "law 2", "widths"}
    assert {part for part, done, total in told if done == total} == {part for part, _, _ in told}


def test_widths_are_compared_row_by_row():
    reports = measure_widths(Rounding(table()), list(b"abcdefghij"), 4, [2, 3])
    assert [each.width for each in reports] == [2, 3]
    assert all(each.max_difference == pytest.approx(0.05, abs=1e-5) for each in reports)
    assert all(each.n_rows == 6 and each.is_causal for each in reports)


@pytest.mark.parametrize(
    ("name", "value"), [("n_prompts", 0), ("n_prompts", 107), ("n_tokens", 4), ("n_draws", 10), ("k", 0)]
)
def test_options_out_of_range_are_refused(name, value):
    with pytest.raises(InputError, match=rf"{name} is {value}; it must be a whole number in"):
        ProofOptions(**{name: value})


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("temperature", 0, "temperature is 0; it must be a number > 0"),
        ("seed", -1, "seed is -1; it must be a whole number in"),
    ],
)
def test_proof_without_randomness_or_with_a_seed_that_is_none_is_refused(field, value, said):
    with pytest.raises(InputError, match=said):
        ProofOptions(**{field: value})
