"""The page in a real browser: it loads nothing, draws everything, and its clock plays."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait
from tests.browser import chromium

from assay.sim.rollout.command import scene_of
from assay.sim.rollout.page import page
from assay.sim.rollout.report import STAGES, report

PATIENCE_S = 60


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    told: list[str] = []
    scene = scene_of(["slots=8", "groups_per_step=2", "k=2", "mean=60"])
    made = report(scene, seed=1, drawn_s=20.0, until_s=20.0, progress=told.append)
    assert len(told) == STAGES
    read: dict[str, Any] = json.loads(json.dumps(made, allow_nan=False))
    return read


@pytest.fixture(scope="module")
def browser(
    found: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[webdriver.Chrome]:
    folder = tmp_path_factory.mktemp("page")
    file = folder / "rollout.html"
    found = {**found, "scene": {**found["scene"], "note": "</script><script>document.title='x'"}}
    file.write_text(page(found), encoding="utf-8")
    with chromium(folder / "profile") as browser:
        browser.get(file.as_uri())
        yield browser


def _clock(browser: webdriver.Chrome) -> int:
    return int(browser.find_element(By.ID, "at").get_property("value"))  # type: ignore[arg-type]


def _live(browser: webdriver.Chrome) -> list[str]:
    return [one.text for one in browser.find_elements(By.CSS_SELECTOR, ".live")]


def test_every_panel_is_drawn_and_nothing_is_loaded(
    browser: webdriver.Chrome, found: dict[str, Any]
) -> None:
    assert browser.title == "Rollout architectures"
    names = [f.get_attribute("data-panel") for f in browser.find_elements(By.TAG_NAME, "figure")]
    panels = [panel["name"] for section in found["sections"] for panel in section["panels"]]
    assert names[: len(panels)] == panels
    assert len(names) == len(panels) + len(found["sweeps"])
    assert not browser.get_log("browser")
    loaded = "return performance.getEntriesByType('resource').length"
    assert browser.execute_script(loaded) == 0
    bars = "return document.querySelectorAll('figure')[0].querySelectorAll('[data-tip^=slot]')"
    drawn = browser.execute_script(bars)
    assert len(drawn) == len(found["sections"][0]["panels"][0]["generations"])


def test_at_the_end_of_the_clock_the_panels_show_their_figures(
    browser: webdriver.Chrome, found: dict[str, Any]
) -> None:
    browser.execute_script("set(1)")
    panels = [panel for section in found["sections"] for panel in section["panels"]]
    for text, panel in zip(_live(browser), panels, strict=True):
        slots = round(100 * panel["figures"]["rollout_utilisation"])
        shown = int(text.split("slots ")[1].split(" %")[0])
        assert abs(shown - slots) <= 1, (text, panel["name"])


def test_play_pause_scrub_and_hover(browser: webdriver.Chrome) -> None:
    body, play = browser.find_element(By.TAG_NAME, "body"), browser.find_element(By.ID, "play")
    play.click()
    WebDriverWait(browser, PATIENCE_S).until(lambda b: 0 < _clock(b) < 1000)
    assert play.text == "Pause"
    play.click()
    stopped = _clock(browser)
    assert play.text == "Play"
    before = _live(browser)
    slider = browser.find_element(By.ID, "at")
    slider.send_keys(Keys.END)
    assert _clock(browser) == 1000 != stopped
    assert _live(browser) != before
    browser.execute_script("document.activeElement.blur()")
    body.send_keys(Keys.ARROW_LEFT)
    assert _clock(browser) == 990
    bar = browser.find_element(By.CSS_SELECTOR, "[data-tip^='slot 0']")
    ActionChains(browser).move_to_element(bar).perform()
    assert browser.find_element(By.ID, "tip").text.startswith("slot 0, group")
    assert not browser.get_log("browser")
