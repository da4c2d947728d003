"""Can a draft model's vocabulary draft for a target's?

Compares entries id by id. Knows nothing of models or files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from leadout.errors import VocabularyError
from leadout.models.base import Vocabulary

MIN_AGREEMENT = 0.9
"""Least share of the target's tokens that a draft model must have at the same ids.

Versions of one tokenizer differ in control and reserved tokens only: at most some 1 % of the entries.
Other tokenizers agree on next to nothing: Qwen 2.5, SmolLM2 and Gemma 3 on under 0.04 % of theirs, pair by
pair. Any threshold between does; this one also lets a vocabulary of a dozen entries differ in one. What
differs is never proposed, so the choice bears on speed and not on what is said.
"""

_N_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class VocabularyMatch:
    """How far the vocabularies of a target and a draft model agree.

    Parameters
    ----------
    target_size, draft_size : int
        Rows of the two output layers.
    n_tokens : int
        Target rows that have a token.
    n_shared : int
        Ids with the same token on both sides.
    differing : tuple of int
        Ids below both sizes whose entries differ, ascending; never to be proposed.
    target_padding, draft_padding : int
        Rows without a token.
    policies : tuple of str
        Differences in BOS, EOS and adding BOS, in words. They do not stand in the way: the draft model is fed
        the target's ids, and the target decides when an answer ends.
    """

    target_size: int
    draft_size: int
    n_tokens: int
    n_shared: int
    differing: tuple[int, ...]
    target_padding: int
    draft_padding: int
    policies: tuple[str, ...]

    @property
    def agreement(self) -> float:
        """Share of the target's tokens that the draft model has at the same ids, 0..1."""
        return self.n_shared / self.n_tokens if self.n_tokens else 0.0

    @property
    def usable(self) -> bool:
        """True when the draft model can draft for the target."""
        return self.agreement >= MIN_AGREEMENT

    def explain(self) -> str:
        """The match in one plain sentence, with what is ignored and what is never proposed."""
        verdict = "compatible" if self.usable else "not compatible"
        return f"{verdict}: {'; '.join(self._findings())}"

    def _findings(self) -> Iterator[str]:
        share = _percent(self.agreement)
        yield f"{self.n_shared:,} of the target's {self.n_tokens:,} tokens ({share}) are the same"
        if self.differing:
            ids = [str(token) for token in self.differing[:_N_NAMED]]
            more = ["..."] if len(self.differing) > _N_NAMED else []
            named = ", ".join(ids + more)
            yield f"{_counted(len(self.differing), 'id')} never proposed (other text: {named})"
        for side, count in (("target", self.target_padding), ("draft", self.draft_padding)):
            if count:
                yield f"{_counted(count, 'row')} without a token ignored ({side})"
        yield from self.policies


def match_vocabularies(target: Vocabulary, draft: Vocabulary) -> VocabularyMatch:
    """Compare two vocabularies id by id.

    A row is padding when its entry is empty or the ``[PADid]`` that converters write; padding on both sides,
    or beyond the other's end, is no difference.
    """
    target_texts, draft_texts = _texts(target), _texts(draft)
    pairs = list(zip(target_texts, draft_texts, strict=False))
    return VocabularyMatch(
        target_size=target.size,
        draft_size=draft.size,
        n_tokens=sum(text is not None for text in target_texts),
        n_shared=sum(ours is not None and ours == theirs for ours, theirs in pairs),
        differing=tuple(i for i, (ours, theirs) in enumerate(pairs) if ours != theirs),
        target_padding=target_texts.count(None),
        draft_padding=draft_texts.count(None),
        policies=tuple(_policies(target, draft)),
    )


def require_same_vocabulary(target: Vocabulary, draft: Vocabulary) -> VocabularyMatch:
    """The match of two vocabularies, if the draft model can draft for the target.

    Raises
    ------
    VocabularyError
        If it cannot; names the first differing ids with both texts, and the share that agrees.
    """
    match = match_vocabularies(target, draft)
    if match.usable:
        return match
    named = "; ".join(
        f"id {i} is {target.text(i)!r} in the target, {draft.text(i)!r} in the draft"
        for i in match.differing[:_N_NAMED]
    )
    missing = f"the draft ends at id {match.draft_size - 1:,}, the target at {match.target_size - 1:,}"
    raise VocabularyError(
        f"the draft model's vocabulary cannot draft for the target's: {_percent(match.agreement)} of the "
        f"target's tokens are the same, {_percent(MIN_AGREEMENT)} are needed ({named or missing}); "
        "take a draft model of the target's family, or --draft ngram "
        "(drafting across vocabularies is planned)"
    )


def _texts(vocab: Vocabulary) -> list[str | None]:
    """Each row's entry, None for padding."""
    entries = [vocab.text(token) for token in range(vocab.size)]
    return [None if _is_padding(i, text) else text for i, text in enumerate(entries)]


def _is_padding(token: int, text: str) -> bool:
    return not text or (text.startswith("[PAD") and text == f"[PAD{token}]")


def _policies(target: Vocabulary, draft: Vocabulary) -> Iterator[str]:
    for name, ours, theirs in (("BOS", target.bos, draft.bos), ("EOS", target.eos, draft.eos)):
        if ours != theirs:
            yield f"{name} is {_id(ours)} in the target, {_id(theirs)} in the draft"
    if target.adds_bos != draft.adds_bos:
        who, other = ("target", "draft") if target.adds_bos else ("draft", "target")
        yield f"the {who} model adds BOS, the {other} does not; the target's way is used for both"


def _id(token: int | None) -> str:
    return "none" if token is None else f"id {token}"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def _percent(share: float) -> str:
    """A share in percent, rounded down so that only equality reads as 100 %."""
    return f"{int(share * 10_000) / 100:g} %"
