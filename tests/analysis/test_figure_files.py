"""Files of figures: the same bytes everywhere, without a display, and where they come from."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from drawn import PROVENANCE, curve

import mqlearn
from mqlearn.analysis.figures import error_curves, style
from mqlearn.analysis.figures.error_curves import Panel
from mqlearn.errors import SettingError

DRAW = """
import json, sys
from pathlib import Path
import numpy as np
from mqlearn.analysis.figures import style
from mqlearn.analysis.figures.error_curves import Curve, Panel, draw
k = np.arange(50)
values = np.random.default_rng(0).random((20, 50))
curves = [Curve(f"rule, $m={i}$", k, values * i, {1: 9} if i == 3 else {}, "rule", f"{i}") for i in (1, 2, 3)]
figure = draw([Panel("4×4", curves), Panel("8×8", curves[:2])])
style.save(figure, Path(sys.argv[1]), json.loads(sys.argv[2]))
assert not {"matplotlib.pyplot", "tkinter"} & sys.modules.keys(), "pyplot or a window system was imported"
"""


def test_bytes_are_the_same_in_other_processes_whatever_the_environment(tmp_path):
    rc = tmp_path / "matplotlibrc"
    rc.write_text("lines.linewidth: 9\nfont.family: monospace\nsvg.fonttype: none\nsavefig.bbox: tight\n")
    interactive = {"MPLBACKEND": "tkagg", "DISPLAY": ":99", "PYTHONHASHSEED": "1", "TZ": "Asia/Tokyo"}
    headless = {"MPLBACKEND": "qtagg", "DISPLAY": "", "PYTHONHASHSEED": "2", "SOURCE_DATE_EPOCH": "9"}
    environments = [interactive, headless | {"MATPLOTLIBRC": str(rc)}]
    code = [sys.executable, "-W", "error", "-c", DRAW]
    processes = [
        subprocess.Popen([*code, str(tmp_path / str(i) / "figure"), json.dumps(PROVENANCE)], env=os.environ | more)
        for i, more in enumerate(environments)
    ]
    assert [process.wait() for process in processes] == [0, 0]
    first, second = ({p.name: p.read_bytes() for p in (tmp_path / str(i)).iterdir()} for i in (0, 1))
    assert sorted(first) == ["figure.pdf", "figure.png", "figure.svg"]
    assert first == second


def test_an_unknown_back_end_in_the_environment_takes_no_part():
    code = (
        "import os\nfrom mqlearn.analysis.figures import style\nwith style.context(): print(os.environ['MPLBACKEND'])"
    )
    environment = os.environ | {"MPLBACKEND": "nonsense"}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert (result.stdout, result.stderr) == ("nonsense\n", "")


def test_the_package_never_imports_pyplot():
    for source in Path(str(mqlearn.__file__)).parent.rglob("*.py"):
        assert not re.search(r"^\s*(import|from) .*pyplot|import_module\(.*pyplot", source.read_text(), re.M), source


def test_provenance_is_read_from_the_file_alone_and_there_are_no_dates(tmp_path):
    figure = error_curves.draw([Panel("4×4", [curve()])])
    files = style.save(figure, tmp_path / "figure1_discount=0.99", PROVENANCE)
    assert [path.name for path in files] == [f"figure1_discount=0.99.{kind}" for kind in ("png", "pdf", "svg")]
    assert sorted(tmp_path.iterdir()) == sorted(files)  # nothing partial is left
    for path in files:
        assert style.read_provenance(path) == PROVENANCE
        assert not re.search(rb"CreationDate|ModDate|tIME|dc:date|20\d\d-\d\d-\d\d", path.read_bytes())


@pytest.mark.parametrize("name", ["a.png", "a.pdf", "a.svg", "a.txt", "missing.svg"])
def test_other_files_have_no_provenance(tmp_path, name):
    path = tmp_path / name
    if "missing" not in name:
        path.write_text("<svg/>" if name.endswith("svg") else "%PDF-1.4 nothing")
    with pytest.raises(SettingError, match="that mqlearn drew"):
        style.read_provenance(path)
