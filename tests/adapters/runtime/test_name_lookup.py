"""A name server that does not answer holds up nothing but the lookups themselves."""

import asyncio
import socket
import threading

import pytest

from skewscope.adapters.runtime import name_lookup
from skewscope.adapters.runtime.blocking_calls import STORE
from skewscope.adapters.runtime.name_lookup import NameLookup

INFO = (socket.AF_INET, socket.SOCK_STREAM, 6, "")


class NameServer:
    """Answers as a test says; silent ones keep a thread until the test is over."""

    def __init__(self):
        self.asked, self.is_silent, self.over = [], False, threading.Event()

    def __call__(self, host, *_, **_named):
        self.asked.append(host)
        if self.is_silent:
            self.over.wait(20)
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        if host == "none":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(*INFO, ("10.0.0.1", 0)), (*INFO, ("10.0.0.1", 0)), (*INFO, ("fe80::1", 0, 0, 2))]


@pytest.fixture
def server(monkeypatch):
    made = NameServer()
    monkeypatch.setattr(socket, "getaddrinfo", made)
    monkeypatch.setattr(name_lookup, "DEADLINE_S", 0.1)
    monkeypatch.setattr(name_lookup, "PATIENCE_S", 0.05)
    yield made
    made.over.set()


@pytest.fixture
def uptime(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(name_lookup, "read_uptime", lambda: now[0])
    return now


def test_addresses_are_kept_for_a_while(server, uptime):
    async def scenario():
        names = NameLookup()
        for age in (0.0, name_lookup.FRESH_S - 1.0, 2.0):
            uptime[0] += age
            assert await names.find("h0") == ("10.0.0.1", "fe80::1%2")

    asyncio.run(scenario())
    assert server.asked == ["h0", "h0"]


def test_all_who_ask_at_once_wait_for_one_lookup(server):
    async def scenario():
        names = NameLookup()
        found = await asyncio.gather(*(names.find("h0") for _ in range(20)))
        assert len(set(found)) == 1

    asyncio.run(scenario())
    assert server.asked == ["h0"]


def test_a_name_that_does_not_exist_is_an_error(server):
    async def scenario():
        with pytest.raises(OSError, match="none: Name or service not known"):
            await NameLookup().find("none")

    asyncio.run(scenario())


def test_many_silent_lookups_hold_up_no_read_of_the_store(server):
    server.is_silent = True

    async def scenario():
        names = NameLookup()
        lookups = [asyncio.create_task(names.find(f"h{n}")) for n in range(30)]
        await asyncio.sleep(0)
        async with asyncio.timeout(5):
            assert await STORE.run(lambda: 1) == 1
        for lookup in lookups:
            with pytest.raises(OSError, match="no answer of the name server"):
                await lookup
        server.over.set()

    asyncio.run(scenario())


def test_addresses_of_before_are_used_while_the_name_server_is_silent(server, uptime):
    async def scenario():
        names = NameLookup()
        before = await names.find("h0")
        server.is_silent = True
        uptime[0] += name_lookup.FRESH_S + 1.0
        assert await names.find("h0") == before
        uptime[0] += name_lookup.USABLE_S
        with pytest.raises(OSError, match="no answer"):
            await names.find("h0")
        server.over.set()

    asyncio.run(scenario())
