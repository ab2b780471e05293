"""Tests the report of `passhost run --report` in Chromium.

    python3 tests/oracle/page.py PAGE.html SCREENSHOTS [CHROMIUM]

It needs `pip install playwright` and Chromium. The page must open within two seconds, and its script must not fail.
A screenshot of each section is saved to the folder SCREENSHOTS for inspection.
"""

import sys
import time
from pathlib import Path

from playwright.sync_api import Locator, Page, sync_playwright

SECTIONS = ["Summary", "Plan", "Timeline", "Passes", "Functions", "Counts", "Diagnostics", "Validation"]
MOST_SECONDS = 2.0


def settled(page: Page) -> None:
    """Waits until all changes are painted."""
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def opened(page: Page, details: Locator) -> None:
    """Opens a folded element, which creates its content."""
    details.locator("summary").first.click()
    settled(page)


def passes(page: Page) -> None:
    """Opens a pass that changed the module, and its first difference."""
    changed = page.locator("#main > details", has_not_text="unchanged")
    assert changed.count(), "no pass changed anything"
    opened(page, changed.first)
    functions = page.locator("#main details details")
    assert functions.count(), "the pass did not change a function"
    if not page.locator("#main details details[open]").count():
        opened(page, functions.first)
    assert page.locator("#main .plus, #main .minus").count(), "the difference is empty"
    made = page.locator("#main .plus.made")
    print(f"lines with their origins: {made.count()}, {made.first.get_attribute('title') if made.count() else ''}")


def functions(page: Page) -> None:
    """Opens the call graph and the last function with a dataflow."""
    opened(page, page.locator("#main > details").first)
    assert page.locator("#main svg .node").count(), "the call graph is empty"
    for at in reversed(range(1, page.locator("#main > details").count())):
        function = page.locator("#main > details").nth(at)
        opened(page, function)
        if function.locator("details").count():
            opened(page, function.locator("details"))
            assert function.locator("svg .node").count(), "the dataflow is empty"
            return
    raise AssertionError("no function contains a dataflow graph")


def search(page: Page) -> None:
    """Searches for a variable, and opens its dataflow."""
    page.keyboard.press("/")
    page.keyboard.type("lv")
    page.wait_for_selector("[role=status]")
    assert not page.locator("#nav [aria-current=true]").count(), "a section is selected although a variable was found"
    variable = page.locator("#main tbody tr", has_text="variable").first
    variable.locator("button").click()
    page.wait_for_selector("#main svg .node.on")
    page.focus("#search")
    page.keyboard.press("Escape")
    assert page.locator("#nav [aria-current=true]").count() == 1, "the previous section is shown again"


def main() -> None:
    file, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=(sys.argv[3:] or [None])[0], args=["--no-sandbox"])
        page = chromium.new_page(viewport={"width": 1300, "height": 900})
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: errors.append(request.url) if not request.url.startswith("file:") else None)
        begin = time.monotonic()
        page.goto(file.as_uri())
        page.wait_for_selector("#main table")
        settled(page)
        seconds = time.monotonic() - begin
        print(f"{file.name}: {file.stat().st_size / 1e6:.1f} MB, opened in {seconds:.2f} s")
        for number, section in enumerate(SECTIONS, 1):
            # The page must be usable with the keyboard alone.
            page.focus("#main")
            page.keyboard.press(str(number))
            assert page.inner_text("#main h2") == section
            {"Passes": passes, "Functions": functions}.get(section, lambda _: None)(page)
            settled(page)
            page.screenshot(path=folder / f"{number}-{section}.png")
        search(page)
        page.click("#theme")
        page.focus("#main")
        page.keyboard.press("4")
        page.keyboard.press("j")
        assert page.evaluate("document.activeElement.localName") in ("summary", "button", "pre")
        page.screenshot(path=folder / "dark.png")
        chromium.close()
    assert not errors, errors
    assert seconds < MOST_SECONDS, f"{seconds:.2f} s"


if __name__ == "__main__":
    main()
