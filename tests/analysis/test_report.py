"""The report as a file: what it holds, that it needs nothing else, and that figures and reports explain themselves."""

import functools
import json
import shutil
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from mqlearn.analysis.figures import style
from mqlearn.analysis.report import maps, verdicts
from mqlearn.analysis.report.markup import number, plain, render
from mqlearn.analysis.statistics.intervals import mean_interval
from mqlearn.cli import explain
from mqlearn.cli.main import main
from mqlearn.errors import SettingError
from mqlearn.experiments.settings import cell
from mqlearn.storage import connection, runs, store, tracking

VOID = {"input", "meta", "img", "br"}
HOSTILE = "<script>alert(1)</script> & \"b\" 'c' $x_"


class Reader(HTMLParser):
    """Elements in order with their attributes and text; every element must be closed by its own end tag."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[int] = []
        self.elements: list[tuple[str, dict[str, str | None], list[str]]] = []
        self.feed(text)
        self.close()
        assert not self.open, [self.elements[i][0] for i in self.open]

    def handle_starttag(self, name, attrs):
        names = [key for key, _ in attrs]
        assert len(set(names)) == len(names), (name, names)
        self.elements.append((name, dict(attrs), []))
        if name not in VOID:
            self.open.append(len(self.elements) - 1)

    def handle_startendtag(self, name, attrs):
        self.elements.append((name, dict(attrs), []))

    def handle_endtag(self, name):
        assert self.elements[self.open.pop()][0] == name.lower()

    def handle_data(self, data):
        for i in self.open:
            self.elements[i][2].append(data)

    def all(self, name: str, **wanted: str) -> list[str]:
        return [
            "".join(text)
            for element, attributes, text in self.elements
            if element == name and all(attributes.get(key.rstrip("_")) == value for key, value in wanted.items())
        ]


def call(*arguments: object) -> int:
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    assert isinstance(end.value.code, int)
    return end.value.code


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """An outputs folder with runs of all kinds, made once."""
    outputs = tmp_path_factory.mktemp("finished") / "outputs"
    short = ("iterations=100", "n_checkpoints=12", "tracking=none")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MQLEARN_OUTPUTS", str(outputs))
        patch.setenv("HYDRA_FULL_ERROR", "1")
        two = ("algorithm=q_learning,momentum_q", "env=frozen_lake_4x4,frozen_lake_8x8", "n_seeds=8")
        assert call("run", "-m", "hydra/launcher=basic", *two, *short, "experiment.name=two") == 0
        wild = ("step_size=constant", "step_size.alpha=0.5,3", "iterations=2000", "n_seeds=3", "tracking=none")
        assert call("run", "-m", "hydra/launcher=basic", *wild, "experiment.name=wild") == 0
        chain = ("sampling=markovian", "features=one_hot", "algorithm=q_learning,momentum_q", "n_seeds=3")
        assert call("run", "-m", "hydra/launcher=basic", *chain, *short, "experiment.name=chain") == 0
        plainer = ("env=taxi,cliff_walking,frozen_lake_128x128", "n_seeds=2", "iterations=20", "tracking=none")
        assert call("run", "-m", "hydra/launcher=basic", *plainer, "experiment.name=other") == 0
        box = ("env=gymnasium", "env.id=CartPole-v1", "features=tile_coding", "sampling=markovian", "n_seeds=2")
        assert call("run", *box, "iterations=60", "tracking=none", "experiment.name=box") == 0
    return outputs


@pytest.fixture
def filled(finished: Path, outputs: Path) -> Path:
    """The outputs folder of this test, with these runs."""
    shutil.copytree(finished, outputs)
    return outputs


@pytest.fixture(scope="module")
def page(finished: Path, tmp_path_factory) -> Callable[..., Path]:
    """`page(experiment)`: the report on it as a file, made once; with `again`, once more, by the same command."""
    folder = tmp_path_factory.mktemp("pages")

    @functools.cache
    def of(experiment: str, again: bool = False) -> Path:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("MQLEARN_OUTPUTS", str(finished))
            patch.setenv("HYDRA_FULL_ERROR", "1")
            file = folder / "a.html"
            assert call("report", f"experiment.name={experiment}", "tracking=none", "--output", file) == 0
        return file.rename(folder / f"{experiment}{again}.html")

    return of


def read(path: Path) -> Reader:
    text = path.read_text(encoding="utf-8")
    assert len(text) < 10_000_000
    page = Reader(text)
    for name, attributes, _ in page.elements:
        for key in ("src", "href", "data", "action", "poster", "srcset", "xlink:href"):
            value = attributes.get(key)
            assert value is None or value.startswith(("#", "data:")), (name, key, value)
    assert (
        "http://" not in text
        and "https://" not in text
        and "@import" not in text
        and "url(" not in page.all("style")[0]
    )
    ids = [attributes["id"] for _, attributes, _ in page.elements if "id" in attributes]
    assert len(set(ids)) == len(ids)
    return page


@pytest.mark.parametrize("experiment", ["two", "wild", "chain", "other", "box"])
def test_page_is_well_formed_whole_and_the_same_twice(page, experiment):
    assert page(experiment).read_bytes() == page(experiment, again=True).read_bytes()
    assert read(page(experiment)).all("h2")[:2] == ["Verdict", "Figures"]


def test_numbers_in_the_tables_are_those_of_the_runs(finished, page):
    page = read(page("two"))
    cells = page.all("td")
    found = [runs.load(path) for path in (finished / "runs" / "two").iterdir() if path.is_dir()]
    assert len(found) == 4
    for run in found:
        interval = mean_interval(run.curves["q_error"])
        shown = (
            number(float(interval.mean[-1]))
            + f"[{number(float(interval.low[-1]))}, {number(float(interval.high[-1]))}]"
        )
        assert shown in cells
        assert run.digest in page.all("code")
    data = [json.loads(text) for text in page.all("script", type="application/json", class_="data")]
    assert [one["iteration"] for one in data] == [found[0].tables["error_iteration"].tolist()] * 2
    ranges = [a for name, a, _ in page.elements if name == "input" and a.get("type") == "range"]
    assert [int(a["max"] or 0) + 1 for a in ranges] == [len(one["iteration"]) for one in data]
    small = next(r for r in found if r.settings["env"]["name"] == "frozen_lake_4x4" and "m" in r.settings["algorithm"])
    last = [run["states"][-1][1].split(" ")[0] for run in data[0]["runs"]]
    assert maps._short(float(small.tables["error_tables"][-1][0].max())) in last


def test_the_equation_is_the_source_text(page):
    page = read(page("two"))
    assert any("return (1 - a) * q + a * target\n" in f"{text}\n" for text in page.all("code"))
    assert any("Watkins 1989" in text for text in page.all("dd"))
    assert any("1.0 / (k + 1.0 + self.offset)" in text for text in page.all("code"))


def test_a_rule_with_state_shows_its_step(mqlearn, work, outputs):
    small = ("iterations=5", "n_seeds=2", "n_checkpoints=2", "tracking=none", "experiment.name=state")
    assert mqlearn("run", "algorithm=residual", *small).code == 0
    assert mqlearn("report", "experiment.name=state", "--output", "state.html").code == 0
    text = Path("state.html").read_text(encoding="utf-8")
    code = ("s.again.add_gradient(z.q, -c.w * c.alpha, d)", "return 2", "(1.0 - self.discount) * (k + 1.0)")
    assert all(line in text for line in code)


def test_diverged_seeds_and_killed_runs_are_told(filled, mqlearn, work):
    folder = filled / "runs" / "wild"
    runs.write(folder / "gone", settings={}, digest="f" * 64, name=HOSTILE, result=None, extra={"error": "<b>no</b>"})
    assert mqlearn("report", "experiment.name=wild", "tracking=none", "--output", "a.html").code == 0
    page = read(work / "a.html")
    cells = page.all("td")
    assert "3 of 3 seeds diverged" in cells and "0 of 3" in cells and "<b>no</b>" in cells
    assert HOSTILE in page.all("th")


def test_what_an_environment_lacks_is_said(page):
    for experiment, said in (("other", "has no map"), ("box", "no exact model")):
        assert any(said in text for text in read(page(experiment)).all("p"))
    assert not any("no counts of visits" in text for text in read(page("chain")).all("p"))


def test_hostile_names_are_texts(filled, mqlearn, work):
    """Of an algorithm, an experiment and a verdict: they stay inside their elements and their scripts."""
    done = mqlearn("run", "iterations=10", "n_seeds=2", "tracking=none", f"experiment.name='{HOSTILE_NAME}'", ENV_NAME)
    assert done.code == 0, done.err
    rows = [{"a": HOSTILE, "b": "</script><img src=x onerror=1>", "group": HOSTILE, "verdict": "impossible"}]
    (work / "v.json").write_text(json.dumps(rows))
    arguments = ("report", f"experiment.name={HOSTILE_NAME}", "tracking=none", "--output", "a.html")
    done = mqlearn(*arguments, "--verdicts", "v.json")
    assert done.code == 0, done.err
    page = read(work / "a.html")
    scripts = [attributes for name, attributes, _ in page.elements if name == "script"]
    assert [one.get("type") for one in scripts].count(None) == 1  # that of the page
    assert not [1 for name, attributes, _ in page.elements if name == "img" and "onerror" in attributes]
    assert HOSTILE in page.all("h3")
    assert f"Report: {HOSTILE_NAME}" in page.all("h1")


HOSTILE_NAME = "<b>x</b></script>"
ENV_NAME = "env.name='_<i>y</i>'"


def test_a_rule_of_the_user_and_the_same_without_its_module(filled, mqlearn, work, monkeypatch):
    code = "import mqlearn as mq\n\n\nclass Own(mq.Rule):\n    def update(self, k, q, q_prev, target, target_prev):\n"
    line = "        return q + 0.125 * (target - q)"
    (work / "report_rules.py").write_text(code + line)
    (work / "conf" / "algorithm").mkdir(parents=True)
    (work / "conf" / "algorithm" / "own.yaml").write_text("_target_: report_rules.Own\nname: own\n")
    own = ("--config-dir", "conf", "plugins=[report_rules]", "algorithm=own", "experiment.name=own", "tracking=none")
    assert mqlearn("run", *own, "iterations=20", "n_seeds=2").code == 0
    arguments = ("report", "experiment.name=own", "tracking=none", "--output", "a.html")
    assert mqlearn(*arguments, "plugins=[report_rules]").code == 0
    assert any(line.strip() in text for text in read(work / "a.html").all("code"))
    monkeypatch.delitem(sys.modules, "report_rules")
    cell._build.cache_clear()
    (work / "report_rules.py").rename(work / "gone.txt")
    done = mqlearn(*arguments)
    assert done.code == 0, done.err
    assert any("source is not available" in text for text in read(work / "a.html").all("p"))


def test_verdicts_come_as_plain_data():
    common = {"group": "g", "effect": -0.5, "low": -0.6, "high": -0.4, "p": 0.001, "p_corrected": 0.003, "paired": True}
    rows = [
        {**common, "a": "A", "b": "B", "verdict": "a_better", "summary": "error", "n_finite": 20},
        {**common, "a": "A", "b": "C", "verdict": "no_difference", "summary": "error", "n_finite": 17},
        {**common, "a": "B", "b": "C", "verdict": "impossible", "summary": "error", "n_finite": 3, "p": None},
    ]
    page = Reader(verdicts.of(verdicts.check(rows, "here")))
    assert page.all("p", class_="headline") == [
        "1 of 3 comparisons show a difference; 1 show none; 1 impossible with so many seeds."
    ]
    assert page.all("td", class_="a_better") == ["▲better"] and page.all("td", class_="b_better") == ["▼worse"]
    assert {"−0.5", "[−0.6, −0.4]", "0.003", "17 pairs"} <= {*page.all("td")}
    assert ">1000" not in page.all("td")  # which no row says
    for wrong in ({}, [1], [{"a": 1}], [{**rows[0], "verdict": "maybe"}]):
        with pytest.raises(SettingError, match="verdicts"):
            verdicts.check(wrong, "here")


def test_many_runs_are_compared_with_the_best_and_the_baseline_and_all_drawn(mqlearn, outputs, work):
    offsets = ",".join(map(str, range(17)))
    sweep = ("algorithm=q_learning,nesa", f"step_size.offset={offsets}", "n_seeds=2", "iterations=20", "tracking=none")
    assert mqlearn("run", "-m", "hydra/launcher=basic", *sweep, "experiment.name=many").code == 0
    assert mqlearn("report", "experiment.name=many", "tracking=none", "--output", "a.html").code == 0
    page = read(work / "a.html")
    assert page.all("p", class_="headline")[0].startswith("0 of ") and "Drawn are" not in "".join(page.all("p"))
    said = " ".join(page.all("li"))
    assert "compared with the best and with the baseline" in said and "the baseline q_learning, offset=0" in said
    assert 33 <= sum(text.endswith(" pairs") for text in page.all("td")) <= 2 * 33  # 34 runs with one or two


@pytest.mark.parametrize(
    "arguments, said",
    [
        (("experiment.name=tow",), "did you mean 'two'"),
        (("experiment.name=two", "discount=0.99"), "discount=0.9  (4 runs)"),
        (("experiment.name=two", "--output", "a.txt"), ".html"),
        (("experiment.name=two", "--output"), "--output"),
        (("experiment.name=two", "--verdicts", "none.json"), "none.json"),
        (("experiment.name=two", "--outptu", "a.html"), "--outptu"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_written(filled, mqlearn, work, arguments, said):
    done = mqlearn("report", *arguments, "tracking=none")
    assert done.code == 2 and said in done.err and "Traceback" not in done.err
    assert not [*work.iterdir()] and not (filled / "reports").exists()


def test_verdicts_of_other_runs_are_refused(filled, mqlearn, work):
    assert mqlearn("compare", "experiment.name=two", "--json", "v.json").code == 0
    asked = ("report", "experiment.name=two", "tracking=none", "--verdicts", "v.json", "--output", "a.html")
    done = mqlearn(*asked, "env=frozen_lake_4x4")
    assert done.code == 2 and "of runs that this report does not show" in done.err and not (work / "a.html").exists()
    assert mqlearn(*asked).code == 0


def test_a_report_in_the_store_is_no_run(finished, stored, outputs, mqlearn):
    shutil.copytree(finished / "runs", outputs / "runs")
    first, again = (mqlearn("report", "experiment.name=two") for _ in range(2))
    assert first.code == 0 and "MLflow run" in first.out
    assert again.out == first.out  # the same page is kept once
    client = connection.connect(stored)
    place = client.get_experiment_by_name("mqlearn reports")
    assert place is not None
    (run,) = client.search_runs([place.experiment_id])
    assert run.data.tags["kind"] == "report" and run.info.status == "FINISHED"
    assert [file.path for file in client.list_artifacts(run.info.run_id)] == ["two.html"]
    assert store.finished(stored, "two") == []


def test_a_dead_store_does_not_cost_the_report(filled, mqlearn):
    dead = filled.parent / "dead.db"
    dead.write_text("no database at all " * 100)
    done = mqlearn("report", "experiment.name=two", f"tracking.uri=sqlite:///{dead}")
    assert done.code == 3 and "not tracked" in done.err
    assert (filled / "reports" / "two.html").is_file()


@pytest.mark.parametrize("kind", ["png", "pdf", "svg", "html"])
def test_figures_and_reports_explain_themselves(filled, mqlearn, work, kind):
    run = next(runs.load(path) for path in (filled / "runs" / "chain").iterdir() if path.is_dir())
    if kind == "html":
        assert mqlearn("report", "experiment.name=chain", "tracking=none", "--output", "a.html").code == 0
    else:
        from matplotlib.figure import Figure

        record = {"figure": "f", "command": "mqlearn figure f (1) \\ $x", "settings": {"q0": 0, "env": {"name": "é"}}}
        digests = {"panel | \x1b[31m": run.digest, "other": "0" * 64}
        style.save(Figure(), work / "a", {**record, "digests": digests, "versions": {"numpy": "1.2.3"}})
    done = mqlearn("explain", f"a.{kind}", "tracking=none")
    assert done.code == 0, done.err
    assert run.digest in done.out and str(run.folder) in done.out and "command      mqlearn" in done.out
    assert "\x1b" not in done.out
    record = json.loads(mqlearn("explain", f"a.{kind}", "tracking=none", "--json").out)
    assert record["runs"][run.digest] == [{"run_id": "", "folder": str(run.folder)}]
    assert record["versions"]["numpy"] == ("1.2.3" if kind != "html" else np.__version__)


def test_explain_names_the_runs_of_the_store(finished, stored, outputs, mqlearn, work):
    shutil.copytree(finished / "runs", outputs / "runs")
    folder = next(path for path in sorted((outputs / "runs" / "chain").iterdir()) if path.is_dir())
    run_id = tracking.upload(folder, stored, "chain")
    assert mqlearn("report", "experiment.name=chain", "tracking=none", "--output", "a.html").code == 0
    assert f"MLflow run {run_id}" in mqlearn("explain", "a.html").out


@pytest.mark.parametrize("name, content", [("a.png", b"x"), ("a.svg", b"<svg/>"), ("a.html", b"<p>"), ("a.txt", b"")])
def test_a_file_without_a_record_is_one_message(mqlearn, work, outputs, name, content):
    (work / name).write_bytes(content)
    done = mqlearn("explain", name)
    assert done.code == 2 and done.err.count("\n") == 1 and name in done.err
    assert not outputs.exists()
    assert mqlearn("explain", "missing.png").code == 2


def test_explain_makes_no_store(filled, mqlearn):
    assert mqlearn("report", "experiment.name=two", "tracking=none").code == 0
    assert mqlearn("explain", filled / "reports" / "two.html").code == 0
    assert not (filled / "mlflow.db").exists()


def test_texts():
    page = Reader(render("troubles.html", rows=[['<&>"', "\x07", "c"]], warned=[], notes=["<b>"], count=1))
    assert page.all("th", scope="row") == ['<&>"'] and page.all("td") == ["�", "c"] and page.all("b") == []
    assert plain(r"NeSA $\zeta=0.1$") == "NeSA ζ=0.1" and plain("5 $") == "5 $"
    assert [number(x) for x in (0.5, -1, None, float("nan"), 12345)] == [
        "0.5",
        "−1",
        "–",
        "–",
        "12,345",
    ]
    with pytest.raises(SettingError, match="no such file"):
        explain.provenance(Path("missing.png"))
