"""SGLang: algorithm and draft model are two flags, and the second alone does nothing.

Read in the wheel of 0.5.23 (arg_groups/fields/spec.py, speculative_hook.py).
"""

from __future__ import annotations

from leadout.errors import InputError
from leadout.launch.arguments import (
    common_notes,
    common_warnings,
    options,
    refuse_twice,
    require_same_tokens,
    url_of,
)
from leadout.launch.capabilities import Capabilities, Installation
from leadout.launch.engine import DefaultK, Engine
from leadout.launch.plan import Plan
from leadout.launch.setup import Command, Setup

USUAL_LIMIT = 48
_DIST_PORT = 20000


def set_up(plan: Plan, capabilities: Capabilities) -> Setup:
    """`python -m sglang.launch_server`, with speculation.

    Raises
    ------
    InputError
        If SGLang cannot do what the plan asks.
    """
    _check(plan)
    serving = plan.serving
    arguments = [
        *options(
            ("--model-path", plan.target.given),
            ("--host", serving.host),
            ("--port", serving.port),
            ("--context-length", serving.n_ctx),
            ("--max-running-requests", serving.n_parallel),
        ),
        "--enable-metrics",
        *(["--device", "cpu"] if serving.n_gpus == 0 else []),
        *(["--tp-size", str(serving.n_tensor)] if serving.n_tensor > 1 else []),
        *(["--pp-size", str(serving.n_pipeline)] if serving.n_pipeline > 1 else []),
        *_speculation(plan),
    ]
    argv = (capabilities.python or "python3", "-m", "sglang.launch_server", *arguments)
    lines = [(*argv, *_node(plan, rank), *plan.extra) for rank in range(serving.n_nodes)]
    return Setup(
        engine=ENGINE.name,
        argv=lines[serving.node_rank],
        environment=(("SGLANG_ENABLE_PP_SPEC", "1"),)
        if _algorithm(plan) == "EAGLE" and _is_piped(plan)
        else (),
        elsewhere=tuple(
            Command(argv=line, purpose=f"on machine {rank}")
            for rank, line in enumerate(lines)
            if rank != serving.node_rank
        ),
        url=url_of(plan),
        health="/health",
        notes=(*common_notes(plan), *_notes(plan)),
        warnings=(*common_warnings(plan), *_warnings(plan)),
    )


def _check(plan: Plan) -> None:
    algorithm = _algorithm(plan)
    if algorithm:
        refuse_twice(
            plan,
            "--speculative-algorithm",
            "--speculative-draft-model-path",
            "--speculative-draft-model",
            "--speculative-num-steps",
            "--speculative-eagle-topk",
            "--speculative-num-draft-tokens",
        )
    if algorithm and algorithm != "EAGLE" and _is_piped(plan):
        raise InputError(
            f"SGLang has no pipeline with {algorithm} drafts; split by tensors alone "
            "(--pipeline-parallel 1), "
            "or give --draft none"
        )
    if algorithm == "STANDALONE" and plan.vocabulary is not None:
        require_same_tokens(plan, "SGLang")
        if plan.vocabulary.agreement in ("padded", "close"):
            raise InputError(
                "SGLang refuses a draft model whose vocabulary is not the target's in size and in "
                "every token: "
                f"{plan.vocabulary.sentence}; take another draft model, or --draft ngram"
            )


def _is_piped(plan: Plan) -> bool:
    return plan.serving.n_pipeline > 1


def _algorithm(plan: Plan) -> str:
    """By what the draft's config.json says it is: an EAGLE3 head under EAGLE drafts nothing, silently."""
    if plan.kind == "ngram":
        return "NGRAM"
    if plan.draft is None:
        return ""
    architectures = " ".join(plan.draft.architectures).lower()
    for mark in ("eagle3", "eagle", "dflash", "dspark"):
        if mark in architectures:
            return mark.upper()
    return "STANDALONE"


def _speculation(plan: Plan) -> list[str]:
    algorithm = _algorithm(plan)
    if not algorithm:
        return []
    if plan.draft is None:
        return options(("--speculative-algorithm", algorithm), ("--speculative-num-draft-tokens", plan.k))
    steps = plan.k
    return options(
        ("--speculative-algorithm", algorithm),
        ("--speculative-draft-model-path", plan.draft.given),
        ("--speculative-num-steps", steps),
        ("--speculative-eagle-topk", None if steps is None else 1),
        ("--speculative-num-draft-tokens", None if steps is None else steps + 1),
    )


def _node(plan: Plan, rank: int) -> list[str]:
    serving = plan.serving
    if serving.n_nodes == 1:
        return []
    return options(
        ("--nnodes", serving.n_nodes),
        ("--node-rank", rank),
        ("--dist-init-addr", f"{serving.head}:{_DIST_PORT}"),
    )


def _notes(plan: Plan) -> list[str]:
    notes = []
    if plan.draft is not None and plan.serving.n_tensor > 1:
        notes.append(
            f"the draft model takes the target's layout: it is split {plan.serving.n_tensor} ways, "
            "over all machines"
        )
    if plan.draft is not None and _is_piped(plan):
        notes.append("the head lies on the last pipeline stage, and its schedule does not overlap")
    if plan.kind == "model":
        notes.append("steps, topk and draft tokens are given together; SGLang wants all or none of them")
    if plan.kind != "none":
        notes.append(
            "to confirm: sglang:spec_verify_calls_total at /metrics must grow; spec_accept_length is "
            "0 without "
            "speculation and there all the same"
        )
    return notes


def _warnings(plan: Plan) -> list[str]:
    if plan.kind == "none":
        return []
    warnings = [
        "min_p is ignored without a word while it speculates",
        "on CPU, on XPU, and on ROCm without rejection sampling every request is verified greedily: "
        "temperature and top_p are ignored",
    ]
    if plan.serving.n_parallel is None:
        warnings.append(
            f"speculation caps SGLang at {USUAL_LIMIT} requests at once; set another number with --parallel"
        )
    if plan.serving.n_gpus == 0:
        warnings.append("on a CPU it speculates with Intel AMX only, and in a build from source")
    return warnings


ENGINE = Engine(
    name="sglang",
    title="SGLang",
    installation=Installation(
        program="sglang",
        distributions=("sglang",),
        how='pip install "sglang[all]" in an environment of its own (it needs a GPU)',
        assumed="0.5.23",
    ),
    set_up=set_up,
    drafts=(
        ("model", DefaultK(k=3, why="SGLang's own default of 3 steps, so 4 draft tokens with topk 1")),
        ("ngram", DefaultK(k=12, why="SGLang's own default for n-grams")),
    ),
    port=30000,
    forms=("folder", "name"),
    takes="a model folder with config.json and safetensors, or a hub repository (user/repo)",
    instead="give the folder or repository that the GGUF file was made from, or serve it with llama-server",
    takes_repositories=True,
    is_distributed=True,
    image="lmsysorg/sglang:v{release}",
    image_program="sglang",
    needs_gpu=True,
    confirm="`sglang:spec_verify_calls_total` at `/metrics` grows (needs `--enable-metrics`, which is set)",
    silent="a draft path without an algorithm; an EAGLE3 head under EAGLE; min_p; sampling on CPU, "
    "XPU and some ROCm",
)
