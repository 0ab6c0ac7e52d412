"""The console in Chromium, for a large site: needs Playwright and Chromium, which no other benchmark does."""

import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from headrace.contract.errors import HeadraceError
from headrace.laboratory.bench.events import site_overhead
from headrace.laboratory.bench.figures import Figure
from headrace.laboratory.bench.parts import Say
from headrace.laboratory.bench.site import CLIENTS, STREAMS_OF_A_SESSION, Site, listening, site

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

_VIEWS = ("streams", "graph", "health", "connectors", "timeline")
_HISTORY_VIEWS = ("overview&range=1%20h", "streams")
_MAX_HISTORY_MB = 32 * 2**20 / 1e6
_DEADLINE_MS = 120_000
_MEASURE = """
window.headraceAges = [];
const idle = (then) => requestAnimationFrame(() => setTimeout(then, 0));
const plots = () => [...document.querySelectorAll("figure.plot strong")].filter((one) => one.textContent !== "\u2013").length;
const isOverview = () => document.querySelector("h1")?.textContent === "Overview";
window.headraceInteractive = new Promise((resolve) => {
  const status = new MutationObserver(() => {
    if (document.querySelector("footer") === null || (isOverview() && plots() < 3)) return;
    status.disconnect();
    idle(() => resolve(performance.now()));
  });
  status.observe(document, { childList: true, subtree: true, characterData: true });
});
const Source = window.EventSource;
window.EventSource = class extends Source {
  constructor(address) {
    super(address);
    const at = /^.?"at_ms":([0-9]+)/;
    this.addEventListener("changes", (event) => {
      const taken = Number(at.exec(event.data)[1]);
      idle(() => window.headraceAges.push(Date.now() - taken));
    });
  }
};
"""
"""Notes when the page shows the status and takes input again, and how old each update is once it is painted.

The overview also has to show values of the history."""


class BrowserMissing(HeadraceError):
    """What opens the pages is not installed."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What pages have measured themselves, in milliseconds."""

    interactive: list[float]
    ages: list[float]

    def __add__(self, other: "Shown") -> "Shown":
        return Shown(self.interactive + other.interactive, self.ages + other.ages)


def console_page(spark: SparkSession, say: Say, quick: bool) -> Iterator[Figure]:
    """One page of the console at a time, of each view, while nine other clients follow the status, as pages elsewhere do."""
    count, seconds = (100, 3) if quick else (1_000, 10)
    found = Shown([], [])
    with _browser() as browser, site(spark, count) as running, listening(running.http, CLIENTS - 1):
        for view in _VIEWS:
            with _opened(browser, running, [view]) as pages:
                time.sleep(seconds)
                found = found + _shown(pages)
    yield from _figures("console_page", count, found, say)


def console_pages(spark: SparkSession, say: Say, quick: bool) -> Iterator[Figure]:
    """Ten pages of the console at once, two of each view, which share the cores with the gateway; and what they cost it."""
    count, seconds = (100, 5) if quick else (1_000, 30)
    views = _VIEWS * (CLIENTS // len(_VIEWS))
    with _browser() as browser:
        with site(spark, count) as running, _opened(browser, running, views) as pages:
            time.sleep(seconds)
            found = _shown(pages)
        yield from _figures("console_pages", count, found, say)
        yield from site_overhead(
            spark, say, quick, "console_pages_overhead", "ten pages", lambda running: _opened(browser, running, views)
        )


def console_history(spark: SparkSession, say: Say, quick: bool) -> Iterator[Figure]:
    """The overview, with its plots, and the streams of a gateway that has an hour of history of all of them, page after page."""
    count, times = (100, 2) if quick else (1_000, 10)
    sessions = max(1, count // STREAMS_OF_A_SESSION)
    with _browser() as browser, tempfile.TemporaryDirectory() as folder:
        history = Path(folder) / "history"
        module = ("headrace.laboratory.remembering", "--sessions", str(sessions), "--partitions", str(count // sessions))
        with site(spark, count, module=(*module, "--history-file", str(history))) as running:
            for view in _HISTORY_VIEWS:
                found = []
                for _ in range(times):
                    with _opened(browser, running, [view]) as pages:
                        found += _shown(pages).interactive
                name, middle = view.partition("&")[0], statistics.median(found)
                say(f"  {name}: interactive after {middle:.0f} ms, at most {max(found):.0f} ms")
                yield Figure(f"console_history_{name}_ms_{count}_streams", middle, "ms", None, "< 1000", middle < 1000)
            taken = int(history.read_text()) / 1e6
            yield Figure("console_history_memory", taken, "MB", None, "<= 33.6", taken <= _MAX_HISTORY_MB)


def _figures(name: str, streams: int, found: Shown, say: Say) -> Iterator[Figure]:
    """When pages could be used, and how old an update was once it was painted."""
    interactive, age = statistics.median(found.interactive), statistics.median(found.ages)
    say(f"  interactive after {interactive:.0f} ms, at most {max(found.interactive):.0f} ms")
    say(f"  updates shown after {age:.0f} ms, at most {max(found.ages):.0f} ms")
    yield Figure(f"{name}_interactive_ms_{streams}_streams", interactive, "ms", None, "< 1000", interactive < 1000)
    yield Figure(f"{name}_shown_ms_{streams}_streams", age, "ms", None, "< 250", age < 250)


@contextmanager
def _browser() -> Iterator["Browser"]:
    """Runs Chromium.

    Raises:
        BrowserMissing: Playwright or Chromium is not installed.
    """
    try:
        from playwright.sync_api import sync_playwright
    except ImportError as error:
        raise BrowserMissing("Playwright is not installed; run: pip install playwright") from error
    chromium = shutil.which("chromium")
    if chromium is None:
        raise BrowserMissing("Chromium is not installed; on Debian, run: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"], timeout=_DEADLINE_MS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def _opened(browser: "Browser", running: Site, views: Sequence[str]) -> Iterator[list["Page"]]:
    """Opens pages one after the other, each in a context of its own: Chromium has six connections to a server for one."""
    with ExitStack() as stack:
        pages = []
        for view in views:
            context = browser.new_context(viewport={"width": 1280, "height": 800})
            stack.callback(context.close)
            context.set_default_timeout(_DEADLINE_MS)
            context.add_init_script(_MEASURE)
            page = context.new_page()
            page.goto(f"http://{running.http}/?view={view}")
            page.evaluate("window.headraceInteractive")
            pages.append(page)
        yield pages


def _shown(pages: list["Page"]) -> Shown:
    return Shown(
        [page.evaluate("window.headraceInteractive") for page in pages],
        [age for page in pages for age in page.evaluate("window.headraceAges")],
    )
