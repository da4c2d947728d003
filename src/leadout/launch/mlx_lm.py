"""MLX-LM: one flag names the draft model; nothing tells whether it drafts.

Read in the wheel of 0.32.2.
"""

from __future__ import annotations

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


def set_up(plan: Plan, capabilities: Capabilities) -> Setup:
    """`mlx_lm.server`, with a draft model.

    Raises
    ------
    InputError
        If MLX-LM cannot do what the plan asks.
    """
    require_one_machine(plan, "MLX-LM with a draft model" if plan.draft else ENGINE.title)
    require_same_tokens(plan, "MLX-LM's server only warns of it and")
    refuse_twice(plan, "--draft-model", "--num-draft-tokens")
    argv = (
        capabilities.program,
        *options(
            ("--model", plan.target.given),
            ("--host", plan.serving.host),
            ("--port", plan.serving.port),
            ("--draft-model", plan.draft.given if plan.draft else None),
            ("--num-draft-tokens", plan.k if plan.draft else None),
        ),
        *plan.extra,
    )
    return Setup(
        engine=ENGINE.name,
        argv=argv,
        url=url_of(plan),
        health="/v1/models",
        notes=(*common_notes(plan), *_notes(plan)),
        warnings=(*common_warnings(plan), *_warnings(plan)),
    )


def _notes(plan: Plan) -> list[str]:
    if plan.draft is None:
        return []
    return [
        'to confirm: time the same request with and without "draft_model": null in its body; the server '
        "shows no count"
    ]


def _warnings(plan: Plan) -> list[str]:
    warnings = []
    if plan.serving.n_ctx is not None:
        warnings.append("mlx_lm.server has no option for the context, so --ctx is not passed on")
    if plan.draft is None:
        return warnings
    if plan.vocabulary is not None and plan.vocabulary.agreement in ("padded", "close"):
        warnings.append(
            "its server logs a warning for vocabularies of different size and drafts all the same"
        )
    warnings += [
        "a draft model turns off the batching of requests: with several at once it may be slower",
        "the draft model is used even for requests that name another model",
        "hybrid and recurrent targets (Qwen3-Next, 3.5, 3.6) fail with a ValueError when they draft",
    ]
    return warnings


ENGINE = Engine(
    name="mlx-lm",
    title="MLX-LM",
    installation=Installation(
        program="mlx_lm.server",
        distributions=("mlx-lm",),
        how="pip install mlx-lm (Apple silicon), or mlx-lm with mlx[cpu] or mlx[cuda13] elsewhere",
        assumed="0.32.2",
    ),
    set_up=set_up,
    drafts=(("model", DefaultK(k=3, why="the default of MLX-LM's server")),),
    port=8080,
    forms=("folder", "name"),
    takes="a model folder in MLX's format, or a hub repository (such as mlx-community/...)",
    instead="convert the model it was made from with mlx_lm.convert, or serve it with llama-server",
    takes_repositories=True,
    has_unit=False,
    confirm="nothing is reported: compare the time with `draft_model: null` in the request",
    silent="a vocabulary of another size (a log line only); batching goes off; `max_kv_size` is dropped",
)
