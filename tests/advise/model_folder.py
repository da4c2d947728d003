"""GGUF files of every kind that lies around in model folders, made by hand."""

from pathlib import Path

import numpy as np
from gguf import GGUFWriter

from leadout.testing.tiny_gguf import write_split_gguf, write_tiny_gguf


def write_other(path, architecture, *, kind=None, keys=(), tensors=("a.weight",), tokens=0):
    """A GGUF file of another kind than a language model; `keys` are further values."""
    writer = GGUFWriter(path, architecture)
    if kind is not None:
        writer.add_type(kind)
    for key, value in dict(keys).items():
        if isinstance(value, bool):
            writer.add_bool(key, value)
        elif isinstance(value, int):
            writer.add_uint32(key, value)
        elif isinstance(value, list):
            writer.add_array(key, value)
        else:
            writer.add_string(key, value)
    if tokens:
        writer.add_token_list([f"t{i}" for i in range(tokens)])
    for name in tensors:
        writer.add_tensor(name, np.ones((4, 8), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_shape(path, *, n_layers, n_head_kv, head_size, n_head=None, tensors=None):
    """A model of these sizes, whose tensors are those given by name and shape."""
    writer = GGUFWriter(path, "llama")
    writer.add_block_count(n_layers)
    writer.add_context_length(131_072)
    writer.add_embedding_length((n_head or n_head_kv) * head_size)
    writer.add_head_count(n_head or n_head_kv)
    writer.add_head_count_kv(n_head_kv)
    writer.add_key_length(head_size)
    writer.add_value_length(head_size)
    writer.add_token_list([f"t{i}" for i in range(1000)])
    for name, shape in (tensors or {"output.weight": (10, 10)}).items():
        writer.add_tensor(name, np.zeros(shape, dtype=np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def mixed_folder(folder: Path) -> Path:
    """Eight models for a target of 8 layers (`target.gguf`), of which one fits; returns the target's path."""
    folder.mkdir(parents=True, exist_ok=True)
    target = write_tiny_gguf(folder / "target.gguf", n_layers=8, n_ctx_train=2048)
    write_tiny_gguf(folder / "fit.gguf", n_layers=1, n_ctx_train=2048)
    write_other(folder / "innocent-name.gguf", "clip", kind="mmproj", keys={"clip.has_vision_encoder": True})
    write_other(folder / "embed.gguf", "nomic-bert", tokens=8)
    write_other(folder / "style.gguf", "llama", kind="adapter", keys={"adapter.type": "lora"})
    write_other(folder / "vocab.gguf", "llama", tensors=(), tokens=8)
    _, *rest = write_split_gguf(folder / "split.gguf", 3, n_layers=2)
    rest[0].unlink()
    write_tiny_gguf(folder / "bigger.gguf", n_layers=12)
    (folder / "broken.gguf").write_bytes((folder / "fit.gguf").read_bytes()[:5000])
    return target
