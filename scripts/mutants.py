"""Tests the tests: changes one thing in a source file, and looks whether a test notices.

    make mutants BASE=origin/main                      the files that changed since
    make mutants FILES="src/thinflow/ops/identity.py"  these files
    make mutants FILES=... ARGS="--count 100 --seed 2"

The changes are cosmic-ray's (operators, comparisons, constants, conditions), and calls that are left out.
They are made in a copy of the project, so the working tree is never touched and may be edited meanwhile. Of
each file a seeded sample is tried, with the tests that mirror it or name its module: a whole run for each
change would take days. A change that no test notices is printed; the exit code is 1 then. Some are as good as
the original; the others miss a test.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = Path("src/thinflow")
MOST_TEST_FILES = 6
_ALIKE = ("_Is_Eq", "_IsNot_NotEq", "_Eq_Is", "_NotEq_IsNot")
"""Operators whose change hardly ever changes an answer: `x is None` and `x == None`."""


@dataclass(frozen=True)
class Mutant:
    """One change of a file.

    Attributes:
        what: the kind of change.
        code: the file with it.
    """

    what: str
    code: str


def mutants(code: str) -> list[Mutant]:
    """Every change of a file that may change what it does: none in annotations and docstrings."""
    original = _meaning(code)
    found: dict[str, Mutant] = {}
    for mutant in (*_by_cosmic_ray(code), *_without_calls(code)):
        try:
            meaning = _meaning(mutant.code)
        except SyntaxError:
            continue
        if meaning != original:
            found.setdefault(meaning, mutant)
    return list(found.values())


def _by_cosmic_ray(code: str) -> Iterator[Mutant]:
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator, operator_names

    for name in operator_names():
        if name.endswith(_ALIKE):
            continue
        try:
            operator = get_operator(name)()
        except TypeError:  # it takes arguments, such as names to replace
            continue
        for occurrence in range(10_000):
            changed = mutate_code(code, operator, occurrence)
            if changed is None:
                break
            yield Mutant(name.rpartition("/")[2], changed)


def _without_calls(code: str) -> Iterator[Mutant]:
    """The file without one call that stands as a statement, such as `file.flush()`."""
    lines = code.splitlines(keepends=True)
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            first, last = node.lineno - 1, node.end_lineno or node.lineno
            kept = [*lines[:first], f"{' ' * node.col_offset}pass\n", *lines[last:]]
            yield Mutant("call left out", "".join(kept))


class _Meaning(ast.NodeTransformer):
    """Takes out what a program does not run."""

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant(None)
        return self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        return ast.Pass() if isinstance(node.value, ast.Constant) else self.generic_visit(node)


def _meaning(code: str) -> str:
    return ast.dump(_Meaning().visit(ast.parse(code)))


def tests_of(source: Path) -> list[str]:
    """The test files of a source file: those that name its module, else those of the folder that mirrors it.

    Args:
        source: relative to the project.
    """
    module = ".".join(source.with_suffix("").parts[1:]).removesuffix(".__init__")
    stem = source.stem.strip("_")
    beside = Path("tests", *source.parent.relative_to(SOURCES).parts)
    everywhere = [p for p in sorted((ROOT / "tests").rglob("test_*.py")) if "oracle" not in p.parts]
    named = [p for p in everywhere if p.stem == f"test_{stem}" or _names(p, module)]
    mirrored = [p for p in everywhere if p.is_relative_to(ROOT / beside)]
    chosen = sorted(named, key=lambda p: (p.stem != f"test_{stem}", p.stat().st_size)) or mirrored
    return [str(p.relative_to(ROOT)) for p in chosen[:MOST_TEST_FILES]]


def _names(test: Path, module: str) -> bool:
    text = test.read_text("utf-8")
    package, _, name = module.rpartition(".")
    listed = rf"from {re.escape(package)} import (\([^)]*|[^\n]*)\b{re.escape(name)}\b"
    return f"{module} import" in text or f"import {module}" in text or bool(re.search(listed, text))


def survivors(source: Path, count: int, seed: int, seconds: float) -> tuple[int, list[Mutant]]:
    """How many changes were tried, and those that no test noticed.

    Raises:
        RuntimeError: the tests fail without any change, or there are none.
    """
    tests = tests_of(source)
    if not tests:
        raise RuntimeError(f"{source}: no tests are found for it")
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = _copied(Path(folder))
        started = time.monotonic()
        if not _pass(copy, tests, None):
            raise RuntimeError(f"{source}: its tests fail as it is: {' '.join(tests)}")
        limit = 3 * (time.monotonic() - started) + 10
        code = (ROOT / source).read_text("utf-8")
        chosen = mutants(code)
        random.Random(seed).shuffle(chosen)
        left, tried = [], 0
        for mutant in chosen[:count]:
            if time.monotonic() - started > seconds:
                break
            (copy / source).write_text(mutant.code, "utf-8")
            tried += 1
            if _pass(copy, tests, limit):
                left.append(mutant)
        return tried, left


def _copied(folder: Path) -> Path:
    """The project's own files in another folder, with what is changed and not committed."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():  # docs, too: tests compare them with the sources
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def _pass(copy: Path, tests: Sequence[str], limit: float | None) -> bool:
    """Whether the tests pass in the copy; one that never ends has noticed."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, timeout=limit, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def changed_since(base: str) -> list[Path]:
    """Source files that differ from where this branch left `base`."""
    found = subprocess.run(
        ["git", "diff", "--name-only", "--diff-filter=d", f"{base}...", "--", str(SOURCES)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [Path(name) for name in found.stdout.splitlines() if name.endswith(".py")]


def _told(source: Path, mutant: Mutant) -> str:
    before = (ROOT / source).read_text("utf-8").splitlines()
    lines = list(difflib.unified_diff(before, mutant.code.splitlines(), lineterm="", n=0))[2:]
    return "\n".join(f"    {line}" for line in [mutant.what, *lines])


def main(argv: Sequence[str] | None = None) -> int:
    p = argparse.ArgumentParser(description="tests the tests, by changes that they should notice")
    p.add_argument("files", nargs="*", help="source files; default: those that changed since --base")
    p.add_argument("--base", default="origin/main", help="what the files have changed since")
    p.add_argument("--count", type=int, default=40, help="changes to try in each file (default 40)")
    p.add_argument("--seed", type=int, default=0, help="which ones")
    p.add_argument("--seconds", type=float, default=900, help="at most for each file (default 900)")
    args = p.parse_args(argv)
    total = missed = 0
    for source in [Path(f) for f in args.files] or changed_since(args.base):
        try:
            tried, left = survivors(source, args.count, args.seed, args.seconds)
        except RuntimeError as error:
            print(f"skipped  {error}", flush=True)
            continue
        total, missed = total + tried, missed + len(left)
        print(f"{tried - len(left):3} of {tried:3} noticed  {source}", flush=True)
        for mutant in left:
            print(_told(source, mutant), flush=True)
    print(f"{missed} of {total} changes went unnoticed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
