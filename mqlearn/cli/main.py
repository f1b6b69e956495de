"""`mqlearn VERB [overrides]`. Nothing heavy is imported before a verb needs it."""

import contextlib
import errno
import gc
import importlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from mqlearn.cli import streams
from mqlearn.cli.verbs import VERBS
from mqlearn.paths import CONF, PACKAGE, config_groups

CODES = "0; 1 a run failed or numbers differ; 2 a setting is not admissible; 3 runs are whole, but not tracked"
# What the system may refuse any program, whatever the file: no room, too large, a failing disk, too much open.
_SCARCE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.ENOMEM, errno.EMFILE, errno.ENFILE)


def main(argv: list[str] | None = None) -> None:
    """The console script: exits with one of CODES."""
    if sys.platform.startswith("win"):
        sys.stderr.write("mqlearn: runs on Linux, not on Windows itself; in WSL, which is Linux, it does\n")
        sys.exit(2)
    streams.unbroken()
    gc.set_threshold(10_000, 20, 50)  # what is imported stays: by default, looking for garbage is 6 % of a figure
    with streams.harmless(), _interruptible():
        try:
            code = _main(argv)
        except KeyboardInterrupt:
            sys.stderr.write("mqlearn: interrupted; finished runs are kept\n")
            code = 130
    if code is not None:
        sys.exit(code)


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """SIGTERM interrupts as Ctrl-C does, from the first import on."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _main(argv: list[str] | None) -> int | None:
    """The exit code; None where only help was asked for."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print("usage: mqlearn VERB [overrides]      (mqlearn VERB --help explains)\n")
        print("\n".join(f"  {name:8} {verb.summary}" for name, verb in VERBS.items()))
        print(f"\nexit codes: {CODES}")
        return None
    verb, *rest = arguments
    if verb == "--version":
        from importlib.metadata import version

        print(f"mqlearn {version('mqlearn')}")
        return None
    if verb in VERBS and ("-h" in rest or "--help" in rest):
        print(_help(verb))
        return None
    from mqlearn.errors import SettingError, WorkerDied, nearest
    from mqlearn.experiments.settings import own_choices, plugins
    from mqlearn.storage import connection
    from mqlearn.storage.passwords import in_argument

    connection.untracked.clear()
    arguments = [in_argument(argument) for argument in arguments]  # so that nothing can print a secret
    verb, *rest = arguments
    plugins.forget()
    own_choices.forget()
    # What starts with the current folder on its path would take a file of the user's for a module of Python's.
    os.environ.setdefault("PYTHONSAFEPATH", "1")
    # Runs use the cores side by side themselves, and threads of BLAS would only wait beside them. Set before NumPy is
    # loaded, inherited by all workers; what a user has set stays.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    given, sys.argv = sys.argv, ["mqlearn", *arguments]  # recorded as the command
    try:
        if {"-sc", "--shell-completion"} & {*arguments}:
            code = _complete([argument for argument in arguments if argument not in VERBS])
        elif verb in VERBS:
            with plugins.own_code():  # whatever a method of the user's raises, wherever it is called
                code = getattr(importlib.import_module(f"mqlearn.cli.{verb}"), verb)(rest)
        else:
            raise SettingError("verb", verb, f"must be one of {', '.join(VERBS)}{nearest(verb, VERBS)}")
        sys.stdout.flush()
        code = code or connection.UNTRACKED * bool(connection.untracked)
    except SettingError as error:
        sys.stderr.write(f"mqlearn: {error}\n")
        code = 2
    except RuntimeError as error:
        if not isinstance(error, connection.TrackingError | WorkerDied):  # which are no fault of ours
            raise
        sys.stderr.write(f"mqlearn: {error}\n")
        code = 1
    except OSError as error:
        if not _of_the_users(error):
            raise
        place = "" if error.filename is None else f"{error.filename}: "
        sys.stderr.write(f"mqlearn: {place}{error.strerror}\n")
        code = 1
    finally:
        sys.argv = given
    return code


def _of_the_users(error: OSError) -> bool:
    """Whether the system refused a file of the user's, or had no room; all else is a fault of ours."""
    if error.strerror is None or not isinstance(error.filename, str | os.PathLike):
        return error.errno in _SCARCE
    return not any(Path(error.filename).is_relative_to(ours) for ours in (PACKAGE, CONF))


def _help(verb: str) -> str:
    groups = ""
    for group in config_groups():
        options = sorted(path.stem for path in (CONF / group).glob("*.yaml"))
        groups += f"  {group:11} {' | '.join(options)}\n"
    lines = (CONF / "config.yaml").read_text(encoding="utf-8").split("\n\n")
    settings = "".join(
        f"  {line}\n" for block in lines[1:] if not block.startswith("hydra") for line in block.splitlines()
    )
    text = VERBS[verb].usage.replace("{groups}", groups).replace("{settings}", settings)
    keys = sorted(path.stem for path in (CONF / "paper").glob("*.yaml"))
    every = sorted(path.stem for path in (CONF / "claim").glob("*.yaml"))
    claims = ", ".join(name for name in every if not name.startswith(tuple(f"{key}_" for key in keys)))
    suites = ", ".join(sorted(path.stem for path in (CONF / "suite").glob("*.yaml")))
    return (
        text.replace("{figures}", ", ".join(_figures()))
        .replace("{claims}", claims)
        .replace("{papers}", ", ".join(keys))
        .replace("{suites}", suites)
    )


def _complete(arguments: list[str]) -> int:
    """Hydra's own shell completion, on the command line without its verb."""
    from mqlearn.errors import SettingError

    commands = ("install", "uninstall", "query")
    if not any(argument.partition("=")[0] in commands for argument in arguments):
        value = " ".join(arguments[1:])
        raise SettingError(arguments[0], value, f"must be {', '.join(commands)} with a shell, as in install=bash")
    words = os.environ.get("COMP_LINE", "").split(" ")
    if any(argument.startswith("query=") for argument in arguments):
        names = [*VERBS] if len(words) <= 2 else _figures() if words[1] == "figure" and len(words) == 3 else []
        if names:
            print(" ".join(name for name in names if name.startswith(words[-1])))
            return 0
        os.environ["COMP_LINE"] = " ".join([words[0], *words[2:]])
    from mqlearn.experiments.jobs import hydra_main

    return hydra_main(arguments)


def _figures() -> list[str]:
    return sorted(path.stem for path in (CONF / "experiment").glob("figure*.yaml"))
