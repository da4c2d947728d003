"""Hugging Face transformers: assisted generation or prompt lookup; on a CPU, GGUF weights become float32.

The draft model keeps its own defaults: a confidence threshold decides how long it drafts. Lookup drafts 10
tokens, as its authors do. Caches do not outlive a call.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
import transformers
from transformers.generation.streamers import BaseStreamer

from leadout.bench.answer import Answer
from leadout.bench.peers import PeerSettings
from leadout.engine.params import Params

LOOKUP_TOKENS = 10


class Stopwatch(BaseStreamer):  # type: ignore[misc]
    """Notes when each pass gave its tokens; the first thing it is given is the prompt."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.sizes: list[int] = []

    def put(self, value: Any) -> None:
        """Tokens of one pass."""
        self.times.append(perf_counter())
        self.sizes.append(int(value.numel()))

    def end(self) -> None:
        """Nothing is held back."""


class TransformersPeer:
    """See `Library`."""

    def __init__(self, settings: PeerSettings) -> None:
        torch.set_num_threads(settings.n_threads)
        self._device = "cuda" if settings.n_gpu_layers and torch.cuda.is_available() else "cpu"
        self._ends = list(settings.ends)
        self._target = self._load(settings.target)
        self._help: dict[str, Any] = {}
        if settings.mode == "draft":
            self._help = {"assistant_model": self._load(settings.draft)}
        elif settings.mode == "lookup":
            self._help = {"prompt_lookup_num_tokens": LOOKUP_TOKENS}

    def _load(self, path: str) -> Any:
        file = Path(path)
        dtype = torch.float32 if self._device == "cpu" else torch.float16
        model = transformers.AutoModelForCausalLM.from_pretrained(
            str(file.parent), gguf_file=file.name, dtype=dtype, local_files_only=True
        )
        return model.to(self._device).eval()

    @property
    def version(self) -> str:
        """Of transformers and torch."""
        return f"{transformers.__version__} on torch {torch.__version__}"

    def forget(self) -> None:
        """Nothing outlives a call."""

    def answer(self, prompt: Sequence[int], params: Params) -> Answer:
        """What `generate` gives, timed by a streamer."""
        if params.seed is not None:
            torch.manual_seed(params.seed % 2**63)
        law: dict[str, Any] = {"do_sample": False}
        if params.temperature > 0:
            law = {
                "do_sample": True,
                "temperature": params.temperature,
                "top_k": params.top_k,
                "top_p": params.top_p,
                "min_p": params.min_p,
            }
        ids = torch.tensor([list(prompt)], device=self._device)
        watch = Stopwatch()
        started = perf_counter()
        with torch.inference_mode():
            out = self._target.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=params.max_tokens,
                streamer=watch,
                eos_token_id=self._ends,
                pad_token_id=self._ends[0] if self._ends else None,
                **law,
                **self._help,
            )
        said = [int(token) for token in out[0, len(prompt) :]]
        if said and said[-1] in self._ends:
            said.pop()
        passes = len(watch.times) - 1
        return Answer(
            ids=tuple(said),
            first_s=watch.times[1] - started,
            decode_s=watch.times[-1] - watch.times[1],
            n_first=watch.sizes[1],
            passes=passes,
        )

    def close(self) -> None:
        """The process ends after this."""
