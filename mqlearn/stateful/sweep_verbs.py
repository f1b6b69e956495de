"""The verbs with one transition of every pair: loops over all pairs."""

from typing import Any

from mqlearn.stateful.values import PAIRS, Value
from mqlearn.stateful.verbs import Verbs


class SweepVerbs(Verbs):
    """All pairs at once: numbers are those of pair p, `y` and `r` are arrays over the pairs."""

    single = False

    def _ahead(self, q: Value, by: Value) -> str:
        """The array over the states of V, of q's value at the greedy action of `by` for Bellman's operator."""
        to = self.text.array("np.zeros(n_states)")
        if not self.plain:
            self.text.put(f"table_values({q.whole}, {by.whole}, offsets, operator, {to})")
        elif q.code == by.code:
            self.text.put(f"largest_values({q.whole}, offsets, fours, {to})")
        else:
            self.text.put(f"greedy_values({q.whole}, {by.whole}, offsets, fours, {to})")
        return to

    def _greedy(self, by: Value) -> str:
        """The array over the states of the greedy pairs, -1 for terminal states."""
        to = self.text.array("np.empty(n_states, np.int64)")
        self.text.put(f"greedy_pairs({by.whole}, offsets, {to})")
        return to

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
        if not self.plain:
            v, s = self._ahead(q, by), self.text.fresh()
            self.text.put(f"{s} = scalar_of({q.whole}, {v}, offsets, operator)")
            own = f"target(operator, 0.0, 0.0, {v}[operator.states[p]], {q.at('p')}, {s})"
            return self._mean(f"(target(operator, {{r}}, {v}[{{y}}], 0.0, 0.0, 0.0) + {own})", again)
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
        share, m = self.text.fresh(), matrix.whole
        self.text.put(f"{share} = {weight.code}" + (f" / {self.batch}" if self.batch > 1 else ""))
        if not self.plain:
            slopes, common = self._slopes(q)
            self._over_draws(again, f"{self._target_slopes(f'{m}[p]', share, slopes)}\n{m}[p, p] -= {share}")
            if common:
                self.text.over_entries(f"{m}[p] += {weight.code} * {common}")
            return
        greedy = self._greedy(q)
        ahead = f"j = {greedy}[{{state}}]\nif j >= 0:\n    {m}[p, j] += {share} * discount\n{m}[p, p] -= {share}"
        self._over_draws(again, ahead)

    def _add_gradient(self, node: Any, again: bool, q: Value, weight: Value, change: Value, by: Value) -> None:
        if self.plain:
            self._add_best(node, again, q, Value(PAIRS, f"({weight.entry} * discount * {change.entry})"), by)
            return
        slopes, common = self._slopes(by)
        share = self.text.kept(Value(PAIRS, f"({weight.entry} * {change.entry} / {self.batch})"))
        self._over_draws(again, self._target_slopes(q.whole, share.entry, slopes))
        if common:
            total = self.text.fresh()
            self.text.put(f"{total} = 0.0")
            self.text.over_entries(f"{total} += {self.batch} * {share.entry}")
            self.text.over_entries(f"{q.at('p')} += {total} * {common}[p]")

    def _slopes(self, q: Value) -> tuple[str, str]:
        """The arrays over the pairs of dV and, if there is s, of common ds, both before anything is written."""
        slopes = self.text.array()
        place = f"{q.whole}, offsets[x], offsets[x + np.uint64(1)], operator, {slopes}"
        self.text.put("for x in range(np.uint64(n_states)):", f"    state_slopes({place})")
        if self.operator.scalar == "none":
            return slopes, ""
        common = self.text.array()
        self.text.put(f"common_slopes({q.whole}, offsets, operator, {common})")
        return slopes, common

    def _target_slopes(self, to: str, factor: str, slopes: str) -> str:
        """A line for `_over_draws`: to += factor times the target's derivative of pair p, but for s."""
        return f"add_target_slopes({to}, {factor}, {slopes}, offsets, np.uint64(p), np.uint64({{state}}), operator)"
