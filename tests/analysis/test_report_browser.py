"""The report in a real browser: what is read from the page, with the keyboard alone, in the dark and on paper."""

from pathlib import Path

import browser
import pytest

from mqlearn.analysis.report.maps import _short
from mqlearn.analysis.report.markup import number
from mqlearn.cli.main import main
from mqlearn.storage import runs

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(browser.PROGRAM is None, reason="Chromium is not installed"),
]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The file of a report on two rules, and their runs by label."""
    folder = tmp_path_factory.mktemp("report")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MQLEARN_OUTPUTS", str(folder / "outputs"))
        patch.setenv("HYDRA_FULL_ERROR", "1")
        common = ("experiment.name=seen", "tracking=none")
        sweep = ("algorithm=q_learning,momentum_q", "iterations=300", "n_seeds=8", "n_checkpoints=30")
        for arguments in (
            ("run", "-m", "hydra/launcher=basic", *sweep, *common),
            ("report", *common, "--output", str(folder / "seen.html")),
        ):
            with pytest.raises(SystemExit) as end:
                main(list(arguments))
            assert end.value.code == 0
    found = [runs.load(path) for path in (folder / "outputs" / "runs" / "seen").iterdir() if path.is_dir()]
    return folder / "seen.html", {run.settings["algorithm"]["name"]: run for run in found}


@pytest.fixture
def page(made, tmp_path):
    with browser.opened(made[0], tmp_path / "profile") as page:
        yield page


def test_headings_values_and_no_resource_from_elsewhere(made, page, tmp_path: Path):
    headings = page.js("[...document.querySelectorAll('h2')].map(h => h.textContent)")
    assert headings[:3] == ["Verdict", "Figures", "Last values"] and {"Theory", "Greedy policies"} <= {*headings}
    assert headings[-1] == "Reproduce" and len(headings) == 13
    rows = page.js(
        "[...document.querySelectorAll('#results tbody tr')].map(r => [...r.children].map(c => c.innerText))"
    )
    for label, seeds, error, *_ in rows:
        assert seeds == "8 of 8"
        assert error.split("\n")[0] == number(made[1][label].curves["q_error"][:, -1].mean())
    requested = [e["params"]["request"]["url"] for e in page.events if e.get("method") == "Network.requestWillBeSent"]
    assert requested and all(url.startswith(("file:", "data:")) for url in requested)
    assert not [e for e in page.events if e.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded")]
    assert page.js("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    page.screenshot(tmp_path / "report.png")
    assert (tmp_path / "report.png").stat().st_size > 50_000


def test_the_slider_shows_every_recorded_checkpoint_by_keyboard(made, page):
    run = made[1]["q_learning"]
    iteration, tables = run.tables["error_iteration"], run.tables["error_tables"]
    page.js("document.querySelector('.checkpoints details').open = true")
    page.js("document.querySelector('input[type=range]').focus()")
    column = page.js("[...document.querySelectorAll('table.states thead th')].map(h => h.textContent)").index(
        "q_learning"
    )
    read = f"[...document.querySelector('table.states tbody tr').children].map(c => c.textContent)[{column}]"
    page.press("Home")
    for i, k in enumerate(iteration.tolist()):
        assert page.js("document.querySelector('.track output').textContent") == number(k)
        assert page.js("document.activeElement.getAttribute('aria-valuetext')") == f"k = {number(k)}"
        assert page.js(read) == _short(float(tables[i][0].max()))
        page.press("ArrowRight")
    assert page.js("document.querySelector('input[type=range]').value") == str(len(iteration) - 1)
    assert page.js("document.querySelector('button.on').disabled") is True


def test_the_map_has_the_values_as_texts_and_the_actions_by_keyboard(made, page):
    run = made[1]["q_learning"]
    text = "[...document.querySelectorAll('figure.run')].find(f => f.textContent.includes('q_learning'))"
    assert page.js(f"{text}.querySelector('text[data-i=\"0\"]').textContent") == _short(
        float(run.tables["error_tables"][-1][0].max())
    )
    shown = "getComputedStyle(document.querySelector('.view.actions')).display"
    assert page.js(shown) == "none"
    page.js("document.querySelector('input[value=states]').focus()")
    page.press("ArrowRight")
    assert page.js(shown) == "block"
    assert page.js(f"{text}.querySelector('polygon[data-i=\"0\"] title').textContent").endswith(
        ": " + _short(float(run.tables["error_tables"][-1][0, 0]))
    )


def test_dark_and_on_paper(page):
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.js(ground)
    page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    assert light == "rgb(255, 255, 255)" and page.js(ground) == "rgb(20, 23, 27)"
    page.call("Emulation.setEmulatedMedia", media="print", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    assert page.js(ground) == light
    assert page.js("getComputedStyle(document.querySelector('input[type=range]')).display") == "none"
    assert page.call("Page.printToPDF")["data"]


def test_a_narrow_window_scrolls_tables_and_not_the_page(page):
    page.call("Emulation.setDeviceMetricsOverride", width=400, height=800, deviceScaleFactor=1, mobile=False)
    assert page.js("document.documentElement.scrollWidth") <= 400
