"""What was written down is believed whole or not at all."""

import json
from dataclasses import asdict, dataclass
from typing import Literal

import pytest

from leadout.advise.inspect import FileFacts
from leadout.advise.predict import KindPrediction, Prediction, Speedup
from leadout.advise.vocabulary import VocabularyVerdict
from leadout.models.recalled import recalled
from leadout.models.remember import Findings

NEARLY_ONE = Speedup(speedup=1.0, low=0.9, high=1.1)
KIND = KindPrediction(kind="chat", speedup=NEARLY_ONE, lookups=NEARLY_ONE, agreement=None, n_tokens=9)
KEPT = [
    FileFacts(path="/m.gguf", name="m", quantisation="F16", n_params=7),
    VocabularyVerdict(kind="identical", is_same=True, text="the same"),
    Prediction(
        kinds=(KIND,), speedup=NEARLY_ONE, lookups=NEARLY_ONE, agreement=0.5, target_s=1.0, draft_s=0.1
    ),
]
ODD = ["x", -1.5, 10**400, float("nan"), float("inf"), [], [1], {}, {"a": 1}]


def places(values, way=()):
    """Ways to every entry of nested lists and mappings."""
    yield way
    inside = (
        values.items() if isinstance(values, dict) else enumerate(values) if isinstance(values, list) else ()
    )
    for name, value in inside:
        yield from places(value, (*way, name))


def changed(values, way, new):
    """`values` with another entry there."""
    if not way:
        return new
    values = json.loads(json.dumps(values))
    inner = values
    for name in way[:-1]:
        inner = inner[name]
    inner[way[-1]] = new
    return values


@pytest.mark.parametrize("kept", KEPT, ids=lambda each: type(each).__name__)
def test_a_value_survives_being_written_and_whatever_else_lies_there_is_none(kept):
    written = json.loads(json.dumps(asdict(kept)))
    assert recalled(type(kept), written) == kept
    for way in places(written):
        for odd in ODD:
            there = written
            for name in way:
                there = there[name]
            found = recalled(type(kept), changed(written, way, odd))
            if type(odd) is type(there) or (isinstance(there, float) and odd == -1.5):
                continue  # another value of the same kind, or one entry less
            if isinstance(odd, float) and odd == -1.5 and way[-1:] == ("agreement",):
                continue
            assert found is None, (way, odd)
    for name in written:
        assert recalled(type(kept), {key: written[key] for key in written if key != name}) is None
    assert recalled(type(kept), written | {"more": 1}) is None
    assert recalled(type(kept), None) is None


@dataclass(frozen=True, kw_only=True)
class Checked:
    way: Literal["text", "shared"]
    n: int | None = None

    def __post_init__(self):
        if self.n == 0:
            raise ValueError("n is 0")


def test_literals_and_the_values_own_checks_count():
    assert recalled(Checked, {"way": "text", "n": 2}) == Checked(way="text", n=2)
    assert recalled(Checked, {"way": "text", "n": None}) == Checked(way="text")
    assert recalled(Checked, {"way": "bytes", "n": 2}) is None
    assert recalled(Checked, {"way": "text", "n": 0}) is None
    assert recalled(Checked, {"way": "text", "n": True}) is None


def test_a_file_of_any_content_is_nothing_found(tmp_path):
    findings = Findings("any", tmp_path)
    for content in (b"", b"{", b"\xff\xfe", b"[" * 200_000, b"1" * 5000, b'{"a":' * 50_000):
        (tmp_path / "key.json").write_bytes(content)
        assert findings.read("key") is None


def test_a_finding_that_cannot_be_put_in_its_place_leaves_nothing_behind(tmp_path):
    findings = Findings("any", tmp_path)
    (tmp_path / "key.json").mkdir()
    findings.write("key", {"a": 1})
    assert findings.read("key") is None
    with pytest.raises(TypeError):
        findings.write("other", object())
    assert [each.name for each in tmp_path.iterdir()] == ["key.json"]
