"""The page in a real browser: what it shows, by keyboard alone; hostile text stays text."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait
from tests.browser import chromium
from tests.console.hosting import Hosted, hosted
from tests.console.planner import StandIn
from tests.console.scene import OPERATOR

from assay.core.ids import (
    BatchId,
    GroupId,
    PipelineName,
    RequestId,
    StageName,
    TaskId,
    TenantId,
)
from assay.core.records import BatchSpec, NewRequest, Quota, TaskRecord

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from selenium import webdriver

    from assay.store.embedded import EmbeddedValkey
    from assay.store.port import Store

PATIENCE_S = 60
HOSTILE = (
    "<script>window.pwned=1</script>",
    "<img src=x onerror='window.pwned=1'>",
    "</pre></script><svg onload=window.pwned=1>",
    "javascript:window.pwned=1",
    "\"'><iframe srcdoc='<script>parent.pwned=1</script>'>",
    "\n\nevent: look\ndata: {}\n\n",
    "\u2028\u2029\ufeff\u202eexe.gpj <base href=//evil.example>",
    "{{constructor.constructor('window.pwned=1')()}}",
)


@pytest.fixture(scope="module")
def service(valkey: EmbeddedValkey, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    with hosted(valkey, tmp_path_factory.mktemp("console")) as service:
        yield service


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("profile")


@pytest.fixture(scope="module")
def browser(service: Hosted, profile: Path) -> Iterator[webdriver.Chrome]:
    with chromium(profile) as browser:
        yield browser


def opened(browser: webdriver.Chrome, service: Hosted, token: str) -> webdriver.Chrome:
    """The page, after the token was given by keyboard."""
    browser.get(f"{service.base}/console")
    field = browser.find_element(By.ID, "token")
    WebDriverWait(browser, PATIENCE_S).until(lambda _: field.is_displayed())
    assert browser.switch_to.active_element == field, "the focus is where one types"
    field.send_keys(token, Keys.ENTER)
    until(browser, "#status", "Live")
    return browser


def until(browser: webdriver.Chrome, selector: str, text: str) -> Any:
    """Wait until an element has the text."""

    def found(_: webdriver.Chrome) -> Any:
        return any(text in one.text for one in browser.find_elements(By.CSS_SELECTOR, selector))

    return WebDriverWait(browser, PATIENCE_S, ignored_exceptions=[Exception]).until(found)


def test_nothing_is_loaded_from_elsewhere_and_the_token_is_in_no_address(
    browser: webdriver.Chrome, service: Hosted
) -> None:
    opened(browser, service, "red-read")
    names = browser.execute_script(
        "return performance.getEntriesByType('resource').map((one) => one.name)"
    )
    assert names
    assert all(name.startswith(f"{service.base}/console/") for name in names)
    everywhere = [*names, browser.current_url, browser.execute_script("return document.cookie")]
    everywhere += browser.execute_script(
        "return [JSON.stringify(localStorage), JSON.stringify(sessionStorage)]"
    )
    assert not any("red-read" in one for one in everywhere)
    assert "red-read" not in browser.page_source


def test_a_wrong_token_is_told_and_shows_nothing(
    browser: webdriver.Chrome, service: Hosted
) -> None:
    browser.get(f"{service.base}/console")
    field = browser.find_element(By.ID, "token")
    WebDriverWait(browser, PATIENCE_S).until(lambda _: field.is_displayed())
    field.send_keys("nobodys", Keys.ENTER)
    until(browser, "#door-why", "no tenant has this token")
    assert not browser.find_element(By.ID, "main").is_displayed()


def test_a_tenant_reads_its_batches_a_failure_and_a_requests_timeline_by_keyboard(
    browser: webdriver.Chrome, service: Hosted
) -> None:
    opened(browser, service, "red-read")
    until(browser, "#batches-rows", "red-done")
    assert "blue" not in browser.find_element(By.ID, "main").text
    assert not browser.find_element(By.ID, "pools").is_displayed()
    assert "INFRA_FAILED 1" in browser.find_element(By.ID, "missing-rows").text
    [button] = browser.find_elements(By.CSS_SELECTOR, "[aria-label='Open batch red-done']")
    button.send_keys(Keys.ENTER)
    until(browser, "#found pre", "wrong red-text")
    assert browser.switch_to.active_element.get_attribute("id") == "lookup-title"
    request = browser.find_element(By.ID, "lookup-request")
    request.send_keys("red-wrong", Keys.ENTER)
    until(browser, "#found h3", "Request red-wrong")
    timeline = browser.find_element(By.CSS_SELECTOR, "#found svg[role=img]")
    assert timeline.get_attribute("aria-label")
    assert "noop" in browser.find_element(By.ID, "found").text
    assert errors(browser) == []


def test_the_focus_stays_while_readings_come(browser: webdriver.Chrome, service: Hosted) -> None:
    opened(browser, service, "red-read")
    until(browser, "#batches-rows", "red-done")
    browser.execute_script(
        "window.seen = 0; new MutationObserver(() => seen++).observe("
        "document.querySelector('#batches-rows'), {subtree: true, childList: true,"
        " characterData: true})"
    )
    [button] = browser.find_elements(By.CSS_SELECTOR, "[aria-label='Open batch red-open']")
    browser.execute_script("arguments[0].focus()", button)
    WebDriverWait(browser, PATIENCE_S).until(lambda b: b.execute_script("return window.seen") >= 2)
    assert browser.switch_to.active_element == button


def test_the_operator_sees_all_and_replays_a_dead_letter(
    browser: webdriver.Chrome, service: Hosted
) -> None:
    opened(browser, service, OPERATOR)
    until(browser, "#batches-rows", "blue-done")
    until(browser, "#batches-rows", "red-done")
    assert "No planner answers" in browser.find_element(By.ID, "planner").text
    browser.find_element(By.ID, "letters-load").send_keys(Keys.ENTER)
    until(browser, "#letters-rows", "tool broke: dead red-text")
    [button] = browser.find_elements(By.CSS_SELECTOR, "[aria-label='Replay red-dead']")
    button.send_keys(Keys.ENTER)
    until(browser, "#letters-said", "Replayed red-dead")


def test_dark_and_light_are_switched_and_have_enough_contrast(
    browser: webdriver.Chrome, service: Hosted
) -> None:
    opened(browser, service, "red-read")
    button = browser.find_element(By.ID, "theme")
    for _ in range(2):
        button.send_keys(Keys.ENTER)
        pairs = browser.execute_script(
            "const s = getComputedStyle(document.documentElement);"
            "const of = (n) => s.getPropertyValue('--' + n).trim();"
            "return ['front', 'soft', 'bad', 'warn', 'accent', 'good']"
            ".flatMap((n) => ['back', 'raised'].map((b) => [n, of(n), of(b)]))"
        )
        for name, front, back in pairs:
            assert contrast(front, back) >= 4.5, (name, front, back)
    assert button.get_attribute("aria-pressed") in {"true", "false"}


def contrast(one: str, other: str) -> float:
    """WCAG's ratio of two colours, `#rgb` or `#rrggbb`."""
    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def luminance(colour: str) -> float:
    """WCAG's relative luminance."""
    digits = colour.lstrip("#")
    digits = "".join(2 * digit for digit in digits) if len(digits) == 3 else digits
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_what_a_screen_reader_needs_is_there(browser: webdriver.Chrome, service: Hosted) -> None:
    opened(browser, service, OPERATOR)
    until(browser, "#batches-rows", "red-done")
    faults = browser.execute_script(
        """
        const faults = [];
        const visible = [...document.querySelectorAll('main *')];
        for (const one of visible) {
          const named = one.getAttribute('aria-label') || one.textContent.trim();
          if (one.matches('button, a, h2, h3, th, caption') && !named) faults.push(one.outerHTML);
          if (one.matches('input, select') && !one.labels.length) faults.push(one.outerHTML);
          if (one.matches('table') && !one.caption) faults.push('table ' + one.outerHTML);
          if (one.matches('section') && !one.getAttribute('aria-labelledby')) faults.push(one.id);
          if (one.matches('meter, svg[role=img]') && !one.getAttribute('aria-label'))
            faults.push(one.outerHTML);
        }
        const ids = [...document.querySelectorAll('[id]')].map((one) => one.id);
        if (new Set(ids).size !== ids.length) faults.push('an id twice');
        if (document.documentElement.lang !== 'en') faults.push('lang');
        return faults;
        """
    )
    assert faults == []


def shown_texts(browser: webdriver.Chrome, service: Hosted, texts: list[str]) -> list[str]:
    """What the page shows of results with these texts as evidence."""
    batch = service.batch_of(texts)
    opened(browser, service, "red-read")
    browser.find_element(By.ID, "lookup-batch").send_keys(batch, Keys.ENTER)
    until(browser, "#lookup-said", "Found")
    found = browser.find_elements(By.CSS_SELECTOR, "#found article pre")
    return [str(one.get_property("textContent")) for one in found]


def errors(browser: webdriver.Chrome) -> list[Any]:
    """What scripts and policies complained about; a page without a token first asks for one."""
    found = [one for one in browser.get_log("browser") if one["level"] == "SEVERE"]  # type: ignore[no-untyped-call]
    return [one for one in found if "401" not in one["message"]]


def no_harm(browser: webdriver.Chrome, section: str = "#found") -> None:
    """No script of a document has run, and no element of it was made."""
    assert browser.execute_script("return window.pwned") is None
    kinds = ("script", "img", "iframe", "base", "a", "[onload]")
    made = ", ".join(f"{section} {kind}" for kind in kinds)
    assert browser.find_elements(By.CSS_SELECTOR, made) == []
    assert errors(browser) == []


def test_the_operator_sees_the_worker_hosts_and_a_tenant_does_not(
    browser: webdriver.Chrome, service: Hosted
) -> None:
    named = HOSTILE[1]
    planner = StandIn.with_hosts("host-a", named, condition=HOSTILE[0])
    planner.everywhere.hosts[0].state = "Doubted"
    with service.planned_by(planner):
        opened(browser, service, OPERATOR)
        until(browser, "#hosts-rows", "host-a")
        until(browser, "#hosts-rows", named)
        rows = browser.find_elements(By.CSS_SELECTOR, "#hosts-rows tr")
        words = [[one.text for one in row.find_elements(By.TAG_NAME, "td")] for row in rows]
        assert words == [
            ["host-a", "Doubted", "8", "", "noop 1 / 1 / 2"],
            [named, "Counted", "8", "", "noop 1 / 1 / 2"],
        ]
        until(browser, "#conditions", HOSTILE[0])
        until(browser, "#stages-rows", "2 / 2 / 7")
        no_harm(browser, "#pools")
        opened(browser, service, "red-read")
        until(browser, "#batches-rows", "red-done")
        assert "host-a" not in browser.page_source


def test_hostile_evidence_is_text(browser: webdriver.Chrome, service: Hosted) -> None:
    shown = shown_texts(browser, service, [f"wrong {text}" for text in HOSTILE])
    for text in HOSTILE:
        assert f"wrong {text}" in shown
    no_harm(browser)


MARKUP = st.lists(
    st.one_of(
        st.sampled_from([text for text in HOSTILE if "\n" not in text]),
        st.text(st.characters(min_codepoint=33, max_codepoint=0x2FF), max_size=12),
        st.sampled_from("<>\"'&`"),
    ),
    min_size=1,
    max_size=3,
).map("".join)
PLACES = itertools.count()
STAGE = StageName("noop")


@settings(
    max_examples=4,
    phases=(Phase.generate,),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    texts=st.lists(
        st.lists(
            st.one_of(st.sampled_from(HOSTILE), st.text(max_size=30), st.sampled_from("<>\"'&`")),
            min_size=1,
            max_size=5,
        ).map("".join),
        min_size=8,
        max_size=12,
        unique=True,
    )
)
def test_no_generated_text_is_markup(
    browser: webdriver.Chrome, service: Hosted, texts: list[str]
) -> None:
    shown = shown_texts(browser, service, [f"wrong {text}" for text in texts])
    assert len(shown) >= len(texts)
    no_harm(browser)


async def planted(store: Store, named: str, place: int) -> None:
    """Work whose names the API would refuse, put into the store past it: as another program could,
    or an API of another release."""
    tenant, batch = TenantId(f"{named}-{place}"), BatchId(f"b{place}{named}")
    task = TaskRecord(
        tenant=tenant,
        task_id=TaskId(f"t{place}{named}"),
        pipeline=PipelineName(named),
        stages=(STAGE,),
        settings_json=b"{}",
        batch_size=2,
        delay_budget_ms=500,
        trainer_cost_rate=1.0,
    )
    await store.put_task(task)
    spec = BatchSpec(
        tenant=tenant,
        batch_id=batch,
        task_id=task.task_id,
        size=2,
        group_size=2,
        deadline_after_ms=600_000,
    )
    await store.open_batch(spec, Quota())
    requests = [
        NewRequest(
            request_id=RequestId(f"{kind}{named}"),
            group_id=GroupId(named),
            response=f"{kind} {named}".encode(),
            reference=b"{}",
        )
        for kind in ("dead", "wrong")
    ]
    await store.submit(tenant, batch, requests, Quota())
    async with asyncio.timeout(PATIENCE_S):
        while (await store.get_batch(tenant, batch)).ended < len(requests):
            await asyncio.sleep(0.02)


@settings(max_examples=2, phases=(Phase.generate,), suppress_health_check=list(HealthCheck))
@given(names=st.lists(MARKUP, min_size=3, max_size=4, unique=True))
def test_no_name_of_tenant_task_batch_group_or_request_is_markup(
    browser: webdriver.Chrome, service: Hosted, names: list[str]
) -> None:
    first = next(PLACES)
    for place, named in enumerate(names, first):
        service.run(planted(service.running.store, named, place))
    for _ in names:
        next(PLACES)
    opened(browser, service, OPERATOR)
    last = [f"b{place}" for place, _ in enumerate(names, first)]
    shown = by_cell(browser, "#batches-rows", last)
    browser.find_element(By.ID, "letters-load").send_keys(Keys.ENTER)
    shown += by_cell(browser, "#letters-rows", last)
    for place, named in enumerate(names, first):
        for text in (f"{named}-{place}", f"b{place}{named}", f"t{place}{named}", f"dead{named}"):
            assert any(text in one for one in shown), text
    no_harm(browser, "#batches")
    no_harm(browser, "#letters")
    browser.find_element(By.ID, "lookup-tenant").send_keys("red")
    browser.find_element(By.ID, "lookup-batch").send_keys(f"{names[0]} ", Keys.ENTER)
    until(browser, "#lookup-said", " ")
    assert browser.execute_script("return window.pwned") is None
    browser.get_log("browser")  # type: ignore[no-untyped-call]  # it has no such batch


def by_cell(browser: webdriver.Chrome, rows: str, awaited: list[str]) -> list[str]:
    """The texts of a table's cells, exactly as they stand in the document."""
    for text in awaited:
        until(browser, rows, text)
    found: list[str] = browser.execute_script(
        "return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent)",
        f"{rows} td, {rows} th, {rows} td *",
    )
    return found


async def test_every_answer_of_the_page_forbids_scripts_of_others(service: Hosted) -> None:
    async with httpx.AsyncClient(base_url=service.base) as http:
        for path in ("/console", "/console/console.js", "/console/console.css"):
            answer = await http.get(path)
            assert answer.status_code == 200
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert answer.headers["x-content-type-options"] == "nosniff"
        for name in ("..%2Fbuild.py", "index.html", "%2Fetc%2Fpasswd"):
            assert (await http.get(f"/console/{name}")).status_code == 404
        text = (await http.get("/console")).text
    assert "http:" not in text
    assert "https:" not in text
    assert "style=" not in text
