"""The `options` of Ollama's interface: the sampling law, and what is decided when the server starts.

What is left out has leadout's defaults, as everywhere here; they are not Ollama's.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Field

from leadout.engine.params import Params
from leadout.errors import InputError
from leadout.server.form import Form, Stop, max_draft, only, refused
from leadout.server.refusal import RefusedError

_AT_START = "is not honoured in a request: how models are loaded is said when the server starts; leave it out"
_NAMES = {"max_tokens": "num_predict", "repetition_penalty": "repeat_penalty"}
_NO_SAMPLER = "there is no such sampler here"


def _of_loading(value: object) -> object:
    if value is not None:
        raise refused(_AT_START)
    return value


OfLoading = Annotated[int | bool | None, AfterValidator(_of_loading)]


class OllamaOptions(Form):
    """Options of a request."""

    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    seed: int | None = Field(None, description="A negative one is none.")
    num_predict: int | None = Field(None, description="Longest answer in tokens; negative is no limit.")
    stop: Stop | None = None
    repeat_penalty: float | None = Field(None, description="On tokens of prompt and answer.")
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    num_ctx: int | None = Field(None, ge=1, description="At most what the model was loaded with.")
    num_keep: int | None = Field(None, description="Nothing is ever dropped from the context: not used.")
    repeat_last_n: Annotated[int | None, only(-1, because="penalties look at the whole text")] = None
    penalize_newline: Annotated[bool | None, only(True, because="penalties hold for every token")] = None
    typical_p: Annotated[float | None, only(1.0, because=_NO_SAMPLER)] = None
    tfs_z: Annotated[float | None, only(1.0, because=_NO_SAMPLER)] = None
    mirostat: Annotated[int | None, only(0, because=_NO_SAMPLER)] = None
    mirostat_tau: float | None = Field(None, description="Of mirostat, which is off: not used.")
    mirostat_eta: float | None = Field(None, description="Of mirostat, which is off: not used.")
    numa: OfLoading = None
    num_batch: OfLoading = None
    num_gpu: OfLoading = None
    main_gpu: OfLoading = None
    num_thread: OfLoading = None
    low_vram: OfLoading = None
    f16_kv: OfLoading = None
    logits_all: OfLoading = None
    vocab_only: OfLoading = None
    use_mmap: OfLoading = None
    use_mlock: OfLoading = None
    embedding_only: OfLoading = None

    def to_params(self, *, logprobs: int | None, speculation: str | int | None) -> Params:
        """The request's parameters; `logprobs` and `speculation` stand outside the options.

        Raises
        ------
        RefusedError
            If a value is outside its range; names the field.
        """
        laws = ("temperature", "top_k", "top_p", "min_p", "presence_penalty", "frequency_penalty")
        given: dict[str, Any] = self.model_dump(include=set(laws), exclude_none=True)
        if self.repeat_penalty is not None:
            given["repetition_penalty"] = self.repeat_penalty
        try:
            return Params(
                **given,
                seed=None if self.seed is None or self.seed < 0 else self.seed,
                max_tokens=None if self.num_predict is None or self.num_predict < 0 else self.num_predict,
                stop=(self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ()),
                logprobs=logprobs,
                speculate=speculation != "off",
                max_draft=max_draft(speculation),
            )
        except InputError as error:
            raise _refusal(error) from error

    def check_context(self, n_ctx: int) -> None:
        """Refuse a context longer than the model's.

        Raises
        ------
        RefusedError
        """
        if self.num_ctx is not None and self.num_ctx > n_ctx:
            raise RefusedError(
                400,
                f"options.num_ctx is {self.num_ctx}, but the model was loaded with {n_ctx} positions; "
                "ask for no more, or start the server with --ctx",
                param="options.num_ctx",
            )


def _refusal(error: InputError) -> RefusedError:
    """An error of `Params` in the words of these options; its first word is the field."""
    field, _, rest = str(error).partition(" ")
    name = _NAMES.get(field, field)
    if name not in OllamaOptions.model_fields:
        return RefusedError(400, str(error), param=field)
    return RefusedError(400, f"options.{name} {rest}", param=f"options.{name}")
