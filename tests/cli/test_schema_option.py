"""`leadout run --schema FILE`: JSON by a schema, with the drafts that it gives for free."""

import json

import pytest
from commands import leadout

SCHEMA = {
    "type": "object",
    "properties": {"letter": {"enum": ["x", "y"]}, "found": {"type": "boolean"}},
    "required": ["letter", "found"],
    "additionalProperties": False,
}
ASK = ("--threads", "1", "-p", "x or y?", "--seed", "3", "--json")


@pytest.fixture
def schema(tmp_path):
    path = tmp_path / "schéma.json"
    path.write_text(json.dumps(SCHEMA), encoding="utf-8")
    return path


def test_the_answer_is_valid_and_the_same_with_forced_drafts(tiny, schema):
    plain, drafted = (
        json.loads(leadout("run", tiny, *ASK, "--schema", schema, "--draft", draft, *more).stdout)
        for draft, more in (("none", ()), ("ngram", ("--schedule", "fixed", "-k", "8")))
    )
    assert plain["ids"] == drafted["ids"]
    assert set(json.loads(drafted["text"])) == {"letter", "found"}
    assert drafted["finish_reason"] == "stop"
    assert drafted["forced"] > 10
    assert drafted["target_passes"] < plain["target_passes"]


def test_a_receipt_is_refused(tiny, schema, tmp_path):
    done = leadout("run", tiny, *ASK, "--schema", schema, "--receipt", tmp_path / "receipt.json")
    assert done.returncode != 0
    assert "--receipt cannot be given for an answer by --schema" in done.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "schema file"),
        ("[1]", "must be a JSON schema, which is an object"),
        ('{"not": {}}', 'the schema cannot be kept: Unimplemented keys: ["not"]'),
        (None, "No such file"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused(tiny, tmp_path, text, said):
    path = tmp_path / "schema.json"
    if text is not None:
        path.write_text(text)
    done = leadout("run", tiny, *ASK, "--schema", path)
    assert done.returncode != 0
    assert said in done.stderr
