"""Token tables from the files of the Hugging Face hub: tokenizer.json and what lies beside it.

Source: the `tokenizers` library's serialisation (model, added_tokens, decoder, post_processor).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from leadout.errors import ModelFileError
from leadout.models.token_table import Key, Spelling, TokenTable, byte_of, is_padding, spelled_bytes

FILE = "tokenizer.json"


def read_tokenizer(path: Path) -> TokenTable:
    """The table of a tokenizer.json, or of the one in a folder.

    A config.json beside it tells the rows of the output layer, a tokenizer_config.json the tokens that begin
    and end a text.

    Raises
    ------
    ModelFileError
        If there is none, or it is damaged.
    """
    file = path / FILE if path.is_dir() else path
    found = _read(file)
    model = found.get("model")
    entries = _entries(model.get("vocab")) if isinstance(model, Mapping) else {}
    if not isinstance(model, Mapping) or not entries:
        raise ModelFileError(f"{file} has no model with a vocab, so it is no tokenizer; fetch it again")
    keys = _keys(entries, found, _spelling(found))
    beside = file.parent
    n_rows = _rows(beside / "config.json")
    keys.extend([None] * (n_rows - len(keys)))
    ids = {text: token for token, text in _all_texts(entries, found)}
    policy = _read(beside / "tokenizer_config.json") if (beside / "tokenizer_config.json").exists() else {}
    bos = ids.get(_token_text(policy.get("bos_token")))
    adds_bos = policy.get("add_bos_token", bos is not None and bos in _put_in_front(found))
    return TokenTable(
        keys=tuple(keys),
        bos=bos,
        eos=ids.get(_token_text(policy.get("eos_token"))),
        adds_bos=bool(adds_bos),
        kind=str(model.get("type") or ""),
        pre_tokenizer="+".join(_steps(found.get("pre_tokenizer"))),
    )


def _read(file: Path) -> Mapping[str, object]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelFileError(f"{file} cannot be read: {error}") from error
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{file} is damaged, it is not JSON; fetch it again") from error
    if not isinstance(found, dict):
        raise ModelFileError(f"{file} is damaged, it has no JSON object; fetch it again")
    return found


def _entries(vocab: object) -> dict[int, str]:
    """Entries of the model by id; unigram models have a list of pairs, the others an object."""
    if isinstance(vocab, Mapping):
        return {token: text for text, token in vocab.items() if isinstance(token, int) and token >= 0}
    if isinstance(vocab, list):
        return {i: str(pair[0]) for i, pair in enumerate(vocab) if isinstance(pair, list) and pair}
    return {}


def _added(found: Mapping[str, object]) -> Iterator[tuple[int, str, bool]]:
    """Id, text and whether it is special, of each added token."""
    added = found.get("added_tokens")
    for each in added if isinstance(added, list) else []:
        if isinstance(each, Mapping) and isinstance(each.get("id"), int):
            yield each["id"], str(each.get("content", "")), bool(each.get("special"))


def _all_texts(entries: Mapping[int, str], found: Mapping[str, object]) -> Iterator[tuple[int, str]]:
    yield from entries.items()
    yield from ((token, text) for token, text, _ in _added(found))


def _keys(entries: Mapping[int, str], found: Mapping[str, object], spelling: Spelling) -> list[Key]:
    added = list(_added(found))
    size = 1 + max([*entries, *(token for token, _, _ in added)])
    keys: list[Key] = [None] * size
    for (token, text), piece in zip(
        entries.items(), spelled_bytes(list(entries.values()), spelling), strict=True
    ):
        if not is_padding(token, text):
            keys[token] = (byte_of(text) if spelling == "words" else None) or piece
    for token, text, is_special in added:
        keys[token] = text if is_special else text.encode()
    return keys


def _spelling(found: Mapping[str, object]) -> Spelling:
    steps = {*_steps(found.get("decoder")), *_steps(found.get("pre_tokenizer"))}
    if "ByteLevel" in steps:
        return "bytes"
    return "words" if steps & {"Metaspace", "Replace", "ByteFallback"} else "plain"


def _steps(part: object) -> list[str]:
    """Kinds of the steps of a pre-tokenizer or decoder, nested sequences flattened."""
    if not isinstance(part, Mapping):
        return []
    inner = part.get("pretokenizers") or part.get("decoders")
    if isinstance(inner, list):
        return [step for each in inner for step in _steps(each)]
    return [str(part.get("type", ""))]


def _put_in_front(found: Mapping[str, object]) -> set[int]:
    """Ids that the post-processor puts before a text."""
    processors = [found.get("post_processor")]
    front: set[int] = set()
    while processors:
        part = processors.pop()
        if not isinstance(part, Mapping):
            continue
        inner, single = part.get("processors"), part.get("single")
        processors += inner if isinstance(inner, list) else []
        first = single[0] if isinstance(single, list) and single else None
        special = first.get("SpecialToken") if isinstance(first, Mapping) else None
        known = part.get("special_tokens")
        if isinstance(special, Mapping) and isinstance(known, Mapping):
            entry = known.get(special.get("id"))
            front.update(entry.get("ids", []) if isinstance(entry, Mapping) else [])
    return front


def _token_text(value: object) -> str:
    """The text of a token that tokenizer_config.json names, as text or as an object."""
    if isinstance(value, Mapping):
        value = value.get("content")
    return value if isinstance(value, str) else ""


def _rows(config: Path) -> int:
    """Rows of the output layer, 0 where nobody says."""
    if not config.exists():
        return 0
    found = _read(config)
    inner = found.get("text_config")
    size = found.get("vocab_size", inner.get("vocab_size", 0) if isinstance(inner, Mapping) else 0)
    return size if isinstance(size, int) else 0
