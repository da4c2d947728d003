from __future__ import annotations

import pytest

from leadout.errors import StoreError
from leadout.store.quants import choose_files

QWEN = [f"qwen2.5-coder-1.5b-instruct-{q}.gguf" for q in ("q2_k", "q4_0", "q4_k_m", "q5_0", "q8_0")]
SPLIT = [f"Q8_0/big-Q8_0-0000{i}-of-00002.gguf" for i in (1, 2)]


@pytest.mark.parametrize(
    ("names", "choice", "chosen"),
    [
        (QWEN, None, ("qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",)),
        (QWEN, "Q8_0", ("qwen2.5-coder-1.5b-instruct-q8_0.gguf",)),
        (QWEN, "q2_K", ("qwen2.5-coder-1.5b-instruct-q2_k.gguf",)),
        (["a.Q8_0.gguf", "a.Q4_0.gguf"], None, ("a.Q4_0.gguf",)),
        (["a-odd-name.gguf", "README.md"], None, ("a-odd-name.gguf",)),
        (["a-Q4_K_M.gguf", "mmproj-a-Q8_0.gguf"], None, ("a-Q4_K_M.gguf",)),
        (["a-IQ4_XS.gguf", "a-Q4_K_S.gguf"], "Q4_K_S", ("a-Q4_K_S.gguf",)),
        (["a-UD-Q4_K_XL.gguf", "a-Q4_0.gguf"], "ud-q4_k_xl", ("a-UD-Q4_K_XL.gguf",)),
        (["x-Q4_0.gguf", *reversed(SPLIT)], "Q8_0", tuple(SPLIT)),
        (["x-Q4_0.gguf", *SPLIT], SPLIT[1], tuple(SPLIT)),
        (["deep/a-Q4_0.gguf", "b-Q4_0.gguf"], "a-Q4_0.gguf", ("deep/a-Q4_0.gguf",)),
    ],
)
def test_the_file_meant_is_chosen(names: list[str], choice: str | None, chosen: tuple[str, ...]) -> None:
    assert choose_files(names, choice, where="hf:u/r") == chosen


@pytest.mark.parametrize("choice", ["Q4_K", "4_0", "Q6_K"])
def test_a_quantisation_that_is_not_there_lists_what_is(choice: str) -> None:
    with pytest.raises(
        StoreError, match=rf"hf:u/r has no '{choice}'; name one of its files: qwen.*q2_k\.gguf, "
    ):
        choose_files(QWEN, choice, where="hf:u/r")


def test_a_repository_of_unusual_quantisations_has_no_default() -> None:
    with pytest.raises(
        StoreError, match=r"has none of Q4_K_M, .*name one of its files: a-Q2_K.gguf, a-Q3_K_L.gguf"
    ):
        choose_files(["a-Q2_K.gguf", "a-Q3_K_L.gguf"], None, where="hf:u/r")


def test_several_fitting_files_are_listed() -> None:
    with pytest.raises(
        StoreError, match=r"'Q4_0' fits 2 files of hf:u/r; name one of them: a-Q4_0.gguf, b-Q4_0.gguf"
    ):
        choose_files(["b-Q4_0.gguf", "a-Q4_0.gguf"], "Q4_0", where="hf:u/r")
    with pytest.raises(StoreError, match=r"the default fits 2 files"):
        choose_files(["b-Q4_0.gguf", "a-Q4_0.gguf"], None, where="hf:u/r")


def test_a_long_list_is_cut() -> None:
    with pytest.raises(StoreError, match=r"m11\.gguf and 8 more$"):
        choose_files([f"m{i:02d}.gguf" for i in range(20)], "Q4_0", where="hf:u/r")


def test_a_repository_without_gguf_files_is_refused() -> None:
    with pytest.raises(StoreError, match="hf:u/r holds no GGUF model"):
        choose_files(["model.safetensors", "mmproj-x.gguf"], None, where="hf:u/r")


def test_a_split_model_that_lacks_a_part_is_refused() -> None:
    with pytest.raises(StoreError, match=r"lacks 'Q8_0/big-Q8_0-00002-of-00002.gguf', one of 2 parts"):
        choose_files(SPLIT[:1], "Q8_0", where="hf:u/r")
