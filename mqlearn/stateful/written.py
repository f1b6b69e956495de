"""What a step writes, read off its text: which tables change by verbs alone, entry by entry."""

import ast

from mqlearn.stateful.text import Text


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
            elif verb[0] in ("add", "move", "add_best", "follow", "add_gradient"):
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


def single_followers(text: Text) -> list[str]:
    pairs, touched = _touched(text)
    row = {name: str(i) for i, name in enumerate(text.tables)}
    chosen = []
    for later, q in pairs:
        once = sum(later in pair for pair in pairs) == 1 and later in row and q in row
        later_free = later not in touched and "?" not in touched and f"whole {later}" not in touched
        if once and later_free and f"whole {q}" not in touched and "whole ?" not in touched:
            chosen.append(f"moved_{row[later]}_{row[q]}")
    return chosen
