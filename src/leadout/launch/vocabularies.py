"""leadout's own comparison of target and draft vocabulary, before any engine is asked.

Most engines compare a size or nothing, and then draft in vain. Reads GGUF metadata or tokenizer.json, never
weights.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from leadout.errors import ModelFileError
from leadout.models.compare import Kind, compare_files

Agreement = Literal["same", "padded", "close", "different", "unknown"]
_AGREEMENTS: Mapping[Kind, Agreement] = MappingProxyType(
    {"identical": "same", "padded": "padded", "listed": "close", "shared": "different", "text": "different"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How far two vocabularies agree.

    Parameters
    ----------
    agreement : Agreement
        "same": every token, and as many rows. "padded": every token, but a number of rows that differs by
        padding. "close": few ids differ, as between versions of one tokenizer. "different": the draft model
        cannot draft with ids. "unknown": the files are not on this machine.
    sentence : str
        The finding in words.
    n_target, n_draft : int
        Rows of the two output layers; 0 where unknown.
    """

    agreement: Agreement
    sentence: str
    n_target: int = 0
    n_draft: int = 0


def compare(target: Path | None, draft: Path | None) -> Verdict:
    """Compare two models' vocabularies by their files: a GGUF file, or a folder with tokenizer.json.

    Raises
    ------
    ModelFileError
        If a file is damaged, or has no vocabulary.
    """
    if target is None or draft is None:
        return Verdict(
            agreement="unknown",
            sentence="the vocabularies were not compared, as the models are not on this machine",
        )
    found = compare_files(target, draft)
    return Verdict(
        agreement=_AGREEMENTS[found.kind],
        sentence=f"the draft's vocabulary is {found.explain()}",
        n_target=found.target.size,
        n_draft=found.draft.size,
    )


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file.

    Raises
    ------
    ModelFileError
        If it is missing or no JSON object.
    """
    try:
        read = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ModelFileError(f"{path} is missing; a model folder needs it, fetch the model again") from error
    except (OSError, ValueError) as error:
        raise ModelFileError(f"{path} cannot be read: {error}; fetch the model again") from error
    if not isinstance(read, dict):
        raise ModelFileError(f"{path} is not a JSON object; fetch the model again")
    return read
