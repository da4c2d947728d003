import time

import pytest
from vocabularies import FileVocabulary, ListVocabulary

from leadout.errors import VocabularyError
from leadout.models.match import MIN_AGREEMENT, match_vocabularies, require_same_vocabulary
from real_models import real_model

LETTERS = list("abcdefghij")


def real_vocabulary(name: str) -> FileVocabulary:
    path = real_model(name)
    return FileVocabulary(path, None)


def test_same_vocabulary_is_usable_and_says_so() -> None:
    match = match_vocabularies(ListVocabulary(LETTERS), ListVocabulary(LETTERS))
    assert match.usable
    assert (match.n_shared, match.n_tokens, match.differing, match.policies) == (10, 10, (), ())
    assert match.explain() == "compatible: 10 of the target's 10 tokens (100 %) are the same"


@pytest.mark.parametrize("padding", [["", ""], ["[PAD10]", "[PAD11]"]])
def test_padding_rows_of_the_target_are_ignored(padding: list[str]) -> None:
    match = require_same_vocabulary(ListVocabulary(LETTERS + padding), ListVocabulary(LETTERS))
    assert (match.target_padding, match.draft_padding, match.differing) == (2, 0, ())
    assert match.explain().startswith("compatible: 10 of the target's 10 tokens")
    assert "2 rows without a token ignored" in match.explain()


def test_padding_rows_of_the_draft_are_ignored() -> None:
    match = require_same_vocabulary(ListVocabulary(LETTERS), ListVocabulary([*LETTERS, "[PAD10]"]))
    assert (match.target_padding, match.draft_padding, match.agreement) == (0, 1, 1.0)
    assert "1 row without a token ignored (draft)" in match.explain()


def test_placeholders_of_different_libraries_are_the_same_padding() -> None:
    match = match_vocabularies(ListVocabulary([*LETTERS, ""]), ListVocabulary([*LETTERS, "[PAD10]"]))
    assert (match.differing, match.n_shared) == ((), 10)


def test_a_token_that_looks_like_padding_elsewhere_is_a_token() -> None:
    match = match_vocabularies(ListVocabulary([*LETTERS, "[PAD]"]), ListVocabulary([*LETTERS, "[PAD3]"]))
    assert (match.differing, match.target_padding, match.draft_padding) == ((10,), 0, 0)


def test_token_against_padding_differs() -> None:
    match = match_vocabularies(ListVocabulary([*LETTERS, "<call>"]), ListVocabulary([*LETTERS, "[PAD10]"]))
    assert match.differing == (10,)
    assert match.usable


def test_few_differing_ids_are_listed_and_do_not_forbid() -> None:
    draft = ["a", "X", *LETTERS[2:]]
    match = require_same_vocabulary(ListVocabulary(LETTERS), ListVocabulary(draft))
    assert (match.differing, match.n_shared) == ((1,), 9)
    assert match.agreement == MIN_AGREEMENT
    assert "1 id never proposed (other text: 1)" in match.explain()
    assert "(90 %)" in match.explain()


def test_other_vocabulary_is_refused_with_the_first_ids_and_the_way_on() -> None:
    target, draft = ListVocabulary(LETTERS), ListVocabulary(["a", *"qrstuvwxy"])
    with pytest.raises(VocabularyError) as caught:
        require_same_vocabulary(target, draft)
    message = str(caught.value)
    assert "10 % of the target's tokens are the same, 90 % are needed" in message
    assert (
        "id 1 is 'b' in the target, 'q' in the draft; id 2 is 'c' in the target, 'r' in the draft" in message
    )
    assert "id 4" not in message
    assert "--draft ngram" in message
    assert (
        match_vocabularies(target, draft).explain().startswith("not compatible: 1 of the target's 10 tokens")
    )
    assert "(other text: 1, 2, 3, ...)" in match_vocabularies(target, draft).explain()


def test_a_draft_that_knows_half_of_the_tokens_is_refused() -> None:
    with pytest.raises(VocabularyError, match="the draft ends at id 4, the target at 9"):
        require_same_vocabulary(ListVocabulary(LETTERS), ListVocabulary(LETTERS[:5]))


def test_further_tokens_of_the_draft_do_no_harm() -> None:
    assert match_vocabularies(ListVocabulary(LETTERS), ListVocabulary([*LETTERS, *"klmno"])).agreement == 1.0


def test_an_empty_vocabulary_is_not_usable() -> None:
    assert not match_vocabularies(ListVocabulary(["", ""]), ListVocabulary(["", ""])).usable


def test_nearly_all_is_never_shown_as_all() -> None:
    texts = [f"t{i}" for i in range(100_000)]
    match = match_vocabularies(ListVocabulary(texts), ListVocabulary([*texts[:-1], "x"]))
    assert "(99.99 %)" in match.explain()


def test_policies_are_compared_in_words() -> None:
    target = ListVocabulary(LETTERS, bos=1, eos=2, adds_bos=True)
    match = match_vocabularies(target, ListVocabulary(LETTERS, eos=3))
    assert match.policies == (
        "BOS is id 1 in the target, none in the draft",
        "EOS is id 2 in the target, id 3 in the draft",
        "the target model adds BOS, the draft does not; the target's way is used for both",
    )
    assert match.usable
    assert match.policies[0] in match.explain()


@pytest.mark.model
def test_the_qwen_pair_matches_in_little_more_time_than_reading_its_entries_takes() -> None:
    target, draft = real_vocabulary("qwen2.5-coder-1.5b"), real_vocabulary("qwen2.5-coder-0.5b")
    reading, matching = [], []
    for _ in range(3):
        begun = time.process_time()
        for vocab in (target, draft):
            for token in range(vocab.size):
                vocab.text(token)
        between = time.process_time()
        match = require_same_vocabulary(target, draft)
        reading.append(between - begun)
        matching.append(time.process_time() - between)
    assert min(matching) < 2.5 * min(reading)
    assert (match.target_size, match.differing, match.agreement) == (151_936, (), 1.0)
    assert match.target_padding == match.draft_padding == 271


@pytest.mark.model
@pytest.mark.parametrize(
    "names",
    [
        ("qwen2.5-coder-1.5b", "smollm2-135m"),
        ("smollm2-135m", "qwen2.5-coder-1.5b"),
        ("qwen2.5-coder-1.5b", "gemma3-270m"),
    ],
)
def test_other_families_are_refused(names: tuple[str, str]) -> None:
    with pytest.raises(VocabularyError, match=r"id 0 is '.+' in the target, '.+' in the draft"):
        require_same_vocabulary(real_vocabulary(names[0]), real_vocabulary(names[1]))
