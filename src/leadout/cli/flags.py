"""The options that several commands share: what they set, and one line of help each.

Defaults are not here; they come from the dataclasses of the library.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from leadout.checks import check_whole
from leadout.cli.options import Flag, Group
from leadout.engine.params import Params
from leadout.engine.schedule import MAX_K, FixedSchedule, Schedule, StepSchedule
from leadout.engine.threshold import ThresholdSchedule
from leadout.errors import InputError
from leadout.models.options import DEFAULT_CONTEXT, GgufOptions, KvType

DEFAULT_K: int = inspect.signature(FixedSchedule).parameters["k"].default
ScheduleChoice = Literal["auto", "fixed", "step", "threshold"]
ProviderChoice = Literal["auto", "ik", "llama"]
BridgeChoice = Literal["auto", "text", "shared"]


def parse_biases(given: Sequence[str]) -> Mapping[int, float]:
    """``["13=-100", "7=2.5"]`` to a mapping.

    Raises
    ------
    InputError
        If a value is not ID=BIAS.
    """
    biases = {}
    for text in given:
        token, _, bias = text.partition("=")
        try:
            biases[int(token)] = float(bias)
        except ValueError as error:
            raise InputError(f"logit bias {text!r} is not ID=BIAS, such as 13=-100") from error
    return biases


SAMPLING = (
    Flag("temperature", "Randomness; 0 always takes the most probable token.", metavar="T"),
    Flag("top_k", "Keep the K most probable tokens; 0 is off.", metavar="K"),
    Flag("top_p", "Keep the most probable tokens up to this mass, in (0, 1]; 1 is off.", metavar="P"),
    Flag("min_p", "Drop tokens less probable than P times the most probable; 0 is off.", metavar="P"),
    Flag("seed", "With a seed the same text comes out, with any draft.", metavar="N", unset="none"),
)
PENALTIES = (
    Flag("repetition_penalty", "Factor on tokens of prompt and answer; 1 is off.", metavar="F"),
    Flag("frequency_penalty", "Subtracted per occurrence in the answer, -2..2.", metavar="F"),
    Flag("presence_penalty", "Subtracted once from tokens of the answer, -2..2.", metavar="F"),
    Flag(
        "logit_bias",
        "Add BIAS to a token's logit; may be repeated.",
        metavar="ID=BIAS",
        repeated=True,
        parse=parse_biases,
        unset="none",
    ),
)
LENGTH = (
    Flag("max_tokens", "Longest answer in tokens.", metavar="N", unset="to the end of the context"),
    Flag(
        "stop",
        "End the answer before this text; may be repeated.",
        metavar="TEXT",
        repeated=True,
        parse=tuple,
        unset="none",
    ),
)
VERIFICATION = Flag(
    "verification",
    "Rule that checks drafts; auto is greedy at temperature 0, coupled with a seed, else block.",
)
ANSWERS = (
    Flag("n", "Answers to the same prompt.", names=("--n",), metavar="N"),
    Flag(
        "logprobs",
        "Report log probabilities and N alternatives per token (with --json).",
        metavar="N",
        unset="none",
    ),
)

ONE_TURN = Group(
    kind=Params, panel="Sampling", flags=(*LENGTH, *SAMPLING, *PENALTIES, *ANSWERS, VERIFICATION)
)
MANY_TURNS = Group(kind=Params, panel="Sampling", flags=(*LENGTH, *SAMPLING, *PENALTIES, VERIFICATION))

MODEL = Group(
    kind=GgufOptions,
    panel="Model",
    flags=(
        Flag(
            "n_ctx",
            "Context in tokens.",
            names=("--ctx",),
            metavar="N",
            unset=f"the model's, at most {DEFAULT_CONTEXT}",
        ),
        Flag("n_threads", "CPU threads.", names=("--threads",), metavar="N", unset="the physical cores"),
        Flag("n_gpu_layers", "Layers on the GPU; -1 is all.", names=("--gpu-layers",), metavar="N"),
        Flag("n_batch", "Most prompt tokens in one pass.", names=("--batch",), metavar="N"),
        Flag("flash_attn", "Flash attention; auto leaves it to the provider."),
        Flag("kv_type_k", "Number format of cached keys."),
        Flag("kv_type_v", "Number format of cached values."),
        Flag("use_mmap", "Map the file instead of reading it.", names=("--mmap/--no-mmap",)),
        Flag("use_mlock", "Keep the model's pages in memory.", names=("--mlock",)),
        Flag("rope_freq_base", "Rotary base frequency.", metavar="F", unset="the model's"),
        Flag("rope_freq_scale", "Rotary frequency scale.", metavar="F", unset="the model's"),
        Flag("rope_scaling", "Rotary scaling method.", unset="the model's"),
        Flag("yarn_ext_factor", "YaRN's mix of extrapolation.", metavar="F", unset="the model's"),
        Flag("yarn_orig_ctx", "Context in tokens before YaRN.", metavar="N", unset="the model's"),
        Flag(
            "exact", "Stay within pass widths that give the same bits as single tokens.", names=("--exact",)
        ),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What runs the target and what drafts for it."""

    draft: str = "auto"
    lookups: bool = True
    bridge: BridgeChoice = "auto"
    k: int | None = None
    schedule: ScheduleChoice = "auto"
    provider: ProviderChoice = "auto"
    offline: bool = False

    @property
    def longest(self) -> int | None:
        """Most tokens of a draft of the schedule "auto"; None leaves it to that.

        Raises
        ------
        InputError
            If k is outside its range.
        """
        check_whole("k", self.k, 0, MAX_K, optional=True)
        return self.k

    def make_schedule(self) -> Schedule | None:
        """The schedule that was asked for; None for "auto", which needs to know the models.

        Raises
        ------
        InputError
            If k is outside its range.
        """
        match self.schedule:
            case "auto":
                return None
            case "fixed":
                return FixedSchedule(DEFAULT_K if self.k is None else self.k)
            case "step":
                return StepSchedule.from_k(DEFAULT_K if self.k is None else self.k)
            case "threshold":
                return ThresholdSchedule() if self.k is None else ThresholdSchedule(self.k)


CHOICE = Group(
    kind=Choice,
    panel="Speculation",
    flags=(
        Flag(
            "draft",
            "What drafts: auto (both lookups, and a draft model on this machine if one is predicted to pay); "
            "suffix (looks up this text and earlier answers); ngram (looks up this text); a draft model's "
            "name or path; or none.",
            metavar="auto|suffix|ngram|MODEL|none",
        ),
        Flag(
            "bridge",
            "How a draft model of another vocabulary drafts: by text, or by the tokens that both have; auto "
            "takes what is likely to have more accepted.",
        ),
        Flag("lookups", "Let the lookups propose beside a draft model.", names=("--lookups/--no-lookups",)),
        Flag(
            "k",
            "Tokens to draft in a round; step starts there, threshold drafts at most as many, and so "
            "does auto where it is given.",
            names=("-k",),
            metavar="N",
            unset=str(DEFAULT_K),
        ),
        Flag(
            "schedule",
            "auto: what is predicted to pay here; fixed: always k; step: one more after full "
            "success, one fewer after a rejection; threshold: while the drafter is sure.",
        ),
        Flag("provider", "Library that runs the model; auto takes ik on a CPU where it can."),
        Flag("offline", "Make no network call; use what is on this machine.", names=("--offline",)),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftModelOptions:
    """How the draft model is loaded where that differs from the target; None is as the target."""

    n_ctx: int | None = None
    n_threads: int | None = None
    n_gpu_layers: int | None = None
    kv_type_k: KvType | None = None
    kv_type_v: KvType | None = None

    def applied_to(self, target: GgufOptions) -> GgufOptions | None:
        """The draft model's options, or None when nothing differs.

        Raises
        ------
        InputError
            If a value is outside its range.
        """
        if self == DraftModelOptions():
            return None
        return replace(
            target,
            n_ctx=target.n_ctx if self.n_ctx is None else self.n_ctx,
            n_threads=target.n_threads if self.n_threads is None else self.n_threads,
            n_gpu_layers=target.n_gpu_layers if self.n_gpu_layers is None else self.n_gpu_layers,
            kv_type_k=self.kv_type_k or target.kv_type_k,
            kv_type_v=self.kv_type_v or target.kv_type_v,
            exact=False,
        )


DRAFT_MODEL = Group(
    kind=DraftModelOptions,
    panel="Draft model",
    flags=(
        Flag("n_ctx", "Its context in tokens.", names=("--draft-ctx",), metavar="N", unset="the target's"),
        Flag("n_threads", "Its CPU threads.", names=("--draft-threads",), metavar="N", unset="the target's"),
        Flag(
            "n_gpu_layers",
            "Its layers on the GPU.",
            names=("--draft-gpu-layers",),
            metavar="N",
            unset="the target's",
        ),
        Flag("kv_type_k", "Its format of cached keys.", unset="the target's"),
        Flag("kv_type_v", "Its format of cached values.", unset="the target's"),
    ),
    prefix="draft",
)


def check_draft_flags(choice: Choice, draft_options: DraftModelOptions, *, has_model: bool) -> None:
    """Refuse options about drafts where nothing drafts, and about a draft model where there is none.

    Raises
    ------
    InputError
        If one was given; names them all.
    """
    given = DRAFT_MODEL.given(draft_options)
    if given and not has_model:
        raise InputError(
            f"{', '.join(given)} can only be given with a draft model, but --draft is {choice.draft}; "
            "name one with --draft MODEL"
        )
    given = CHOICE.only("bridge").given(choice)
    if given and not has_model:
        raise InputError(
            f"--bridge can only be given with a draft model, but --draft is {choice.draft}; "
            "name one with --draft MODEL"
        )
    given = CHOICE.only("k", "schedule").given(choice)
    if given and choice.draft == "none":
        raise InputError(
            f"{', '.join(given)} can only be given with drafts, but --draft is none; name what drafts"
        )
