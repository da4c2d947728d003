"""Which engine answers at a URL."""

from __future__ import annotations

from leadout.checks import check_one_of
from leadout.errors import ServerError
from leadout.probe.engine import Engine
from leadout.probe.engine_leadout import Leadout
from leadout.probe.engine_llama_server import LlamaServer
from leadout.probe.engine_lmstudio import LmStudio
from leadout.probe.engine_mlx_lm import MlxLm
from leadout.probe.engine_ollama import Ollama
from leadout.probe.engine_sglang import Sglang
from leadout.probe.engine_tensorrt_llm import TensorrtLlm
from leadout.probe.engine_vllm import Vllm
from leadout.probe.http import Http
from leadout.probe.options import ProbeOptions


def engines(options: ProbeOptions) -> tuple[Engine, ...]:
    """One fresh reader of each engine; those that imitate others' routes stand before them."""
    return (
        Leadout(),
        Ollama(),
        LmStudio(options.draft_model),
        LlamaServer(),
        Sglang(),
        Vllm(),
        TensorrtLlm(),
        MlxLm(),
    )


ENGINE_NAMES = tuple(engine.name for engine in engines(ProbeOptions()))


def find_engine(http: Http, wanted: str | None, options: ProbeOptions) -> tuple[Engine, str]:
    """The engine at this server and its version ("" where it tells none).

    Parameters
    ----------
    wanted : str or None
        Take this engine without asking.

    Raises
    ------
    InputError
        If there is no engine of that name.
    ServerError
        If nothing answers, or nothing known, or it wants a key.
    """
    known = engines(options)
    if wanted is not None:
        check_one_of("engine", wanted, ENGINE_NAMES)
        engine = next(each for each in known if each.name == wanted)
        return engine, engine.recognise(http) or ""
    for engine in known:
        version = engine.recognise(http)
        if version is not None:
            return engine, version
    http.raise_denial()
    raise ServerError(
        f"{http.url} answers, but as no engine known here; if it is one of {', '.join(ENGINE_NAMES)}, "
        "say so with --engine NAME"
    )
