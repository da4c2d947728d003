"""What is known of a model that is served, loaded or not: from its file's header, or from its engine."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from leadout.errors import ModelFileError
from leadout.models.header import Header, read_header
from leadout.server.refusal import reason_for_client
from leadout.server.registry import Registry, Resident, Served

_FILE_TYPES = {
    **{0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K"},
    **{11: "Q3_K_S", 12: "Q3_K_M", 13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M"},
    **{18: "Q6_K", 19: "IQ2_XXS", 20: "IQ2_XS", 21: "Q2_K_S", 22: "IQ3_XS", 23: "IQ3_XXS", 24: "IQ1_S"},
    **{25: "IQ4_NL", 26: "IQ3_S", 27: "IQ3_M", 28: "IQ2_S", 29: "IQ2_M", 30: "IQ4_XS", 31: "IQ1_M"},
    **{32: "BF16", 36: "TQ1_0", 37: "TQ2_0", 38: "MXFP4"},
}
"""``general.file_type`` of a GGUF file, as llama.cpp counts them (llama.h, `enum llama_ftype`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """What is told of a model.

    Parameters
    ----------
    name, architecture, quantisation : str
    n_bytes, n_params, n_ctx_train : int
    modified : datetime
        When its file was written.
    identity : str
        64 hexadecimal digits for its file's name, size and time; no hash of what is in it.
    chat_template, licence : str
    metadata : mapping
        The header's numbers and short texts.
    """

    name: str
    architecture: str
    n_bytes: int
    n_params: int
    n_ctx_train: int
    modified: datetime
    identity: str
    quantisation: str = "unknown"
    chat_template: str = ""
    licence: str = ""
    metadata: Mapping[str, object] = field(default_factory=dict)


@dataclass(slots=True)
class FactsShelf:
    """Facts of a registry's models; each file is read once, until it changes. For any thread."""

    registry: Registry
    _known: dict[tuple[Path, int, int], ModelFacts] = field(default_factory=dict)

    def of(self, name: str) -> ModelFacts:
        """The facts of a model by its exact name.

        Raises
        ------
        ModelFileError
            If its file is missing or damaged.
        """
        path = self.registry.path(name)
        if path is None:
            return self._of_loaded(name)
        try:
            status = path.stat()
            key = (path, status.st_size, status.st_mtime_ns)
            if key not in self._known:
                self._known[key] = _of_header(name, read_header(path), status.st_mtime_ns)
            return self._known[key]
        except OSError as error:
            raise ModelFileError(f"{path.name} is gone") from error
        except ModelFileError as error:
            raise ModelFileError(reason_for_client(error, path)) from error

    def readable(self) -> list[tuple[str, ModelFacts]]:
        """All models and their facts, but for those whose files are missing or damaged by now."""
        told = []
        for name in self.registry.names():
            with suppress(ModelFileError):
                told.append((name, self.of(name)))
        return told

    def resident(self) -> list[tuple[Resident, ModelFacts]]:
        """The models in memory; a file that is gone since is not needed to tell of them."""
        told = []
        for each in self.registry.resident():
            try:
                told.append((each, self.of(each.served.name)))
            except ModelFileError:
                told.append((each, _of_engine(each.served)))
        return told

    def _of_loaded(self, name: str) -> ModelFacts:
        """Of a model without a file, which is in memory."""
        return _of_engine(next(each for each in self.registry.loaded() if each.name == name))


def size_text(n_params: int) -> str:
    """Such as "134.5M"."""
    for unit, letter in ((10**9, "B"), (10**6, "M"), (10**3, "K")):
        if n_params >= unit:
            return f"{n_params / unit:.1f}{letter}"
    return str(n_params)


def _of_engine(served: Served) -> ModelFacts:
    target = served.engine.target
    info = target.info
    return ModelFacts(
        name=served.name,
        architecture=info.architecture,
        n_bytes=info.n_bytes,
        n_params=info.n_params,
        n_ctx_train=info.n_ctx_train,
        modified=datetime.fromtimestamp(0, UTC),
        identity=_digest(served.name, info.n_bytes, 0),
        chat_template=target.vocab.chat_template or "",
    )


def _of_header(name: str, header: Header, modified_ns: int) -> ModelFacts:
    file_type = header.metadata.get("general.file_type")
    licence = header.metadata.get("general.license")
    return ModelFacts(
        name=name,
        architecture=header.architecture,
        n_bytes=header.n_bytes,
        n_params=header.n_params,
        n_ctx_train=header.n_ctx_train,
        modified=datetime.fromtimestamp(modified_ns / 1e9, UTC),
        identity=_digest(header.path.name, header.n_bytes, modified_ns),
        quantisation=_FILE_TYPES.get(file_type, "unknown") if isinstance(file_type, int) else "unknown",
        chat_template=header.chat_template or "",
        licence=licence if isinstance(licence, str) else "",
        metadata={
            "general.parameter_count": header.n_params,
            **{key: each for key, each in header.metadata.items() if isinstance(each, str | int | float)},
        },
    )


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()
