"""Seeded random weights for tiny models, scaled so that logits are spread and greedy output wanders."""

from __future__ import annotations

import zlib

import numpy as np
from numpy.typing import NDArray

from leadout.testing.tiny_model import TinyModel
from leadout.testing.tiny_vocab import CONTROL, UNUSED, TinyVocabulary

N_EMBD, N_FF, N_HEAD, N_HEAD_KV, N_HEAD_EMBD = 64, 128, 2, 1, 32
SSM_INNER, SSM_STATE, SSM_RANK, SSM_CONV = 128, 16, 32, 4

_QUIET = 0.1  # factor on the output rows of control and padding tokens
_SPREAD = 3.0  # standard deviation of the logits

Weights = dict[str, NDArray[np.float32]]


def weights_of(model: TinyModel, vocabulary: TinyVocabulary) -> Weights:
    """All tensors of `model` by their GGUF names, float32; matrices are (rows, columns)."""
    n_rows = len(vocabulary.tokens)
    loudness = np.ones((n_rows, 1), dtype=np.float32)
    for token, kind in enumerate(vocabulary.types):
        loudness[token] = model.output_scale.get(token, _QUIET if kind in (CONTROL, UNUSED) else 1.0)
    embedding = _matrix(model, "token_embd", n_rows, N_EMBD, np.sqrt(N_EMBD))
    norm = _constant(N_EMBD, 1.0)
    weights: Weights = {"token_embd.weight": embedding, "output_norm.weight": norm}
    if model.architecture == "gemma3":
        # The output layer is the embedding. Random signs keep a token from always predicting itself.
        signs = np.sign(_matrix(model, "output_norm", 1, N_EMBD))[0]
        weights["token_embd.weight"] = embedding * loudness
        weights["output_norm.weight"] = signs * np.float32(_SPREAD / np.sqrt(N_EMBD))
    else:
        weights["output.weight"] = _matrix(model, "output", n_rows, N_EMBD, _SPREAD) * loudness
    for layer in range(model.depth):
        make = _mamba_layer if model.architecture == "mamba" else _attention_layer
        weights |= {f"blk.{layer}.{name}": data for name, data in make(model, f"blk.{layer}").items()}
    return weights


def _attention_layer(model: TinyModel, layer: str) -> Weights:
    n_q, n_kv = N_HEAD * N_HEAD_EMBD, N_HEAD_KV * N_HEAD_EMBD
    shapes = {
        "attn_q": (n_q, N_EMBD),
        "attn_k": (n_kv, N_EMBD),
        "attn_v": (n_kv, N_EMBD),
        "attn_output": (N_EMBD, n_q),
        "ffn_gate": (N_FF, N_EMBD),
        "ffn_up": (N_FF, N_EMBD),
        "ffn_down": (N_EMBD, N_FF),
    }
    weights = {
        f"{name}.weight": _matrix(model, f"{layer}.{name}", *shape, 2.0) for name, shape in shapes.items()
    }
    weights |= {f"{name}.weight": _constant(N_EMBD, 1.0) for name in ("attn_norm", "ffn_norm")}
    if model.architecture == "qwen2":
        for name in ("attn_q", "attn_k", "attn_v"):
            weights[f"{name}.bias"] = _matrix(model, f"{layer}.{name}.bias", 1, shapes[name][0])[0]
    if model.architecture == "gemma3":
        loud = np.sqrt(np.float32(N_EMBD))  # as loud as Gemma's scaled embedding
        weights["post_attention_norm.weight"] = _constant(N_EMBD, loud / 2)
        weights["post_ffw_norm.weight"] = _constant(N_EMBD, loud)
        # Sharp attention: an average over the whole context would say the same token for ever.
        weights |= {f"{name}.weight": _constant(N_HEAD_EMBD, 2.0) for name in ("attn_q_norm", "attn_k_norm")}
    return weights


def _mamba_layer(model: TinyModel, layer: str) -> Weights:
    shapes = {
        "ssm_in": (2 * SSM_INNER, N_EMBD),
        "ssm_x": (SSM_RANK + 2 * SSM_STATE, SSM_INNER),
        "ssm_dt": (SSM_INNER, SSM_RANK),
        "ssm_out": (N_EMBD, SSM_INNER),
        "ssm_conv1d": (SSM_INNER, SSM_CONV),
    }
    weights = {
        # ssm_x goes into the scan's result more than once: louder, it leaves the range of 16-bit floats.
        f"{name}.weight": _matrix(model, f"{layer}.{name}", *shape, 1.0 if name == "ssm_x" else 2.0)
        for name, shape in shapes.items()
    }
    decay = -np.arange(1, SSM_STATE + 1, dtype=np.float32)
    return weights | {
        "attn_norm.weight": _constant(N_EMBD, 1.0),
        "ssm_conv1d.bias": _constant(SSM_INNER, 0.0),
        "ssm_dt.bias": _constant(SSM_INNER, -2.0),
        "ssm_a": np.tile(decay, (SSM_INNER, 1)),
        "ssm_d": _constant(SSM_INNER, 1.0),
    }


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
