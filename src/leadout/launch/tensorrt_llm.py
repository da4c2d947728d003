"""TensorRT-LLM: speculation is a section of a YAML file; no flag and no variable turns it on.

Read in the sources and documentation of 1.2.0 (PyTorch backend).
"""

from __future__ import annotations

import yaml

from leadout.errors import InputError
from leadout.launch.arguments import common_notes, common_warnings, options, require_same_tokens, url_of
from leadout.launch.capabilities import Capabilities, Installation
from leadout.launch.engine import DefaultK, Engine
from leadout.launch.plan import Plan
from leadout.launch.setup import File, Setup

CONFIG = "tensorrt-llm.yaml"
_LONGEST_MATCH = 3


def set_up(plan: Plan, capabilities: Capabilities) -> Setup:
    """`trtllm-serve` with a configuration file.

    Raises
    ------
    InputError
        If TensorRT-LLM cannot do what the plan asks.
    """
    serving = plan.serving
    if plan.kind != "none" and serving.n_pipeline > 1:
        raise InputError(
            "TensorRT-LLM cannot speculate in a pipeline; split by tensors alone (--pipeline-parallel 1), or "
            "give --draft none"
        )
    require_same_tokens(plan, "TensorRT-LLM, which compares no vocabularies,")
    serve = (
        capabilities.program,
        plan.target.given,
        *options(
            ("--host", serving.host),
            ("--port", serving.port),
            ("--max_seq_len", serving.n_ctx),
            ("--max_batch_size", serving.n_parallel),
            ("--tp_size", serving.n_tensor if serving.n_tensor > 1 else None),
            ("--pp_size", serving.n_pipeline if serving.n_pipeline > 1 else None),
            ("--config", CONFIG),
        ),
        *plan.extra,
    )
    return Setup(
        engine=ENGINE.name,
        argv=(*_mpi(plan), *serve),
        files=(File(name=CONFIG, text=_config(plan, capabilities)),),
        url=url_of(plan),
        health="/health",
        notes=(*common_notes(plan), *_notes(plan)),
        warnings=(*common_warnings(plan), *_warnings(plan)),
    )


def _config(plan: Plan, capabilities: Capabilities) -> str:
    config: dict[str, object] = {"enable_iter_perf_stats": True}
    if plan.draft is not None:
        kind = _decoding_type(plan, capabilities)
        speculative: dict[str, object] = {
            "decoding_type": kind,
            "max_draft_len": plan.k,
            "speculative_model": plan.draft.given,
        }
        if kind != "DraftTarget":
            speculative["allow_advanced_sampling"] = True
        else:
            config["disable_overlap_scheduler"] = True
        config["speculative_config"] = speculative
    elif plan.kind == "ngram":
        config["disable_overlap_scheduler"] = True
        config["speculative_config"] = {
            "decoding_type": "NGram",
            "max_draft_len": plan.k,
            "max_matching_ngram_size": _LONGEST_MATCH,
            "is_keep_all": True,
            "is_use_oldest": False,
            "is_public_pool": False,
        }
    return str(yaml.safe_dump(config, sort_keys=False))


def _decoding_type(plan: Plan, capabilities: Capabilities) -> str:
    """By what the draft's config.json says it is; 1.2 has no key Eagle3, newer versions have."""
    architectures = " ".join(plan.draft.architectures).lower() if plan.draft is not None else ""
    if "eagle" in architectures:
        return "Eagle3" if capabilities.is_at_least("1.3") else "Eagle"
    return "DraftTarget"


def _mpi(plan: Plan) -> tuple[str, ...]:
    """Over several machines one mpirun starts all ranks, so nothing is run on the others."""
    serving = plan.serving
    if serving.n_nodes == 1:
        return ()
    return ("mpirun", "-n", str(serving.n_workers), "--hostfile", "hosts.txt", "trtllm-llmapi-launch")


def _notes(plan: Plan) -> list[str]:
    notes = []
    if plan.draft is not None and plan.serving.n_tensor > 1:
        notes.append(f"the draft model is split {plan.serving.n_tensor} ways like the target")
    if plan.serving.n_nodes > 1:
        notes.append(
            f"write hosts.txt first, one line for each of the {plan.serving.n_nodes} machines: ADDRESS "
            f"slots={plan.serving.n_gpus}; mpirun reaches them over ssh and starts all ranks from here"
        )
    if plan.kind != "none":
        notes.append(
            "to confirm: specDecodingStats in GET /metrics; each read empties it, and enable_iter_perf_stats "
            "in the file makes it appear"
        )
    return notes


def _warnings(plan: Plan) -> list[str]:
    if plan.kind == "none":
        return []
    warnings = ["logits processors are not honoured while it speculates"]
    if plan.vocabulary is not None and plan.vocabulary.agreement in ("padded", "close"):
        warnings.append(
            "TensorRT-LLM compares no vocabularies, and how it takes such a pair is not known here"
        )
    if plan.draft is not None and any("eagle" in each.lower() for each in plan.draft.architectures):
        warnings.append(
            "one-model heads sample greedily, whatever the temperature, without "
            "allow_advanced_sampling, which "
            "is set here"
        )
    return warnings


ENGINE = Engine(
    name="tensorrt-llm",
    title="TensorRT-LLM",
    installation=Installation(
        program="trtllm-serve",
        distributions=("tensorrt_llm", "tensorrt-llm"),
        how="pip install tensorrt_llm in an environment of its own, or use its container (it needs a GPU)",
        assumed="1.2.0",
    ),
    set_up=set_up,
    drafts=(
        ("model", DefaultK(k=3, why="the value of TensorRT-LLM's own examples")),
        ("ngram", DefaultK(k=3, why="the default here; it verifies as many tokens in every round")),
    ),
    port=8000,
    forms=("folder", "name"),
    takes="a model folder with config.json and safetensors, or a hub repository (user/repo)",
    instead="give the folder or repository that the GGUF file was made from, or serve it with llama-server",
    takes_repositories=True,
    is_distributed=True,
    image="nvcr.io/nvidia/tensorrt-llm/release:{release}",
    image_program="trtllm-serve",
    needs_gpu=True,
    confirm="`specDecodingStats` in `GET /metrics` (JSON, emptied by reading)",
    silent="temperature with one-model heads unless `allow_advanced_sampling`; `max_concurrency`, "
    "`acceptance_window` turn speculation off, the latter for good",
)
