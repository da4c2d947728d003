"""Writes tiny GGUF model files with seeded random weights, to test real backends in milliseconds.

What a test can expect of such a model:

- Logits are finite and spread (standard deviation about 3); greedy output wanders (well over ten different
  ids in 48) and differs between seeds. The text is mostly random bytes.
- Control and padding tokens have a small output row and are next to never produced. A test that wants an
  end token makes an ordinary one the `eos`, or lifts a row with `output_scale`.
- Weights depend on (seed, tensor name, row) alone: models that differ in layers or padding rows share the
  rest. `perturb` mixes other noise into the layers, which makes draft models: their greedy token is the
  target's in about 0.9, 0.8, 0.6, 0.3 of all cases at 0.01, 0.02, 0.05, 0.1 (mamba: 0.85, 0.7, 0.4, 0.2).

Needs the `gguf` package (the `dev` extra); it is imported when a file is written.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from leadout.errors import InputError
from leadout.testing.tiny_model import TinyModel, TinyOptions, vocabulary_of
from leadout.testing.tiny_vocab import TinyVocabulary
from leadout.testing.tiny_weights import (
    N_EMBD,
    N_FF,
    N_HEAD,
    N_HEAD_EMBD,
    N_HEAD_KV,
    SSM_CONV,
    SSM_INNER,
    SSM_RANK,
    SSM_STATE,
    weights_of,
)

if TYPE_CHECKING:
    from gguf import GGUFWriter


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
    n_tensors = len(weights_of(model, vocabulary_of(model)))
    per_part = -(-n_tensors // n_parts) if n_parts >= 1 else 0
    if n_parts < 2 or -(-n_tensors // per_part) != n_parts:
        raise InputError(f"n_parts is {n_parts}; {n_tensors} tensors cannot be dealt out to that many files")
    _write(path, model, split_max_tensors=per_part)
    names = (f"{path.stem}-{part:05d}-of-{n_parts:05d}.gguf" for part in range(1, n_parts + 1))
    return tuple(path.with_name(name) for name in names)


def tiny_vocabulary(**options: Unpack[TinyOptions]) -> TinyVocabulary:
    """The vocabulary that `write_tiny_gguf` would store for the same keywords, padding rows included."""
    return vocabulary_of(TinyModel(**options))


def _write(path: Path, model: TinyModel, *, split_max_tensors: int) -> None:
    from gguf import GGMLQuantizationType, GGUFWriter
    from gguf.quants import quantize

    vocabulary = vocabulary_of(model)
    writer = GGUFWriter(path, model.architecture, split_max_tensors=split_max_tensors)
    _add_facts(writer, model, len(vocabulary.tokens))
    _add_vocabulary(writer, model, vocabulary)
    stored = GGMLQuantizationType[model.tensor_type]
    for name, data in weights_of(model, vocabulary).items():
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
    writer.add_embedding_length(N_EMBD)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_vocab_size(n_rows)
    if model.architecture == "mamba":
        writer.add_feed_forward_length(0)
        writer.add_head_count(0)
        writer.add_ssm_conv_kernel(SSM_CONV)
        writer.add_ssm_inner_size(SSM_INNER)
        writer.add_ssm_state_size(SSM_STATE)
        writer.add_ssm_time_step_rank(SSM_RANK)
        return
    writer.add_feed_forward_length(N_FF)
    writer.add_head_count(N_HEAD)
    writer.add_head_count_kv(N_HEAD_KV)
    writer.add_key_length(N_HEAD_EMBD)
    writer.add_value_length(N_HEAD_EMBD)
    writer.add_rope_dimension_count(N_HEAD_EMBD)
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
