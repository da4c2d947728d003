"""The forms a model name can take.

Parsing only: no disk or network is looked at, but for one question, whether a bare word is a file here.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from leadout.errors import StoreError
from leadout.store.paths import is_file

FORMS = (
    "a catalogue name (see `leadout models`), a path to a .gguf file, "
    "hf:user/repo[:quant or :file.gguf], or ollama:name[:tag]"
)
OLLAMA_HOST = "registry.ollama.ai"  # folder names of Ollama's store where a name leaves them out
OLLAMA_NAMESPACE = "library"

_WORD = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?")
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]{1,5})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class PathName:
    """A file of this machine, as typed."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HubName:
    """A hub repository, and which of its files: a file name, a quantisation, or None for the default."""

    repo: str
    choice: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OllamaName:
    """A model in Ollama's store."""

    host: str
    namespace: str
    model: str
    tag: str

    def __str__(self) -> str:
        """Write it the way Ollama lists it: defaults left out."""
        parts = [self.host, self.namespace, self.model]
        if self.host == OLLAMA_HOST:
            parts = parts[2:] if self.namespace == OLLAMA_NAMESPACE else parts[1:]
        return "/".join(parts) + f":{self.tag}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueName:
    """A bare word."""

    text: str


Name = PathName | HubName | OllamaName | CatalogueName


def parse_name(text: str) -> Name:
    """Decide which form `text` has.

    Raises
    ------
    StoreError
        If it is empty, or an hf: or ollama: name that is malformed or would leave the store's folders.
    """
    if not text.strip() or "\0" in text:
        raise StoreError(f"model name {text!r} is empty or not a name; use {FORMS}")
    if text.startswith("hf:"):
        return _hub_name(text)
    if text.startswith("ollama:"):
        return _ollama_name(text)
    separators = {"/", os.sep, os.altsep or os.sep}
    if any(separator in text for separator in separators) or text.lower().endswith(".gguf") or is_file(text):
        return PathName(text=text)
    return CatalogueName(text=text)


def is_plain_file_name(name: str) -> bool:
    """Tell whether `name` is a relative, forward-slashed path that stays inside its folder."""
    parts = name.split("/")
    return "\\" not in name and ":" not in name and not any(part in ("", ".", "..") for part in parts)


def _hub_name(text: str) -> HubName:
    repo, colon, choice = text.removeprefix("hf:").partition(":")
    words = repo.split("/")
    if len(words) != 2 or not all(_WORD.fullmatch(word) and ".." not in word for word in words):
        raise StoreError(
            f"{text!r} does not name a hub repository; "
            "write hf:user/repo, hf:user/repo:Q4_K_M or hf:user/repo:file.gguf"
        )
    if colon and not is_plain_file_name(choice):
        raise StoreError(
            f"{choice!r} in {text!r} is neither a quantisation nor a file of the repository; "
            "write hf:user/repo:Q4_K_M or hf:user/repo:folder/file.gguf, without '..' or a leading '/'"
        )
    return HubName(repo=repo, choice=choice if colon else None)


def _ollama_name(text: str) -> OllamaName:
    *before, last = text.removeprefix("ollama:").split("/")
    model, colon, tag = last.partition(":")
    host = before[0] if len(before) == 2 else OLLAMA_HOST
    namespace = before[-1] if before else OLLAMA_NAMESPACE
    words = (namespace, model, tag if colon else "latest")
    is_valid = len(before) <= 2 and _HOST.fullmatch(host) and all(_WORD.fullmatch(word) for word in words)
    if not is_valid or any(".." in word for word in (host, *words)):
        raise StoreError(
            f"{text!r} does not name an Ollama model; write ollama:name, ollama:name:tag, "
            "ollama:namespace/name:tag or ollama:host/namespace/name:tag"
        )
    return OllamaName(host=host, namespace=namespace, model=model, tag=words[-1])
