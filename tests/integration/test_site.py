"""The site that `scripts/docs` builds: its links; and in a browser, search, keyboard, contrast, phone and print."""

import os
import posixpath
import re
import subprocess
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import browser
import pytest

import mqlearn as mq
from mqlearn.cli.verbs import VERBS
from mqlearn.experiments.settings import targets
from mqlearn.paths import CONF

from . import servers
from .test_servers import needs

pytestmark = pytest.mark.integration
ROOT = Path(__file__).resolve().parents[2]
LOOKED_AT = ("index.html", "rules/momentum_q.html", "problems/frozen_lake_8x8.html", "problems/queue.html",
             "boards/classic.html", "papers/minimax_2024.html", "python/running.html", "guide/settings.html",
             "glossary.html")  # fmt: skip

# The least contrast of any text that is seen, by the formula of WCAG 2, and which text it is.
CONTRAST = """
(() => {
  const parse = text => { const n = text.match(/[\\d.]+/g).map(Number); return [...n.slice(0, 3), n[3] ?? 1]; };
  const over = (a, b) => [0, 1, 2].map(i => a[i] * a[3] + b[i] * (1 - a[3])).concat(1);
  const linear = v => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const light = c => .2126 * linear(c[0]) + .7152 * linear(c[1]) + .0722 * linear(c[2]);
  let least = [99, ""];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const element = walk.currentNode.parentElement, text = walk.currentNode.data.trim();
    if (!text || element.closest("svg, script, style, noscript") || !element.checkVisibility({opacityProperty: true,
        visibilityProperty: true})) continue;
    const behind = [];
    for (let one = element; one; one = one.parentElement) behind.push(parse(getComputedStyle(one).backgroundColor));
    const page = behind.reverse().reduce((below, above) => over(above, below), [255, 255, 255, 1]);
    const ink = over(parse(getComputedStyle(element).color), page);
    const [high, low] = [light(ink), light(page)].sort((a, b) => b - a);
    const found = (high + .05) / (low + .05);
    if (found < least[0]) least = [found, text.slice(0, 40) + " in " + element.className];
  }
  return least;
})()"""
SEEN = "[...document.querySelectorAll(%r)].filter(one => one.checkVisibility()).length"


class Page(HTMLParser):
    """The ids of a page, its links, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and given.get("rel") in ("stylesheet", "icon", "preload"):
            self.loaded.append(given["href"])
        elif tag in ("script", "img") and "src" in given:
            self.loaded.append(given["src"])


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("built") / "site"
    done = subprocess.run([ROOT / "scripts" / "docs", folder], capture_output=True, text=True, cwd=folder.parent)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == f"{folder}{os.sep}index.html"
    return folder


@pytest.fixture(scope="module")
def pages(site) -> dict[str, Page]:
    found = {file.relative_to(site).as_posix(): Page(file.read_text(encoding="utf-8")) for file in site.rglob("*.html")}
    return {name: page for name, page in found.items() if not name.startswith(("_downloads/", "_static/"))}


def test_every_link_leads_to_a_page_and_a_place_on_it(site, pages):
    broken = []
    for name, page in pages.items():
        for link in [*page.links, *page.loaded]:
            if re.match(r"(https?|data|mailto):", link):
                continue
            place, heading = urldefrag(link)
            place = place.partition("?")[0]
            target = posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(place))) if place else name
            lacks = not (site / target).is_file() or (heading and target in pages and heading not in pages[target].ids)
            broken += [f"{name}: {link}"] if lacks or target.endswith(".md") else []
    assert not broken
    assert sum(len(page.links) for page in pages.values()) > 5000


def test_nothing_is_loaded_from_elsewhere(pages):
    assert not {link for page in pages.values() for link in page.loaded if re.match(r"(https?:)?//", link)}


def test_every_rule_problem_board_paper_and_public_name_has_its_place(pages):
    groups = {"algorithm": "rules", "env": "problems", "suite": "boards", "paper": "papers"}
    wanted = {f"{to}/{file.stem}.html" for group, to in groups.items() for file in (CONF / group).glob("*.yaml")}
    assert len(wanted) > 70 and wanted <= pages.keys()
    explained = {one for name, page in pages.items() if name.startswith("python/") for one in page.ids}
    assert {f"mqlearn.{name}" for name in {*mq.__all__, *targets.names()}} <= explained


def test_the_first_page_for_newcomers_works():
    text = (ROOT / "scripts" / "docs_site" / "pages" / "start.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(compile(block, "start.md", "exec"), {})
    verbs = re.findall(r"(?:^|`)mqlearn ([a-z]+)", text, re.MULTILINE)
    assert verbs and {*verbs} <= {*VERBS}


# --- in a browser -------------------------------------------------------------------------------------------------


@pytest.fixture
def tab(site, tmp_path) -> Iterator[browser.Page]:
    if browser.PROGRAM is None:
        needs("chromium")
    with browser.opened(site / "index.html", tmp_path / "profile") as page:
        yield page


def go(tab: browser.Page, place: Path) -> None:
    tab.events.clear()
    tab.call("Page.navigate", url=place.as_uri())
    tab.wait_for("Page.loadEventFired")


def screen(tab: browser.Page, width: int, scheme: str = "light", media: str = "screen") -> None:
    tab.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
    wanted = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}  # colours change at once
    features = [{"name": name, "value": value} for name, value in wanted.items()]
    tab.call("Emulation.setEmulatedMedia", media=media, features=features)


def press(tab: browser.Page, key: str, number: int, modifiers: int = 0, text: str = "") -> None:
    named = {"key": key, "code": f"Key{key.upper()}" if len(key) == 1 else key, "windowsVirtualKeyCode": number}
    more = {"text": text} if text else {}
    tab.call("Input.dispatchKeyEvent", type="keyDown", modifiers=modifiers, **named, **more)
    tab.call("Input.dispatchKeyEvent", type="keyUp", modifiers=modifiers, **named)


def faults(tab: browser.Page) -> list[str]:
    """Exceptions, errors of the console and requests that leave the disk."""
    found = []
    for event in tab.events:
        told = event.get("params", {})
        error = told.get("type") in ("error", "assert") or told.get("entry", {}).get("level") == "error"
        if event["method"] == "Runtime.exceptionThrown" or (event["method"].startswith(("Runtime.", "Log.")) and error):
            found.append(str(told))
        elif event["method"] == "Network.requestWillBeSent" and not told["request"]["url"].startswith(
            ("file:", "data:")
        ):
            found.append(told["request"]["url"])
    return found


def test_pages_can_be_read_in_light_and_dark_on_a_phone_and_in_print(site, tab):
    for name in LOOKED_AT:
        for scheme in ("light", "dark"):
            screen(tab, 1280, scheme)
            go(tab, site / name)
            assert not faults(tab), name
            dark = tab.js("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).every(v => v < 60)")
            assert dark == (scheme == "dark")
            least, text = tab.js(CONTRAST)
            assert 4.5 <= least < 99, (name, scheme, text)
        screen(tab, 390)
        go(tab, site / name)
        assert tab.js("document.documentElement.scrollWidth <= innerWidth"), name
        screen(tab, 800, media="print")
        assert tab.js(SEEN % "header, nav, aside, .bd-sidebar, button, .headerlink") == 0, name
        assert tab.js(SEEN % "article h1") == 1, name


def test_search_is_reached_and_answered_by_the_keyboard_from_disk(site, tab):
    screen(tab, 1280)
    go(tab, site / "glossary.html")
    for _ in range(20):
        press(tab, "Tab", 9)
        if tab.js("document.activeElement.matches('.search-button-field')"):
            break
    assert tab.js("document.activeElement.matches('.search-button-field')")
    press(tab, "Enter", 13, text="\r")
    field = "document.activeElement.matches('input[type=search]')"
    servers.wait(lambda: tab.js(field), "the field of the search", 30)
    press(tab, "Escape", 27)
    assert not tab.js(field)
    press(tab, "k", 75, modifiers=2)
    servers.wait(lambda: tab.js(field), "the field after Ctrl+K", 30)
    tab.call("Input.insertText", text="momentum")
    tab.events.clear()
    press(tab, "Enter", 13, text="\r")
    tab.wait_for("Page.loadEventFired")
    links = "[...document.querySelectorAll('#search-results li a')].map(one => one.href.split('#')[0].split('?')[0])"
    servers.wait(lambda: tab.js("/found \\d+ page/.test(document.body.innerText)"), "the results", 60)
    assert (site / "rules" / "momentum_q.html").as_uri() in tab.js(links)
    assert not faults(tab)
