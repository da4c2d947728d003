"""A vocabulary of bytes with a chat template, models over it, and answers with given times."""

from leadout.bench.answer import Answer
from leadout.bench.runner import Taken
from leadout.engine.events import Finished, Round, Speculation, Started, Token
from leadout.testing import PieceVocabulary, TableModel, saying

CHATML = (
    "{% for message in messages %}<{{ message.role }}>{{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
VOCAB = PieceVocabulary([bytes([i]) for i in range(256)], chat_template=CHATML)
ON = Speculation(enabled=True, reason="on: draft x, fixed k=2", drafter="x", verification="greedy")


def talker(shift=1, *, vocab=VOCAB, n_ctx=4096, name="talker"):
    """Says the letters of the alphabet on and on; with another `shift`, others."""
    return TableModel(
        saying(lambda tokens: 97 + (tokens[-1] + shift) % 26, 256),
        n_vocab=256,
        n_ctx=n_ctx,
        vocab=vocab,
        name=name,
    )


def one_round(drafted=0, accepted=0, *, verify_s=1.0, draft_s=0.0, other_s=0.0):
    return Round(
        index=0, drafter="x", drafted=drafted, accepted=accepted, emitted=accepted + 1,
        draft_s=draft_s, verify_s=verify_s, other_s=other_s,
    )  # fmt: skip


def events(ids, rounds, first_s=1.0):
    yield Started(index=0, prompt_tokens=3, cached_tokens=0, seconds=first_s, speculation=ON)
    for token in ids:
        yield Token(index=0, token=token, origin="plain", text="")
    yield from rounds
    yield Finished(index=0, reason="length", text="", speculation=ON)


def answer(ids, decode_s, *, first_s=1.0, **more):
    return Answer(ids=tuple(ids), first_s=first_s, decode_s=decode_s, **more)


def taken(contender, given, *, workload="chat", unit="a", call=0, repeat=0):
    return Taken(
        workload=workload,
        unit=unit,
        call=call,
        repeat=repeat,
        contender=contender,
        prompt_tokens=3,
        answer=given,
    )
