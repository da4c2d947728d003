"""Decoding what a receipt is about once more, plainly, and comparing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from leadout import __version__
from leadout.engine.engine import Engine
from leadout.engine.result import Result
from leadout.errors import InputError
from leadout.models.cpu import read_cpu
from leadout.models.gguf import GgufModel
from leadout.models.open import Provider, open_model
from leadout.receipts.hashes import hash_of_ids, hash_of_text, record_files
from leadout.receipts.receipt import AnswerRecord, Receipt
from leadout.store import Progress, resolve


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Where an answer differs.

    Parameters
    ----------
    index : int
        The answer.
    at : int
        The first token that is another one, or that one side lacks.
    was, now : int or None
        The receipt's token there, and the replay's; None behind the end.
    """

    index: int
    at: int
    was: int | None
    now: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What a replay came to; `notes` are what may explain a difference."""

    results: tuple[Result, ...]
    differences: tuple[Difference, ...]
    notes: tuple[str, ...] = ()

    @property
    def is_same(self) -> bool:
        """Whether every answer came out as the receipt has it."""
        return not self.differences


def open_target(
    receipt: Receipt,
    model: str | None = None,
    *,
    any_version: bool = False,
    offline: bool = False,
    progress: Progress | None = None,
) -> GgufModel:
    """The receipt's target, loaded as it was then, once its files are seen to be the same.

    Parameters
    ----------
    receipt : Receipt
    model : str or None
        Name or path of the model; None takes the receipt's own name for it.
    any_version : bool
        Also with other versions of leadout and of the library, whose arithmetic may differ.
    offline : bool
        Make no network call.
    progress : Progress or None
        Told of downloads and hashing.

    Raises
    ------
    InputError
        If the files, or without `any_version` the versions, are others, or the receipt names no file.
    StoreError, ModelFileError, ProviderError
        If the model cannot be found or loaded.
    """
    target = receipt.target
    if not target.files:
        raise InputError(f"the receipt's model {target.name} came from no file, so it cannot be loaded again")
    _require_version("leadout", receipt.version, __version__, any_version=any_version)
    path = resolve(model or target.name, offline=offline, progress=progress).path
    found = record_files(path, progress=progress)
    hashes = [each.sha256 for each in target.files], [each.sha256 for each in found]
    if hashes[0] != hashes[1]:
        raise InputError(
            f"{path} is not the receipt's model: its sha256 is {hashes[1][0][:16]}..., the receipt's "
            f"{hashes[0][0][:16]}... ({target.files[0].name}); give the right file with --model"
        )
    opened = open_model(
        path,
        name=target.name,
        provider=_provider(target.provider),
        options=replace(target.options, n_slots=1),
        reason="as in the receipt",
    )
    try:
        version = opened.info.provider_version
        _require_version(target.provider, target.provider_version, version, any_version=any_version)
    except InputError:
        opened.close()
        raise
    return opened


def replay(receipt: Receipt, engine: Engine, prompt_ids: Sequence[int] | None = None) -> Replay:
    """Decode plainly what the receipt is about.

    Parameters
    ----------
    receipt : Receipt
    engine : Engine
        With the receipt's target; see `open_target`.
    prompt_ids : sequence of int or None
        The prompt, where the receipt has its hash alone.

    Raises
    ------
    InputError
        If there is no prompt, or it is another one.
    """
    ids = receipt.prompt.ids if prompt_ids is None else tuple(prompt_ids)
    if ids is None:
        raise InputError(
            "the receipt has no prompt, only its hash; give it with --prompt, --prompt-file or --messages"
        )
    if hash_of_ids(ids) != receipt.prompt.sha256:
        raise InputError(
            f"the prompt is another one: it has {len(ids)} tokens, the receipt's has "
            f"{receipt.prompt.n_tokens}, and their hashes differ"
        )
    results = engine.generate_many(ids, replace(receipt.params, speculate=False))
    differences = [
        each
        for answer in receipt.answers
        for each in [_difference(answer, results[answer.index])]
        if each is not None
    ]
    return Replay(results=tuple(results), differences=tuple(differences), notes=_notes(receipt, engine))


def _difference(was: AnswerRecord, now: Result) -> Difference | None:
    if was.ids == now.ids and was.text_sha256 == hash_of_text(now.text):
        return None
    n = min(len(was.ids), len(now.ids))
    at = next((i for i in range(n) if was.ids[i] != now.ids[i]), n)
    return Difference(
        index=was.index,
        at=at,
        was=was.ids[at] if at < len(was.ids) else None,
        now=now.ids[at] if at < len(now.ids) else None,
    )


def _notes(receipt: Receipt, engine: Engine) -> tuple[str, ...]:
    """What of the machine or the program is not as it was."""
    pairs = (
        ("CPU", receipt.target.cpu, read_cpu().model),
        ("leadout", receipt.version, __version__),
        (receipt.target.provider, receipt.target.provider_version, engine.target.info.provider_version),
    )
    return tuple(f"{what} was {was}, and is {now} here" for what, was, now in pairs if was != now)


def _require_version(what: str, was: str, now: str, *, any_version: bool) -> None:
    if was != now and not any_version:
        raise InputError(
            f"the receipt was made with {what} {was}, and this is {now}, which may compute otherwise; "
            "install that one, or try with --any-version"
        )


def _provider(name: str) -> Provider:
    match name:
        case "ik" | "llama":
            return name
    raise InputError(f"the receipt's model was run by {name!r}; ik and llama can run files here")
