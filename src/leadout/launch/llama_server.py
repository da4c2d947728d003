"""llama-server: flags were renamed often, so each is taken from what the build's own help knows.

Read in the sources of b11434 and run there.
"""

from __future__ import annotations

from leadout.errors import InputError
from leadout.launch.arguments import (
    common_notes,
    common_warnings,
    options,
    refuse_twice,
    require_one_machine,
    require_same_tokens,
    url_of,
)
from leadout.launch.capabilities import Capabilities, Installation
from leadout.launch.engine import DefaultK, Engine
from leadout.launch.plan import Plan
from leadout.launch.setup import Setup

P_MIN = 0.5
"""Least probability that the draft model must give a token for the draft to go on; the build's "
"default is 0."""

MOST_EXTRA_ROWS = 128
ALL_LAYERS = 999
_SPECULATION = (
    "--model-draft",
    "-md",
    "--spec-draft-model",
    "--spec-type",
    "--spec-draft-n-max",
    "--spec-draft-p-min",
    "--spec-ngram-mod-n-max",
)


def set_up(plan: Plan, capabilities: Capabilities) -> Setup:
    """`llama-server`, with speculation.

    Raises
    ------
    InputError
        If this build cannot do what the plan asks.
    """
    require_one_machine(plan, ENGINE.title)
    serving = plan.serving
    arguments = options(
        ("-m", plan.target.given),
        ("--host", serving.host),
        ("--port", serving.port),
        ("-np", serving.n_parallel or 1),
        ("-c", None if serving.n_ctx is None else serving.n_ctx * (serving.n_parallel or 1)),
        ("-ngl", None if serving.n_gpus is None else ALL_LAYERS if serving.n_gpus else 0),
    )
    arguments += [flag for flag in ("--metrics", "--slots") if capabilities.knows(flag)]
    if plan.kind != "none":
        refuse_twice(plan, *_SPECULATION)
        arguments += _draft_model(plan, capabilities) if plan.kind == "model" else _lookup(plan, capabilities)
    return Setup(
        engine=ENGINE.name,
        argv=(capabilities.program, *arguments, *plan.extra),
        url=url_of(plan),
        health="/health",
        notes=(*common_notes(plan), *_notes(plan)),
        warnings=(*common_warnings(plan), *_warnings(plan)),
    )


def _draft_model(plan: Plan, capabilities: Capabilities) -> list[str]:
    _check_vocabulary(plan)
    draft = plan.draft.given if plan.draft is not None else None
    n_max = _first_known(capabilities, "--spec-draft-n-max", "--draft-max", "--draft")
    p_min = _first_known(capabilities, "--spec-draft-p-min", "--draft-p-min")
    arguments = options(("-md", draft))
    if capabilities.knows("--spec-type"):
        arguments += ["--spec-type", _type(plan, capabilities)]
    if n_max is None:
        raise InputError(
            f"{capabilities.program} knows no draft models (no --spec-draft-n-max in its help); use a "
            "newer build"
        )
    arguments += options((n_max, plan.k), *([(p_min, P_MIN)] if p_min else []))
    if plan.serving.n_gpus is not None and capabilities.knows("-ngld"):
        arguments += ["-ngld", str(ALL_LAYERS if plan.serving.n_gpus else 0)]
    return arguments


def _type(plan: Plan, capabilities: Capabilities) -> str:
    """By the draft's architecture; a plain model is `draft-simple`, which older builds call `draft`."""
    architecture = plan.draft.architectures[0] if plan.draft is not None and plan.draft.architectures else ""
    for mark in ("eagle3", "dflash", "dspark"):
        if mark in architecture:
            return f"draft-{mark}"
    return "draft-simple" if capabilities.knows("draft-simple") else "draft"


def _lookup(plan: Plan, capabilities: Capabilities) -> list[str]:
    if not capabilities.knows("--spec-type", "ngram-mod"):
        raise InputError(
            f"{capabilities.program} has no --spec-type ngram-mod; use a newer build, or --draft MODEL"
        )
    n_max = _first_known(capabilities, "--spec-ngram-mod-n-max")
    arguments = ["--spec-type", "ngram-mod"]
    if plan.k is not None and n_max is None:
        raise InputError("this llama-server has no --spec-ngram-mod-n-max, so -k cannot be set; leave it out")
    if plan.k is not None and n_max is not None:
        arguments += [n_max, str(plan.k)]
        if capabilities.knows("--spec-ngram-mod-n-min"):
            arguments += ["--spec-ngram-mod-n-min", "1"]
    return arguments


def _first_known(capabilities: Capabilities, *flags: str) -> str | None:
    return next((flag for flag in flags if capabilities.knows(flag)), None)


def _check_vocabulary(plan: Plan) -> None:
    require_same_tokens(plan, "llama-server would start, answer at plain speed and say nothing: it")
    found = plan.vocabulary
    if found is not None and abs(found.n_target - found.n_draft) > MOST_EXTRA_ROWS:
        raise InputError(
            f"llama-server allows {MOST_EXTRA_ROWS} rows of difference between the vocabularies and "
            "would run "
            f"without the draft: {found.n_draft} against {found.n_target} ({found.sentence})"
        )


def _notes(plan: Plan) -> list[str]:
    notes = []
    if plan.serving.n_parallel is None:
        notes.append("one request at a time (-np 1): llama-server drafts as much at any load")
    if plan.kind == "model":
        notes.append(
            f"drafting stops where the draft gives less than {P_MIN:g} (the build's own default is 0)"
        )
    if (plan.serving.n_gpus or 0) > 1:
        notes.append(
            "layers of both models are spread over the GPUs; -- -devd DEVICE puts the draft on one of them"
        )
    if plan.kind != "none":
        notes.append(
            'to confirm: GET /slots says "speculative": true, and timings.draft_n of an answer is above 0'
        )
    return notes


def _warnings(plan: Plan) -> list[str]:
    warnings = list[str]()
    if plan.kind == "none":
        return warnings
    warnings.append("logprobs of drafted tokens are answered as 0.0")
    if plan.kind == "model":
        warnings.append(
            "above temperature 0 a draft stands only where it equals the target's own sample; "
            "-- --spec-draft-sampling probabilistic accepts more, but then a seed gives another text"
        )
    if plan.vocabulary is not None and plan.vocabulary.agreement == "close":
        warnings.append(
            "llama-server wants the same text at every id from 5 on; where it differs it runs without "
            "the draft"
        )
    if plan.kind == "ngram":
        warnings.append("its n-grams are one pool for all requests, of all users")
    return warnings


ENGINE = Engine(
    name="llama-server",
    title="llama-server",
    installation=Installation(
        program="llama-server",
        how="build or fetch llama.cpp (github.com/ggml-org/llama.cpp)",
        assumed="b11434",
        version_pattern=r"version: (\S+)",
        asks_help=True,
        assumed_words=frozenset(
            {
                "--metrics",
                "--slots",
                "--spec-type",
                "draft-simple",
                "ngram-mod",
                "--spec-draft-n-max",
                "--spec-draft-p-min",
                "--spec-ngram-mod-n-max",
                "--spec-ngram-mod-n-min",
                "-ngld",
                "-md",
            }
        ),
    ),
    set_up=set_up,
    drafts=(
        ("model", DefaultK(k=3, why="llama-server's own default; it drafts as much in every round")),
        ("ngram", DefaultK(k=None, why="left to llama-server, which drafts 48 to 64 tokens with ngram-mod")),
    ),
    port=8080,
    forms=("gguf",),
    takes="a GGUF file, a catalogue name, hf:user/repo[:quant] or ollama:name",
    image="ghcr.io/ggml-org/llama.cpp:server",
    image_program="/app/llama-server",
    confirm='`GET /slots` says `"speculative": true`, and `timings.draft_n` of an answer is above 0',
    silent="`-md` without `--spec-type`; a draft whose vocabulary differs; `--spec-type` without `-md`: all "
    "answer at plain speed; logprobs of drafted tokens are 0.0",
)
