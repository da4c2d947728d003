"""LM Studio: the draft model belongs to each request; starting the server cannot turn it on.

Read in its documentation (app up to 0.4.20) and in the Python SDK 1.5.0.
"""

from __future__ import annotations

import json

from leadout.errors import InputError
from leadout.launch.arguments import (
    common_notes,
    common_warnings,
    options,
    require_one_machine,
    require_same_tokens,
    url_of,
)
from leadout.launch.capabilities import Capabilities, Installation
from leadout.launch.engine import DefaultK, Engine
from leadout.launch.plan import Plan
from leadout.launch.setup import Command, File, Setup


def set_up(plan: Plan, capabilities: Capabilities) -> Setup:
    """`lms server start` and `lms load`; a file shows what requests must carry.

    Raises
    ------
    InputError
        If arguments for the engine were given, which has none of its own.
    """
    require_one_machine(plan, ENGINE.title)
    require_same_tokens(plan, "LM Studio")
    if plan.extra:
        raise InputError(
            f"lms log stream takes none of {' '.join(plan.extra)}; set options in LM Studio itself"
        )
    lms, serving = capabilities.program, plan.serving
    gpu = None if serving.n_gpus is None else "max" if serving.n_gpus else "off"
    load = options(("--context-length", serving.n_ctx), ("--gpu", gpu))
    return Setup(
        engine=ENGINE.name,
        argv=(lms, "log", "stream"),
        before=(
            Command(
                argv=(lms, "server", "start", *options(("--port", serving.port), ("--bind", serving.host))),
                purpose="start the server; it stays when this command ends",
            ),
            Command(argv=(lms, "load", plan.target.given, *load, "--yes"), purpose="load the target"),
        ),
        closing=(Command(argv=(lms, "server", "stop"), purpose="stop the server"),),
        files=(File(name="request.json", text=_request(plan)),),
        url=url_of(plan),
        health="/v1/models",
        notes=(*common_notes(plan), *_notes(plan)),
        warnings=(*common_warnings(plan), *_warnings(plan)),
    )


def _request(plan: Plan) -> str:
    body: dict[str, object] = {
        "model": plan.target.given,
        "messages": [{"role": "user", "content": "Write a haiku about rain."}],
    }
    if plan.draft is not None:
        body["draft_model"] = plan.draft.given
    return json.dumps(body, indent=2) + "\n"


def _notes(plan: Plan) -> list[str]:
    if plan.draft is None:
        return []
    return [
        f'every request to /v1/chat/completions must carry "draft_model": "{plan.draft.given}", as in '
        "request.json; a request without it is answered plainly",
        "to confirm: stats.accepted_draft_tokens_count in the answer of /api/v0/chat/completions is above 0",
    ]


def _warnings(plan: Plan) -> list[str]:
    if plan.draft is None:
        return []
    return [
        "MTP heads are another thing: an option of loading, off by default, since 0.4.14",
        "counts of accepted tokens looked too high on MLX models",
    ]


ENGINE = Engine(
    name="lmstudio",
    title="LM Studio",
    installation=Installation(
        program="lms",
        how="install LM Studio (lmstudio.ai), start it once, and put lms on PATH",
        assumed="0.4.20",
        version_arguments=("version",),
        version_pattern=r"v?(\d+\.\d[\w.+-]*)",
        asks_help=True,
        assumed_words=frozenset({"load", "server", "log"}),
    ),
    set_up=set_up,
    drafts=(("model", DefaultK(k=None, why="left to LM Studio; its REST requests have no field for it")),),
    port=1234,
    forms=("name",),
    takes="a model key of LM Studio, as `lms ls` lists them",
    instead="bring the file into LM Studio with `lms import FILE`, then give its key",
    has_unit=False,
    confirm="`stats.accepted_draft_tokens_count` of an answer is above 0",
    silent="a request without `draft_model` is answered plainly; the list of compatible drafts is "
    "often empty",
)
