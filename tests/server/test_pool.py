"""Models that are loaded when they are asked for, and leave."""

import asyncio
import math
import threading
from contextlib import ExitStack, asynccontextmanager
from functools import partial

import httpx
import pytest
from live import HeldModel
from serving import HELLO, replying

from leadout.engine.engine import Engine
from leadout.engine.schedule import FixedSchedule
from leadout.errors import InputError, ModelFileError
from leadout.models.header import read_header
from leadout.server.app import make_app
from leadout.server.keep_alive import STAYS, keep_alive_s
from leadout.server.pool import ModelPool
from leadout.server.recipes import Footprint, Recipe
from leadout.testing.tiny_gguf import write_tiny_gguf

ASKED = {"messages": HELLO, "options": {"temperature": 0}, "stream": False}


class Shelf:
    """Recipes of toy models, and what became of them."""

    def __init__(self, *names, size=100, room=1000, **about):
        self.size, self.room = size, room
        self.made = {name: [] for name in names}
        self.gate = threading.Event()
        self.gate.set()
        self.loading = self.most_loading = 0
        self.pool = ModelPool(
            recipes=[
                Recipe(name=name, load=lambda name=name: self.load(name), footprint=self.footprint)
                for name in names
            ],
            memory=lambda: self.room,
            **about,
        )

    def footprint(self):
        return Footprint(weights=self.size)

    def load(self, name):
        self.loading += 1
        self.most_loading = max(self.most_loading, self.loading)
        assert self.gate.wait(30)
        self.loading -= 1
        if name.startswith("broken"):
            raise ModelFileError("its file is cut short")
        if name.startswith("large"):
            raise InputError("a cache would take 9 GB, and 1 GB of memory are free")
        model = replying(f"I am {name}.")
        self.made[name].append(HeldModel.like(model) if name.startswith("held") else model)
        return Engine(self.made[name][-1], schedule=FixedSchedule(1))

    def in_memory(self):
        return [name for name, made in self.made.items() for model in made if not model.closed]


@asynccontextmanager
async def client_of(shelf):
    transport = httpx.ASGITransport(app=make_app(shelf.pool), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as client:
        yield client
    await shelf.pool.close(0.0)
    assert not shelf.in_memory()


async def ask(client, model, **body):
    response = await client.post("/api/chat", json={"model": model, **ASKED, **body})
    return response.json()["message"]["content"] if response.status_code == 200 else response


async def until(holds):
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.005)


def run(test, shelf):
    async def with_client():
        async with client_of(shelf) as client:
            await test(client)

    asyncio.run(with_client())


def test_models_are_loaded_when_they_are_asked_for():
    shelf = Shelf("a", "b")

    async def test(client):
        listed = (await client.get("/v1/models")).json()["data"]
        tags = (await client.get("/api/ps")).json()["models"]
        assert ([each["id"] for each in listed], tags) == (["a", "b"], [])
        assert shelf.in_memory() == []
        assert await ask(client, "b") == "I am b."
        assert shelf.in_memory() == ["b"]
        assert await ask(client, "a") == "I am a."
        assert await ask(client, "b:latest") == "I am b."
        assert [len(made) for made in shelf.made.values()] == [1, 1]

    run(test, shelf)


@pytest.mark.parametrize("path", ["/api/chat", "/v1/chat/completions"])
def test_keep_alive_means_the_same_on_both_routes(path):
    shelf = Shelf("a")

    async def test(client):
        async def tell(**body):
            asked = {"model": "a", "messages": HELLO, **body}
            assert (await client.post(path, json=asked)).status_code == 200

        async def ends():
            [there] = (await client.get("/api/ps")).json()["models"]
            return there["expires_at"]

        await tell(keep_alive=-1)
        assert (await ends()).startswith("2300")
        await tell()  # leaves it as it is
        assert (await ends()).startswith("2300")
        await tell(keep_alive="30s")
        soon = await ends()
        await tell(keep_alive=300)
        assert soon < await ends() < "2300"
        await tell(keep_alive="-1s")
        assert (await ends()).startswith("2300")
        await tell(keep_alive=0)
        await until(lambda: not shelf.in_memory())
        assert (await client.get("/api/ps")).json()["models"] == []
        await tell()
        assert (await ends()).startswith("2300")
        await tell(keep_alive=0.05)
        await until(lambda: not shelf.in_memory())

    run(test, shelf)


def test_a_model_is_unloaded_by_an_empty_request_and_not_loaded_for_it():
    shelf = Shelf("a")

    async def test(client):
        for loaded in (False, True):
            if loaded:
                assert await ask(client, "a") == "I am a."
            told = await client.post("/api/generate", json={"model": "a", "keep_alive": 0})
            assert told.json()["done_reason"] == "unload"
            await until(lambda: not shelf.in_memory())
        assert len(shelf.made["a"]) == 1

    run(test, shelf)


def test_the_default_is_the_servers():
    shelf = Shelf("a", keep_alive_s=0.0)

    async def test(client):
        assert await ask(client, "a") == "I am a."
        await until(lambda: not shelf.in_memory())

    run(test, shelf)


def test_a_running_request_ends_before_its_model_leaves():
    shelf = Shelf("held")

    async def test(client):
        running = asyncio.create_task(ask(client, "held"))
        await until(lambda: shelf.made["held"] and shelf.made["held"][0].begun)
        gone = await client.post("/api/generate", json={"model": "held", "keep_alive": 0})
        assert gone.json()["done_reason"] == "unload"
        assert shelf.in_memory() == ["held"]
        shelf.made["held"][0].let_all_through()
        assert await running == "I am held."
        await until(lambda: not shelf.in_memory())

    run(test, shelf)


def test_the_model_used_longest_ago_makes_room():
    shelf = Shelf("a", "b", "c", size=100, room=250)

    async def test(client):
        for name in ("a", "b", "a", "c"):
            assert await ask(client, name) == f"I am {name}."
        assert sorted(shelf.in_memory()) == ["a", "c"]
        assert await ask(client, "b") == "I am b."
        assert sorted(shelf.in_memory()) == ["b", "c"]

    run(test, shelf)


def test_room_is_made_by_a_busy_model_only_when_it_is_done_and_then_it_comes_back():
    shelf = Shelf("held", "b", size=100, room=150)

    async def test(client):
        running = asyncio.create_task(ask(client, "held"))
        await until(lambda: shelf.made["held"] and shelf.made["held"][0].begun)
        waiting = asyncio.create_task(ask(client, "b"))
        await until(lambda: shelf.pool._models["held"].is_leaving)
        late = asyncio.create_task(ask(client, "held"))  # behind b, so that b is not starved
        await asyncio.sleep(0.05)
        assert shelf.in_memory() == ["held"]
        shelf.made["held"][0].let_all_through()
        assert await running == "I am held."
        assert await waiting == "I am b."
        await until(lambda: len(shelf.made["held"]) == 2)
        shelf.made["held"][1].let_all_through()
        assert await late == "I am held."
        assert shelf.in_memory() == ["held"]

    run(test, shelf)


def test_a_load_that_nobody_waits_for_any_more_is_not_begun():
    shelf = Shelf("a", "b", "c")

    async def test(client):
        shelf.gate.clear()
        first = asyncio.create_task(ask(client, "a"))
        await until(lambda: shelf.loading)
        left = [asyncio.create_task(ask(client, name)) for name in ("b", "b", "c")]
        await until(lambda: len(shelf.pool._loads) == 3)
        left[0].cancel()
        left[1].cancel()
        await asyncio.wait(left[:2])
        again = asyncio.create_task(ask(client, "b"))
        await until(lambda: len(shelf.pool._loads) == 3)
        left[2].cancel()
        first.cancel()  # has begun, so it is finished, and stays
        await asyncio.wait([left[2], first])
        shelf.gate.set()
        assert await again == "I am b."
        assert sorted(shelf.in_memory()) == ["a", "b"]
        assert shelf.most_loading == 1

    run(test, shelf)


def test_one_load_serves_all_who_wait_for_it():
    shelf = Shelf("a", keep_alive_s=0.0)

    async def test(client):
        shelf.gate.clear()
        asked = [asyncio.create_task(ask(client, "a")) for _ in range(5)]
        await until(lambda: shelf.loading)
        shelf.gate.set()
        assert await asyncio.gather(*asked) == ["I am a."] * 5
        assert len(shelf.made["a"]) == 1
        await until(lambda: not shelf.in_memory())

    run(test, shelf)


@pytest.mark.parametrize(
    ("name", "status", "said"),
    [
        ("broken", 500, "broken cannot be loaded: its file is cut short"),
        ("large", 503, "large cannot be loaded: a cache would take 9 GB"),
        ("missing", 404, "there is no model 'missing' here; there is a, broken, large"),
        ("../a", 404, "there is no model '../a' here"),
        ("/etc/passwd", 404, "there is no model '/etc/passwd' here"),
    ],
)
def test_what_cannot_be_loaded_is_told_and_the_server_lives(name, status, said):
    shelf = Shelf("a", "broken", "large")

    async def test(client):
        for _ in range(2):
            response = await ask(client, name)
            assert response.status_code == status
            assert said in response.json()["error"]
            openai = await client.post("/v1/chat/completions", json={"model": name, "messages": HELLO})
            assert said in openai.json()["error"]["message"]
        assert await ask(client, "a") == "I am a."

    run(test, shelf)


def in_folder(folder, *names):
    """A pool of real files, whose headers are read before a toy is loaded in their place."""

    def load(path):
        read_header(path)
        return Engine(replying("Hi."), schedule=FixedSchedule(1))

    paths = [write_tiny_gguf(folder / f"{name}.gguf") for name in names]
    return ModelPool(
        recipes=[Recipe(name=path.stem, load=partial(load, path), path=path) for path in paths],
        memory=lambda: 1000,
    )


@pytest.mark.parametrize("content", [None, b"", b"GGUF", b"<html>"])
def test_a_file_that_is_gone_or_damaged_hides_no_other_model(tmp_path, content):
    async def test():
        pool = in_folder(tmp_path, "good", "loaded", "lost")
        transport = httpx.ASGITransport(app=make_app(pool), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            assert await ask(client, "loaded") == "Hi."
            for path in (tmp_path / "loaded.gguf", tmp_path / "lost.gguf"):
                path.unlink()
                if content is not None:
                    path.write_bytes(content)
            listed = (await client.get("/api/tags")).json()["models"]
            there = (await client.get("/api/ps")).json()["models"]
            again = await ask(client, "loaded")
        await pool.close(0.0)
        return [each["name"] for each in listed], [each["name"] for each in there], again

    assert asyncio.run(test()) == (["good"], ["loaded"], "Hi.")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/show", {}),
        ("/api/generate", {"prompt": "x"}),
        ("/v1/completions", {"prompt": "x"}),
    ],
)
@pytest.mark.parametrize("content", [None, b"", b"GGUF", b"<html>"])
def test_no_error_tells_where_files_lie_or_what_lies_beside_them(tmp_path, content, path, body):
    async def test():
        pool = in_folder(tmp_path, "lost", "private")
        (tmp_path / "lost.gguf").unlink()
        if content is not None:
            (tmp_path / "lost.gguf").write_bytes(content)
        transport = httpx.ASGITransport(app=make_app(pool), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            response = await client.post(path, json={"model": "lost", **body})
        await pool.close(0.0)
        return response

    response = asyncio.run(test())
    assert response.status_code == 500
    assert "lost.gguf is" in response.text
    assert str(tmp_path) not in response.text
    assert "private" not in response.text


def test_names_with_slashes_and_tags_are_found_by_every_route():
    names = ("aaa/llava:13b", "hf.co/u/r:Q4_K_M", "/my/llms/m")
    shelf = Shelf(*names)

    async def test(client):
        for name in names:
            assert await ask(client, name) == f"I am {name}."
            for path in (name, name.replace("/", "%2F").replace(":", "%3A")):
                assert (await client.get(f"/v1/models/{path}")).json()["id"] == name
            assert (await client.post("/api/show", json={"model": name})).status_code == 200
            deleted = await client.request("DELETE", "/api/delete", json={"model": name})
            assert deleted.status_code == 501

    run(test, shelf)


def test_closing_ends_loads_and_frees_what_was_loaded():
    shelf = Shelf("a", "b")

    async def test():
        shelf.gate.clear()
        with ExitStack() as leases:
            first = asyncio.create_task(shelf.pool.lease("a", leases))
            await until(lambda: shelf.loading)
            second = asyncio.create_task(shelf.pool.lease("b", leases))
            await until(lambda: len(shelf.pool._loads) == 2)
            closing = asyncio.create_task(shelf.pool.close(0.0))
            await asyncio.sleep(0.01)
            shelf.gate.set()
            await asyncio.wait([first, second])
        await closing
        assert "the server is shutting down" in str(second.exception())
        assert shelf.in_memory() == []
        assert not shelf.pool.is_ready

    asyncio.run(test())


def test_two_models_of_one_name_are_refused():
    with pytest.raises(InputError, match="two models are called 'a'; serve one of them"):
        Shelf("a", "b").pool.__class__(recipes=[Recipe(name="a", load=replying)] * 2)


@pytest.mark.parametrize(
    ("told", "seconds"),
    [
        (0, 0),
        (300, 300),
        ("30s", 30),
        ("5m", 300),
        ("1h30m", 5400),
        ("1.5s", 1.5),
        ("100ms", 0.1),
        ("300", 300),
    ]
    + [(each, math.inf) for each in (-1, "-1", "-1s", "-5m", 1e300)],
)
def test_keep_alive_is_read(told, seconds):
    assert keep_alive_s(told) == pytest.approx(seconds)
    assert (keep_alive_s(told) == STAYS) is (seconds == math.inf)


@pytest.mark.parametrize("told", ["", "soon", "5 m", "m", "1d", "1s30", "٣s", math.nan])
def test_keep_alive_of_another_form_is_refused(told):
    with pytest.raises(InputError, match=r"keep_alive is .*; it must be seconds, or a duration"):
        keep_alive_s(told)
