"""Notes in Markdown on a run and on its experiment: what it computes, and what to ask of it.

The settings are the run's parameters, which MLflow shows on the same page.
"""

from collections.abc import Mapping

from mqlearn.algorithms import source
from mqlearn.experiments.settings.override_commands import command, written
from mqlearn.storage import runs
from mqlearn.storage.store import REPORTS

_LONGEST_CODE = 3000  # letters of an equation; of a tag, MLflow shows 8000


def of_run(run: runs.Run, rule: type | None, store: Mapping[str, str]) -> str:
    """The rule's equation, what was found beside the numbers, and commands that compare and repeat it."""
    settings = run.settings
    if not settings:
        return ""
    parts = [f"**{_text(run.name)}**"]
    if rule is not None:
        code = _cut("\n".join(source.equation(rule)), _LONGEST_CODE)
        parts += [source.words(rule).partition(">>>")[0].rstrip(), f"```python\n{code}\n```"]
    if run.findings:
        parts.append("\n".join(f"- {_text(found.code)}: {_text(found.text)}" for found in run.findings))
    asked = []
    if "experiment" in settings:
        asked += [f"Which rule is faster: {_asked('compare', settings['experiment']['name'], store)}"]
    if again := run.summary.get("command"):
        asked.append(f"This run again: {_typed(again)}")
    return "\n\n".join([*parts, *asked])


def of_experiment(name: str, store: Mapping[str, str]) -> str:
    """What the runs and charts of an experiment are, and the commands that answer questions about it."""
    return "\n".join([
        "A run is a rule with one setting, all its seeds together; the note on it has its equation.",
        "",
        f"- Which rule is faster: {_asked('compare', name, store)}",
        f"- All of it on a page: {_asked('report', name, store)}; copies are in the experiment {REPORTS}",
        "- Charts: `curves/` means over the seeds (`0_log10_` the logarithm of the error), `last/` the last of them, "
        "`spread/` standard deviation and 95 % interval of the last error; all checkpoints are in the artifact "
        "`curves.npz`",
    ])  # fmt: skip


def _asked(verb: str, experiment: str, store: Mapping[str, str]) -> str:
    named = [f"experiment.name={written(experiment)}", *(f"{key}={one}" for key, one in store.items())]
    return _typed(command(verb, named))


def _typed(text: str) -> str:
    """A command as code in a line, whole, to be copied."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def _text(text: str) -> str:
    """A text that Markdown shows as it is."""
    return "".join(f"\\{letter}" if letter in r"\`*_{}[]<>()#+-!|$~" else letter for letter in text)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"
