"""Which file of a repository is meant: by name, by quantisation, or by the default preference."""

from __future__ import annotations

import re
from collections.abc import Sequence

from leadout.errors import StoreError
from leadout.store.split import FileGroup, group_files

PREFERENCE = (
    "Q4_K_M",
    "Q4_0",
    "Q8_0",
    "Q5_K_M",
    "Q6_K",
    "Q4_K_S",
    "Q4_1",
    "IQ4_XS",
    "IQ4_NL",
    "Q5_K_S",
    "Q5_0",
    "Q5_1",
    "Q3_K_M",
    "MXFP4",
    "BF16",
    "F16",
    "F32",
)
"""Order in which a quantisation is chosen for a name that asks for none."""

_MAX_LISTED = 12


def choose_files(names: Sequence[str], choice: str | None, *, where: str) -> tuple[str, ...]:
    """Choose one model among the files of a repository.

    Parameters
    ----------
    names : sequence of str
        All files there, with forward slashes.
    choice : str or None
        A file name (ends in .gguf), a quantisation such as Q4_K_M in any case, or None: the only model there
        is, else the first of `PREFERENCE` that occurs.
    where : str
        For messages: the repository.

    Returns
    -------
    tuple of str
        The file, or all parts of it in order.

    Raises
    ------
    StoreError
        If nothing fits, several fit, or a part is missing; what there is gets listed.
    """
    groups = group_files(names)
    if not groups:
        raise StoreError(
            f"{where} holds no GGUF model; only .gguf files can be loaded, name another repository"
        )
    fitting = _fitting(groups, choice)
    if not fitting:
        asked = f"no {choice!r}" if choice else f"none of {', '.join(PREFERENCE)}"
        raise StoreError(f"{where} has {asked}; name one of its files: {_listed(groups)}")
    if len(fitting) > 1:
        asked = f"{choice!r} fits" if choice else "the default fits"
        raise StoreError(f"{asked} {len(fitting)} files of {where}; name one of them: {_listed(fitting)}")
    if fitting[0].missing:
        raise StoreError(
            f"{where} lacks {fitting[0].missing[0]!r}, one of {len(fitting[0].files)} parts; "
            "name another file"
        )
    return fitting[0].files


def _fitting(groups: list[FileGroup], choice: str | None) -> list[FileGroup]:
    if choice is None:
        if len(groups) == 1:
            return groups
        by_preference = ([g for g in groups if _has_quant(g, quant)] for quant in PREFERENCE)
        return next((found for found in by_preference if found), [])
    if choice.lower().endswith(".gguf"):
        exact = [g for g in groups if choice in g.files]
        return exact or [g for g in groups if any(file.endswith(f"/{choice}") for file in g.files)]
    return [g for g in groups if _has_quant(g, choice)]


def _has_quant(group: FileGroup, quant: str) -> bool:
    """Whether the quantisation is a whole word of the name: Q4_K does not fit Q4_K_M, nor Q4_NL IQ4_NL."""
    word = rf"(?<![A-Za-z0-9]){re.escape(quant)}(?![A-Za-z0-9_])"
    return re.search(word, group.files[0], re.IGNORECASE) is not None


def _listed(groups: list[FileGroup]) -> str:
    names = [group.files[0] for group in groups]
    more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    return ", ".join(names[:_MAX_LISTED]) + more
