"""Measures how the sources hang together: the figures of the plan for them, beside what they are to become.

    python scripts/house.py              # the table
    python scripts/house.py --list       # what each figure counts, one a line
    python scripts/house.py --tighten    # after an improvement: tests/house.json allows no more than there is

`tests/test_house.py` fails when a figure gets worse than `tests/house.json` allows.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "thinflow"
LIMITS = ROOT / "tests" / "house.json"
_ENOUGH = 2
"""So many names of ops make a constant a table of them."""


@dataclass(frozen=True)
class Figure:
    """One row of the table.

    Attributes:
        key: in the file of limits.
        what: in words.
        goal: what it is to become, at most; at least if `more_is_better`.
        items: what is counted, for whoever wants to lower it; empty where that is no list.
    """

    key: str
    what: str
    value: float
    goal: float
    items: Sequence[str] = ()
    more_is_better: bool = False

    def is_within(self, limit: float) -> bool:
        """Whether it is no worse than a limit."""
        return self.value >= limit if self.more_is_better else self.value <= limit

    @property
    def is_reached(self) -> bool:
        return self.is_within(self.goal)


class House:
    """The sources of the package, each parsed once."""

    def __init__(self, package: Path = PACKAGE) -> None:
        self.package = package
        self.texts = {self._module(f): f.read_text("utf-8") for f in sorted(package.rglob("*.py"))}
        self.trees = {module: ast.parse(text) for module, text in self.texts.items()}

    def _module(self, file: Path) -> str:
        parts = [self.package.name, *file.relative_to(self.package).with_suffix("").parts]
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @cached_property
    def imports(self) -> dict[str, set[str]]:
        """Module -> modules of the package that it imports anywhere, late and for type checkers included."""
        return {module: set(self._imported(module)) - {module} for module in self.trees}

    def _imported(self, module: str) -> Iterator[str]:
        for node in ast.walk(self.trees[module]):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            else:
                continue
            for name in names:
                if found := self._owner(name):
                    yield found

    def _owner(self, name: str) -> str | None:
        """The module that a dotted name is, or is a part of."""
        while name and name not in self.trees:
            name = name.rpartition(".")[0]
        return name or None

    @cached_property
    def arrows(self) -> dict[str, set[str]]:
        """Part at the top level -> the parts it imports; the package's own file is a part, too.

        `typing` is left out as an end: names of types tie nothing together, and all may use them.
        """
        found: dict[str, set[str]] = defaultdict(set)
        for module, imported in self.imports.items():
            found[self._part(module)] |= {self._part(name) for name in imported}
        return {part: others - {part, "typing"} for part, others in sorted(found.items())}

    def _part(self, module: str) -> str:
        return [*module.split("."), module][1]

    @cached_property
    def tables(self) -> dict[str, frozenset[str]]:
        """`module.NAME` -> the op names in a constant of that name, outside `ops/` and what is data."""
        known = self._op_names()
        found = {}
        for module, tree in self.trees.items():
            if self._part(module) == "ops":
                continue
            for name, value in _constants(tree):
                if len(ops := _strings(value) & known) >= _ENOUGH:
                    found[f"{module}.{name}"] = frozenset(ops)
        return found

    def _op_names(self) -> set[str]:
        """What the classes in `ops/` say they are, by their decorators."""
        return {
            argument.value
            for module, tree in self.trees.items()
            if self._part(module) == "ops"
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "op"
            for argument in node.args
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
        }

    def copies(self) -> list[str]:
        """Tables with the same names, and where they stand; two in one file are no copies."""
        where: dict[frozenset[str], list[str]] = defaultdict(list)
        for place, ops in self.tables.items():
            where[ops].append(place)
        return [
            f"{', '.join(sorted(ops))}: {' '.join(places)}"
            for ops, places in where.items()
            if len({place.rpartition(".")[0] for place in places}) > 1
        ]

    def declarative(self) -> list[str]:
        """Transforms and fusers that are a pattern, a check and a replacement."""
        found = []
        for module, tree in self.trees.items():
            rewrites = {"Rewrite"} if self._part(module) in ("transforms", "lower") else set()
            for node in tree.body:
                if isinstance(node, ast.ClassDef) and rewrites & {ast.unparse(base) for base in node.bases}:
                    # A class of the same file may derive from it in turn.
                    rewrites.add(node.name)
                    found.append(f"{module}.{node.name}")
        return found

    def transforms(self) -> int:
        """How many there are; a file may hold several."""
        mine = [text for module, text in self.texts.items() if self._part(module) == "transforms"]
        return sum(text.count("\n@transform(") for text in mine)

    def comment_share(self) -> float:
        """Lines that are a comment, in percent of all."""
        lines = [line.lstrip() for text in self.texts.values() for line in text.splitlines()]
        return 100 * sum(line.startswith("#") for line in lines) / len(lines)


def _constants(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Names and values that are assigned when a module is loaded; in its classes, too, but for patterns."""
    for node in [*tree.body, *(n for c in tree.body if isinstance(c, ast.ClassDef) for n in c.body)]:
        if isinstance(node, ast.Assign | ast.AnnAssign) and "pattern" in ast.unparse(node).partition("=")[0]:
            continue
        if isinstance(node, ast.Assign):
            yield from ((ast.unparse(target), node.value) for target in node.targets)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            yield ast.unparse(node.target), node.value


def _strings(value: ast.expr) -> set[str]:
    """The strings in an expression, those of a pattern "A|B" and of a list "A B" apart."""
    found = (n.value for n in ast.walk(value) if isinstance(n, ast.Constant) and isinstance(n.value, str))
    return {part for text in found for part in re.split(r"[|\s]+", text)}


def circles(arrows: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Groups of names each of which leads to every other, sorted. O(names + arrows), without recursion."""
    order: list[str] = []
    seen: set[str] = set()
    for start in arrows:
        stack = [(start, iter(arrows.get(start, ())))] if start not in seen else []
        seen.add(start)
        while stack:
            name, rest = stack[-1]
            step = next((n for n in rest if n not in seen), None)
            if step is None:
                order.append(name)
                stack.pop()
            else:
                seen.add(step)
                stack.append((step, iter(arrows.get(step, ()))))
    back: dict[str, list[str]] = defaultdict(list)
    for name, others in arrows.items():
        for other in others:
            back[other].append(name)
    groups, taken = [], set[str]()
    for start in reversed(order):
        group, pending = [], [start]
        while pending:
            name = pending.pop()
            if name not in taken:
                taken.add(name)
                group.append(name)
                pending += back[name]
        if len(group) > 1:
            groups.append(sorted(group))
    return sorted(groups)


def upward(arrows: Mapping[str, set[str]]) -> list[tuple[str, str]]:
    """Few arrows without which no part leads back to itself: those against the best order found.

    Parts are taken away from the ground: one that imports nothing that is left, else the one that imports the
    least of what is left compared with how much of what is left imports it (Eades, Lin, Smyth 1993).
    """
    left, found = dict(sorted(arrows.items())), []
    while left:
        imports = {part: others & left.keys() for part, others in left.items()}
        users = {part: sum(part in others for others in imports.values()) for part in left}
        ground = min(left, key=lambda part: (bool(imports[part]), len(imports[part]) - users[part], part))
        found += [(ground, other) for other in sorted(imports[ground])]
        del left[ground]
    return found


def vague_signatures() -> list[str]:
    """Names of `thinflow.__all__` whose signature has `Any` or takes any keyword."""
    import thinflow

    found = []
    for name in thinflow.__all__:
        item = getattr(thinflow, name)
        if isinstance(item, type) and issubclass(item, BaseException):
            continue
        signature = inspect.signature(item)
        kinds = {p.kind for p in signature.parameters.values()}
        notes = [p.annotation for p in signature.parameters.values()] + [signature.return_annotation]
        if inspect.Parameter.VAR_KEYWORD in kinds or any(re.search(r"\bAny\b", str(n)) for n in notes):
            found.append(name)
    return found


def figures(house: House) -> list[Figure]:
    """The table."""
    arrows = [f"{a} -> {b}" for a, others in house.arrows.items() for b in sorted(others)]
    back = [f"{a} -> {b}" for a, b in upward(house.arrows)]
    rings = [" ".join(group) for group in circles(house.imports)]
    tables = [f"{place}: {', '.join(sorted(ops))}" for place, ops in house.tables.items()]
    lines = sum(text.count("\n") for text in house.texts.values())
    return [
        Figure("parts", "parts at the top level", len(house.arrows), 31, list(house.arrows)),
        Figure("arrows", "arrows between parts", len(arrows), 190, arrows),
        Figure("upward", "arrows that lead back up", len(back), 0, back),
        Figure("circles", "circles of files, late and typing imports counted", len(rings), 0, rings),
        Figure("circle_files", "files in them", sum(len(r.split()) for r in rings), 0),
        Figure("lines", "lines in src", lines, 106_000),
        Figure("files", "files in src", len(house.texts), 640),
        Figure("op_tables", "tables of op names outside ops/", len(tables), 60, tables),
        Figure("op_copies", "exact copies among them", len(copies := house.copies()), 0, copies),
        Figure(
            "declarative",
            f"declarative transforms and fusers (of {house.transforms()} transforms)",
            len(patterns := house.declarative()),
            *(30, patterns, True),
        ),
        Figure("vague", "public names with Any or **", len(vague := vague_signatures()), 0, vague),
        Figure("comments", "comment lines, % of src", round(house.comment_share(), 2), 3, (), True),
    ]


def worse(found: Iterable[Figure], limits: Mapping[str, float]) -> list[str]:
    """What is not as good as the limits ask for, in words."""
    return [
        f"{f.what}: {f.value:g}, allowed {'at least' if f.more_is_better else 'at most'} {limits[f.key]:g}"
        for f in found
        if not f.is_within(limits[f.key])
    ]


def tightened(found: Iterable[Figure], limits: Mapping[str, float]) -> dict[str, float]:
    """Limits that allow no more than there is; none of them becomes looser."""
    return {
        f.key: f.value if f.key not in limits or f.is_within(limits[f.key]) else limits[f.key] for f in found
    }


def read_limits() -> dict[str, float]:
    limits: dict[str, float] = json.loads(LIMITS.read_text("utf-8"))
    return limits


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, the limits beside it; 1 if something is worse than they allow."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--list", action="store_true", help="also print what is counted")
    parser.add_argument("--tighten", action="store_true", help="make the figures of today the limits")
    given = parser.parse_args(arguments)
    found, limits = figures(House()), read_limits() if LIMITS.exists() else {}
    print(f"{'':58}{'today':>10}{'limit':>10}{'goal':>10}")
    for figure in found:
        limit = f"{limits[figure.key]:g}" if figure.key in limits else "-"
        mark = " reached" if figure.is_reached else ""
        print(f"{figure.what:58}{figure.value:>10g}{limit:>10}{figure.goal:>10g}{mark}")
        for item in figure.items if given.list else ():
            print(f"    {item}")
    if given.tighten:
        limits = tightened(found, limits)
        LIMITS.write_text(json.dumps(limits, indent=2) + "\n", "utf-8")
    wrong = worse(found, limits) if limits else []
    print("\n".join(f"worse: {text}" for text in wrong), end="\n" if wrong else "")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
