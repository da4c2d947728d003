"""What the bodies of requests have in common: strict fields, and those that say how to sample.

A field that stands in no form is refused by name; so is a value of a known field that is not honoured.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from leadout.checks import whole
from leadout.engine.params import Params
from leadout.errors import InputError
from leadout.receipts import replayable
from leadout.server.keep_alive import keep_alive_s
from leadout.server.refusal import refusal_of

MAX_STOPS = 64
"""Texts to stop at: each is looked for at every token, while others wait."""


class Form(BaseModel):
    """A JSON object whose fields are all known and are not converted from other types.

    A field that is null is one that was left out.
    """

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _leave_out_nulls(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        return {name: value for name, value in given.items() if value is not None}


def refused(reason: str) -> PydanticCustomError:
    """An error whose message is the field's path and this reason, such as "is 3; only 1 is possible"."""
    return PydanticCustomError("refused", "{reason}", {"reason": reason})


def only(*allowed: object, because: str) -> AfterValidator:
    """Lets None and these values pass; refuses others with the reason."""

    def check(value: Any) -> Any:
        if value is not None and value not in allowed:
            raise refused(f"is not honoured with this value, as {because}; leave it out")
        return value

    return AfterValidator(check)


Biases = Annotated[dict[str, float] | None, Field(description="Added to the logits of these token ids.")]
# Unions are told apart by a callable, so that an error is about the one that was meant. Names that begin with
# "~" are left out of the paths that errors tell.
Stop = Annotated[
    Annotated[str, Tag("~text")] | Annotated[list[str], Field(max_length=MAX_STOPS), Tag("~texts")],
    Discriminator(lambda value: "~texts" if isinstance(value, list) else "~text"),
    Field(description="The answer ends before the first of these texts."),
]
Speculation = Annotated[
    Annotated[Literal["off", "auto"], Tag("~word")] | Annotated[int, Tag("~number")],
    Discriminator(lambda value: "~word" if isinstance(value, str) else "~number"),
    Field(
        description="off decodes plainly, auto lets the schedule decide, a number 1..64 is the longest draft."
    ),
]


def _keep_alive(value: float | str) -> float | str:
    try:
        keep_alive_s(value)
    except InputError as error:
        raise refused(str(error).removeprefix("keep_alive ")) from error
    return value


KeepAlive = Annotated[
    Annotated[float, Tag("~number")] | Annotated[str, Tag("~text")],
    Discriminator(lambda value: "~text" if isinstance(value, str) else "~number"),
    AfterValidator(_keep_alive),
    Field(
        description="How long the model stays in memory after this request: seconds, or a duration such as "
        "5m; a negative one stays, 0 leaves at once. Left out, it stays as long as it was told to last."
    ),
]
Receipt = Annotated[
    Annotated[bool, Tag("~truth")] | Annotated[Literal["with_prompt"], Tag("~word")],
    Discriminator(lambda value: "~word" if isinstance(value, str) else "~truth"),
    Field(description="Tell what `leadout replay` needs to check the answer; the prompt only if asked."),
]
Metadata = Annotated[dict[str, str] | None, Field(description="Accepted, and not used.")]
Unused = Annotated[str | None, Field(description="Accepted, and not used.")]
ServiceTier = Annotated[
    str | None, only("auto", "default", because="there is one tier here"), Field(description="One tier.")
]


class GrammarForm(Form):
    """A grammar that the whole answer must follow."""

    syntax: Literal["lark", "regex"]
    definition: str


class JsonSchemaForm(Form):
    """A schema that JSON must be valid by."""

    name: Unused = None
    description: Unused = None
    schema_: dict[str, Any] = Field(alias="schema")
    strict: bool | None = Field(None, description="Accepted; schemas are always kept.")


class ResponseFormat(Form):
    """The form an answer must have."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchemaForm | None = None


class SamplingForm(Form):
    """The fields that become `Params`; what is left out has the defaults of `Params`.

    Where a receipt is asked for and no seed is given, one is drawn: the answer must be repeatable.
    """

    temperature: float | None = Field(None, description="0 always takes the most probable token.")
    top_p: float | None = None
    top_k: int | None = Field(None, description="Keep the k most probable tokens; 0 is off.")
    min_p: float | None = Field(None, description="Drop tokens less probable than this times the best.")
    repetition_penalty: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    logit_bias: Biases = None
    seed: int | None = Field(None, description="The same text each time, with any draft.")
    speculation: Speculation | None = None
    grammar: GrammarForm | None = Field(None, description="What the answer must match as a whole.")
    keep_alive: KeepAlive | None = None
    receipt: Receipt | None = None

    def to_params(
        self,
        *,
        max_tokens: int | None = None,
        n: int | None = None,
        stop: str | list[str] | None = None,
        logprobs: int | None = None,
    ) -> Params:
        """The request's parameters.

        Raises
        ------
        RefusedError
            If a value is outside its range; names the field.
        """
        defaults = Params()
        try:
            params = Params(
                temperature=_or(self.temperature, defaults.temperature),
                top_p=_or(self.top_p, defaults.top_p),
                top_k=_or(self.top_k, defaults.top_k),
                min_p=_or(self.min_p, defaults.min_p),
                repetition_penalty=_or(self.repetition_penalty, defaults.repetition_penalty),
                frequency_penalty=_or(self.frequency_penalty, defaults.frequency_penalty),
                presence_penalty=_or(self.presence_penalty, defaults.presence_penalty),
                logit_bias=_biases(self.logit_bias or {}),
                seed=self.seed,
                max_tokens=max_tokens,
                n=_or(n, defaults.n),
                stop=(stop,) if isinstance(stop, str) else tuple(stop or ()),
                logprobs=logprobs,
                speculate=self.speculation != "off",
                max_draft=max_draft(self.speculation),
            )
            return replayable(params) if self.receipt else params
        except InputError as error:
            raise refusal_of(error, {*type(self).model_fields, "max_tokens", "n", "stop"}) from error


def max_draft(speculation: str | int | None) -> int | None:
    """The longest draft that a `Speculation` asks for; None leaves that to the schedule.

    Raises
    ------
    InputError
        If it is outside its range.
    """
    if not isinstance(speculation, int):
        return None
    if not 1 <= speculation <= 64:
        raise InputError(f"speculation is {speculation}; it must be off, auto or a whole number in 1..64")
    return speculation


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value


def _biases(given: dict[str, float]) -> dict[int, float]:
    biases = {}
    for token, bias in given.items():
        number = whole(token)
        if number is None:
            raise InputError(f"logit_bias has {token!r}; its keys must be token ids, in decimal digits")
        biases[number] = bias
    return biases
