"""From settings to a cell: compose, validate, build, and name it by its content.

A *cell* is one configuration with all its seeds. Its digest (see `identity`) covers all that decides its numbers: same
digest, same numbers.
"""

import contextlib
import functools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mqlearn import source_text
from mqlearn.errors import SettingError, SettingErrors, asked, nearest
from mqlearn.experiments.presentation.names import of_problem
from mqlearn.experiments.settings import (
    earlier_versions,
    identity,
    instantiate,
    models,
    own_choices,
    own_step_size,
    records,
)
from mqlearn.experiments.settings import plugins as user_modules
from mqlearn.experiments.settings.sections import KINDS, NOT_TRACKED, PLAIN, experiment_section, tracking_section
from mqlearn.finding import Finding
from mqlearn.rounding import Rounding
from mqlearn.storage.effective import OPEN
from mqlearn.storage.record_schema import GROUPS


@dataclass(frozen=True)
class Cell:
    """A validated configuration, ready to run. settings: plain nested dict, as written to config.yaml."""

    settings: dict[str, Any]
    digest: str
    name: str
    mdp: Any
    run_arguments: dict[str, Any]
    setup: Any  # the `learning.setup.Setup` of these arguments
    rule: Any  # with its step size, at the discount
    own_choices: dict[str, Any]  # files of the user's that settings came from, by group; not for those of a record
    without_effect: tuple[Finding, ...] = ()  # of settings that no object was built from

    @property
    def samples_key(self) -> str | None:
        """Equal for cells that learn from the same samples by other rules; None where each rule draws its own."""
        from mqlearn.algorithms.rule import Rule
        from mqlearn.learners import can_share

        given = [self.run_arguments[name] for name in ("sampling", "features", "linear")]
        in_one_loop = given[0].all_pairs and isinstance(self.rule, Rule)
        if not in_one_loop and not can_share(*given):
            return None
        return identity.samples_key(self.settings, self.mdp)

    @property
    def operator(self) -> Any:
        """The operator in use, on the model of this cell: with its fixed point."""
        return self.setup.operator

    @property
    def made_of(self) -> dict[str, Any]:
        """What its settings do not say, for its record: digests of the model and of the user's modules in use."""
        modules = user_modules.load(self.settings["plugins"])
        sources = {name: user_modules.source_digest(module) for name, module in sorted(modules.items())}
        return {"model": self.mdp.digest(), "sources": sources}

    @property
    def effective(self) -> dict[str, Any]:
        """What its null and auto settings stand for, by dotted name, for its record; what is null or auto still is out.

        Beside the rule's own: the operator's parameter, what episodes are played, the bounds of a Box observation.
        """
        from mqlearn.problems.mdp import FiniteMDP

        given, mdp, evaluation = self.run_arguments, self.mdp, self.setup.evaluation
        limit = evaluation.limit(mdp) if isinstance(mdp, FiniteMDP) else evaluation.time_limit
        bounds = {end: getattr(given["features"], end, None) for end in ("low", "high")}
        told = {
            "algorithm": asked("algorithm", given["rule"], "effective", self.settings["discount"]),
            "operator": {key: getattr(self.operator.operator, key, None) for key in self.settings["operator"]},
            "evaluation": {"episodes": evaluation.episodes, "time_limit": limit},
            "features": {end: None if bound is None else bound.tolist() for end, bound in bounds.items()},
        }
        return {
            f"{group}.{key}": identity.canonical(value)
            for group, values in told.items()
            for key, value in values.items()
            if self.settings[group].get(key) in OPEN and value not in OPEN
        }

    @property
    def subfolder(self) -> Path:
        """Where the run folder lies under the folder of all runs: experiment, then digest."""
        from mqlearn.storage.runs import slug

        return Path(slug(self.settings["experiment"]["name"])) / self.digest[:16]


def run_cells(some: Sequence[Cell], progress: Callable[[int, float], None] | None = None) -> list[Any]:
    """The `mqlearn.Result` of each of some cells that have the same `samples_key`, or of one."""
    from mqlearn.learning.loop import run_together

    if len(some) > 1 and (None in (keys := {one.samples_key for one in some}) or len(keys) > 1):
        raise ValueError("these cells do not share samples")
    shared = _shared(some[0].run_arguments)
    return run_together(some[0].mdp, [one.rule for one in some], **shared, progress=progress)


def build(settings: Mapping[str, Any]) -> Cell:
    """Validate resolved settings and build what they describe. Raises SettingError, one message for all errors.

    For the user's own settings: their modules are imported. Those of a record go through `rebuild`.
    """
    from mqlearn.problems.model_files import pinned
    from mqlearn.sampling import recorded

    with contextlib.suppress(SettingError):  # raised among the others
        user_modules.load(settings.get("plugins", []))
    files = {"env": pinned(settings.get("env")), "sampling": recorded.pinned(settings.get("sampling"))}
    return _build(json.dumps({**settings, **files}, sort_keys=True), source_text.imports(), recorded=False)


def rebuild(recorded: Mapping[str, Any], *, pinned: bool = False, composed: bool = False) -> Cell:
    """`build` from the settings of a record, which is data: nothing is imported or read that it alone names.

    pinned: but for a model's file whose content it pins.   composed: only the choices are a record's; what they leave
    open is what it is today. Raises SettingError, also for modules that the user has not named on this command line.
    """
    user_modules.known(recorded.get("plugins") or [])
    records.check(recorded, pinned=pinned)
    settings = dict(recorded) if composed else earlier_versions.of_record(recorded)
    return _build(json.dumps(settings, sort_keys=True), source_text.imports(), recorded=True)


def rebuild_for_reading(recorded: Mapping[str, Any]) -> Cell:
    """`rebuild` of a run that is read, and not repeated: without modules that its settings list and do not name.

    Where it is one of these that is not here, the digest is that of a cell without it.
    """
    left = {"n_workers": None, "tracking": NOT_TRACKED, "plugins": records.in_use(recorded)}
    return rebuild({**recorded, **left})


def rebuild_without_rule(recorded: Mapping[str, Any]) -> Cell:
    """`rebuild_for_reading` with Q-learning in the place of a rule: problem, features and sampling are the run's."""
    label = recorded["algorithm"].get("name")
    plain = {"algorithm": {"_target_": "mqlearn.QLearning", "name": label}, "metrics": {}}
    return rebuild_for_reading({**recorded, **plain, "step_size": {"_target_": "mqlearn.Harmonic"}})


@functools.lru_cache(maxsize=64)
@user_modules.own_code()
def _build(text: str, imports: int, *, recorded: bool) -> Cell:
    settings = earlier_versions.complete(json.loads(text))
    for plan in ("figure", "tuning"):  # of an experiment, not settings of its cells
        settings.pop(plan, None)
    own = {} if recorded else settings.pop(own_choices.KEY, {})
    from mqlearn.learners import on_clock
    from mqlearn.learning.setup import resolve_reward
    from mqlearn.stateful.check import check as check_rule

    for group in GROUPS:  # a label that is not given
        node = settings.get(group)
        if isinstance(node, dict) and "_target_" in node:
            node.setdefault("name", str(node["_target_"]).rpartition(".")[2])
    errors: list[SettingError] = []

    def check(function: Callable, *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except SettingError as error:
            errors.append(error)
            return None

    known = (*KINDS, *GROUPS, "experiment", "linear", "metrics", "plugins", "tracking")
    errors += [
        SettingError(name, value, f"there is no such setting{nearest(name, known)}")
        for name, value in settings.items()
        if name not in known
    ]
    plugins = check(user_modules.known if recorded else user_modules.load, settings.get("plugins", [])) or {}
    for name, kind in KINDS.items():
        settings[name] = check(kind, name, settings.get(name))
    settings["experiment"] = check(experiment_section, settings.get("experiment"))
    settings["tracking"] = check(tracking_section, settings.get("tracking"))
    discount = 0.5 if settings["discount"] is None else settings["discount"]  # to see what else is wrong
    mdp = check(models.environment, settings.get("env"), plugins, discount)
    without_effect = tuple(earlier_versions.without_effect(settings.get("algorithm")))
    rule = check(instantiate.make, "algorithm", settings.get("algorithm"), plugins)
    operator = check(instantiate.make, "operator", settings.get("operator"), plugins)
    if own_step_size.asked(settings.get("step_size")):
        settings["step_size"] = rule and check(own_step_size.resolved, settings["step_size"], rule, discount)
        step_size = settings["step_size"] and check(instantiate.make, "step_size", settings["step_size"], plugins)
    else:
        step_size = check(instantiate.make, "step_size", settings.get("step_size"), plugins)
    sampling = check(instantiate.make, "sampling", settings.get("sampling"), plugins)
    features = None
    if mdp is not None:
        features = check(instantiate.make, "features", settings.get("features"), plugins, {"mdp": mdp})
    evaluation = check(instantiate.make, "evaluation", settings.get("evaluation"), plugins)
    linear = check(_linear, settings.get("linear"), plugins)
    metrics = check(instantiate.metrics, settings.get("metrics"), plugins)
    if rule is not None and step_size is not None:
        check(check_rule, rule.with_step_size(step_size), discount)
    if errors:
        raise SettingErrors.one_of(errors)
    layout = getattr(mdp, "layout", None)
    if layout is not None and "map" in settings["env"]:
        settings["env"]["map"] = list(layout)  # a file is not needed again
    sampling = on_clock(sampling, rule, features)
    if len(sampling.clocks) > 1:
        settings["sampling"]["clock"] = sampling.clock
    settings["reward"] = resolve_reward(settings["reward"], sampling.all_pairs)
    initial = {name: tuple(value) if isinstance(value := settings[name], list) else value for name in ("q0", "theta0")}
    arguments = {
        "rule": rule,
        "operator": operator,
        "step_size": step_size,
        "sampling": sampling,
        "features": features,
        "evaluation": evaluation,
        "linear": linear,
        "metrics": metrics,
        **initial,
        **{name: settings[name] for name in PLAIN},
    }
    setup, ready = _combined(settings, mdp, arguments)
    digest, name = identity.digest(settings, mdp, plugins), name_of(settings, plugins, rule)
    return Cell(settings, digest, name, mdp, arguments, setup, ready, own, without_effect)


def _combined(settings: dict[str, Any], mdp: Any, arguments: dict[str, Any]) -> tuple[Any, Any]:
    """The setup of a run and its rule. Raises SettingError where objects that are each admissible do not go together.

    That is decided by what `mqlearn.run` asks too; here a rule is called by its setting, and not by its class.
    """
    from mqlearn.learning.setup import validated

    setup = validated(mdp, **_shared(arguments)).of_rule(arguments["rule"])
    rule = setup.prepared(arguments["rule"].with_step_size(arguments["step_size"]))
    try:
        setup.check_rule(rule)
    except SettingError as error:
        if error.setting != "algorithm":
            raise
        raise SettingError("algorithm", settings["algorithm"]["name"], error.admissible) from None
    return setup, rule


def _shared(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What cells that run together have in common."""
    return {name: value for name, value in arguments.items() if name not in ("rule", "step_size")}


def measured_by(cell: Cell) -> list[str]:
    """Names of the metrics that the run of a cell can record."""
    from mqlearn.learning.metrics import recorded

    setup = cell.setup
    return recorded(cell.mdp, setup.features, setup.evaluation, setup.metrics, cell.rule.averaged)


def rounded(cell: Cell) -> dict[str, Rounding]:
    """`mqlearn.learning.rounded.of_run` of a cell."""
    from mqlearn.learning.rounded import of_run

    return of_run(cell.mdp, **cell.run_arguments)


def _linear(node: Any, plugins: Mapping[str, Any]) -> Any:
    if not isinstance(node, dict | None):
        raise SettingError("linear", node, "is no group: set linear.previous_gradient, linear.first_gradient, ...")
    return instantiate.make("linear", {"_target_": "mqlearn.Linear", **(node or {})}, plugins)


# --- names --------------------------------------------------------------------------------------------------------


def name_of(settings: Mapping[str, Any], plugins: Mapping[str, Any], rule: Any) -> str:
    """Algorithm with its parameters, step size, environment and discount, for people: one name for equal settings."""

    def described(group: str, hidden: tuple[str, ...] = ()) -> str:
        written = settings[group]
        shown = [
            f"{key}={_label(written.get(key), value) if isinstance(value, dict) else value}"
            for key, value in identity.resolved_node(group, written, plugins).items()
            if key not in ("_target_", *hidden) and value is not None
        ]
        return " ".join([_label(written, written), *shown])

    from mqlearn.stateful.step_size import uses_step_size

    hidden = ("map", "slippery", "success_rate", "rewards", "kwargs", "content", "model")
    operator = (described("operator"),) if identity.counts("operator", settings["operator"], plugins) else ()
    idle = rule is not None and not uses_step_size(rule)
    step_size = "step size not used" if idle else described("step_size", ("discount",))
    parts = (described("algorithm"), *operator, step_size, described("env", hidden))
    return ", ".join([*parts, f"discount={settings['discount']:g}"])


def _label(written: Any, node: Mapping[str, Any]) -> str:
    return of_problem(written if isinstance(written, dict) else node)
