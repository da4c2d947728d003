"""Log probabilities are the model's own, whatever the law and wherever a token came from."""

from dataclasses import replace

import numpy as np
import pytest
from toys import engine, hashed, plain

from leadout.core.values import Distribution
from leadout.engine.params import Params
from leadout.testing import PieceVocabulary, ScriptedDrafter, TableModel, constant

P = np.array([0.5, 0.3, 0.2])


@pytest.mark.parametrize(
    "params", [Params(temperature=1.0, top_p=1.0, seed=2), Params(temperature=0.7, logit_bias={2: 5.0})]
)
def test_accepted_corrected_and_bonus_tokens_carry_the_models_own_log_probability(params):
    q = Distribution(ids=np.arange(3), probs=np.array([0.2, 0.2, 0.6]))
    one = engine(TableModel(constant(np.log(P)), n_vocab=3), ScriptedDrafter.drawn(lambda _: q), 3)
    result = one.generate([0], replace(params, max_tokens=120, logprobs=3))
    origins = {token.origin for token in result.tokens}
    assert origins == {"plain", "accepted", "corrected", "bonus"}
    for token in result.tokens:
        assert token.logprob.token == token.token
        assert token.logprob.logprob == pytest.approx(np.log(P[token.token]), abs=1e-6)
        assert [each.token for each in token.alternatives] == [0, 1, 2]
        assert sum(np.exp(each.logprob) for each in token.alternatives) <= 1 + 1e-6


def test_number_of_alternatives_is_what_was_asked_for():
    for n in (0, 1, 5):
        result = plain(hashed(8), [1], Params(temperature=0.0, max_tokens=3, logprobs=n), 8)
        assert [len(token.alternatives) for token in result.tokens] == [n] * 3
    silent = plain(hashed(8), [1], Params(temperature=0.0, max_tokens=3), 8)
    assert [token.logprob for token in silent.tokens] == [None] * 3
    assert "logprobs" not in silent.to_json()


def test_logprobs_name_the_piece_of_control_tokens():
    vocab = PieceVocabulary([b"a", b"<end>"], eos=1)
    model = TableModel(constant([1.0, 0.0]), n_vocab=2, vocab=vocab)
    (token,) = engine(model).generate([0], Params(temperature=0.0, max_tokens=1, logprobs=2)).tokens
    assert [each.piece for each in token.alternatives] == [b"a", b"<end>"]
