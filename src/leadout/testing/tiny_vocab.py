"""Vocabularies for tiny GGUF models: byte-level BPE (as in Qwen) and SPM with byte fallback (as in Llama).

Every text can be encoded and comes back byte for byte. Knows nothing of weights or files.
"""

from __future__ import annotations

from dataclasses import dataclass

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
"""Token types as GGUF numbers them (llama.cpp, `enum llama_token_type`)."""

_MERGES = (
    "t h",
    "th e",
    "i n",
    "e r",
    "a n",
    "o n",
    "Ġ t",
    "Ġ a",
    "Ġt he",
    "an d",
    "Ġ and",
    "in g",
    "d e",
    "de f",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TinyVocabulary:
    """Tokens by id, and what a tokenizer needs beside them.

    Parameters
    ----------
    kind : str
        ``tokenizer.ggml.model``: "gpt2" or "llama".
    tokens, types, scores : tuples of one length
        Entry texts, their GGUF types, and SPM scores (zeros for BPE).
    merges : tuple of str
        BPE merges, best first; empty for SPM.
    bos, eos : int
        Ids that begin and end a sequence.
    unknown : int or None
        Id of the unknown token (SPM).
    adds_bos : bool
        What models with such a vocabulary usually do.
    """

    kind: str
    tokens: tuple[str, ...]
    types: tuple[int, ...]
    scores: tuple[float, ...]
    merges: tuple[str, ...]
    bos: int
    eos: int
    unknown: int | None
    adds_bos: bool


def bpe_vocabulary() -> TinyVocabulary:
    """Byte tokens (id = byte), merges, ``<|endoftext|>`` (BOS), ``<|im_start|>``, ``<|im_end|>`` (EOS)."""
    tokens = [*_byte_letters(), *(merge.replace(" ", "") for merge in _MERGES)]
    n_normal = len(tokens)
    tokens += ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    return TinyVocabulary(
        kind="gpt2",
        tokens=tuple(tokens),
        types=(NORMAL,) * n_normal + (CONTROL,) * 3,
        scores=(0.0,) * len(tokens),
        merges=_MERGES,
        bos=n_normal,
        eos=n_normal + 2,
        unknown=None,
        adds_bos=False,
    )


def spm_vocabulary() -> TinyVocabulary:
    """``<unk>``, ``<s>``, ``</s>``, byte tokens, printable ASCII and some longer pieces, as in Llama 2."""
    return _spm(("<unk>", "<s>", "</s>"), unknown=0, bos=1, eos=2)


def gemma_vocabulary() -> TinyVocabulary:
    """As `spm_vocabulary`, with Gemma's control tokens: ``<eos>`` 1, ``<bos>`` 2, ``<start_of_turn>`` 4."""
    controls = ("<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>")
    return _spm(controls, unknown=3, bos=2, eos=1)


def _spm(controls: tuple[str, ...], *, unknown: int, bos: int, eos: int) -> TinyVocabulary:
    singles = ["▁", *(chr(code) for code in range(33, 127))]
    longer = [merge.replace(" ", "").replace("Ġ", "▁") for merge in _MERGES]
    byte_tokens = [f"<0x{byte:02X}>" for byte in range(256)]
    types = [UNKNOWN if at == unknown else CONTROL for at in range(len(controls))]
    types += [BYTE] * 256 + [NORMAL] * (len(singles) + len(longer))
    scores = [0.0] * (len(controls) + 256) + [-1000.0] * len(singles)
    scores += [-float(rank + 1) for rank in range(len(longer))]
    return TinyVocabulary(
        kind="llama",
        tokens=(*controls, *byte_tokens, *singles, *longer),
        types=tuple(types),
        scores=tuple(scores),
        merges=(),
        bos=bos,
        eos=eos,
        unknown=unknown,
        adds_bos=True,
    )


def _byte_letters() -> list[str]:
    """The printable letter that byte-level BPE writes for each byte 0..255 (GPT-2, `bytes_to_unicode`)."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    letters, n_moved = [], 0
    for byte in range(256):
        letters.append(chr(byte if byte in printable else 256 + n_moved))
        n_moved += byte not in printable
    return letters
