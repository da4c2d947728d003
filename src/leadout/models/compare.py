"""Two vocabularies side by side: what a draft model's tokens mean to a target, before any weight is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from leadout.models.base import Vocabulary
from leadout.models.token_table import Key, TokenTable, read_table, table_of_vocabulary

MIN_AGREEMENT = 0.9
"""Least share of the target's tokens at the same ids for two vocabularies to count as one.

Versions of one tokenizer differ in control and reserved tokens only: at most some 1 % of the entries.
Other tokenizers agree on next to nothing: Qwen 2.5, SmolLM2 and Gemma 3 on under 0.04 % of theirs, pair by
pair. Any threshold between does; this one also lets a vocabulary of a dozen entries differ in one. What
differs is never proposed, so the choice bears on speed and not on what is said.
"""

MIN_SHARED = 0.02
"""Least share of the target's tokens that the draft must have at any id for a draft by shared tokens."""

Kind = Literal["identical", "padded", "listed", "shared", "text"]
"""*identical*; *padded*: identical up to rows without a token; *listed*: one vocabulary but for a few ids;
*shared*: two vocabularies that have tokens in common; *text*: nothing in common but what can be written."""

_N_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Comparison:
    """How the vocabularies of a target and a draft model relate.

    Parameters
    ----------
    kind : Kind
    target, draft : TokenTable
    n_tokens : int
        Target rows that have a token.
    n_same : int
        Ids with the same token on both sides.
    differing : tuple of int
        Where there is one vocabulary: draft ids that are something else to the target, or nothing,
        ascending; never to be proposed.
    to_target : int64 array, shape (draft rows,)
        The target's id of the same token, whatever its id; -1 where it has none. No target id occurs twice.
    share_by_use : float in 0..1 or None
        Share of a sample's tokens that the draft has; None without a sample.
    """

    kind: Kind
    target: TokenTable
    draft: TokenTable
    n_tokens: int
    n_same: int
    differing: tuple[int, ...]
    to_target: NDArray[np.int64]
    share_by_use: float | None = None

    @property
    def is_one_vocabulary(self) -> bool:
        """True when the draft model can read the target's ids as they are, and propose most of them."""
        return self.kind in ("identical", "padded", "listed")

    @property
    def agreement(self) -> float:
        """Share of the target's tokens that the draft model has at the same ids, 0..1."""
        return self.n_same / self.n_tokens if self.n_tokens else 0.0

    @property
    def n_shared(self) -> int:
        """Tokens that both have, at whatever ids."""
        return int(np.count_nonzero(self.to_target >= 0))

    @property
    def share_by_count(self) -> float:
        """Share of the target's tokens that the draft has at any id, 0..1."""
        return self.n_shared / self.n_tokens if self.n_tokens else 0.0

    @property
    def policies(self) -> tuple[str, ...]:
        """Differences in BOS, EOS and adding BOS, in words.

        They do not stand in the way: with one vocabulary the draft model is fed the target's ids, through a
        bridge it follows its own way; and the target decides when an answer ends.
        """
        return tuple(_policies(self))

    def with_sample(self, ids: Sequence[int]) -> Comparison:
        """The same, with the share of these target ids that the draft has."""
        used = [token for token in ids if 0 <= token < self.target.size]
        share = float(np.isin(used, self.to_target).mean()) if used else None
        return replace(self, share_by_use=share)

    def explain(self) -> str:
        """The verdict in one plain sentence, with what is ignored and what is never proposed."""
        if self.is_one_vocabulary:
            return ", ".join(["compatible", *self._exceptions(), *self.policies])
        if self.kind == "text":
            return "of another vocabulary that shares next to no tokens, so only text can be handed over"
        by_use = "" if self.share_by_use is None else f", {_percent(self.share_by_use)} by use"
        return (
            f"of another vocabulary that has {self.n_shared:,} of the target's {self.n_tokens:,} tokens "
            f"({_percent(self.share_by_count)}{by_use})"
        )

    def to_json(self) -> dict[str, object]:
        """Plain values for JSON."""
        return {
            "kind": self.kind,
            "explanation": self.explain(),
            "n_tokens": self.n_tokens,
            "n_same": self.n_same,
            "n_shared": self.n_shared,
            "share_by_count": self.share_by_count,
            "share_by_use": self.share_by_use,
            "n_differing": len(self.differing),
            "policies": list(self.policies),
            **{side: _summary(table) for side, table in (("target", self.target), ("draft", self.draft))},
        }

    def _exceptions(self) -> Iterator[str]:
        if self.differing:
            ids = [str(token) for token in self.differing[:_N_NAMED]]
            more = ["..."] if len(self.differing) > _N_NAMED else []
            named = ", ".join(ids + more)
            yield f"{_counted(len(self.differing), 'id')} never proposed (other text: {named})"
        missing = self.n_tokens - self.n_same
        if missing > len(self.differing):
            yield f"{_counted(missing, 'token')} of the target unknown to the draft"
        n_rows = abs(self.target.n_padding - self.draft.n_padding)
        if n_rows:
            yield f"{_counted(n_rows, 'row')} without a token ignored"


def compare(target: Vocabulary, draft: Vocabulary, *, sample: Sequence[int] = ()) -> Comparison:
    """Compare two loaded vocabularies; see `compare_tables`."""
    return compare_tables(table_of_vocabulary(target), table_of_vocabulary(draft), sample=sample)


def compare_files(target: Path, draft: Path, *, sample: Sequence[int] = ()) -> Comparison:
    """Compare two GGUF files, tokenizer.json files or folders with one; see `compare_tables`.

    Raises
    ------
    ModelFileError
        If a file is missing, damaged or of another kind.
    """
    return compare_tables(read_table(target), read_table(draft), sample=sample)


def compare_tables(target: TokenTable, draft: TokenTable, *, sample: Sequence[int] = ()) -> Comparison:
    """Compare two vocabularies: id by id, and by what tokens add to a text.

    Padding on both sides, or beyond the other's end, is no difference.

    Parameters
    ----------
    target, draft : TokenTable
    sample : sequence of int
        Ids of some text of the target's, to tell how much of what is used the draft has.
    """
    n_tokens = target.size - target.n_padding
    is_same = np.array([*map(_is_same, target.keys, draft.keys)], dtype=bool)
    n_same = int(np.count_nonzero(is_same))
    if n_tokens and n_same >= MIN_AGREEMENT * n_tokens:
        to_target = np.full(draft.size, -1, dtype=np.int64)
        to_target[: is_same.size][is_same] = np.flatnonzero(is_same)
        differing = [i for i in np.flatnonzero(to_target < 0).tolist() if draft.keys[i] is not None]
        is_exact = n_same == n_tokens and target.size == draft.size
        kind: Kind = "listed" if differing or n_same < n_tokens else "identical" if is_exact else "padded"
    else:
        to_target, differing = _shared_ids(target, draft), []
        kind = "shared" if np.count_nonzero(to_target >= 0) >= max(1, MIN_SHARED * n_tokens) else "text"
    comparison = Comparison(
        kind=kind,
        target=target,
        draft=draft,
        n_tokens=n_tokens,
        n_same=n_same,
        differing=tuple(differing),
        to_target=to_target,
    )
    return comparison.with_sample(sample)


def _is_same(ours: Key, theirs: Key) -> bool:
    """Whether two rows have the same token; one that is special on one side alone has the same text."""
    if type(ours) is type(theirs):
        return ours is not None and ours == theirs
    if isinstance(ours, str):
        return isinstance(theirs, bytes) and ours.encode() == theirs
    return isinstance(ours, bytes) and isinstance(theirs, str) and ours == theirs.encode()


def _shared_ids(target: TokenTable, draft: TokenTable) -> NDArray[np.int64]:
    """For each draft id the target's id of the same token, or -1; each target id once.

    Of several rows that write the same bytes (a letter and its byte fallback) the last of either side is
    meant, which is the ordinary one: byte entries come first in the vocabularies that have them.
    """
    ours = {key: token for token, key in enumerate(target.keys) if key is not None}
    theirs = {key: token for token, key in enumerate(draft.keys) if key is not None}
    to_target = np.full(draft.size, -1, dtype=np.int64)
    to_target[[*theirs.values()]] = [ours.get(key, -1) for key in theirs]
    _pair_ends(to_target, target, draft)
    return to_target


def _pair_ends(to_target: NDArray[np.int64], target: TokenTable, draft: TokenTable) -> None:
    """Let the ids that end a text stand for each other, unless their texts are known to the other side."""
    if target.eos is None or draft.eos is None:
        return
    if to_target[draft.eos] < 0 and target.eos not in to_target:
        to_target[draft.eos] = target.eos


def _policies(comparison: Comparison) -> Iterator[str]:
    target, draft = comparison.target, comparison.draft
    for name, ours, theirs in (("BOS", target.bos, draft.bos), ("EOS", target.eos, draft.eos)):
        if ours != theirs:
            yield f"{name} is {_id(ours)} in the target and {_id(theirs)} in the draft"
    if target.adds_bos != draft.adds_bos:
        who, other = ("target", "draft") if target.adds_bos else ("draft", "target")
        yield f"the {who} model adds BOS and the {other} does not"


def _summary(table: TokenTable) -> dict[str, object]:
    return {
        "n_rows": table.size,
        "n_padding": table.n_padding,
        "n_special": len(table.specials),
        "bos": table.bos,
        "eos": table.eos,
        "adds_bos": table.adds_bos,
        "tokenizer": table.kind,
        "pre_tokenizer": table.pre_tokenizer,
        "writes_any_text": table.writes_any_text,
    }


def _id(token: int | None) -> str:
    return "none" if token is None else f"id {token}"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def _percent(share: float) -> str:
    """A share in percent, rounded down so that only equality reads as 100 %."""
    return f"{int(share * 1_000) / 10:g} %"
