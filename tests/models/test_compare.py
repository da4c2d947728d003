import json
import time
from pathlib import Path

import numpy as np
import pytest
from vocabularies import FileVocabulary, ListVocabulary

from leadout.errors import ModelFileError
from leadout.models.compare import MIN_AGREEMENT, Comparison, compare, compare_files, compare_tables
from leadout.models.token_table import Key, TokenTable, read_table, table_of_vocabulary
from leadout.testing import PieceVocabulary
from real_models import real_model

LETTERS = list("abcdefghij")


def table(*keys: Key, bos: int | None = None, eos: int | None = None) -> TokenTable:
    return TokenTable(keys=keys, bos=bos, eos=eos, adds_bos=bos is not None)


def letters(target: list[str], draft: list[str]) -> Comparison:
    return compare(ListVocabulary(target), ListVocabulary(draft))


def test_one_vocabulary_is_identical_and_says_so() -> None:
    found = letters(LETTERS, LETTERS)
    assert (found.kind, found.n_same, found.n_tokens, found.differing) == ("identical", 10, 10, ())
    assert found.explain() == "compatible"
    assert found.to_target.tolist() == list(range(10))


@pytest.mark.parametrize("padding", [["", ""], ["[PAD10]", "[PAD11]"]])
def test_two_padding_rows_of_the_target_are_ignored(padding: list[str]) -> None:
    found = letters(LETTERS + padding, LETTERS)
    assert (found.kind, found.n_tokens, found.differing) == ("padded", 10, ())
    assert found.explain() == "compatible, 2 rows without a token ignored"


def test_padding_rows_of_the_draft_are_ignored_and_never_proposed() -> None:
    found = letters(LETTERS, [*LETTERS, "[PAD10]"])
    assert (found.kind, found.agreement) == ("padded", 1.0)
    assert found.explain() == "compatible, 1 row without a token ignored"
    assert found.to_target.tolist() == [*range(10), -1]


def test_placeholders_of_different_libraries_are_the_same_padding() -> None:
    assert letters([*LETTERS, ""], [*LETTERS, "[PAD10]"]).kind == "identical"


def test_a_token_that_looks_like_padding_elsewhere_is_a_token() -> None:
    found = letters([*LETTERS, "[PAD]"], [*LETTERS, "[PAD3]"])
    assert (found.kind, found.differing) == ("listed", (10,))


def test_a_token_of_the_draft_where_the_target_has_padding_is_never_proposed() -> None:
    assert letters([*LETTERS, "[PAD10]"], [*LETTERS, "<call>"]).differing == (10,)


def test_few_differing_ids_are_listed_and_do_not_forbid() -> None:
    found = letters(LETTERS, ["a", "X", *LETTERS[2:]])
    assert (found.kind, found.differing, found.n_same) == ("listed", (1,), 9)
    assert found.agreement == MIN_AGREEMENT
    assert found.explain() == "compatible, 1 id never proposed (other text: 1)"


def test_many_differing_ids_are_counted_and_the_first_named() -> None:
    texts = [f"t{i}" for i in range(100)]
    found = letters(texts, [f"x{i}" if i < 5 else text for i, text in enumerate(texts)])
    assert found.explain() == "compatible, 5 ids never proposed (other text: 0, 1, 2, ...)"


def test_a_draft_that_lacks_the_last_tokens_says_so() -> None:
    texts = [f"t{i}" for i in range(100)]
    found = letters(texts, texts[:95])
    assert (found.kind, found.differing) == ("listed", ())
    assert found.explain() == "compatible, 5 tokens of the target unknown to the draft"


def test_further_tokens_of_the_draft_are_never_proposed() -> None:
    assert letters(LETTERS, [*LETTERS, "k", "l"]).differing == (10, 11)


def test_a_token_that_is_special_on_one_side_alone_is_the_same_token() -> None:
    pieces = [letter.encode() for letter in LETTERS]
    ours, theirs = table(*pieces, b"<think>"), table(*pieces, "<think>")
    assert compare_tables(ours, theirs).kind == "identical"
    assert compare_tables(theirs, ours).kind == "identical"


def test_other_ids_of_the_same_tokens_are_shared_tokens() -> None:
    found = letters(LETTERS, ["x", *LETTERS[:5], "y", "z"])
    assert (found.kind, found.n_same, found.n_shared, found.share_by_count) == ("shared", 0, 5, 0.5)
    assert found.to_target.tolist() == [-1, 0, 1, 2, 3, 4, -1, -1]
    assert found.explain() == "of another vocabulary that has 5 of the target's 10 tokens (50 %)"


def test_share_by_use_counts_what_a_text_really_uses() -> None:
    target, draft = ListVocabulary(LETTERS), ListVocabulary(["x", *LETTERS[:5]])
    found = compare(target, draft, sample=[0, 0, 1, 9])
    assert found.share_by_use == 0.75
    assert "(50 %, 75 % by use)" in found.explain()


def test_nearly_all_is_never_shown_as_all() -> None:
    texts = [f"t{i}" for i in range(10_000)]
    found = letters(texts, ["x", *texts[:-1]])
    assert "(99.9 %)" in found.explain()


def test_nothing_in_common_leaves_text() -> None:
    found = letters(LETTERS, list("klmnop"))
    assert (found.kind, found.n_shared) == ("text", 0)
    assert "only text" in found.explain()


def test_an_empty_vocabulary_shares_nothing() -> None:
    assert letters(["", ""], ["", ""]).kind == "text"


def test_special_tokens_are_shared_by_text_and_ends_by_role() -> None:
    ours = table("<s>", "</s>", b"a", b"b", "<|im_start|>", bos=0, eos=1)
    theirs = table(b"b", "<|im_start|>", "<eos>", b"a", eos=2)
    found = compare_tables(ours, theirs)
    assert found.to_target.tolist() == [3, 4, 1, 2]


def test_special_text_is_never_taken_for_ordinary_text() -> None:
    ours, theirs = table(b"x", "<|im_start|>", b"y"), table(b"<|im_start|>", b"y", b"x")
    assert compare_tables(ours, theirs).to_target.tolist() == [-1, 2, 0]


def test_no_target_id_stands_for_two_of_the_draft() -> None:
    ours, theirs = table(b"a", b"b", b"a"), table(b"x", b"a", b"y", b"a")
    assert compare_tables(ours, theirs).to_target.tolist() == [-1, -1, -1, 2]


def test_policies_are_compared_in_words() -> None:
    target = ListVocabulary(LETTERS, bos=1, eos=2, adds_bos=True)
    found = compare(target, ListVocabulary(LETTERS, eos=3))
    assert found.policies == (
        "BOS is id 1 in the target and none in the draft",
        "EOS is id 2 in the target and id 3 in the draft",
        "the target model adds BOS and the draft does not",
    )
    assert found.explain() == "compatible, " + ", ".join(found.policies)


def test_scripted_vocabularies_compare_by_their_pieces() -> None:
    target = PieceVocabulary([b"a", b"b", b"", b"c"], eos=2, markers=[("<end>", 2)])
    found = compare(target, PieceVocabulary([b"", b"c", b"b"], eos=0, markers=[("</s>", 0)]))
    assert found.to_target.tolist() == [2, 3, 1]


def write_tokenizer(folder: Path, tokenizer: dict[str, object], **config: object) -> Path:
    folder.mkdir()
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


BYTE_LEVEL = {
    "added_tokens": [
        {"id": 5, "content": "<|im_end|>", "special": True},
        {"id": 6, "content": "<think>", "special": False},
    ],
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Split"}, {"type": "ByteLevel"}]},
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "vocab": {"a": 0, "Ġa": 1, "Ċ": 2, "ĉ": 3, "Ã©": 4}},
}
SENTENCEPIECE = {
    "added_tokens": [{"id": 0, "content": "<s>", "special": True}],
    "decoder": {"type": "Sequence", "decoders": [{"type": "Replace"}, {"type": "ByteFallback"}]},
    "post_processor": {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A"}}],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [0]}},
    },
    "model": {
        "type": "BPE",
        "byte_fallback": True,
        "vocab": {"<s>": 0, "<0x09>": 1, "▁a": 2, "a": 3, "é": 4, "\n": 5, "<think>": 6},
    },
}


def test_tokenizer_kinds_are_compared_by_what_tokens_write(tmp_path: Path) -> None:
    target = write_tokenizer(tmp_path / "t", BYTE_LEVEL, eos_token="<|im_end|>")
    draft = write_tokenizer(tmp_path / "d", SENTENCEPIECE, bos_token={"content": "<s>"})
    found = compare_files(target, draft)
    assert found.target.keys == (b"a", b" a", b"\n", b"\t", "é".encode(), "<|im_end|>", b"<think>")
    assert found.draft.keys == ("<s>", b"\t", b" a", b"a", "é".encode(), b"\n", b"<think>")
    assert found.to_target.tolist() == [-1, 3, 1, 0, 4, 2, 6]
    assert (found.target.eos, found.target.adds_bos, found.draft.bos, found.draft.adds_bos) == (
        5,
        False,
        0,
        True,
    )
    assert (found.target.kind, found.target.pre_tokenizer) == ("BPE", "Split+ByteLevel")


def test_rows_beyond_the_tokenizer_are_padding(tmp_path: Path) -> None:
    folder = write_tokenizer(tmp_path / "t", BYTE_LEVEL)
    (folder / "config.json").write_text(json.dumps({"text_config": {"vocab_size": 9}}))
    assert read_table(folder).keys[6:] == (b"<think>", None, None)


@pytest.mark.parametrize(
    ("text", "what"),
    [("{", "is not JSON"), ("[]", "no JSON object"), ('{"model": {}}', "no model with a vocab")],
)
def test_a_damaged_tokenizer_is_refused_with_its_path(tmp_path: Path, text: str, what: str) -> None:
    file = tmp_path / "tokenizer.json"
    file.write_text(text)
    with pytest.raises(ModelFileError, match=what) as caught:
        read_table(file)
    assert str(file) in str(caught.value)


def test_a_missing_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="cannot be read"):
        read_table(tmp_path)


@pytest.mark.model
@pytest.mark.parametrize("name", ["smollm2-135m", "qwen2.5-coder-1.5b", "gemma3-270m"])
def test_what_a_header_tells_of_tokens_is_what_the_library_says(name: str) -> None:
    path = real_model(name)
    loaded, read = table_of_vocabulary(FileVocabulary(path, None)), read_table(path)
    differing = {b for a, b in zip(loaded.keys, read.keys, strict=True) if a != b}
    assert differing <= {b"</s>"}  # which llama.cpp takes for a marker, whatever the file says
    assert (loaded.bos, loaded.eos, loaded.adds_bos) == (read.bos, read.eos, read.adds_bos)


@pytest.mark.model
def test_the_qwen_pair_is_identical() -> None:
    found = compare_files(real_model("qwen2.5-coder-1.5b"), real_model("qwen2.5-coder-0.5b"))
    assert (found.kind, found.target.size, found.agreement) == ("identical", 151_936, 1.0)
    assert found.target.n_padding == found.draft.n_padding == 271


@pytest.mark.model
@pytest.mark.parametrize(
    ("target", "draft", "share"),
    [
        ("qwen2.5-coder-1.5b", "smollm2-135m", 0.25),
        ("smollm2-135m", "qwen2.5-coder-1.5b", 0.79),
        ("gemma3-270m", "smollm2-135m", 0.17),
        ("qwen2.5-coder-1.5b", "gemma3-270m", 0.63),
    ],
)
def test_other_families_share_tokens(target: str, draft: str, share: float) -> None:
    found = compare_files(real_model(target), real_model(draft))
    assert found.kind == "shared"
    assert share < found.share_by_count < share + 0.01
    mapped = found.to_target[found.to_target >= 0]
    assert len(np.unique(mapped)) == len(mapped)
    assert all(
        found.draft.keys[i] == found.target.keys[j]
        for i, j in enumerate(found.to_target.tolist())
        if j >= 0 and (i, j) != (found.draft.eos, found.target.eos)
    )


@pytest.mark.model
def test_comparing_files_takes_little_more_time_than_reading_their_entries() -> None:
    target, draft = real_model("gemma3-270m"), real_model("qwen2.5-coder-1.5b")
    reading, comparing = [], []
    for _ in range(3):
        begun = time.process_time()
        read_table(target), read_table(draft)
        between = time.process_time()
        compare_files(target, draft)
        reading.append(between - begun)
        comparing.append(time.process_time() - between)
    assert min(comparing) < 4 * min(reading)
