"""What a file is and what reading it costs, from its header alone: one frozen value that JSON can hold.

Names of files are never believed: a projector is one because its header says so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from leadout.errors import LeadoutError
from leadout.models.gguf_format import Strings, Tensor
from leadout.models.header import Header, read_header
from leadout.models.recalled import recalled
from leadout.models.remember import Findings

VERSION = 1

_ENCODERS = ("bert", "t5", "gemma-embedding", "wavtokenizer")
_HEADS = ("eagle", "dflash", "dspark", "medusa", "mtp")
_LOOKED_UP = ("token_embd.weight", "per_layer_token_embd.weight")  # a row of them is read, not the whole
_EXPERTS = "_exps."
_TYPES = {
    **{0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 10: "Q2_K", 11: "Q3_K"},
    **{12: "Q4_K", 13: "Q5_K", 14: "Q6_K", 20: "IQ4_NL", 23: "IQ4_XS", 30: "BF16", 39: "MXFP4"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Bytes of weights that a pass goes through.

    Parameters
    ----------
    dense_bytes : int
        Read by every pass.
    expert_bytes : int
        Of all experts of a mixture; 0 in other models.
    expert_share : float in 0..1
        The experts that one token uses.
    n_layers : int
    bits : float
        Bits per weight, on average.
    """

    dense_bytes: int
    expert_bytes: int = 0
    expert_share: float = 1.0
    n_layers: int = 0
    bits: float = 16.0

    def bytes_at(self, width: int) -> float:
        """Bytes read by a pass of `width` tokens; experts are taken to be chosen independently."""
        touched = 1 - (1 - self.expert_share) ** width
        return self.dense_bytes + self.expert_bytes * touched


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """A GGUF file, as far as its header tells.

    Parameters
    ----------
    path : str
        Absolute, of the first part.
    problem : str
        Why it is no language model that could be loaded, in words; "" for those that are.
    name, architecture, quantisation : str
        As the file says; the quantisation is the format that most weights have.
    n_params, n_bytes, n_vocab, n_ctx_train, n_parts : int
    reading : Reading
    vocabulary : str
        A digest of its entries and marks; equal ones are the same vocabulary.
    is_recurrent : bool
        Its cache cannot be cut, only restored and read again.
    """

    path: str
    problem: str = ""
    name: str = ""
    architecture: str = ""
    quantisation: str = ""
    n_params: int = 0
    n_bytes: int = 0
    n_vocab: int = 0
    n_ctx_train: int = 0
    n_parts: int = 1
    reading: Reading = Reading(dense_bytes=0)
    vocabulary: str = ""
    is_recurrent: bool = False

    def to_json(self) -> dict[str, object]:
        """Plain values; `from_json` reads them."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: object) -> FileFacts | None:
        """The facts that `to_json` wrote; None where these are not such."""
        return recalled(cls, values)


def inspect(path: Path, findings: Findings | None = None) -> FileFacts:
    """Look into a file's header; whatever is wrong with it becomes its `problem`.

    Parameters
    ----------
    path : Path
        Absolute path of a file, or of any part of a split model.
    findings : Findings or None
        Where facts are remembered by path, size and time of change; None reads the file.
    """
    key = _key(path)
    known = FileFacts.from_json(findings.read(key)) if findings is not None and key else None
    if known is not None:
        return known
    try:
        facts = facts_of(read_header(path))
    except LeadoutError as error:
        return FileFacts(path=str(path), problem=str(error))
    if findings is not None and key and facts.n_parts == 1:  # of a split model another part may go
        findings.write(key, facts.to_json())
    return facts


def facts_of(header: Header) -> FileFacts:
    """The facts of a header that was read."""
    return FileFacts(
        path=str(header.path),
        problem=_problem(header),
        name=header.name,
        architecture=header.architecture,
        quantisation=_quantisation(header.tensors),
        n_params=header.n_params,
        n_bytes=header.n_bytes,
        n_vocab=header.n_vocab,
        n_ctx_train=header.n_ctx_train,
        n_parts=len(header.parts),
        reading=reading_of(header),
        vocabulary=_digest(header),
        is_recurrent=header.is_recurrent,
    )


def reading_of(header: Header) -> Reading:
    """What passes of this model read; an embedding that is also the output layer counts."""
    has_output = "output.weight" in header.tensors
    dense = experts = 0
    for name, tensor in header.tensors.items():
        n_bytes = tensor.n_bytes or tensor.n_elements
        if _EXPERTS in name:
            experts += n_bytes
        elif name not in _LOOKED_UP or (name == _LOOKED_UP[0] and not has_output):
            dense += n_bytes
    n_experts, n_used = (_number(header, f"expert_{what}") for what in ("count", "used_count"))
    weights = sum(tensor.n_bytes or tensor.n_elements for tensor in header.tensors.values())
    return Reading(
        dense_bytes=dense,
        expert_bytes=experts,
        expert_share=min(1.0, n_used / n_experts) if n_experts and n_used else 1.0,
        n_layers=header.n_layers,
        bits=8 * weights / header.n_params if header.n_params else 16.0,
    )


def _problem(header: Header) -> str:
    """What the header says that this file is, where it is not a model that writes text."""
    metadata, name = header.metadata, header.architecture
    kind = str(metadata.get("general.type"))
    if name == "clip" or kind == "mmproj" or any(key.startswith("clip.") for key in metadata):
        return "a projector for images or sound, not a language model"
    if kind == "adapter" or any(key.startswith("adapter.") for key in metadata):
        return "an adapter (LoRA), not a model of its own"
    if kind == "imatrix" or name == "imatrix":
        return "an importance matrix, not a model"
    if name.startswith(_HEADS):
        return f"a draft head ({name}) for another engine, which needs its target's inner states"
    if _is_encoder(header):
        return f"an embedding or encoder model ({name}), which writes no text"
    if not header.n_tensors:
        return "a vocabulary without weights"
    if not len(header.tokens):
        return "a model without a vocabulary"
    return ""


def _is_encoder(header: Header) -> bool:
    pools = _number(header, "pooling_type") > 0
    is_causal = header.metadata.get(f"{header.architecture}.attention.causal") is not False
    return any(each in header.architecture for each in _ENCODERS) or pools or not is_causal


def _quantisation(tensors: Mapping[str, Tensor]) -> str:
    sizes: dict[int, int] = {}
    for tensor in tensors.values():
        sizes[tensor.kind] = sizes.get(tensor.kind, 0) + tensor.n_elements
    if not sizes:
        return ""
    most = max(sizes, key=sizes.__getitem__)
    return _TYPES.get(most, f"type {most}")


def _digest(header: Header) -> str:
    tokens = header.metadata.get("tokenizer.ggml.tokens")
    digest = hashlib.sha256(tokens.raw if isinstance(tokens, Strings) else b"")
    types = header.token_types
    digest.update(b"" if types is None else types.tobytes())
    for key in ("model", "pre", "bos_token_id", "eos_token_id", "add_bos_token"):
        digest.update(repr(header.metadata.get(f"tokenizer.ggml.{key}")).encode())
    return digest.hexdigest()


def _number(header: Header, key: str) -> int:
    value = header.metadata.get(f"{header.architecture}.{key}")
    return value if isinstance(value, int) and value > 0 else 0


def _key(path: Path) -> str:
    """The file by path, size and time of change; "" where it cannot be looked at."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return ""
    identity = f"{VERSION}\0{path}\0{status.st_size}\0{status.st_mtime_ns}"
    return hashlib.sha256(identity.encode("utf-8", "surrogateescape")).hexdigest()
