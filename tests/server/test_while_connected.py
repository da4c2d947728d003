"""Work for a client who may leave."""

import asyncio

import pytest

from leadout.server.refusal import RefusedError
from leadout.server.sse import ClientGoneError, while_connected


class Connection:
    """A client who stays until `left` is set."""

    def __init__(self):
        self.left, self.n_listening = asyncio.Event(), 0

    async def receive(self):
        self.n_listening += 1
        try:
            await self.left.wait()
            return {"type": "http.disconnect"}
        finally:
            self.n_listening -= 1


async def endless(said):
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(0)  # what is closed takes its time
        said.append("over")


def test_the_result_comes_back_and_nobody_listens_on():
    async def run():
        client = Connection()
        assert await while_connected(client.receive, asyncio.sleep(0.001, "done")) == "done"
        await asyncio.sleep(0)
        assert client.n_listening == 0
        client.left.set()
        await asyncio.sleep(0.001)  # leaving later does nothing to whoever asked

    asyncio.run(run())


def test_work_is_over_when_its_client_has_left():
    async def run():
        client, said = Connection(), []
        asyncio.get_running_loop().call_later(0.001, client.left.set)
        with pytest.raises(ClientGoneError, match="the client closed the connection"):
            await while_connected(client.receive, endless(said), asyncio.get_running_loop().time() + 60)
        assert said == ["over"]
        assert asyncio.current_task().cancelling() == 0

    asyncio.run(run())


def test_work_is_over_at_its_deadline():
    async def run():
        client, said = Connection(), []
        with pytest.raises(RefusedError, match="longer than this server allows"):
            await while_connected(client.receive, endless(said), asyncio.get_running_loop().time() + 0.001)
        assert said == ["over"]
        await asyncio.sleep(0)
        assert client.n_listening == 0

    asyncio.run(run())


def test_a_timeout_of_the_works_own_stays_what_it_is():
    async def run():
        async with asyncio.timeout(0.001):
            await asyncio.Event().wait()

    async def ask():
        with pytest.raises(TimeoutError):
            await while_connected(Connection().receive, run())

    asyncio.run(ask())


def test_whoever_cancels_the_asker_cancels_the_work():
    async def run():
        said = []
        asking = asyncio.create_task(while_connected(Connection().receive, endless(said)))
        await asyncio.sleep(0.001)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert said == ["over"]

    asyncio.run(run())
