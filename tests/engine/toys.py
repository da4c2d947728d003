"""Small rules and comparisons that several tests share."""

import numpy as np

from leadout.engine.engine import Engine
from leadout.engine.params import Params
from leadout.engine.schedule import FixedSchedule
from leadout.testing import TableModel

GREEDY = Params(temperature=0.0)


def hashed(n_vocab, seed=0, spread=2.0):
    """Random logits that depend on the last two tokens and on how many there are."""
    known = {}

    def rule(tokens):
        key = (tokens[-1], tokens[-2] if len(tokens) > 1 else n_vocab, len(tokens) % 3)
        if key not in known:
            known[key] = np.random.default_rng([seed, *key]).normal(0, spread, n_vocab)
        return known[key]

    return rule


def engine(model, drafter=None, k=4, **options):
    return Engine(model, drafter, schedule=FixedSchedule(k), **options)


def said(result):
    """All that speculation may not change."""
    logprobs = [(token.logprob, token.alternatives) for token in result.tokens]
    usage = result.usage
    return (
        result.ids, result.text, result.finish_reason, logprobs,
        usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens,
    )  # fmt: skip


def plain(rule, prompt, params, n_vocab, **options):
    """The result of plain decoding on a fresh engine."""
    return engine(TableModel(rule, n_vocab=n_vocab, **options)).generate(prompt, params)
