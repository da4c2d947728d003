"""The Model seam: what the engine and the drafters may ask of any backend.

Knows nothing of sampling, drafting or requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from leadout.models.options import GgufOptions

Rollback = Literal["cut", "replay", "none"]
"""How a cache goes back to a shorter prefix: *cut* drops entries; *replay* restores a snapshot and decodes
again (recurrent and hybrid caches); *none* cannot, so speculation is off for that model."""

Copying = Literal["any", "whole", "none"]
"""What `copy` can take over without decoding it again: *any* prefix of a slot, *whole* slots, or nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInfo:
    """What is known of a loaded model.

    Parameters
    ----------
    name, path, provider, architecture
        For reports: the name asked for, the file, the library that runs it, the model family.
    n_layers, n_params, n_bytes : int
        Size of the network and of its weights in memory.
    n_ctx : int
        Positions per slot; n_ctx_train is what the model was trained for.
    n_slots : int
        Independent sequences the cache can hold.
    n_vocab : int
        Rows of the output layer (`V`); may exceed the number of real tokens.
    rollback : Rollback
        How `truncate` works; `rollback_reason` says why when it is not "cut".
    provider_reason : str
        Why this provider was chosen.
    copying : Copying
        What a slot can cheaply take over from another one.
    shares_passes : bool
        False when a pass over several slots is one pass for each: it saves nothing, and the bits of a slot
        do not depend on the others.
    provider_version : str
        Of the library that runs it.
    options : GgufOptions or None
        What it was loaded with, where it is a file.
    """

    name: str
    path: Path | None
    provider: str
    architecture: str
    n_layers: int
    n_params: int
    n_bytes: int
    n_ctx: int
    n_ctx_train: int
    n_slots: int
    n_vocab: int
    rollback: Rollback
    rollback_reason: str = ""
    provider_reason: str = ""
    copying: Copying = "any"
    shares_passes: bool = True
    provider_version: str = ""
    options: GgufOptions | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Tokens to append to one slot in a forward pass.

    Parameters
    ----------
    slot : int
        0..n_slots-1.
    tokens : sequence of int, length >= 1
        Appended at positions length(slot), length(slot)+1, ...
    n_logits : int
        Logits are returned for the last `n_logits` of these tokens, 0..len(tokens).
    """

    slot: int
    tokens: Sequence[int]
    n_logits: int


class Vocabulary(Protocol):
    """A model's tokens and how text becomes ids and back."""

    @property
    def size(self) -> int:
        """Rows of the output layer, padding rows included."""

    @property
    def bos(self) -> int | None:
        """Id that begins a sequence, or None."""

    @property
    def eos(self) -> int | None:
        """Id that ends a sequence, or None."""

    @property
    def adds_bos(self) -> bool:
        """True when prompts of this model begin with `bos`."""

    @property
    def chat_template(self) -> str | None:
        """The model's own Jinja chat template, or None."""

    def is_end(self, token: int) -> bool:
        """True when `token` ends the answer (end of sequence, end of turn)."""

    def text(self, token: int) -> str:
        """The vocabulary entry itself, as stored; what two vocabularies are compared by."""

    def piece(self, token: int, *, special: bool = False) -> bytes:
        """Bytes that `token` adds to the text; control tokens give b"" unless `special`."""

    def encode(self, text: str, *, add_bos: bool, special: bool) -> list[int]:
        """Ids of `text`; with `special`, marker texts such as <|im_start|> become single ids."""


class Model(Protocol):
    """A language model with a key-value cache of `n_slots` independent sequences."""

    @property
    def info(self) -> ModelInfo:
        """What is known of this model."""

    @property
    def vocab(self) -> Vocabulary:
        """Its tokens."""

    def forward(self, chunks: Sequence[Chunk]) -> list[NDArray[np.float32]]:
        """Append each chunk to its slot, all slots in one pass.

        Returns
        -------
        list of float32 arrays
            One per chunk, shape (n_logits, V), valid until the next call on this model (they may be views).

        Raises
        ------
        BackendError
            If an id is outside 0..V-1 (named), a slot would exceed n_ctx, or the pass fails. After a failure
            every slot has the length it had before the call.
        """

    def length(self, slot: int) -> int:
        """Tokens the slot's cache holds."""

    def truncate(self, slot: int, length: int) -> None:
        """Cut the slot's cache to its first `length` tokens.

        Raises
        ------
        RollbackError
            If the cache cannot go back there. The slot is then empty, never wrong.
        """

    def copy(self, source: int, target: int, length: int) -> None:
        """Make `target` hold the first `length` tokens of `source`; what it held before is dropped."""

    def exact_widths(self) -> frozenset[int]:
        """Widths w for which one pass of w tokens gives the same bits as w passes of one token.

        Measured on this machine with this model and cached; 1 is always a member.
        """

    def close(self) -> None:
        """Free the memory; the model cannot be used afterwards. Closing twice is allowed."""
