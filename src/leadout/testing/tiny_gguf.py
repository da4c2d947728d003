"""Writes tiny GGUF model files with seeded random weights, to test real backends in milliseconds.

What a test can expect of such a model:

- Logits are finite and spread (standard deviation about 3); greedy output wanders (well over ten different
  ids in 48) and differs between seeds. The text is mostly random bytes.
- Control and padding tokens have a small output row and are next to never produced. A test that wants an
  end token makes an ordinary one the `eos`, or lifts a row with `output_scale`.
- Weights depend on (seed, tensor name, row) alone: models that differ in layers or padding rows share the
  rest. `perturb` mixes other noise into the layers: a draft model that agrees with its target now and then.

Needs the `gguf` package (the `dev` extra); it is imported when a file is written.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from leadout.errors import InputError
from leadout.testing.tiny_vocab import (
    CONTROL,
    NORMAL,
    UNUSED,
    TinyVocabulary,
    bpe_vocabulary,
    gemma_vocabulary,
    spm_vocabulary,
)

if TYPE_CHECKING:
    from gguf import GGUFWriter

Architecture = Literal["llama", "qwen2", "gemma3", "mamba"]
Tokenizer = Literal["bpe", "spm"]
TensorType = Literal["F32", "F16", "Q8_0"]

_N_EMBD, _N_FF, _N_HEAD, _N_HEAD_KV, _HEAD = 64, 128, 2, 1, 32
_SSM_INNER, _SSM_STATE, _SSM_RANK, _SSM_CONV = 128, 16, 32, 4
_QUIET = 0.1  # factor on the output rows of control and padding tokens
_SPREAD = 3.0  # standard deviation of the logits

Weights = dict[str, NDArray[np.float32]]


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


def write_tiny_gguf(path: Path, **options: Unpack[TinyOptions]) -> Path:
    """Write a tiny model (well under 1 MB) to `path` and return it; keywords as in `TinyModel`.

    Raises
    ------
    InputError
        If an option does not fit the others; the message names it.
    """
    _write(path, TinyModel(**options), split_max_tensors=0)
    return path


def write_split_gguf(path: Path, n_parts: int, **options: Unpack[TinyOptions]) -> tuple[Path, ...]:
    """Write a tiny model as `n_parts` files ``STEM-00001-of-0000N.gguf`` beside `path`; returns them.

    Raises
    ------
    InputError
        If an option does not fit, or the model's tensors cannot be dealt out to exactly `n_parts` files.
    """
    model = TinyModel(**options)
    n_tensors = len(_weights(model, _vocabulary(model)))
    per_part = -(-n_tensors // n_parts) if n_parts >= 1 else 0
    if n_parts < 2 or -(-n_tensors // per_part) != n_parts:
        raise InputError(f"n_parts is {n_parts}; {n_tensors} tensors cannot be dealt out to that many files")
    _write(path, model, split_max_tensors=per_part)
    names = (f"{path.stem}-{part:05d}-of-{n_parts:05d}.gguf" for part in range(1, n_parts + 1))
    return tuple(path.with_name(name) for name in names)


def tiny_vocabulary(**options: Unpack[TinyOptions]) -> TinyVocabulary:
    """The vocabulary that `write_tiny_gguf` would store for the same keywords, padding rows included."""
    return _vocabulary(TinyModel(**options))


def _vocabulary(model: TinyModel) -> TinyVocabulary:
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


def _matrix(model: TinyModel, name: str, rows: int, columns: int, scale: float = 1.0) -> NDArray[np.float32]:
    """Normal draws, standard deviation scale / sqrt(columns), keyed by (seed, name, row); (rows, columns)."""
    key = zlib.crc32(name.encode())
    draws = np.random.default_rng([model.seed, key]).standard_normal((rows, columns))
    if model.perturb and name.startswith("blk."):
        other = np.random.default_rng([model.seed, key, 1]).standard_normal((rows, columns))
        draws = np.sqrt(1 - model.perturb**2) * draws + model.perturb * other
    scaled: NDArray[np.float32] = (draws * scale / np.sqrt(columns)).astype(np.float32)
    return scaled


def _constant(n: int, value: float) -> NDArray[np.float32]:
    return np.full(n, value, dtype=np.float32)


def _weights(model: TinyModel, vocabulary: TinyVocabulary) -> Weights:
    n_rows = len(vocabulary.tokens)
    loudness = np.ones((n_rows, 1), dtype=np.float32)
    for token, kind in enumerate(vocabulary.types):
        loudness[token] = model.output_scale.get(token, _QUIET if kind in (CONTROL, UNUSED) else 1.0)
    embedding = _matrix(model, "token_embd", n_rows, _N_EMBD, np.sqrt(_N_EMBD))
    norm = _constant(_N_EMBD, 1.0)
    weights: Weights = {"token_embd.weight": embedding, "output_norm.weight": norm}
    if model.architecture == "gemma3":
        # The output layer is the embedding. Random signs keep a token from always predicting itself.
        signs = np.sign(_matrix(model, "output_norm", 1, _N_EMBD))[0]
        weights["token_embd.weight"] = embedding * loudness
        weights["output_norm.weight"] = signs * np.float32(_SPREAD / np.sqrt(_N_EMBD))
    else:
        weights["output.weight"] = _matrix(model, "output", n_rows, _N_EMBD, _SPREAD) * loudness
    for layer in range(model.depth):
        make = _mamba_layer if model.architecture == "mamba" else _attention_layer
        weights |= {f"blk.{layer}.{name}": data for name, data in make(model, f"blk.{layer}").items()}
    return weights


def _attention_layer(model: TinyModel, layer: str) -> Weights:
    n_q, n_kv = _N_HEAD * _HEAD, _N_HEAD_KV * _HEAD
    shapes = {
        "attn_q": (n_q, _N_EMBD),
        "attn_k": (n_kv, _N_EMBD),
        "attn_v": (n_kv, _N_EMBD),
        "attn_output": (_N_EMBD, n_q),
        "ffn_gate": (_N_FF, _N_EMBD),
        "ffn_up": (_N_FF, _N_EMBD),
        "ffn_down": (_N_EMBD, _N_FF),
    }
    weights = {
        f"{name}.weight": _matrix(model, f"{layer}.{name}", *shape, 2.0) for name, shape in shapes.items()
    }
    weights |= {f"{name}.weight": _constant(_N_EMBD, 1.0) for name in ("attn_norm", "ffn_norm")}
    if model.architecture == "qwen2":
        for name in ("attn_q", "attn_k", "attn_v"):
            weights[f"{name}.bias"] = _matrix(model, f"{layer}.{name}.bias", 1, shapes[name][0])[0]
    if model.architecture == "gemma3":
        loud = np.sqrt(np.float32(_N_EMBD))  # as loud as Gemma's scaled embedding
        weights["post_attention_norm.weight"] = _constant(_N_EMBD, loud / 2)
        weights["post_ffw_norm.weight"] = _constant(_N_EMBD, loud)
        # Sharp attention: an average over the whole context would say the same token for ever.
        weights |= {f"{name}.weight": _constant(_HEAD, 2.0) for name in ("attn_q_norm", "attn_k_norm")}
    return weights


def _mamba_layer(model: TinyModel, layer: str) -> Weights:
    shapes = {
        "ssm_in": (2 * _SSM_INNER, _N_EMBD),
        "ssm_x": (_SSM_RANK + 2 * _SSM_STATE, _SSM_INNER),
        "ssm_dt": (_SSM_INNER, _SSM_RANK),
        "ssm_out": (_N_EMBD, _SSM_INNER),
        "ssm_conv1d": (_SSM_INNER, _SSM_CONV),
    }
    weights = {
        f"{name}.weight": _matrix(model, f"{layer}.{name}", *shape, 2.0) for name, shape in shapes.items()
    }
    decay = -np.arange(1, _SSM_STATE + 1, dtype=np.float32)
    return weights | {
        "attn_norm.weight": _constant(_N_EMBD, 1.0),
        "ssm_conv1d.bias": _constant(_SSM_INNER, 0.0),
        "ssm_dt.bias": _constant(_SSM_INNER, -2.0),
        "ssm_a": np.tile(decay, (_SSM_INNER, 1)),
        "ssm_d": _constant(_SSM_INNER, 1.0),
    }


def _write(path: Path, model: TinyModel, *, split_max_tensors: int) -> None:
    from gguf import GGMLQuantizationType, GGUFWriter
    from gguf.quants import quantize

    vocabulary = _vocabulary(model)
    writer = GGUFWriter(path, model.architecture, split_max_tensors=split_max_tensors)
    _add_facts(writer, model, len(vocabulary.tokens))
    _add_vocabulary(writer, model, vocabulary)
    stored = GGMLQuantizationType[model.tensor_type]
    for name, data in _weights(model, vocabulary).items():
        is_matrix = data.ndim == 2 and name.endswith(".weight") and "conv1d" not in name
        kind = stored if is_matrix else GGMLQuantizationType.F32
        writer.add_tensor(name, quantize(data, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_facts(writer: GGUFWriter, model: TinyModel, n_rows: int) -> None:
    writer.add_type("model")
    writer.add_name(model.name)
    writer.add_block_count(model.depth)
    writer.add_context_length(model.n_ctx_train)
    writer.add_embedding_length(_N_EMBD)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_vocab_size(n_rows)
    if model.architecture == "mamba":
        writer.add_feed_forward_length(0)
        writer.add_head_count(0)
        writer.add_ssm_conv_kernel(_SSM_CONV)
        writer.add_ssm_inner_size(_SSM_INNER)
        writer.add_ssm_state_size(_SSM_STATE)
        writer.add_ssm_time_step_rank(_SSM_RANK)
        return
    writer.add_feed_forward_length(_N_FF)
    writer.add_head_count(_N_HEAD)
    writer.add_head_count_kv(_N_HEAD_KV)
    writer.add_key_length(_HEAD)
    writer.add_value_length(_HEAD)
    writer.add_rope_dimension_count(_HEAD)
    writer.add_rope_freq_base(10000.0)
    if model.architecture == "gemma3":
        writer.add_sliding_window(model.sliding_window)


def _add_vocabulary(writer: GGUFWriter, model: TinyModel, vocabulary: TinyVocabulary) -> None:
    writer.add_tokenizer_model(vocabulary.kind)
    writer.add_tokenizer_pre("qwen2" if model.architecture == "qwen2" else "default")
    writer.add_token_list(vocabulary.tokens)
    writer.add_token_types(vocabulary.types)
    if vocabulary.merges:
        writer.add_token_merges(vocabulary.merges)
    else:
        writer.add_token_scores(vocabulary.scores)
    writer.add_bos_token_id(vocabulary.bos)
    writer.add_eos_token_id(vocabulary.eos)
    if vocabulary.unknown is not None:
        writer.add_unk_token_id(vocabulary.unknown)
    writer.add_add_bos_token(vocabulary.adds_bos)
    if model.chat_template is not None:
        writer.add_chat_template(model.chat_template)
