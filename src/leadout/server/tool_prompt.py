"""Tools for models whose chat template knows none: written into the system message, in the Hermes form."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

_BEFORE = (
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
    "You are provided with function signatures within <tools></tools> XML tags:\n<tools>\n"
)
_AFTER = (
    "\n</tools>\n\nFor each function call, return a json object with function name and arguments within "
    "<tool_call></tool_call> XML tags:\n<tool_call>\n"
    '{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>'
)


def with_tools_written_out(
    messages: Sequence[Mapping[str, object]], tools: Sequence[Mapping[str, object]]
) -> list[dict[str, object]]:
    """The same conversation in messages of system, user and assistant that have text alone.

    Tools are described in the system message; earlier calls and their results become text in the form that
    the description asks for.
    """
    written = [_as_text(message) for message in messages]
    if not tools:
        return written
    text = _BEFORE + "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools) + _AFTER
    if written and written[0]["role"] == "system":
        return [{**written[0], "content": f"{written[0]['content']}\n\n{text}"}, *written[1:]]
    return [{"role": "system", "content": text}, *written]


def _as_text(message: Mapping[str, object]) -> dict[str, object]:
    content = str(message.get("content") or "")
    if message["role"] == "tool":
        return {"role": "user", "content": f"<tool_response>\n{content}\n</tool_response>"}
    calls = message.get("tool_calls")
    texts = [content] if content else []
    for call in calls if isinstance(calls, list) else []:
        function = call["function"]
        texts.append(
            f'<tool_call>\n{{"name": {json.dumps(function["name"])}, '
            f'"arguments": {function["arguments"]}}}\n</tool_call>'
        )
    return {"role": message["role"], "content": "\n".join(texts)}
