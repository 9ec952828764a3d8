"""The served page under axe-core's rules: every state of it, dark and light, in a real browser.

axe-core comes from npm, or from the file that `ASSAY_AXE_CORE` names (its `axe.min.js`); where
there is neither, the tests are skipped and say so.
"""

from __future__ import annotations

import os
import subprocess
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from tests.browser import chromium
from tests.console.hosting import Hosted, hosted
from tests.console.planner import StandIn
from tests.console.scene import OPERATOR
from tests.console.test_page import opened, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selenium import webdriver

    from assay.store.embedded import EmbeddedValkey

VERSION: Final = "4.14.1"
NPM_S_MAX: Final = 120


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    if given := os.environ.get("ASSAY_AXE_CORE"):
        return Path(given).read_text(encoding="utf-8")
    folder = tmp_path_factory.mktemp("axe")
    command = ["npm", "pack", f"axe-core@{VERSION}", "--silent"]
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=NPM_S_MAX)
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"axe-core: npm gives none ({error}); set ASSAY_AXE_CORE to its axe.min.js")
    with tarfile.open(next(folder.glob("*.tgz"))) as package:
        content = package.extractfile("package/axe.min.js")
        assert content is not None
        return content.read().decode()


@pytest.fixture(scope="module")
def service(valkey: EmbeddedValkey, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    with hosted(valkey, tmp_path_factory.mktemp("console")) as service:
        yield service


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    with chromium(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


def faults(browser: webdriver.Chrome, axe: str) -> list[Any]:
    """What breaks a rule: the rule, and the elements."""
    browser.execute_script(axe)
    found = browser.execute_async_script(
        "const done = arguments[0];"
        "axe.run(document).then((found) => done(found), (error) => done({error: String(error)}));"
    )
    assert len(found["passes"]) > 10, found
    return [
        (one["id"], [(node["target"], node["failureSummary"]) for node in one["nodes"]])
        for one in found["violations"]
    ]


@pytest.fixture(params=["light", "dark"])
def theme(request: pytest.FixtureRequest, browser: webdriver.Chrome, service: Hosted) -> str:
    """The page is in this theme from its next opening on."""
    named = str(request.param)
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"features": [{"name": "prefers-color-scheme", "value": named}]},
    )
    browser.get(f"{service.base}/console")
    browser.execute_script("localStorage.clear()")
    return named


def test_the_door_breaks_no_rule(
    browser: webdriver.Chrome, service: Hosted, axe: str, theme: str
) -> None:
    browser.get(f"{service.base}/console")
    browser.find_element(By.ID, "token").send_keys("nobodys", Keys.ENTER)
    until(browser, "#door-why", "no tenant has this token")
    assert faults(browser, axe) == []


def test_a_tenants_view_with_what_it_looked_up_breaks_no_rule(
    browser: webdriver.Chrome, service: Hosted, axe: str, theme: str
) -> None:
    opened(browser, service, "red-read")
    until(browser, "#batches-rows", "red-done")
    assert faults(browser, axe) == []
    browser.find_element(By.ID, "lookup-batch").send_keys("red-done", Keys.ENTER)
    until(browser, "#lookup-said", "Found")
    assert faults(browser, axe) == []


def test_the_operators_view_breaks_no_rule(
    browser: webdriver.Chrome, service: Hosted, axe: str, theme: str
) -> None:
    planner = StandIn.with_hosts("host-a", "host-b", condition="QuotaExhausted")
    planner.everywhere.hosts[0].state = "Doubted"
    with service.planned_by(planner):
        opened(browser, service, OPERATOR)
        until(browser, "#hosts-rows", "host-b")
        browser.find_element(By.ID, "letters-load").send_keys(Keys.ENTER)
        until(browser, "#letters-rows", "red-dead")
        assert faults(browser, axe) == []
