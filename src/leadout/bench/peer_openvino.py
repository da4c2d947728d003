"""OpenVINO GenAI: a draft model or prompt lookup, with the settings of its own samples.

It reads some GGUF files (Q4_0, Q4_1, Q8_0, F16; not every K-quant). What it makes of a file is kept in the
user's cache directory, because a draft model must come from such a folder. It keeps nothing
between calls, as prefix caching is not asked for.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import openvino_genai

from leadout.bench.answer import Answer
from leadout.bench.peers import PeerSettings
from leadout.engine.params import Params
from leadout.folders import cache_folder

DRAFT_TOKENS, LOOKUP_TOKENS, LOOKUP_NGRAM = 5, 5, 3


class OpenVinoPeer:
    """See `Library`."""

    def __init__(self, settings: PeerSettings) -> None:
        device = "GPU" if settings.n_gpu_layers else "CPU"
        threads = {} if device == "GPU" else {"INFERENCE_NUM_THREADS": settings.n_threads}
        extra: dict[str, Any] = {}
        if settings.mode == "draft":
            extra = {"draft_model": openvino_genai.draft_model(converted(settings.draft), device, **threads)}
        elif settings.mode == "lookup":
            extra = {"prompt_lookup": True}
        self._mode, self._ends = settings.mode, frozenset(settings.ends)
        self._pipeline = openvino_genai.LLMPipeline(converted(settings.target), device, **threads, **extra)

    @property
    def version(self) -> str:
        """Of openvino_genai."""
        return str(openvino_genai.__version__)

    def forget(self) -> None:
        """Nothing is kept between calls."""

    def answer(self, prompt: Sequence[int], params: Params) -> Answer:
        """What the pipeline gives, by its own clock."""
        ids = np.array([list(prompt)], dtype=np.int64)
        inputs = openvino_genai.TokenizedInputs(openvino.Tensor(ids), openvino.Tensor(np.ones_like(ids)))
        result = self._pipeline.generate(inputs, self._config(params))
        said = [int(token) for token in result.tokens[0]]
        while said and said[-1] in self._ends:
            said.pop()
        first_s = result.perf_metrics.get_ttft().mean / 1e3
        total_s = result.perf_metrics.get_generate_duration().mean / 1e3
        extended = result.extended_perf_metrics
        accepted = int(extended.get_num_accepted_tokens()) if extended is not None else None
        return Answer(ids=tuple(said), first_s=first_s, decode_s=total_s - first_s, accepted=accepted)

    def _config(self, params: Params) -> Any:
        config = openvino_genai.GenerationConfig()
        config.max_new_tokens = params.max_tokens
        config.apply_chat_template = False
        config.stop_token_ids = set(self._ends)
        config.do_sample = params.temperature > 0
        if config.do_sample:
            config.temperature, config.top_p = params.temperature, params.top_p
            config.top_k = params.top_k or config.top_k
            config.rng_seed = (params.seed or 0) % 2**32
        if self._mode == "draft":
            config.num_assistant_tokens = DRAFT_TOKENS
        elif self._mode == "lookup":
            config.num_assistant_tokens, config.max_ngram_size = LOOKUP_TOKENS, LOOKUP_NGRAM
        return config

    def close(self) -> None:
        """The process ends after this."""


def converted(path: str) -> str:
    """A folder with OpenVINO's form of a GGUF file; made once, and there only when it is whole."""
    key = hashlib.sha256(f"{path} {Path(path).stat().st_mtime_ns}".encode()).hexdigest()[:16]
    folder = cache_folder() / "openvino" / key
    if not folder.is_dir():
        part = folder.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        link = part / "m.gguf"
        link.symlink_to(path)
        openvino_genai.LLMPipeline(str(link), "CPU", enable_save_ov_model=True)
        part.rename(folder)
    return str(folder)
