"""Every engine that leadout can set up, by name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from types import MappingProxyType

from leadout.errors import InputError
from leadout.launch import llama_server, lmstudio, mlx_lm, ollama, sglang, tensorrt_llm, vllm
from leadout.launch.engine import Engine

ENGINES: Mapping[str, Engine] = MappingProxyType(
    {
        engine.name: engine
        for engine in (
            vllm.ENGINE,
            sglang.ENGINE,
            tensorrt_llm.ENGINE,
            llama_server.ENGINE,
            ollama.ENGINE,
            mlx_lm.ENGINE,
            lmstudio.ENGINE,
        )
    }
)


def find_engine(name: str) -> Engine:
    """Look an engine up by its name.

    Raises
    ------
    InputError
        If it is none; names the nearest and all.
    """
    engine = ENGINES.get(name)
    if engine is not None:
        return engine
    folded = {known.replace("-", ""): known for known in ENGINES}
    near = difflib.get_close_matches(name.lower().replace("-", "").replace("_", ""), folded, n=1)
    hint = f"; did you mean {folded[near[0]]}?" if near else ""
    raise InputError(f"{name!r} is no engine that leadout can launch{hint}; there are {', '.join(ENGINES)}")
