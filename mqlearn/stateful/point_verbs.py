"""The verbs with one transition: loops over what it touches, in a table or in the parameters of linear features."""

from typing import Any

from mqlearn.algorithms.operators import BELLMAN, Operator
from mqlearn.stateful.values import NUMBER, Value
from mqlearn.stateful.verbs import Verbs
from mqlearn.stateful.written import single_followers

KEPT = 8  # entries that `follow` copies one by one;
BEYOND = KEPT + 1  # when more have moved, and at the beginning of a chunk, it copies all


class PointVerbs(Verbs):
    """One transition: `pair`, `reward`, and the pairs `first` .. `end` - 1 of the next state; or features of them."""

    single = True

    def __init__(self, batch: int, linear: bool, operator: Operator = BELLMAN) -> None:
        super().__init__(batch, operator)
        self.linear = linear

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

    def _tables(self, q: Value, by: Value, states: tuple[str, ...]) -> tuple[list[str], str, str]:
        """Lines that need `first` and `end`, and then q and `by` as arrays over the pairs, right at these states."""
        if not self.linear:
            return [], q.whole, by.whole
        lines, names = list[str](), {}
        for code in dict.fromkeys((q.whole, by.whole)):
            names[code] = self.text.array("np.zeros(model.successors.shape[0])")
            place = f"{code}, columns, values, n_active, offsets"
            lines += [f"estimates({place}, {state}, {names[code]})" for state in states]
        return lines, names[q.whole], names[by.whole]

    def _best(self, node: Any, again: bool, q: Value, by: Value) -> Value:
        if not self.plain:
            lines, own, chosen = self._tables(q, by, ("ahead",))
            return self._mean(lines, f"state_value({own}, {chosen}, first, end, operator)", again)
        lines, code = self._ahead(q, by)
        return self._mean(lines, code, again)

    def _target(self, node: Any, again: bool, q: Value, by: Value) -> Value:
        if not self.plain:
            lines, own, chosen = self._tables(q, by, ("ahead", "operator.states[np.uint64(pair)]"))
            transition = f"{own}, {chosen}, offsets, np.uint64(pair), ahead, paid"
            return self._mean(lines, f"target_of({transition}, operator)", again)
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
        if not self.plain:
            self._add_jacobian_of_slopes(again, m, q, share)
            return
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

    # --- derivatives of other operators than Bellman's ---------------------------------------------------------------

    def _add_gradient(self, node: Any, again: bool, q: Value, weight: Value, change: Value, by: Value) -> None:
        if self.plain:
            self._add_best(node, again, q, Value(NUMBER, f"({weight.code} * discount * {change.code})"), by)
            return
        share, slopes = self.text.fresh(), self._target_slopes(again, by)
        self.text.put(f"{share} = {weight.code} * {change.code} / {self.batch}")
        self.text.put("for j in range(offsets[-1]):", f"    if {slopes}[j] != 0.0:")
        self.text.put(*self._write(q, "j", f"{share} * {slopes}[j]", "        "))

    def _add_jacobian_of_slopes(self, again: bool, m: str, q: Value, share: str) -> None:
        """m += share psi (the sum over the draws of the target's derivative - psi)'."""
        slopes = self._target_slopes(again, q)
        self.text.put(f"{slopes}[np.uint64(pair)] -= {self.batch}")
        self.text.put("for j in range(offsets[-1]):", f"    if {slopes}[j] != 0.0:")
        if not self.linear:
            self.text.put(f"        {m}[np.uint64(pair), j] += {share} * {slopes}[j]")
            return
        i, row, f = self.text.fresh(), self.text.fresh(), self.text.fresh()
        self.text.put(
            f"        for {i} in range(np.uint64(pair) * n_active, np.uint64(pair + 1) * n_active):",
            f"            {row} = np.uint64(columns[{i}])",
            f"            for {f} in range(j * n_active, (j + np.uint64(1)) * n_active):",
            f"                {m}[{row}, np.uint64(columns[{f}])] += {share} * {slopes}[j] * values[{i}] * values[{f}]",
        )

    def _target_slopes(self, again: bool, q: Value) -> str:
        """The array over the pairs of the derivative of the target in their values, its sum over the draws."""
        x = "operator.states[np.uint64(pair)]"
        lines, own, _ = self._tables(q, q, ("ahead", x))
        of_states, slopes = (self.text.array("np.zeros(model.successors.shape[0])") for _ in range(2))
        self.text.put(f"{slopes}[:] = 0.0")
        if self.operator.scalar != "none":
            self.text.put(f"common_slopes({own}, offsets, operator, {slopes})")
            self.text.put(*[f"{slopes} *= {self.batch}"] * (self.batch > 1))
        own_state = f"offsets[{x}], offsets[{x} + np.uint64(1)]"
        self._draws(again, [
            *lines,
            f"state_slopes({own}, first, end, operator, {of_states})",
            f"state_slopes({own}, {own_state}, operator, {of_states})",
            f"add_target_slopes({slopes}, 1.0, {of_states}, offsets, np.uint64(pair), ahead, operator)",
        ])  # fmt: skip
        return slopes

    # --- follow -----------------------------------------------------------------------------------------------------

    def _follow(self, node: Any, again: bool, later: Value, q: Value) -> None:
        name = f"moved_{later.code}_{q.code}"
        whole = ["for p in range(n):", f"    {later.at('p')} = {q.at('p')}"]
        if name not in self._plan():
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
        if self.followed is None:
            self.followed = single_followers(self.text)
        return self.followed
