"""Pictures of the console for the documentation: `python -m tests.console.pictures docs/figures`.

Starts a platform in a folder of its own, lets it judge programs and answers of two tasks, and takes
the page as Chromium shows it, light and dark.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait
from tests.browser import chromium
from tests.e2e.commands import platform_up

from assay.client import Client, Request

if TYPE_CHECKING:
    from selenium import webdriver

PATIENCE_S = 300
READINGS_S = 24.0
"""How long the page gathers readings before its picture is taken."""
PROGRAM = """
n = int(input())
total = 0
for i in range(150_000 * (n % 5 + 1)):
    total += i % 7
print({answer})
"""


def programs(step: int) -> list[Request]:
    """Programs that compute for some tenths of a second; one in four is wrong, some do not end."""
    tests = [{"stdin": f"{n}\n", "stdout": f"{n * n}\n"} for n in (3, 4)]
    requests = []
    for n in range(48):
        answer = "n * n" if n % 4 else "n * n + (n > 3)"
        text = "while True: pass" if n == 13 else PROGRAM.replace("{answer}", answer)
        requests.append(
            Request(
                request_id=f"step{step}/p{n // 8}:k{n % 8}",
                group_id=f"step{step}/p{n // 8}",
                response=f"```python\n{text}\n```",
                reference={"tests": tests},
            )
        )
    return requests


def answers(step: int) -> list[Request]:
    """Answers to sums, most of them right."""
    return [
        Request(
            request_id=f"sum{step}/p{n // 8}:k{n % 8}",
            group_id=f"sum{step}/p{n // 8}",
            response=f"\\boxed{{{n // 8 + (n % 5 == 0)}}}",
            reference={"answers": [str(n // 8)]},
        )
        for n in range(64)
    ]


async def train(address: str, *, steps: int) -> None:
    """Two jobs with a batch at a time each."""
    async with Client(address) as client:
        await client.register_task("programs", pipeline="code.python", batch_size=48)
        await client.register_task("sums", pipeline="math", batch_size=64)
        for step in range(steps):
            await asyncio.gather(
                batch(client, "programs", step, programs(step)),
                batch(client, "sums", step, answers(step)),
            )


async def batch(client: Client, task: str, step: int, requests: list[Request]) -> None:
    """One step of one job, to its last result."""
    name = f"{task}-step-{step}"
    opened = await client.open_batch(
        task, size=len(requests), group_size=8, batch_id=name, deadline_s=30
    )
    await opened.submit(requests)
    async for _ in opened.results():
        pass


def photograph(browser: webdriver.Chrome, base: str, out: Path) -> None:
    """The page while the platform works, then a batch."""
    browser.set_window_size(1400, 1250)
    browser.get(f"{base}/console")
    wait = WebDriverWait(browser, PATIENCE_S)
    wait.until(lambda b: "Plan of" in b.find_element(By.ID, "planner").text)
    with contextlib.suppress(Exception):
        WebDriverWait(browser, READINGS_S).until(lambda _: False)
    for theme in ("light", "dark"):
        if browser.find_element(By.TAG_NAME, "html").get_attribute("data-theme") != theme:
            browser.find_element(By.ID, "theme").send_keys(Keys.ENTER)
        browser.save_screenshot(str(out / f"console-{theme}.png"))
    browser.find_element(By.ID, "theme").send_keys(Keys.ENTER)
    rows = browser.find_elements(By.CSS_SELECTOR, "#batches-rows tr")
    done = [one for one in rows if "complete" in one.text and "programs" in one.text]
    [row, *_] = done or rows
    row.find_element(By.TAG_NAME, "button").send_keys(Keys.ENTER)
    wait.until(lambda b: b.find_element(By.ID, "lookup-said").text == "Found")
    browser.execute_script("document.getElementById('found').scrollIntoView({behavior: 'instant'})")
    browser.save_screenshot(str(out / "console-batch.png"))


async def main(out: Path) -> None:
    """Make all pictures."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="assay-pictures-") as folder:
        async with platform_up(Path(folder) / "data") as up:
            work = asyncio.create_task(train(up["grpc"], steps=200))
            try:
                with chromium(Path(folder) / "profile") as browser:
                    await asyncio.to_thread(photograph, browser, up["http"], out)
            finally:
                work.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await work


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
