"""The two llama.cpp libraries behind one small class: enough to see that a tiny file loads and decodes."""

import ctypes
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import ik_llama_cpp._ctypes_api
import llama_cpp
import numpy as np
from numpy.typing import NDArray

LIBRARIES: dict[str, ModuleType] = {"llama": llama_cpp, "ik": ik_llama_cpp._ctypes_api}


class TinyBackend:
    """One loaded model with one sequence."""

    def __init__(self, provider: str, path: Path) -> None:
        self._library = library = LIBRARIES[provider]
        library.llama_backend_init()
        model_parameters = library.llama_model_default_params()
        model_parameters.n_gpu_layers = 0
        self._model = library.llama_model_load_from_file(str(path).encode(), model_parameters)
        assert self._model, f"{provider} does not load {path}"
        context_parameters = library.llama_context_default_params()
        context_parameters.n_ctx, context_parameters.n_batch, context_parameters.n_threads = 256, 128, 1
        self._context = library.llama_init_from_model(self._model, context_parameters)
        assert self._context, f"{provider} makes no context for {path}"
        self._vocab = library.llama_model_get_vocab(self._model)
        self._tokenizer = self._model if provider == "ik" else self._vocab
        self.n_vocab: int = library.llama_vocab_n_tokens(self._vocab)
        self._length = 0

    def encode(self, text: str) -> list[int]:
        raw = text.encode()
        room = (ctypes.c_int32 * (len(raw) + 8))()
        n = self._library.llama_tokenize(self._tokenizer, raw, len(raw), room, len(room), False, True)
        return list(room[:n])

    def decode(self, tokens: Sequence[int]) -> bytes:
        return b"".join(self._piece(token) for token in tokens)

    def _piece(self, token: int) -> bytes:
        room = ctypes.create_string_buffer(64)
        n = self._library.llama_token_to_piece(self._tokenizer, token, room, 64, 0, True)
        return room.raw[:n]

    def forward(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        """Logits after the last of `tokens`, shape (V,)."""
        batch = self._library.llama_batch_init(len(tokens), 0, 1)
        batch.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            batch.token[i], batch.pos[i], batch.n_seq_id[i] = token, self._length + i, 1
            batch.seq_id[i][0], batch.logits[i] = 0, i == len(tokens) - 1
        assert self._library.llama_decode(self._context, batch) == 0
        self._length += len(tokens)
        row = self._library.llama_get_logits_ith(self._context, len(tokens) - 1)
        logits = np.ctypeslib.as_array(row, (self.n_vocab,)).copy()
        self._library.llama_batch_free(batch)
        return logits

    def greedy(self, prompt: Sequence[int], n: int) -> list[int]:
        tokens: list[int] = []
        logits = self.forward(prompt)
        for _ in range(n):
            assert np.isfinite(logits).all()
            tokens.append(int(logits.argmax()))
            logits = self.forward(tokens[-1:])
        return tokens

    def close(self) -> None:
        self._library.llama_free(self._context)
        if self._library is llama_cpp:
            llama_cpp.llama_model_free(self._model)
        else:
            self._library.llama_free_model(self._model)
