"""Writes docs/c-operators.md: which operators of LiteRT have a form in C, and of which numbers.

python docs/_make_c_table.py
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from thinflow.lower.c.forms import REFUSED, codes, forms_of  # noqa: E402
from thinflow.lower.c.operators.array import ANY  # noqa: E402
from thinflow.tflite import schema  # noqa: E402

PAGE = Path(__file__).with_name("c-operators.md")

INTRODUCTION = """# Operators in C

What [plain C](c.md) has of LiteRT's operators, by the element type of their first input; each answers as
LiteRT's reference kernel does, integers to the last bit. Where that is a size, a place or a truth, the
numbers themselves may be of any type. `any` is bool, float, and integers of 8 to 64 bits.

"""

ELSEWHERE = {
    "BROADCAST_ARGS": "computed when the C is written, as sizes are known then",
    "CALL": "what it calls is written in place",
    "CALL_ONCE": "what it fills is what variables begin with",
    "DENSIFY": "computed when the C is written",
    "IF": "a branch of C",
    "RANGE": "computed when the C is written, as sizes are known then",
    "RANK": "computed when the C is written, as sizes are known then",
    "VAR_HANDLE": "a member of the struct of states",
    "WHILE": "a loop of C",
}
"""Operators that C has without a form."""
MISSING = {**REFUSED, "CUSTOM": "see below"}
"""Operators that C has not -> why; those of StableHLO are told in a sentence."""


def page() -> str:
    """The page, from the forms that there are."""
    names = [name for name in sorted(schema.OP_CODES) if not name.startswith("STABLEHLO")]
    rows = [_row(name) for name in names]
    have = sum(name in codes() or name in ELSEWHERE for name in names)
    custom = [
        name for name in codes() if not name.isupper() and name not in ("AudioFeatures", "StreamWindow")
    ]
    stablehlo = [name for name in codes() if name.startswith("STABLEHLO")]
    parts = [INTRODUCTION, f"Of {len(names)} builtin operators C has {have}.\n"]
    parts += ["\n| operator | numbers |\n|---|---|\n", *rows, "\n## Others\n\n"]
    parts += [
        f"Of custom operators C has {', '.join(f'`{name}`' for name in custom)}. Of those of StableHLO\n",
        f"it has {', '.join(f'`{name}`' for name in stablehlo)},\n",
        "and composites, which are written in place. LiteRT has kernels for few others: gathers, scatters,\n",
        "random bits, cases and windows that reduce with a subgraph; these have no form.\n",
    ]
    return "".join(parts)


def _row(name: str) -> str:
    if name in codes():
        types = {kind for form in forms_of(name) for kind in form.types}
        everything = set(ANY.split())
        told = ["any", *sorted(types - everything)] if everything <= types else sorted(types)
        return f"| `{name}` | {', '.join(told)} |\n"
    return f"| `{name}` | {ELSEWHERE.get(name) or 'no: ' + MISSING[name]} |\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
