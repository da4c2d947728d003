"""What a tiny model is made of: one frozen value, and the vocabulary that follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypedDict

from leadout.errors import InputError
from leadout.testing.tiny_vocab import (
    NORMAL,
    UNUSED,
    TinyVocabulary,
    bpe_vocabulary,
    gemma_vocabulary,
    spm_vocabulary,
)

Architecture = Literal["llama", "qwen2", "gemma3", "mamba"]
Tokenizer = Literal["bpe", "spm"]
TensorType = Literal["F32", "F16", "Q8_0"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TinyModel:
    """What a tiny model file holds; the keywords of `write_tiny_gguf`.

    Parameters
    ----------
    architecture : {"llama", "qwen2", "gemma3", "mamba"}
        gemma3 has a sliding window in all but every sixth layer; mamba is recurrent. ik_llama.cpp
        (wheel 0.1.5) kills the process on mamba, and on a gemma3 of fewer than six layers.
    tokenizer : {"bpe", "spm"} or None
        None: SPM for llama and gemma3, BPE for qwen2 and mamba.
    seed, perturb : int, float in [0, 1]
        Weights are drawn from `seed`; `perturb` is the share of other noise in the layers (0 none, 1 all).
    n_layers, n_ctx_train, sliding_window : int or None, int, int
        Size of the network (None: 6 for gemma3, else 2), its context and gemma3's window in tokens.
    n_vocab : int or None
        Tokens without padding; more than the tokenizer's own are filled with ``<extra_ID>``.
    n_pad : int
        Rows without a token after them, written as converters do: ``[PADid]``, type unused.
    tokens, types : mappings by id
        Entries that differ from the tokenizer's own: text, and GGUF token type.
    bos, eos, add_bos : int, int, bool, or None
        None: the tokenizer's own.
    chat_template : str or None
        A Jinja template to store.
    tensor_type : {"F32", "F16", "Q8_0"}
        How matrices are stored; vectors are always F32.
    output_scale : mapping of id to float
        Factor on the output row of an id, instead of 1 (0.1 for control and padding tokens).
    name : str
        The model's name.
    """

    architecture: Architecture = "llama"
    tokenizer: Tokenizer | None = None
    seed: int = 0
    perturb: float = 0.0
    n_layers: int | None = None
    n_ctx_train: int = 512
    sliding_window: int = 16
    n_vocab: int | None = None
    n_pad: int = 0
    tokens: Mapping[int, str] = field(default_factory=dict)
    types: Mapping[int, int] = field(default_factory=dict)
    bos: int | None = None
    eos: int | None = None
    add_bos: bool | None = None
    chat_template: str | None = None
    tensor_type: TensorType = "F32"
    output_scale: Mapping[int, float] = field(default_factory=dict)
    name: str = "tiny"

    @property
    def depth(self) -> int:
        """Layers of the network."""
        usual = (
            6 if self.architecture == "gemma3" else 2
        )  # every sixth layer of Gemma 3 sees the whole context
        return usual if self.n_layers is None else self.n_layers


class TinyOptions(TypedDict, total=False):
    """The fields of `TinyModel`, as keywords."""

    architecture: Architecture
    tokenizer: Tokenizer | None
    seed: int
    perturb: float
    n_layers: int | None
    n_ctx_train: int
    sliding_window: int
    n_vocab: int | None
    n_pad: int
    tokens: Mapping[int, str]
    types: Mapping[int, int]
    bos: int | None
    eos: int | None
    add_bos: bool | None
    chat_template: str | None
    tensor_type: TensorType
    output_scale: Mapping[int, float]
    name: str


def vocabulary_of(model: TinyModel) -> TinyVocabulary:
    """The vocabulary of `model`, padding rows included.

    Raises
    ------
    InputError
        If an option does not fit; the message names it.
    """
    bpe = model.tokenizer == "bpe" or (model.tokenizer is None and model.architecture in ("qwen2", "mamba"))
    spm = gemma_vocabulary if model.architecture == "gemma3" else spm_vocabulary
    base = bpe_vocabulary() if bpe else spm()
    n_own = len(base.tokens)
    n_vocab = n_own if model.n_vocab is None else model.n_vocab
    if n_vocab < n_own:
        raise InputError(f"n_vocab is {n_vocab}; this tokenizer needs at least {n_own}")
    n_rows = n_vocab + model.n_pad
    for token in (*model.tokens, *model.types, *model.output_scale, model.bos or 0, model.eos or 0):
        if not 0 <= token < n_rows:
            raise InputError(f"an option names id {token}; the model has ids 0..{n_rows - 1}")
    tokens = [*base.tokens, *(f"<extra_{i}>" for i in range(n_own, n_vocab))]
    tokens += [f"[PAD{i}]" for i in range(n_vocab, n_rows)]
    types = [*base.types, *[NORMAL] * (n_vocab - n_own), *[UNUSED] * model.n_pad]
    return replace(
        base,
        tokens=tuple(model.tokens.get(i, text) for i, text in enumerate(tokens)),
        types=tuple(model.types.get(i, kind) for i, kind in enumerate(types)),
        scores=(*base.scores, *[-1e6] * (n_rows - n_own)),
        bos=base.bos if model.bos is None else model.bos,
        eos=base.eos if model.eos is None else model.eos,
        adds_bos=base.adds_bos if model.add_bos is None else model.add_bos,
    )
