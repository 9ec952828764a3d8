"""Hot scripts as functions that the server keeps: the same text, made once.

The conformance suite runs with functions (`valkey`) and with scripts (`valkey in parts`).
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio import Redis
from tests.store.driver import Driver, request

from assay.config.settings import StoreSettings
from assay.store.library import NoLibrary, library_of, statements
from assay.store.link import RELEASES_MAX
from assay.store.script import load_script
from assay.store.valkey import ValkeyStore

SCRIPT = """#!lua
local SLICE, NAMES = 1000, { 'a', 'b' } -- constants
local seen = {}
local act = {}
local function count(list)
  seen[#seen + 1] = #list
  return #seen
end
function act.BOTH(list)
  return { count(list), #NAMES + SLICE }
end
local key, list = KEYS[1], ARGV
if key == 'none' then
  return 'none'
end
return act.BOTH(list)
"""


async def libraries(url: str) -> list[str]:
    client: Any = Redis.from_url(url)
    try:
        listed = await client.execute_command("FUNCTION", "LIST")
    finally:
        await client.aclose()
    return sorted(one[b"library_name"].decode() for one in listed)


# -- the text --------------------------------------------------------------------------------------
def test_definitions_are_made_once_and_what_a_call_computes_at_each_call() -> None:
    once, _, call = library_of("f", SCRIPT).partition("local function run()")
    assert "local SLICE, NAMES = 1000, { 'a', 'b' }" in once
    assert "local act = {}" in once
    assert "local seen\n" in once
    assert "local key, list\n" in once
    assert "seen = {}\nkey, list = KEYS[1], ARGV" in call
    assert "act = {}" not in call
    assert "  seen = nil" in call


def test_a_local_that_is_declared_twice_has_no_one_place() -> None:
    with pytest.raises(NoLibrary, match="declared twice: seen"):
        library_of("f", SCRIPT + "local seen = 1\n")


@given(st.lists(st.sampled_from(["local a = 1\n", "f(1,\n  2)\n", "if x then\n  y()\nend\n"])))
def test_statements_lose_nothing(parts: list[str]) -> None:
    assert "".join(f"{one}\n" for one in statements("".join(parts))) == "".join(parts)


# -- on a server -----------------------------------------------------------------------------------
async def test_a_function_answers_as_its_script_at_every_call(
    store_settings: StoreSettings,
) -> None:
    client: Any = Redis.from_url(store_settings.url)
    try:
        await client.execute_command("FUNCTION", "LOAD", library_of("f", SCRIPT))
        for key in ("k", "none", "k"):
            answer = await client.execute_command("FCALL", "f", 1, key, "x", "y")
            assert answer == await client.execute_command("EVAL", SCRIPT, 1, key, "x", "y")
    finally:
        await client.execute_command("FUNCTION", "FLUSH")
        await client.aclose()


async def test_functions_that_the_server_lost_are_loaded_again(
    valkey_drive: Driver, store_settings: StoreSettings
) -> None:
    await valkey_drive.open(size=2)
    client: Any = Redis.from_url(store_settings.url)
    for number in range(2):
        await client.execute_command("FUNCTION", "FLUSH")
        await valkey_drive.submit([request(f"{number}")])
        (claim,) = await valkey_drive.claim()
        assert claim.request_id == f"{number}"
    await client.aclose()
    names = await libraries(store_settings.url)
    assert names == sorted(load_script(name).function for name in ("claim", "submit"))


async def test_functions_of_other_releases_stay_while_they_are_few(
    valkey_drive: Driver, store_settings: StoreSettings
) -> None:
    client: Any = Redis.from_url(store_settings.url)
    await client.execute_command("FUNCTION", "FLUSH")
    script = load_script("claim")
    for number in range(RELEASES_MAX - 1):
        other = script.library.replace(script.function, f"assay_claim_{number}")
        await client.execute_command("FUNCTION", "LOAD", other)
    await valkey_drive.claim()
    assert len(await libraries(store_settings.url)) == RELEASES_MAX
    await client.execute_command("FUNCTION", "DELETE", script.function)
    other = script.library.replace(script.function, "assay_claim_x")
    await client.execute_command("FUNCTION", "LOAD", other)
    await valkey_drive.claim()
    assert await libraries(store_settings.url) == [script.function]
    await client.aclose()


async def test_a_server_that_takes_no_functions_runs_scripts(store_settings: StoreSettings) -> None:
    client: Any = Redis.from_url(store_settings.url)
    rules = ("on", ">secret", "~*", "&*", "+@all", "-fcall", "-function")
    await client.execute_command("ACL", "SETUSER", "plain", *rules)
    url = store_settings.url.replace("unix://", "unix://plain:secret@")
    opened = ValkeyStore(store_settings, url=url)
    try:
        drive = Driver(opened)
        await drive.open(size=1)
        await drive.submit([request("a")])
        await drive.score(await drive.claim())
        assert [one.request_id for one in await drive.results()] == ["a"]
    finally:
        await opened.close()
        await client.execute_command("ACL", "DELUSER", "plain")
        await client.aclose()
