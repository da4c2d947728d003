"""`leadout cache`: what is kept, and its removal."""

import json

import pytest
from commands import assert_one_line, leadout


@pytest.fixture
def cache(tmp_path):
    """A cache folder with a choice of `tune` and a copy of a model."""
    for name in ("tuned/1.json", "quantised/a.gguf"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(b"1" * 2_000_000)
    return {"LEADOUT_CACHE": str(tmp_path)}


def test_what_is_kept_is_listed_with_sizes_and_its_folder(cache):
    printed = leadout("cache", **cache).stdout
    assert cache["LEADOUT_CACHE"] in printed
    assert "tuned      2.0 MB" in printed
    listed = json.loads(leadout("cache", "--json", **cache).stdout)
    assert listed["folder"] == cache["LEADOUT_CACHE"]
    assert [(each["name"], each["n_bytes"]) for each in listed["kept"]] == [
        ("quantised", 2_000_000),
        ("tuned", 2_000_000),
    ]


def test_one_thing_is_removed_and_then_all(cache):
    assert leadout("cache", "rm", "tuned", "--yes", **cache).stdout == "removed tuned (2.0 MB)\n"
    assert leadout("cache", "rm", "--all", "--yes", **cache).stdout == "removed quantised (2.0 MB)\n"
    assert "nothing\n" in leadout("cache", **cache).stdout
    assert leadout("cache", "rm", "--all", **cache).stderr == "nothing is kept\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "name what to remove, as `leadout cache` lists it, or give --all"),
        (("tuned", "--all"), "name what to remove"),
        (("../../etc",), "nothing called '../../etc' is kept; there is quantised, tuned"),
        (("tuned",), "this would remove tuned (2.0 MB); add --yes"),
    ],
)
def test_nothing_goes_by_mistake(cache, arguments, said):
    assert_one_line(leadout("cache", "rm", *arguments, **cache), 2, said)
    assert len(json.loads(leadout("cache", "--json", **cache).stdout)["kept"]) == 2
