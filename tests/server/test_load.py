"""Many clients at once, some of whom leave: nothing is lost, mixed up or held."""

import asyncio
import threading
import time

import httpx
import pytest
from live import connect, live, until
from serving import TOOLS, constant_chat, replying, served

from leadout.bench.load import Clients, counted, settle
from leadout.bench.load_jobs import Job, Told, mixed_jobs, read_stream
from leadout.drafters.suffix import SuffixDrafter
from leadout.errors import ProviderError
from leadout.server.options import ServerOptions

OPEN = ServerOptions(port=0, grace_s=0)


def echo(asked):
    """Words that depend on all of the prompt."""
    return f"{sum(asked.encode()) % 997} is said of {len(asked)} letters: " + asked[-40:].replace("<", "(")


def loaded(toy, seconds=5.0, **about):
    with live(toy, options=OPEN) as server:
        clients = Clients(url=server.url, model="toy", **about)
        jobs = mixed_jobs(40)
        alone = asyncio.run(clients.alone(jobs))
        report = asyncio.run(clients.load(jobs, seconds, alone))
        settle(server.url, 30)
        return report, alone


def test_replies_under_load_are_what_they_are_alone():
    toy = served(replying(echo, TOOLS, n_slots=4), SuffixDrafter(), max_queued=200)
    report, alone = loaded(toy, n=32, leaving=0.3, patience_s=1.0)
    assert report.lost == []
    assert report.wrong == []
    assert report.refused.total() == 0
    assert report.left.total() > 0
    assert report.n_checked > 50
    assert len({told.answers[0] for told in alone.values()}) > 5  # mixed up replies would be seen


def test_sampled_replies_under_load_are_what_they_are_alone():
    toy = served(constant_chat([0.5, 0.3, 0.2]), SuffixDrafter(), max_queued=200)
    report, _ = loaded(toy, seconds=3.0, n=16, leaving=0.3, patience_s=0.5)
    assert (report.lost, report.wrong) == ([], [])
    assert report.n_checked > 20


def test_who_finds_no_room_is_refused_and_nobody_is_lost():
    toy = served(constant_chat([1.0]), max_queued=1)
    report, _ = loaded(toy, seconds=2.0, n=16)
    assert report.refused.total() > 0
    assert (report.lost, report.wrong) == ([], [])


def test_a_slot_that_stays_held_is_noticed():
    toy = served(constant_chat([1.0]))
    with live(toy, options=OPEN) as server:
        body = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 15000}
        connection = connect(server, {**body, "stream": True})
        until(lambda: counted(server.url, "leadout_requests_running") == 1)
        with pytest.raises(ProviderError, match="a slot is held, or a request waits, that nobody asks for"):
            settle(server.url, 0.0)
        connection.close()
        settle(server.url, 30)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (['data: {"choices": []}'], "the stream stopped before its end"),
        (['data: {"error": {"message": "no"}}', "data: [DONE]"], "the stream tells an error"),
    ],
)
def test_streams_that_break_off_are_noticed(lines, said):
    async def given():
        for line in lines:
            yield line

    with pytest.raises(ProviderError, match=said):
        asyncio.run(read_stream(given()))


def test_a_wrong_reply_is_noticed():
    toy = served(replying("Hi."))
    job = Job(name="greeting", path="/v1/chat/completions", body=mixed_jobs(4)[0].body)
    with live(toy, options=OPEN) as server:
        clients = Clients(url=server.url, model="toy", n=2)
        told = asyncio.run(clients.load([job], 0.3, {"greeting": Told(answers={0: "Hello."})}))
    assert told.wrong
    assert len(told.wrong) == told.n_checked == told.whole["greeting"]


def test_a_long_chat_does_not_hold_up_the_event_loop():
    """Ten thousand messages are read while another client asks again and again how the server is."""
    toy = served(replying("Hi.", n_ctx=600_000))
    messages = [{"role": "user", "content": f"message {i}"} for i in range(10_000)]
    waits = []
    with live(toy, options=ServerOptions(port=0, grace_s=0)) as server:
        is_over = threading.Event()

        def ask():
            with httpx.Client(base_url=server.url, trust_env=False, timeout=60) as client:
                while not is_over.is_set():
                    began = time.perf_counter()
                    assert client.get("/health").status_code == 200
                    waits.append(time.perf_counter() - began)

        watcher = threading.Thread(target=ask)
        watcher.start()
        until(lambda: len(waits) > 3)
        long = httpx.post(
            f"{server.url}/v1/chat/completions",
            json={"model": "toy", "messages": messages, "max_tokens": 3},
            timeout=120,
        )
        is_over.set()
        watcher.join()
    assert long.status_code == 200, long.text[:300]
    print(f"longest wait for /health: {1e3 * max(waits):.1f} ms of {len(waits)}")
    assert len(waits) > 10
