"""What the docstrings of the public names must say, and that their examples are right."""

import doctest
import inspect
import re

import numpy as np
import pytest

import mqlearn as mq
from mqlearn.experiments.settings import targets
from mqlearn.problems import classic

NAMES = sorted({*mq.__all__, *targets.names()})
FINDER = doctest.DocTestFinder(recurse=False)
RUNNER = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
STORED = ("bench", "load")  # their examples need finished runs or results
WITH_EXAMPLES = [name for name in NAMES if ">>>" in (getattr(mq, name).__doc__ or "") and name not in STORED]
ALSO = {"run_together": mq.run}  # whose settings are explained there


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_is_explained_with_all_its_parameters(name):
    thing = getattr(mq, name)
    text = inspect.cleandoc(thing.__doc__ or "")
    assert len(text.splitlines()) > 1
    told = text + (ALSO[name].__doc__ or "" if name in ALSO else "")
    missing = [one for one in inspect.signature(thing).parameters if not re.search(rf"\b{one}\b", told)]
    assert not missing


def checks_its_settings(name: str) -> bool:
    thing = getattr(mq, name)
    return "__post_init__" in vars(thing) if inspect.isclass(thing) else name in classic.__all__


@pytest.mark.parametrize("name", [*filter(checks_its_settings, NAMES)])
def test_what_checks_its_settings_says_what_it_raises(name):
    assert "Raises SettingError" in " ".join((getattr(mq, name).__doc__ or "").split())


@pytest.mark.parametrize("name", sorted(classic.__all__))
def test_a_test_problem_refuses_a_discount_that_is_none(name):
    with pytest.raises(mq.SettingError, match="discount="):
        getattr(mq, name)(discount=1.5)


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_the_examples_are_right(name, capsys):
    (example,) = FINDER.find(getattr(mq, name), name, extraglobs={"mq": mq, "np": np})
    done = RUNNER.run(example)
    assert done.attempted and not done.failed, capsys.readouterr().out


def test_a_wrong_example_would_be_seen(capsys):
    wrong = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, None)
    assert doctest.DocTestRunner().run(wrong).failed == 1
