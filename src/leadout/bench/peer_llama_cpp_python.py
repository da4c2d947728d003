"""llama-cpp-python with its prompt lookup, the only speculation that it has.

Its documentation advises 10 tokens a draft in general and 2 on machines without a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

import llama_cpp
import numpy as np
from llama_cpp.llama_speculative import LlamaDraftModel, LlamaPromptLookupDecoding

from leadout.bench.answer import Answer
from leadout.bench.peers import PeerSettings
from leadout.engine.params import Params

DRAFT_ON_CPU, DRAFT_ON_GPU = 2, 10


class CountingLookup(LlamaDraftModel):  # type: ignore[misc]
    """The library's lookup, counting calls and tokens."""

    def __init__(self, n_tokens: int) -> None:
        self._lookup = LlamaPromptLookupDecoding(num_pred_tokens=n_tokens)
        self.calls = self.drafted = 0

    def __call__(self, input_ids: Any, /, **kwargs: Any) -> Any:
        """What the lookup proposes."""
        proposed = self._lookup(input_ids, **kwargs)
        self.calls += 1
        self.drafted += len(proposed)
        return np.asarray(proposed, dtype=np.intc)


class LlamaCppPythonPeer:
    """See `Library`."""

    def __init__(self, settings: PeerSettings) -> None:
        n_draft = DRAFT_ON_GPU if settings.n_gpu_layers else DRAFT_ON_CPU
        self._lookup = CountingLookup(n_draft) if settings.mode == "lookup" else None
        self._ends = frozenset(settings.ends)
        self._llama = llama_cpp.Llama(
            settings.target,
            n_ctx=settings.n_ctx,
            n_threads=settings.n_threads,
            n_threads_batch=settings.n_threads,
            n_gpu_layers=settings.n_gpu_layers,
            draft_model=self._lookup,
            verbose=False,
        )

    @property
    def version(self) -> str:
        """Of llama-cpp-python."""
        return str(llama_cpp.__version__)

    def forget(self) -> None:
        """Read the next prompt from its first token on."""
        self._llama.reset()

    def answer(self, prompt: Sequence[int], params: Params) -> Answer:
        """One token at a time, as the library gives them out."""
        if self._lookup is not None:
            self._lookup.calls = self._lookup.drafted = 0
        if params.seed is not None:
            self._llama.set_seed(params.seed % 2**32)
        started = last = perf_counter()
        first_s, ids = 0.0, list[int]()
        for token in self._llama.generate(
            list(prompt), temp=params.temperature, top_k=params.top_k, top_p=params.top_p, min_p=params.min_p
        ):
            last = perf_counter()
            if not first_s:
                first_s = last - started
            if token in self._ends:
                break
            ids.append(int(token))
            if len(ids) == params.max_tokens:
                break
        passes = len(ids) if self._lookup is None else 1 + self._lookup.calls
        return Answer(
            ids=tuple(ids),
            first_s=first_s,
            decode_s=last - started - first_s,
            passes=passes,
            drafted=0 if self._lookup is None else self._lookup.drafted,
            accepted=max(0, len(ids) - passes),
        )

    def close(self) -> None:
        """Free the model."""
        self._llama.close()
