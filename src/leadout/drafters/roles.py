"""Which special tokens of two vocabularies play the same part."""

from __future__ import annotations

from leadout.models.base import Vocabulary
from leadout.models.compare import Comparison
from leadout.models.token_table import TokenTable

_BEGINS_TURN = ("<|im_start|>", "<start_of_turn>", "<|start_of_turn|>", "<|turn>", "<|start|>")


def matching_markers(target: Vocabulary, draft: Vocabulary, comparison: Comparison) -> dict[int, int]:
    """The draft's marker for each of the target's that it has: by text, else by role.

    Roles are the beginning of a turn, and its end.
    """
    ours, theirs = comparison.target.specials, comparison.draft.specials
    markers = {token: theirs[text] for text, token in ours.items() if text in theirs}
    begins = [next((side[text] for text in _BEGINS_TURN if text in side), None) for side in (ours, theirs)]
    if begins[0] is not None and begins[1] is not None:
        markers.setdefault(begins[0], begins[1])
    end = _usual_end(draft, comparison.draft)
    if end is not None:
        for token in ours.values():
            if target.is_end(token):
                markers.setdefault(token, end)
    return markers


def end_of_turn(target: Vocabulary, draft: Vocabulary, comparison: Comparison) -> dict[int, int]:
    """For each of the draft's ids that end an answer, the target's id that ends one."""
    end = _usual_end(target, comparison.target)
    if end is None:
        return {}
    known = {text: token for text, token in comparison.target.specials.items() if target.is_end(token)}
    return {
        token: known.get(text, end)
        for text, token in comparison.draft.specials.items()
        if draft.is_end(token)
    }


def _usual_end(vocab: Vocabulary, table: TokenTable) -> int | None:
    """The id that ends an answer: the one that the chat template writes, else the one that ends a text."""
    template = vocab.chat_template or ""
    ends = [token for text, token in table.specials.items() if vocab.is_end(token) and text in template]
    return ends[0] if ends else table.eos
