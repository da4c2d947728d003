"""`leadout.bench.widths`: which passes are timed; the times themselves are asserted nowhere."""

from collections import Counter

import pytest
from talk import talker

from leadout.bench.widths import WIDTHS, main, measure
from leadout.errors import InputError


def test_every_width_is_timed_equally_often_after_the_same_context():
    models = {"a": talker(), "b": talker()}
    costs = measure(models, WIDTHS, length=20, repeats=3)
    assert {name: list(of) for name, of in costs.items()} == {"a": list(WIDTHS), "b": list(WIDTHS)}
    assert {spread.n for of in costs.values() for spread in of.values()} == {3}
    for model in models.values():
        [prompt], *passes = model.passes
        assert (prompt.start, len(prompt.tokens), prompt.n_logits) == (0, 20, 0)
        assert {(fed.start, fed.n_logits - len(fed.tokens)) for step in passes for fed in step} == {(20, 0)}
        assert Counter(len(fed.tokens) for step in passes for fed in step) == dict.fromkeys(WIDTHS, 4)


def test_widths_come_in_changing_order():
    model = talker()
    measure({"a": model}, (1, 2, 3, 4), length=5, repeats=4)
    orders = [tuple(len(step[0].tokens) for step in model.passes[1:][at : at + 4]) for at in range(0, 20, 4)]
    assert len(set(orders)) > 1


def test_unknown_provider_is_refused(tmp_path):
    (tmp_path / "x.gguf").write_bytes(b"")
    with pytest.raises(InputError, match="provider is 'cuda'; it must be ik, llama or ik,llama"):
        main(str(tmp_path / "x.gguf"), provider="cuda")
