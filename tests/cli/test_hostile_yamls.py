"""Files of a user's own that are no yaml: with every verb one message with file, line and fault, and exit code 2."""

import random
from pathlib import Path

import pytest
import yaml

from mqlearn.errors import SettingError
from mqlearn.experiments.settings import override_commands, yamls
from mqlearn.paths import CONF, config_groups

RULE = b"_target_: mqlearn.MomentumQ\nname: mine\nm: 3\n"
FILES = {  # content, the line that is wrong, and what is said of it
    "a tab": (RULE + b"\tbeta: 3\n", 4, "begins with a tab, where yaml takes blanks only"),
    "a key twice": (RULE + b"m: 4\n", 4, "m is there twice, in line 3 too"),
    "an inner key twice": (RULE + b"x:\n  a: 1\n  b: 2\n  a: 3\n", 7, "a is there twice, in line 5 too"),
    "an unquoted #": (RULE + b"rule #1: [x]\n", 4, "has no `:` after it; what follows ` #` is a comment"),
    "no colon": (RULE + b"beta\n", 4, "a name has no `:` after it"),
    "Latin-1": (RULE + "name: café\n".encode("latin-1"), 4, "is not UTF-8 (byte 0xe9)"),
    "UTF-16": (RULE.decode().encode("utf-16"), 1, "is not UTF-8 (byte 0xff)"),
    "a NUL": (RULE + b'x: "a\0b"\n', 4, "yaml takes no character U+0000"),
    "a list": (b"# my rule\n- 1\n- 2\n", 2, "is a list: a mapping is expected"),
    "a text": (b"MomentumQ\n", 1, "is a text: a mapping is expected"),
    "nothing": (b"", 1, "is empty: a mapping is expected"),
    "a comment": (b"# nothing yet\n", 1, "is empty: a mapping is expected"),
    "two documents": (RULE + b"---\nm: 4\n", 4, "begins a second document"),
    "an open brace": (RULE + b"x: {a: 1\n", 5, "expected ',' or '}'"),
    "a number as a name": (RULE + b"1: 2\n", 4, "1 is no text, as names of settings are"),
    "a list as a name": (RULE + b"[1, 2]: 2\n", 4, "a list is no name of a setting"),
    "a program's tag": (RULE + b"x: !!python/object:os.system x\n", 4, "has a tag that is not admissible"),
    "a loop": (RULE + b"x: &a [*a]\n", 4, "refers to itself"),
}
VERBS = {
    "run": ("run", "algorithm=mine"),
    "run -m": ("run", "-m", "algorithm=q_learning,mine"),
    "preview": ("run", "-m", "algorithm=mine", "seed=1,2", "preview=true"),
    "--cfg": ("run", "--cfg", "job", "algorithm=mine"),
    "truth": ("truth", "algorithm=mine"),
    "theory": ("theory", "algorithm=mine"),
    "doctor": ("doctor", "algorithm=mine"),
    "bench": ("bench", "algorithm=mine", "tracking=none"),
    "figure": ("figure", "figure1", "algorithm=mine"),
}
GROUPS = [group for group in config_groups() if group != "algorithm"]


def put(content: bytes, group: str = "algorithm") -> Path:
    path = Path("own", group, "mine.yaml").absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("kind", FILES)
def test_what_is_no_yaml_is_one_message(kind, work, mqlearn, outputs):
    content, line, said = FILES[kind]
    file = put(content)
    done = mqlearn("truth", "--config-dir", "own", "algorithm=mine")
    assert done.code == 2 and done.out == "" and done.err.count("\n") == 1
    assert done.err.startswith(f"mqlearn: algorithm='mine': {file}, line {line}: ") and said in done.err


@pytest.mark.parametrize("kind", ["a tab", "nothing", "Latin-1"])
@pytest.mark.parametrize("verb", VERBS)
def test_with_every_verb(verb, kind, work, mqlearn, outputs):
    content, line, said = FILES[kind]
    file = put(content)
    name, *words = VERBS[verb]
    if verb in ("bench", "figure", "doctor"):
        words = [*words[: verb != "doctor"], "--config-dir", "own", *words[verb != "doctor" :]]
    else:
        words = ["--config-dir", "own", *words]
    done = mqlearn(name, *words)
    assert done.code == 2 and f"algorithm='mine': {file}, line {line}: {said}" in done.err.splitlines()[-1]
    assert done.err.count("\n") == 1 and not outputs.exists()


@pytest.mark.parametrize("group", GROUPS)
def test_in_every_group(group, work, mqlearn):
    file = put(b"# @package _global_\nname: mine\nname: other\n", group)
    done = mqlearn("run", "--config-dir", "own", f"{group}=mine")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert done.err.startswith(f"mqlearn: {group}='mine': {file}, line 3: name is there twice, in line 2 too")


@pytest.mark.parametrize(("verb", "group"), [("claims", "claim"), ("bench", "suite")])
def test_in_what_other_verbs_read(verb, group, work, mqlearn):
    file = put(b"statement: x\nplace: y\n\treading: z\n", group)
    done = mqlearn(verb, "mine", "--config-dir", "own", "tracking=none")
    assert (done.code, done.err) == (
        2,
        f"mqlearn: {group}='mine': {file}, line 3: begins with a tab, where yaml takes blanks only\n",
    )


def test_a_command_to_be_typed_reads_them_too(work):
    put(FILES["a key twice"][0])
    with pytest.raises(SettingError, match=r"mine\.yaml, line 4: m is there twice"):
        override_commands._read("algorithm", "mine", "own")


def test_what_ships_and_what_yaml_allows_is_read(work):
    for path in CONF.rglob("*.yaml"):
        if path.parent.parent == CONF:
            yamls.check(path.parent.name, path)
    file = put(b"\xef\xbb\xbf# a mark of order\nbase: &base {a: 1}\nmore: {<<: *base, 0.9: [x], 'on': y}\n")
    assert yamls.read("algorithm", file)["more"] == {"a": 1, 0.9: ["x"], "on": "y"}


@pytest.mark.parametrize("seed", range(4))
def test_bytes_drawn_at_random_are_answered(seed, work):
    draw, pieces = random.Random(seed), [content for content, _, _ in FILES.values()]
    for _ in range(150):
        content = bytearray(draw.choice(pieces) + b"\n" + draw.choice(pieces))
        for _ in range(draw.randrange(4)):
            content[draw.randrange(len(content))] = draw.choice(b"\t\n #:-[]{}&*!|>'\"%@`\x00\xff\xe9a1")
        file = put(bytes(content))
        try:
            assert isinstance(yamls.read("algorithm", file), dict)
        except SettingError as error:
            assert str(error).startswith(f"algorithm='mine': {file}, line ")
            assert "\n" not in str(error)
            continue
        assert yaml.safe_load(file.read_bytes()) is not None
