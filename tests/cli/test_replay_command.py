"""`leadout replay`: exit code 0 for the same text, 1 for another, 2 where it cannot tell."""

import json

import pytest
from commands import assert_one_line, leadout

from leadout.receipts.hashes import hash_of_json

ONE = ("--threads", "1")
ASK = ("-p", "one two three", "--max-tokens", "16", "--quiet", *ONE)


@pytest.fixture(scope="module")
def receipt(tiny, tiny_draft, tmp_path_factory):
    """The receipt of an unseeded answer with drafts, prompt included."""
    file = tmp_path_factory.mktemp("receipts") / "receipt.json"
    drafts = ("--draft", tiny_draft, "--schedule", "fixed")
    done = leadout("run", tiny, *ASK, *drafts, "--receipt", file, "--receipt-prompt")
    assert done.returncode == 0, done.stderr
    return file


def signed(told, file):
    """A receipt whose hash fits what is in it."""
    told.pop("sha256")
    file.write_text(json.dumps({**told, "sha256": hash_of_json(told)}))
    return file


def test_the_same_text_comes_out_plainly(receipt, tiny):
    told = json.loads(receipt.read_text())
    assert told["answers"][0]["drafted"] > 0
    assert told["draft"]["files"][0]["sha256"] != told["target"]["files"][0]["sha256"]
    done = leadout("replay", receipt, "--model", tiny)
    assert (done.returncode, done.stdout) == (0, "the same: plain decoding gives the receipt's 16 tokens\n")
    as_json = json.loads(leadout("replay", receipt, "--model", tiny, "--json").stdout)
    assert (as_json["same"], as_json["tokens"], as_json["differences"]) == (True, 16, [])


def test_another_text_is_told_with_its_place(receipt, tiny, tmp_path):
    told = json.loads(receipt.read_text())
    told["answers"][0]["ids"][3] += 1
    done = leadout("replay", signed(told, tmp_path / "forged.json"), "--model", tiny)
    assert done.returncode == 1
    assert "answer 0 differs at token 3: the receipt has" in done.stdout


def test_a_changed_receipt_is_refused(receipt, tiny, tmp_path):
    told = json.loads(receipt.read_text())
    told["limits"]["seed"] = 1
    changed = tmp_path / "changed.json"
    changed.write_text(json.dumps(told))
    assert_one_line(leadout("replay", changed, "--model", tiny), 2, "changed after it was written")


def test_another_file_is_refused(receipt, tiny_draft):
    assert_one_line(
        leadout("replay", receipt, "--model", tiny_draft), 2, "is not the receipt's model", "sha256"
    )


def test_another_version_is_refused_unless_asked_for(receipt, tiny, tmp_path):
    told = json.loads(receipt.read_text())
    told["leadout"] = "0.0.1"
    other = signed(told, tmp_path / "other.json")
    assert_one_line(leadout("replay", other, "--model", tiny), 2, "made with leadout 0.0.1", "--any-version")
    assert leadout("replay", other, "--model", tiny, "--any-version").returncode == 0


def test_a_prompt_that_is_not_in_the_receipt_must_be_given(tiny, tmp_path):
    file, messages = tmp_path / "receipt.json", tmp_path / "messages.json"
    assert leadout("run", tiny, *ASK, "--system", "Be brief.", "--receipt", file).returncode == 0
    again = ("replay", file, "--model", tiny)
    assert_one_line(leadout(*again), 2, "has no prompt, only its hash")
    assert_one_line(leadout(*again, "-p", "one two three"), 2, "the prompt is another one")
    assert leadout(*again, "-p", "one two three", "--system", "Be brief.").returncode == 0
    said = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "one two three"}]
    for told in (said, {"messages": said}):
        messages.write_text(json.dumps(told))
        assert leadout(*again, "--messages", messages).returncode == 0


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is not JSON"),
        ("[]", "has no messages"),
        ("[" * 100_000, "is not JSON"),
        ('{"messages": [{}], "chat_template_kwargs": 1}', "chat_template_kwargs that are no JSON object"),
        ('{"messages": [{"role": "user", "content": "a"}], "tools": [{}]}', "is a request with tools"),
    ],
)
def test_messages_that_cannot_be_used_are_refused(receipt, tmp_path, content, said):
    messages = tmp_path / "messages.json"
    messages.write_text(content)
    assert_one_line(leadout("replay", receipt, "--messages", messages), 2, said)


def test_two_prompts_are_refused(receipt):
    assert_one_line(
        leadout("replay", receipt, "--messages", "m", "-p", "a"), 2, "--messages is the whole prompt"
    )


def test_what_is_in_a_receipt_needs_one(tiny):
    assert_one_line(leadout("run", tiny, *ASK, "--receipt-prompt"), 2, "name its file with --receipt FILE")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[" * 100_000, "is not JSON"),
        ('{"form": 1, "sha256": "", "answers": NaN}', "cannot be read"),
    ],
    ids=["deep", "not a number"],
)
def test_json_that_python_alone_reads_or_nobody_is_no_receipt(tmp_path, content, said):
    file = tmp_path / "receipt.json"
    file.write_text(content)
    assert_one_line(leadout("replay", file), 2, said)


def test_how_a_prompt_is_written_needs_one(receipt):
    assert_one_line(leadout("replay", receipt, "--raw"), 2, "--system and --raw say how a prompt is written")
    done = leadout("replay", receipt, "--raw", "--system", "a", "-p", "b")
    assert_one_line(done, 2, "--raw is text without chat template")
