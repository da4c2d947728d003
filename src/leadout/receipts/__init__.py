"""Receipts: what is needed to decode an answer once more, plainly, and see that it is the same.

A receipt is no signature: its hash shows that it was changed, not who wrote it.
"""

from leadout.receipts.make import make_receipt, replayable, require_receiptable
from leadout.receipts.receipt import AnswerRecord, ModelRecord, PromptRecord, Receipt, read_receipt
from leadout.receipts.replay import Difference, Replay, open_target, replay

__all__ = [
    "AnswerRecord",
    "Difference",
    "ModelRecord",
    "PromptRecord",
    "Receipt",
    "Replay",
    "make_receipt",
    "open_target",
    "read_receipt",
    "replay",
    "replayable",
    "require_receiptable",
]
