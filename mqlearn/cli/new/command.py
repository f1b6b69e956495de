"""Which files, under which name, into the current folder; and the command that runs them."""

import importlib.machinery
import importlib.util
import io
import json
import keyword
import re
import shutil
import sys
import tokenize
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from mqlearn.checks import choice
from mqlearn.cli.arguments import parse
from mqlearn.errors import SettingError
from mqlearn.files import write_whole
from mqlearn.paths import CONF

TEMPLATES = Path(__file__).parent / "templates"
OWN = "my_conf"  # the folder of the user's yamls
TUTORIAL = "tutorial"


class Kind(NamedTuple):
    """group: folder of its yaml below a folder of configurations.   command: what runs it, with {name} for the name."""

    group: str
    command: str


KINDS = {
    "rule": Kind("algorithm", "mqlearn run --config-dir my_conf 'plugins=[{name}]' algorithm={name}"),
    "stateful": Kind("algorithm", "mqlearn run --config-dir my_conf 'plugins=[{name}]' algorithm={name}"),
    "problem": Kind("env", "mqlearn run --config-dir my_conf 'plugins=[{name}]' env={name}"),
    "operator": Kind("operator", "mqlearn run --config-dir my_conf 'plugins=[{name}]' operator={name}"),
    "sampling": Kind("sampling", "mqlearn run --config-dir my_conf 'plugins=[{name}]' sampling={name}"),
    "features": Kind(
        "features",
        "mqlearn run --config-dir my_conf 'plugins=[{name}]' features={name} sampling=replay step_size=constant",
    ),
    "metric": Kind("experiment", "mqlearn run --config-dir my_conf experiment={name}"),
    "figure": Kind("experiment", "mqlearn figure --config-dir my_conf {name}"),
    "claim": Kind("claim", "mqlearn claims --config-dir my_conf {name}"),
    "paper": Kind("paper", "mqlearn papers --config-dir my_conf {name} --store"),
    "suite": Kind("suite", "mqlearn bench --config-dir my_conf {name}"),
}


def new(arguments: Sequence[str]) -> int:
    """`mqlearn new`: returns 0. Raises SettingError for a kind or a name that cannot be, or a file that is there."""
    words = parse(arguments).overrides
    kind = choice("new", words[0] if words else "", (*KINDS, TUTORIAL))
    if len(words) > 2:
        raise SettingError("name", " ".join(words[1:]), f"must be one name, as in mqlearn new {kind} my_{kind}")
    if kind == TUTORIAL:
        name = _checked(words[1] if len(words) > 1 else TUTORIAL, "")
        files = {
            Path(f"{name}.ipynb"): notebook((TEMPLATES / TUTORIAL / "tutorial.py.txt").read_text(encoding="utf-8"))
        }
        command = f"jupyter execute --inplace {name}.ipynb" + _where_notebooks_run()
    else:
        if len(words) < 2:
            raise SettingError("name", "", f"must be given, as in mqlearn new {kind} my_{kind}")
        name = _checked(words[1], KINDS[kind].group)
        if name != f"my_{kind}" and name in _words(kind):
            raise SettingError("name", name, "is a name within the example itself; choose another")
        files, command = written(kind, name), KINDS[kind].command.format(name=name)
    there = [str(file) for file in files if file.exists()]
    if there:
        raise SettingError("name", name, f"would overwrite {', '.join(there)}; nothing was written")
    try:
        for file, text in files.items():
            write_whole(file, text)
    except OSError as error:
        raise SettingError("new", error.filename, f"cannot be written: {error.strerror}") from error
    print("\n".join(map(str, files)))
    tests = [file for file in files if file.name.startswith("test_")]
    print(f"\nRun it:   {command}" + "".join(f"\nTest it:  pytest {test}" for test in tests))
    return 0


def _where_notebooks_run() -> str:
    """What else can be said of a command that runs a notebook: where cells are shown, or what is to be installed."""
    there = all(importlib.util.find_spec(name) for name in ("nbclient", "ipykernel", "jupyter_core"))
    if there and shutil.which("jupyter"):
        return "\nIt keeps the results in the file; or open it in JupyterLab, VS Code or another notebook program."
    why = "nothing that runs notebooks is installed" if not there else "the command jupyter is not on the PATH"
    return f"\nBut {why}: pip install '.[notebook]' in the clone has JupyterLab."


def written(kind: str, name: str) -> dict[Path, str]:
    """The files of a kind under a name, by their paths below the current folder."""
    folder, placeholder = TEMPLATES / kind, f"my_{kind}"
    return {
        Path(_renamed(str(file.relative_to(folder)).removesuffix(".txt"), placeholder, name)): _renamed(
            file.read_text(encoding="utf-8"), placeholder, name
        )
        for file in sorted(folder.rglob("*"))
        if file.suffix in (".txt", ".yaml")
    }


def _words(kind: str) -> set[str]:
    """The names that the code of an example uses: one more of them would hide another."""
    texts = [file.read_text(encoding="utf-8") for file in (TEMPLATES / kind).glob("*.py.txt")]
    tokens = [token for text in texts for token in tokenize.generate_tokens(io.StringIO(text).readline)]
    return {token.string for token in tokens if token.type == tokenize.NAME}


def _renamed(text: str, placeholder: str, name: str) -> str:
    return text.replace(placeholder, name).replace(_class(placeholder), _class(name))


def _class(name: str) -> str:
    """HeavyBall for heavy_ball."""
    return "".join(part.capitalize() for part in name.split("_"))


def _checked(name: str, group: str) -> str:
    """The name, if it can be that of a module and of a choice of its group. Raises SettingError."""
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,59}", name) or keyword.iskeyword(name) or not _class(name).isidentifier():
        raise SettingError("name", name, "must be letters from a to z, digits and _, a letter first, as in heavy_ball")
    if name in sys.stdlib_module_names or name == "mqlearn" or _is_installed(name):
        raise SettingError("name", name, "is a module of Python's or an installed one; choose another")
    if (CONF / group / f"{name}.yaml").is_file() and group:
        raise SettingError("name", name, f"is taken: {group}={name} comes with mqlearn; choose another")
    return name


def _is_installed(name: str) -> bool:
    elsewhere = [folder for folder in sys.path if folder and Path(folder).resolve() != Path.cwd()]
    found = importlib.machinery.PathFinder.find_spec(name, elsewhere)
    return found is not None and found.origin is not None


# --- the notebook -----------------------------------------------------------------------------------------------------


def notebook(text: str) -> str:
    """A notebook (nbformat 4.5) of a Python file in cells: `# %%` begins code, `# %% [markdown]` a text of comments.

    A comment that begins with an exclamation mark is a command for the shell.
    """
    cells = []
    for number, part in enumerate(re.split(r"^# %%", text, flags=re.MULTILINE)[1:]):
        head, _, body = part.partition("\n")
        prose = head.strip() == "[markdown]"
        source = re.sub(r"^# ?" if prose else r"^# (?=!)", "", body, flags=re.MULTILINE)
        cell = {"cell_type": "markdown" if prose else "code", "id": f"cell-{number}", "metadata": {}}
        cell["source"] = source.strip().splitlines(keepends=True)
        cells.append(cell if prose else cell | {"execution_count": None, "outputs": []})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    content = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"
