"""Writes docs/lint/, a page for each rule of the linter and a list of them, from the rules themselves.

    python docs/_make_lint.py

What a rule is about is its docstring. The example is the first of its cases, a graph as text, and what
`thinflow lint` says of it now.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import thinflow
from tests.lint.cases import LintCase, cases
from thinflow.lint.rules import THEMES, Rule, rules
from thinflow.lint.words import wrapped

FOLDER = Path(__file__).with_name("lint")
LIST = "index.md"
_ABOUT_FILES = (
    "It looks at operators of a .tflite file or at samples, of which no graph as text could be an example."
)


def pages() -> dict[str, str]:
    """File name -> text of each page."""
    examples: dict[str, LintCase] = {}
    for case in cases():
        examples.setdefault(case.code, case)
    known = rules()
    return {LIST: _list(known)} | {f"{one.code}.md": _page(one, examples.get(one.code)) for one in known}


def _list(known: list[Rule]) -> str:
    parts = [
        "# Rules of the linter",
        "[Lint](../lint.md) tells how to choose among them. `thinflow lint --explain CODE` says the same as"
        " these pages.",
    ]
    for prefix, theme in THEMES.items():
        rows = ["| code | name | severity | |", "|---|---|---|---|"]
        rows += [
            f"| [{one.code}]({one.code}.md) | `{one.name}` | {one.severity} | {one.title.rstrip('.')} |"
            for one in known
            if one.code.startswith(prefix)
        ]
        parts += [f"## {prefix}: {theme}", "\n".join(rows)]
    return "\n\n".join(parts) + "\n"


def _page(one: Rule, example: LintCase | None) -> str:
    runs = [
        "It looks at values of runs: give samples with `--calibration`, or let it run on made-up inputs with"
        " `--synthetic`."
    ]
    said = [f"**{head}:**{rest}" for head, _, rest in (text.partition(":") for text in one.paragraphs[1:])]
    parts = [
        f"# {one.code} {one.name}",
        one.title,
        f"Severity: {one.severity}. Theme: {THEMES[one.code[:3]]}.",
        *said,
        *(runs if one.needs_runs else []),
        "## Example" if example is not None else _ABOUT_FILES,
        *(_example(example) if example is not None else []),
    ]
    lines = [line for part in parts for line in ["", *_broken(part)]]
    return "\n".join(lines[1:]) + "\n"


def _broken(part: str) -> list[str]:
    """A paragraph in lines; code as it is."""
    return part.split("\n") if part.startswith(("```", "#")) else wrapped(part, later="")


def _example(case: LintCase) -> list[str]:
    report = case.report()
    report.skipped = {}
    flags = " --synthetic" if "synthetic" in case.options else ""
    return [
        f"Of {case.name}:",
        f"```text\n{case.before.rstrip()}\n```",
        f"`thinflow lint --select {case.code}{flags}` says:",
        "```text\n" + "\n".join(report.lines(everything=True)) + "\n```",
    ]


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    found = pages()
    for old in set(FOLDER.glob("*.md")) - {FOLDER / name for name in found}:
        old.unlink()
    for name, text in found.items():
        (FOLDER / name).write_text(text, "utf-8")
    print(f"{len(found)} pages; thinflow {thinflow.__version__}")
