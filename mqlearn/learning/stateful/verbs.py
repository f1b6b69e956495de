"""What the verbs of a sample become: loops over all pairs, or over what one transition touches."""

import ast
from typing import Any

from mqlearn.errors import nearest
from mqlearn.learning.stateful.expressions import ARRAY, NUMBER, PAIRS, TABLE, VECTOR, Value
from mqlearn.learning.stateful.text import Text

_SIGNATURES = {
    "value": ("q",), "best": ("q", "by"), "target": ("q", "by"), "add": ("q", "change"), "move": ("q", "to", "share"),
    "add_best": ("q", "change", "by"), "follow": ("later", "q"), "add_jacobian": ("matrix", "q", "weight"),
}  # fmt: skip
_VALUES = ("value", "best", "target")
KEPT = 8  # entries that `follow` copies one by one;
BEYOND = KEPT + 1  # when more have moved, and at the beginning of a chunk, it copies all


class _Verbs:
    """What is common to all modes. Abstract."""

    text: Text

    def __init__(self, batch: int) -> None:
        self.batch = batch
        self.averaged = False  # whether what verbs write is noted in `sums`, see `PointVerbs`
        self.uses: set[str] = set()  # of again, uniform
        self.coins: set[int] = set()  # the uniforms that are read by their numbers
        self.followed: list[str] = []  # names of the lists of entries that `follow` has yet to copy

    def statement(self, node: ast.stmt, who: tuple[str, bool], arguments: list[Value], named: dict[str, Value]) -> None:
        name, again = who
        if name in _VALUES:
            return  # asked for nothing
        given = self._given(node, name, again, arguments, named)
        getattr(self, f"_{name}")(node, again, **given)

    def value(self, node: ast.expr, who: tuple[str, bool], arguments: list[Value], named: dict[str, Value]) -> Value:
        name, again = who
        if name in _SIGNATURES and name not in _VALUES:
            self.text.step.refuse(node, f"s.{name} changes a table, and is nothing to calculate with")
        given = self._given(node, name, again, arguments, named)
        return getattr(self, f"_{name}")(node, again, **given)

    def _given(
        self, node: Any, name: str, again: bool, arguments: list[Value], named: dict[str, Value]
    ) -> dict[str, Value]:
        refuse = self.text.step.refuse
        if name not in _SIGNATURES:
            refuse(node, f"a sample has no verb {name}{nearest(name, _SIGNATURES)}")
        if again:
            self.uses.add("again")
        parameters = _SIGNATURES[name]
        given = dict(zip(parameters, arguments, strict=False)) | named
        wanted = [one for one in parameters if one != "by"]
        if len(arguments) > len(parameters) or set(given) - set(parameters) or not set(wanted) <= set(given):
            refuse(node, f"s.{name} takes {', '.join(parameters)}")
        for key in ("q", "by", "later"):
            if key in given and given[key].kind not in (TABLE, ARRAY):
                refuse(node, f"s.{name} needs a table of the state for {key}")
        for key in ("change", "to", "share", "weight"):
            if key in given and given[key].kind in (TABLE, VECTOR):
                refuse(node, f"s.{name} takes what verbs give for {key}, not a whole table: read it by s.value")
        if name != "add_jacobian" and "by" in parameters:
            given.setdefault("by", given["q"])
        return given

    def attribute(self, node: ast.Attribute) -> Value:
        if node.attr == "discount":
            return Value(NUMBER, "discount")
        if node.attr == "uniform":
            if not self.text.step.rule.draws_own:
                self.text.step.refuse(node, "s.uniform is drawn for rules that say draws_own = True only")
            self.uses.add("uniform")
            return Value(ARRAY, "uniform")
        expected = "is a verb, to be called" if node.attr in _SIGNATURES else "is nothing of a sample"
        return self.text.step.refuse(node, f"s.{node.attr} {expected}{nearest(node.attr, _SIGNATURES)}")

    def coin(self, number: int) -> Value:
        """s.uniform[number]."""
        self.coins.add(number)
        return Value(NUMBER, f"uniform_{number}")

    def rewritten(self, base: Value) -> None:
        """A whole table has been changed by a statement."""


class SweepVerbs(_Verbs):
    """All pairs at once: numbers are those of pair p, `y` and `r` are arrays over the pairs."""

    def _states(self, line: str, kind: str = "np.empty(n_states)", terminal: str = "0.0") -> str:
        """An array over the states, filled by a line that may use `best`, the greedy pair of x, and {to}."""
        to = self.text.array(kind)
        self.text.put(
            "for x in range(n_states):",
            "    first = offsets[x]",
            "    end = offsets[x + np.uint64(1)]",
            f"    {to}[x] = {terminal}",
            "    if first < end:",
            *(f"        {part}" for part in line.format(to=to).split("\n")),
        )
        return to

    def _ahead(self, q: Value, by: Value) -> str:
        """The array over the states of q's value at the greedy action of `by`."""
        if q.code == by.code:
            four = [q.at("first"), *(q.at(f"first + np.uint64({i})") for i in (1, 2, 3))]
            return self._states(
                "if end - first == np.uint64(4):\n"
                f"    a = {four[0]}\n    b = {four[1]}\n    c = {four[2]}\n    d = {four[3]}\n"
                "    a = b if b > a else a\n    c = d if d > c else c\n    {to}[x] = c if c > a else a\n"
                "else:\n"
                f"    a = {four[0]}\n"
                f"    for j in range(first + np.uint64(1), end):\n        a = {q.at('j')} if {q.at('j')} > a else a\n"
                "    {to}[x] = a"
            )
        return self._states(f"{self._search(by)}\n{{to}}[x] = {q.at('best')}")

    def _search(self, by: Value) -> str:
        return (
            f"best = first\nfor j in range(first + np.uint64(1), end):\n"
            f"    best = j if {by.at('j')} > {by.at('best')} else best"
        )

    def _greedy(self, by: Value) -> str:
        """The array over the states of the greedy pairs, -1 for terminal states."""
        return self._states(f"{self._search(by)}\n{{to}}[x] = np.int64(best)", "np.empty(n_states, np.int64)", "-1")

    def _mean(self, entry: str, again: bool) -> Value:
        """The mean over the draws of `entry`, which uses {y} and {r}."""
        y = "y2" if again else "y"
        if self.batch == 1:
            return Value(PAIRS, entry.format(y=f"{y}[p]", r="r[p]"))
        to = self.text.array()
        self.text.over_entries(f"{to}[p] = {entry.format(y=f'{y}[0, p]', r='r[0, p]')}")
        self.text.put(f"for draw in range(1, {self.batch}):")
        self.text.put("    for p in range(n):", f"        {to}[p] += {entry.format(y=f'{y}[draw, p]', r='r[draw, p]')}")
        return Value(PAIRS, f"({to}[p] / {self.batch})")

    def _value(self, node: Any, again: bool, q: Value) -> Value:
        return Value(PAIRS, q.at("p"))

    def _best(self, node: Any, again: bool, q: Value, by: Value) -> Value:
        return self._mean(f"{self._ahead(q, by)}[{{y}}]", again)

    def _target(self, node: Any, again: bool, q: Value, by: Value) -> Value:
        return self._mean(f"({{r}} + discount * {self._ahead(q, by)}[{{y}}])", again)

    def _add(self, node: Any, again: bool, q: Value, change: Value) -> None:
        self.text.over_entries(f"{q.at('p')} += {change.entry}")

    def _move(self, node: Any, again: bool, q: Value, to: Value, share: Value) -> None:
        self.text.over_entries(f"{q.at('p')} += {share.entry} * ({to.entry} - {q.at('p')})")

    def _follow(self, node: Any, again: bool, later: Value, q: Value) -> None:
        self.text.over_entries(f"{later.at('p')} = {q.at('p')}")

    def _over_draws(self, again: bool, line: str, before: str = "") -> None:
        """Lines for each pair p and draw, which may use `j`, the greedy pair ahead, -1 at terminal states."""
        y = "y2" if again else "y"
        self.text.put("for p in range(n):", *([f"    {before}"] if before else []))
        depth = "    "
        if self.batch > 1:
            self.text.put(f"    for draw in range({self.batch}):")
            depth = "        "
        state = f"{y}[p]" if self.batch == 1 else f"{y}[draw, p]"
        self.text.put(*(depth + part for part in line.format(state=state).split("\n")))

    def _add_best(self, node: Any, again: bool, q: Value, change: Value, by: Value) -> None:
        greedy, share = self._greedy(by), self.text.kept(change)
        part = share.entry if self.batch == 1 else f"({share.entry} / {self.batch})"
        self._over_draws(again, f"j = {greedy}[{{state}}]\nif j >= 0:\n    {q.at('j')} += {part}")

    def _add_jacobian(self, node: Any, again: bool, matrix: Value, q: Value, weight: Value) -> None:
        if weight.kind == PAIRS:
            self.text.step.refuse(node, "s.add_jacobian takes one weight for all pairs")
        greedy, share, m = self._greedy(q), self.text.fresh(), matrix.whole
        self.text.put(f"{share} = {weight.code}" + (f" / {self.batch}" if self.batch > 1 else ""))
        ahead = f"j = {greedy}[{{state}}]\nif j >= 0:\n    {m}[p, j] += {share} * discount\n{m}[p, p] -= {share}"
        self._over_draws(again, ahead)


class PointVerbs(_Verbs):
    """One transition: `pair`, `reward`, and the pairs `first` .. `end` - 1 of the next state; or features of them."""

    def __init__(self, batch: int, linear: bool) -> None:
        super().__init__(batch)
        self.linear = linear
        self._planned: list[str] | None = None

    def _estimate(self, q: Value, pair: str, depth: str = "") -> tuple[list[str], str]:
        """Lines, and then the code of Q(pair)."""
        if not self.linear:
            return [], q.at(f"np.uint64({pair})")
        to, at = self.text.fresh(), self.text.fresh()
        column, value = f"np.uint64(columns[{at}])", f"values[{at}]"
        return [
            f"{depth}{at} = np.uint64({pair}) * n_active",
            f"{depth}{to} = {q.at(column)} * {value}",
            f"{depth}for {at} in range({at} + np.uint64(1), {at} + n_active):",
            f"{depth}    {to} += {value} * {q.at(column)}",
        ], to

    def _draws(self, again: bool, lines: list[str]) -> None:
        """Lines for each draw, which may use `first` and `end` of its next state, and `paid`."""
        reading = ("y2[draw]", "r[draw]") if again else ("y1[draw]", "r[draw]")
        self.text.put(f"for draw in range({self.batch}):" if self.batch > 1 else "if True:")
        if self.batch == 1:
            reading = ("y2[0]" if again else "y", "reward")
        self.text.put(f"    ahead = np.uint64({reading[0]})", f"    paid = {reading[1]}")
        self.text.put("    first = offsets[ahead]", "    end = offsets[ahead + np.uint64(1)]")
        self.text.put(*(f"    {line}" for line in lines))

    def _ahead(self, q: Value, by: Value) -> tuple[list[str], str]:
        """Lines that need `first` and `end`, and then the code of q's value at the greedy action of `by`, or 0."""
        to = self.text.fresh()
        if q.code == by.code:
            lines, head = self._estimate(q, "first", "    ")
            inner, other = self._estimate(q, "j", "        ")
            now = self.text.fresh()
            return [
                f"{to} = 0.0", "if first < end:", *lines, f"    {to} = {head}",
                "    for j in range(first + np.uint64(1), end):", *inner,
                f"        {now} = {other}", f"        {to} = {now} if {now} > {to} else {to}",
            ], to  # fmt: skip
        search, best = self._search(by, "    ")
        lines, code = self._estimate(q, best, "    ")
        return [f"{to} = 0.0", "if first < end:", *search, *lines, f"    {to} = {code}"], to

    def _search(self, by: Value, depth: str) -> tuple[list[str], str]:
        """Lines, and then the name of the greedy pair of the states `first` .. `end` - 1, of which there are some."""
        lines, head = self._estimate(by, "first", depth)
        inner, other = self._estimate(by, "j", depth + "    ")
        best, most, now = self.text.fresh(), self.text.fresh(), self.text.fresh()
        return [
            *lines, f"{depth}{best} = first", f"{depth}{most} = {head}",
            f"{depth}for j in range(first + np.uint64(1), end):", *inner, f"{depth}    {now} = {other}",
            f"{depth}    if {now} > {most}:", f"{depth}        {best} = j", f"{depth}        {most} = {now}",
        ], best  # fmt: skip

    def _mean(self, lines: list[str], entry: str, again: bool) -> Value:
        to = self.text.fresh()
        if self.batch == 1:
            self._draws(again, [*lines, f"{to} = {entry}"])
            return Value(NUMBER, to)
        now = self.text.fresh()
        self.text.put(f"{to} = 0.0")
        self._draws(again, [*lines, f"{now} = {entry}", f"{to} = {now} if draw == 0 else {to} + {now}"])
        return Value(NUMBER, f"({to} / {self.batch})")

    def _value(self, node: Any, again: bool, q: Value) -> Value:
        lines, code = self._estimate(q, "pair")
        self.text.put(*lines)
        if not lines:  # read now: a later change of the table must not show
            name = self.text.fresh()
            self.text.put(f"{name} = {code}")
            code = name
        return Value(NUMBER, code)

    def _best(self, node: Any, again: bool, q: Value, by: Value) -> Value:
        lines, code = self._ahead(q, by)
        return self._mean(lines, code, again)

    def _target(self, node: Any, again: bool, q: Value, by: Value) -> Value:
        lines, code = self._ahead(q, by)
        return self._mean(lines, f"paid + discount * {code}", again)

    def _write(self, q: Value, pair: str, change: str, depth: str = "") -> list[str]:
        """Lines that add change psi(pair)."""
        noted = [f"{depth}{line}" for name in self._followers(q) for line in (
            f"if {name}_n < {KEPT}:", f"    {name}[{name}_n] = {pair}", f"{name}_n += 1"
        )]  # fmt: skip
        if not self.linear:
            return [*self._add_to(q, f"np.uint64({pair})", change, depth), *noted]
        at, by = self.text.fresh(), self.text.fresh()
        return [
            f"{depth}{by} = {change}",
            f"{depth}for {at} in range(np.uint64({pair}) * n_active, np.uint64({pair} + 1) * n_active):",
            *self._add_to(q, f"np.uint64(columns[{at}])", f"{by} * values[{at}]", depth + "    "),
            *noted,
        ]

    def _add_to(self, q: Value, entry: str, change: str, depth: str) -> list[str]:
        """Lines that add to one entry.

        With an average, `sums` is Q_1 + ... + Q_k - k Q_k, which changes only where Q does: by -k (Q_{k+1} - Q_k).
        """
        if not (self.averaged and q.row):
            return [f"{depth}{q.at(entry)} += {change}"]
        before, after = self.text.fresh(), self.text.fresh()
        sums = f"sums[{q.code}, {entry}]"
        return [
            f"{depth}{before} = {q.at(entry)}",
            f"{depth}{after} = {before} + {change}",
            f"{depth}{q.at(entry)} = {after}",
            f"{depth}{sums} -= np.float64(k + done + i) * ({after} - {before})",
        ]

    def _add(self, node: Any, again: bool, q: Value, change: Value) -> None:
        self.text.put(*self._write(q, "pair", change.code))

    def _move(self, node: Any, again: bool, q: Value, to: Value, share: Value) -> None:
        now = self._value(node, again, q)
        self.text.put(*self._write(q, "pair", f"{share.code} * ({to.code} - {now.code})"))

    def _add_best(self, node: Any, again: bool, q: Value, change: Value, by: Value) -> None:
        share = self.text.fresh()
        self.text.put(f"{share} = {change.code}" + (f" / {self.batch}" if self.batch > 1 else ""))
        if self.batch == 1:
            search, best = self._search(by, "    ")
            self._draws(again, ["if first < end:", *search, *self._write(q, best, share, "    ")])
            return
        found = self.text.array(f"np.empty({self.batch}, np.int64)")  # all from the table before
        search, best = self._search(by, "    ")
        self._draws(again, [f"{found}[draw] = -1", "if first < end:", *search, f"    {found}[draw] = np.int64({best})"])
        self.text.put(f"for draw in range({self.batch}):", f"    if {found}[draw] >= 0:")
        self.text.put(*self._write(q, f"{found}[draw]", share, "        "))

    def _add_jacobian(self, node: Any, again: bool, matrix: Value, q: Value, weight: Value) -> None:
        share, m = self.text.fresh(), matrix.whole
        self.text.put(f"{share} = {weight.code}" + (f" / {self.batch}" if self.batch > 1 else ""))
        search, best = self._search(q, "    ")
        if not self.linear:
            self._draws(again, [
                "if first < end:", *search, f"    {m}[np.uint64(pair), np.uint64({best})] += {share} * discount",
                f"{m}[np.uint64(pair), np.uint64(pair)] -= {share}",
            ])  # fmt: skip
            return
        i, row, x = self.text.fresh(), self.text.fresh(), self.text.fresh()
        inner = "for j in range(np.uint64({0}) * n_active, np.uint64({0} + {one}) * n_active):"
        other = "{m}[{row}, np.uint64(columns[j])] {sign} {weight} * {x} * values[j]"
        beyond = f"{best}_b"
        self._draws(again, [
            f"{beyond} = np.uint64(0)", "if first < end:", *search, f"    {beyond} = {best}",
            f"for {i} in range(np.uint64(pair) * n_active, np.uint64(pair + 1) * n_active):",
            f"    {row} = np.uint64(columns[{i}])", f"    {x} = values[{i}]", "    if first < end:",
            "        " + inner.format(beyond, one="np.uint64(1)"),
            "            " + other.format(m=m, row=row, sign="+=", weight=f"({share} * discount)", x=x),
            "    " + inner.format("pair", one="1"),
            "        " + other.format(m=m, row=row, sign="-=", weight=share, x=x),
        ])  # fmt: skip

    # --- follow -----------------------------------------------------------------------------------------------------

    def _follow(self, node: Any, again: bool, later: Value, q: Value) -> None:
        name = f"moved_{later.code}_{q.code}"
        whole = ["for p in range(n):", f"    {later.at('p')} = {q.at('p')}"]
        if name not in self._plan():
            self.rewritten(later)
            self.text.put(*whole)
            return
        entry = [f"    {later.at('np.uint64(j)')} = {q.at('np.uint64(j)')}"]
        if self.linear:
            column = "np.uint64(columns[at])"
            entry = [
                "    for at in range(np.uint64(j) * n_active, np.uint64(j + 1) * n_active):",
                f"        {later.at(column)} = {q.at(column)}",
            ]
        self.text.put(f"if {name}_n > {KEPT}:", *(f"    {line}" for line in whole), "else:")
        self.text.put(f"    for e in range({name}_n):", f"        j = {name}[e]", *(f"    {line}" for line in entry))
        self.text.put(f"{name}_n = 0")

    def _followers(self, q: Value) -> list[str]:
        """The lists in which a change of q has to be noted: of all tables that q may be."""
        rows = q.code.isdigit()
        return [name for name in self._plan() if not rows or name.rpartition("_")[2] == q.code]

    def _plan(self) -> list[str]:
        """The lists of `follow` statements that copy entries one by one: where nothing else touches either table."""
        if self._planned is None:
            self._planned = self.followed = _single_followers(self.text)
        return self._planned


def _touched(text: Text) -> tuple[list[tuple], list[str]]:
    """The tables of `follow` statements, and what else is written: NAME or "?" by verbs, "whole NAME" by statements."""
    step = text.step

    def table(node: ast.AST) -> str | None:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == step.z:
            return node.attr
        return None

    pairs: list[tuple] = []
    touched: list[str] = []
    for node in ast.walk(ast.Module(step.body, [])):
        if isinstance(node, ast.Call):
            names = [table(one) for one in [*node.args, *(one.value for one in node.keywords)]]
            verb = text.sample(node.func)
            if verb is None:
                safe = isinstance(node.func, ast.Attribute) and not node.keywords
                touched += [f"whole {name}" for name in names if name and not safe]
            elif verb[0] == "follow" and len(node.args) == 2:
                pairs.append(tuple(names))
            elif verb[0] in ("add", "move", "add_best", "follow"):
                touched.append((names[0] if node.args else None) or "?")
        elif isinstance(node, ast.Assign | ast.AugAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                base = target.value if isinstance(target, ast.Subscript) else target
                if (name := table(base)) is not None:
                    touched.append(f"whole {name}")
                elif isinstance(target, ast.Subscript) or isinstance(node, ast.AugAssign):
                    touched.append("whole ?")
    return pairs, touched


def written_by_verbs(text: Text) -> list[int]:
    """The rows of tables that change by verbs alone, entry by entry; none if a verb may mean any table."""
    pairs, touched = _touched(text)
    whole = {name.removeprefix("whole ") for name in touched if name.startswith("whole ")} | {pair[0] for pair in pairs}
    if "?" in whole or ("?" in touched and whole & set(text.tables)):
        return []
    return [row for row, name in enumerate(text.tables) if name not in whole]


def _single_followers(text: Text) -> list[str]:
    pairs, touched = _touched(text)
    row = {name: str(i) for i, name in enumerate(text.tables)}
    chosen = []
    for later, q in pairs:
        once = sum(later in pair for pair in pairs) == 1 and later in row and q in row
        later_free = later not in touched and "?" not in touched and f"whole {later}" not in touched
        if once and later_free and f"whole {q}" not in touched and "whole ?" not in touched:
            chosen.append(f"moved_{row[later]}_{row[q]}")
    return chosen
