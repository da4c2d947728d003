"""Ollama: a draft is a layer of the model that a Modelfile makes; only MTP and DFlash heads draft there.

Read in the source of 0.33.0-rc2.
"""

from __future__ import annotations

from leadout.errors import InputError
from leadout.launch.arguments import common_notes, common_warnings, require_one_machine, url_of
from leadout.launch.capabilities import Capabilities, Installation
from leadout.launch.engine import DefaultK, Engine
from leadout.launch.plan import Plan
from leadout.launch.setup import Command, File, Setup

MODEL_NAME = "leadout-served"
_HEADS = ("dflash", "mtp", "nextn", "assistant")


def set_up(plan: Plan, capabilities: Capabilities) -> Setup:
    """`ollama serve`, and the model made from a Modelfile once it answers.

    Raises
    ------
    InputError
        If the draft is a plain model, which Ollama would run as something else.
    """
    require_one_machine(plan, ENGINE.title)
    if plan.extra:
        raise InputError(
            f"ollama serve takes no arguments, but {' '.join(plan.extra)} was given; set variables "
            "(OLLAMA_...), or parameters in the Modelfile that --write saves"
        )
    _check_draft(plan)
    serving = plan.serving
    host = f"{serving.host}:{serving.port}"
    client = (capabilities.program, "create", MODEL_NAME, "-f", "Modelfile")
    environment: tuple[tuple[str, str], ...] = (("OLLAMA_HOST", host),)
    if serving.n_parallel is not None:
        environment += (("OLLAMA_NUM_PARALLEL", str(serving.n_parallel)),)
    return Setup(
        engine=ENGINE.name,
        argv=(capabilities.program, "serve"),
        environment=environment,
        files=(File(name="Modelfile", text=_modelfile(plan)),),
        after=(Command(argv=client, purpose=f"make the model {MODEL_NAME} of target, draft and parameters"),),
        url=url_of(plan),
        health="/api/version",
        notes=(
            *common_notes(plan),
            f"where an Ollama runs already, its port is in use: make the model there with "
            f"`ollama create {MODEL_NAME} -f Modelfile`",
            *_notes(plan),
        ),
        warnings=(*common_warnings(plan), *_warnings(plan)),
    )


def _check_draft(plan: Plan) -> None:
    if plan.draft is None:
        return
    if plan.draft.form != "gguf":
        raise InputError(
            f"Ollama's DRAFT takes the path of a file, not the name {plan.draft.name!r}; give the path"
        )
    architecture = " ".join(plan.draft.architectures).lower()
    if not any(mark in architecture for mark in _HEADS):
        raise InputError(
            f"Ollama cannot draft with a plain model such as {plan.draft.name!r} (architecture "
            f"{architecture or 'unknown'}): it would be run as MTP heads, which it is not. It drafts "
            "with MTP "
            "and DFlash heads only; serve this pair with llama-server, or with leadout"
        )


def _modelfile(plan: Plan) -> str:
    lines = [f"FROM {plan.target.given}"]
    if plan.draft is not None:
        lines += [f"DRAFT {plan.draft.given}", f"PARAMETER draft_num_predict {plan.k}"]
    if plan.serving.n_ctx is not None:
        lines.append(f"PARAMETER num_ctx {plan.serving.n_ctx}")
    if plan.serving.n_gpus == 0:
        lines.append("PARAMETER num_gpu 0")
    return "\n".join(lines) + "\n"


def _notes(plan: Plan) -> list[str]:
    if plan.kind == "none":
        return [
            "MTP heads inside the target stay off until PARAMETER draft_num_predict N is in the Modelfile"
        ]
    return [
        "to confirm: the server's log line `starting llama-server cmd=...` must have --spec-type in "
        "it; the API "
        "says nothing of drafts",
    ]


def _warnings(plan: Plan) -> list[str]:
    if plan.kind == "none":
        return []
    return [
        "draft_num_predict belongs to loading: a request with another value loads the model anew",
        "on the MLX runner a request with logprobs is not drafted for, without a word",
    ]


ENGINE = Engine(
    name="ollama",
    title="Ollama",
    installation=Installation(
        program="ollama",
        how="fetch it from ollama.com/download",
        assumed="0.33.0",
    ),
    set_up=set_up,
    drafts=(("model", DefaultK(k=4, why="Ollama's own default, set explicitly as it is not always on")),),
    port=11434,
    forms=("gguf", "name"),
    takes="a GGUF file, hf:user/repo[:quant], or a model of Ollama's own such as qwen2.5-coder:1.5b",
    image="ollama/ollama:{release}",
    image_program="ollama",
    confirm="the log line `starting llama-server cmd=...` has `--spec-type`; the API and metrics say nothing",
    silent="plain draft models run as MTP heads; embedded MTP heads stay off without `draft_num_predict`; "
    "logprobs park drafts on the MLX runner",
)
