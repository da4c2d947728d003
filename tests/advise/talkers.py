"""A target that wanders through the alphabet, and a draft model that is often right."""

import time

import numpy as np

from leadout.testing import PieceVocabulary, TableModel

CHATML = (
    "{% for message in messages %}<{{ message.role }}>{{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
VOCAB = PieceVocabulary([bytes([i]) for i in range(256)], chat_template=CHATML)


def _next(tokens):
    return 97 + (tokens[-1] * 7 + tokens[-2:][0] * 3 + len(tokens) % 9) % 26


def _row(token, height):
    row = np.zeros(256)
    row[token] = height
    return row


def wanderer(pauses=None):
    """Each of its rows takes the next of these seconds, if there are any."""

    def rule(tokens):
        if pauses is not None:
            time.sleep(next(pauses))
        return _row(_next(tokens), 9.0)

    return TableModel(rule, n_vocab=256, n_ctx=8192, vocab=VOCAB, name="target")


def half_right():
    """Sure where it is right, and mostly less sure where it is not."""

    def rule(tokens):
        right = (tokens[-1] + len(tokens)) % 3 != 0
        return _row(_next(tokens) if right else 65, 9.0 if right else 6.0)

    return TableModel(rule, n_vocab=256, n_ctx=8192, vocab=VOCAB, name="draft")
