"""How two files' vocabularies go together: as much of a comparison as advice needs and can be kept."""

from __future__ import annotations

from dataclasses import dataclass

from leadout.models.compare import compare_tables
from leadout.models.header import Header
from leadout.models.token_table import table_of_header


@dataclass(frozen=True, slots=True, kw_only=True)
class VocabularyVerdict:
    """How a draft's vocabulary relates to a target's.

    Parameters
    ----------
    kind : str
        See `leadout.models.compare.Kind`.
    is_same : bool
        Whether ids mean the same, but for a few that are never proposed; if not, drafts go over a bridge.
    text : str
        In words.
    """

    kind: str
    is_same: bool
    text: str


def compare(target: Header, draft: Header) -> VocabularyVerdict:
    """Compare two vocabularies without loading either model."""
    found = compare_tables(table_of_header(target), table_of_header(draft))
    return VocabularyVerdict(
        kind=found.kind,
        is_same=found.is_one_vocabulary,
        text=found.explain(),
    )
