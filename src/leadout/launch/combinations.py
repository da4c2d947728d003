"""Flags that do nothing without another one: the silent no-ops of each engine's own command line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise

from leadout.launch.arguments import names_given
from leadout.launch.capabilities import Capabilities

_SGLANG_SHAPE = ("--speculative-num-steps", "--speculative-eagle-topk", "--speculative-num-draft-tokens")


def find_useless(engine: str, capabilities: Capabilities, extra: Sequence[str]) -> list[str]:
    """What the user's own arguments for an engine lack to have an effect; empty where nothing does."""
    match engine:
        case "sglang":
            return _sglang(names_given(extra))
        case "llama-server":
            return _llama_server(extra, capabilities)
        case "vllm":
            return _vllm(extra)
        case _:
            return []


def _sglang(given: frozenset[str]) -> list[str]:
    messages = []
    has_draft = bool(given & {"--speculative-draft-model-path", "--speculative-draft-model"})
    if has_draft and "--speculative-algorithm" not in given:
        messages.append(
            "--speculative-draft-model-path without --speculative-algorithm: SGLang fetches the draft "
            "and ignores "
            "it without a word; add --speculative-algorithm STANDALONE, or use leadout's --draft"
        )
    shape = [flag for flag in _SGLANG_SHAPE if flag in given]
    if 0 < len(shape) < len(_SGLANG_SHAPE):
        if shape == ["--speculative-num-draft-tokens"]:
            return messages  # n-grams take this one alone
        messages.append(
            f"{', '.join(shape)} alone: SGLang wants steps, topk and draft tokens all or none; use "
            "leadout's -k"
        )
    return messages


def _llama_server(extra: Sequence[str], capabilities: Capabilities) -> list[str]:
    given = names_given(extra)
    has_draft = bool(given & {"-md", "--model-draft", "--spec-draft-model", "-hfd"})
    if not capabilities.knows("--spec-type"):
        return []
    if has_draft and "--spec-type" not in given:
        return [
            "-md without --spec-type: llama-server loads the draft, frees it again and says nothing; add "
            "--spec-type draft-simple, or use leadout's --draft"
        ]
    if not has_draft and any("draft-simple" in argument for argument in extra):
        return [
            "--spec-type draft-simple without -md: llama-server answers at plain speed and says nothing; use "
            "leadout's --draft MODEL"
        ]
    return []


def _vllm(extra: Sequence[str]) -> list[str]:
    for flag, value in pairwise(extra):
        if flag not in ("--speculative-config", "-sc"):
            continue
        try:
            config = json.loads(value)
        except ValueError:
            return [f"{flag} is no JSON object: {value[:60]!r}; write it as '{{\"method\": ...}}'"]
        if isinstance(config, dict) and "model" in config and "method" not in config:
            return [
                f"{flag} has a model and no method: vLLM guesses it from the model's name; add "
                '"method": "draft_model", or use leadout\'s --draft'
            ]
    return []
