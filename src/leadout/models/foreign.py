"""Names what a file is that was given as a model and is not a GGUF file."""

from __future__ import annotations

_BEGINNINGS = (
    (b"PK\x03\x04", "a zip archive, as PyTorch checkpoints are"),
    (
        b"version https://git-lfs",
        "a git-lfs pointer, not the model itself: run `git lfs pull` in its clone",
    ),
    (b"lmgg", "a GGML file from before GGUF (2023)"),
    (b"fmgg", "a GGMF file from before GGUF (2023)"),
    (b"tjgg", "a GGJT file from before GGUF (2023)"),
    (b"algg", "a GGLA adapter from before GGUF (2023)"),
    (b"\x1f\x8b", "a gzip archive: unpack it"),
    (b"(\xb5/\xfd", "a zstandard archive: unpack it"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive: unpack it"),
    (b"\x89HDF", "an HDF5 (Keras) file"),
)
_MAX_SAFETENSORS_HEADER = 100_000_000


def describe_foreign(beginning: bytes) -> str:
    """What a file that begins with these bytes most likely is; "" when that cannot be told."""
    for start, description in _BEGINNINGS:
        if beginning.startswith(start):
            return description
    text = beginning.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if text.startswith((b"<!doctype", b"<html", b"<?xml")):
        return "a web page, saved by a failed download"
    if beginning[8:9] == b"{" and int.from_bytes(beginning[:8], "little") < _MAX_SAFETENSORS_HEADER:
        return "a safetensors file"
    if beginning[:1] == b"\x80" and beginning[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return "a Python pickle, as old PyTorch checkpoints are"
    if text.startswith(b"{"):
        return "JSON text, perhaps a download's error message or a model's config.json"
    if text and not any(byte < 9 or byte > 126 for byte in text):
        return "plain text, perhaps a download's error message"
    return ""
