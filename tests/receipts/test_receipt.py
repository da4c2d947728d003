"""Receipts as values: what they hold, and that a change shows."""

import json

import pytest

from leadout.engine.engine import Engine
from leadout.engine.params import Params
from leadout.errors import InputError
from leadout.models.cpu import usable_cores
from leadout.receipts import Receipt, make_receipt, open_target, read_receipt, replay, replayable
from leadout.receipts.hashes import hash_of_json, record_files
from leadout.testing import ScriptedDrafter, TableModel

PROMPT = [1, 2]
PARAMS = Params(
    temperature=0.9, top_p=0.9, seed=11, max_tokens=9, stop=("x",), logit_bias={3: -1.5}, presence_penalty=0.5
)


def engine(drafter=None):
    return Engine(TableModel(lambda tokens: [0.5, 1.0, 0.2, 0.1], n_vocab=4, n_ctx=64), drafter)


def receipt_of(params=PARAMS, *, has_prompt=True, drafter=None):
    with engine(drafter) as made:
        results = made.generate_many(PROMPT, params)
        return make_receipt(made, PROMPT, params, results, has_prompt=has_prompt)


def test_a_receipt_names_the_threads_that_were_taken():
    assert receipt_of().target.options.n_threads == usable_cores()


def test_a_receipt_survives_json():
    receipt = receipt_of(drafter=ScriptedDrafter.always(1))
    assert Receipt.from_json(json.loads(json.dumps(receipt.to_json()))) == receipt


@pytest.mark.parametrize(
    "name", ["leadout", "created", "limits", "law", "prompt", "answers", "target", "draft"]
)
def test_a_change_of_any_part_shows(name):
    told = receipt_of().to_json()
    with pytest.raises(InputError, match="changed after it was written"):
        Receipt.from_json({**told, name: "other"})
    with pytest.raises(InputError, match="changed after it was written"):
        Receipt.from_json({each: value for each, value in told.items() if each != name})


def test_whole_numbers_may_be_written_either_way():
    told = receipt_of(Params(temperature=1.0, seed=1, max_tokens=2)).to_json()
    text = json.dumps(told).replace('"temperature": 1.0', '"temperature": 1')
    assert text != json.dumps(told)
    assert Receipt.from_json(json.loads(text)).to_json() == json.loads(text)


def test_the_order_of_keys_does_not_matter():
    told = receipt_of().to_json()
    assert Receipt.from_json(dict(reversed(told.items()))).to_json() == told


def test_other_json_is_no_receipt():
    for value in ([], {}, {"form": 1}, "text"):
        with pytest.raises(InputError, match="this is no receipt"):
            Receipt.from_json(value)
    with pytest.raises(InputError, match="has form 2"):
        Receipt.from_json({**receipt_of().to_json(), "form": 2})


def test_a_receipt_is_found_in_a_response(tmp_path):
    receipt = receipt_of()
    file = tmp_path / "response.json"
    file.write_text(json.dumps({"choices": [], "receipt": receipt.to_json()}))
    assert read_receipt(file) == receipt
    file.write_text("{")
    with pytest.raises(InputError, match="is not JSON"):
        read_receipt(file)
    with pytest.raises(InputError, match="cannot be read"):
        read_receipt(tmp_path / "nowhere")


def test_plain_decoding_gives_what_drafts_gave():
    receipt = receipt_of(drafter=ScriptedDrafter.always(1))
    assert receipt.answers[0].drafted > 0
    with engine() as again:
        assert replay(receipt, again).is_same


def test_a_difference_is_told_where_it_begins():
    receipt = receipt_of()
    told = receipt.to_json()
    told["answers"][0]["ids"][4] = (told["answers"][0]["ids"][4] + 1) % 4
    told.pop("sha256")
    forged = Receipt.from_json({**told, "sha256": hash_of_json(told)})  # a hash is no signature
    with engine() as again:
        [difference] = replay(forged, again).differences
    assert (difference.index, difference.at) == (0, 4)
    assert difference.was != difference.now == receipt.answers[0].ids[4]


def test_a_prompt_must_be_there_and_be_the_same():
    closed = receipt_of(has_prompt=False)
    with engine() as again:
        assert replay(closed, again, PROMPT).is_same
        with pytest.raises(InputError, match="has no prompt, only its hash"):
            replay(closed, again)
        with pytest.raises(InputError, match="the prompt is another one: it has 3 tokens"):
            replay(closed, again, [1, 2, 3])


def test_unseeded_draws_get_a_seed_and_others_stay():
    assert replayable(Params()).seed is not None
    assert replayable(PARAMS) is PARAMS
    assert replayable(Params(temperature=0.0)).seed is None
    with pytest.raises(InputError, match="verification block has none"):
        replayable(Params(verification="block"))


def test_answers_that_cannot_be_repeated_get_no_receipt():
    with engine() as made:
        unseeded = Params(max_tokens=2)
        with pytest.raises(InputError, match="needs a seed"):
            make_receipt(made, PROMPT, unseeded, made.generate_many(PROMPT, unseeded))


def test_a_model_from_no_file_cannot_be_loaded_again():
    with pytest.raises(InputError, match="came from no file"):
        open_target(receipt_of())


def test_a_hash_is_remembered_until_the_file_changes(tmp_path):
    file = tmp_path / "a.gguf"
    file.write_bytes(b"one")
    [first] = record_files(file, folder=tmp_path / "kept")
    assert record_files(file, folder=tmp_path / "kept") == (first,)
    assert len(list((tmp_path / "kept").iterdir())) == 1
    file.write_bytes(b"two!")
    [second] = record_files(file, folder=tmp_path / "kept")
    assert second.sha256 != first.sha256
    assert second.n_bytes == 4
