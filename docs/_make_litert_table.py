"""Writes docs/litert-read.md: what becomes of each operator of LiteRT that a file may hold.

python docs/_make_litert_table.py
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from thinflow.lift.rules import rules  # noqa: E402
from thinflow.tflite import schema  # noqa: E402
from thinflow.tflite.counterparts import Kind, same_in_tensorflow  # noqa: E402

PAGE = Path(__file__).with_name("litert-read.md")
CUSTOM = "tfl.custom."

INTRODUCTION = """# LiteRT operators that are read

`thinflow.load` puts the operators of a `.tflite` file into TensorFlow's ops, see
[Files](files.md#litert-and-onnx-models). A file with an operator that is refused, or with an option of one
that nobody here has looked at, is still inspected, compared and run by LiteRT itself. The name of an op: the
operator is that op of TensorFlow; `lifted`: it becomes one or several.

"""

REFUSED = {
    "CONCAT_EMBEDDINGS": "LiteRT has no kernel for it",
    "CUSTOM": "see below",
    "DELEGATE": "a mark of the format, no operator",
    "HASHTABLE_IMPORT": "read together with its `HASHTABLE`, in the subgraph of `CALL_ONCE`",
    "LSH_PROJECTION": "no op of TensorFlow computes it",
    "PLACEHOLDER_FOR_GREATER_OP_CODES": "a mark of the format, no operator",
    "SKIP_GRAM": "no op of TensorFlow computes it",
    "STABLEHLO_CONVOLUTION": "LiteRT has no kernel for it",
    "STABLEHLO_CUSTOM_CALL": "what it calls is not in the file",
    "STABLEHLO_RNG_BIT_GENERATOR": "its state of random bits is no state of TensorFlow's",
    "STABLEHLO_SORT": "LiteRT has no kernel for it",
}
"""Operators without a rule of their own -> why."""
LIMITS = {
    "BIDIRECTIONAL_SEQUENCE_LSTM": "not with an auxiliary input",
    "BIDIRECTIONAL_SEQUENCE_RNN": "not with an auxiliary input",
    "CALL_ONCE": "may fill variables and tables, and do nothing else",
    "EMBEDDING_LOOKUP_SPARSE": "the shape of the sparse matrix is a constant",
    "FULLY_CONNECTED": "not with shuffled weights",
    "HASHTABLE_LOOKUP": "not of text",
    "LSTM": "of eight bits with gates of 16, exact to the bit, and out again",
    "NON_MAX_SUPPRESSION_V5": "not with sigma, where LiteRT drops boxes as well as lowering scores",
    "STABLEHLO_REDUCE": "of one operand, by one elementwise op",
    "STABLEHLO_REDUCE_WINDOW": "by one elementwise op",
    "STABLEHLO_SCATTER": "of single places, not of windows",
    "STRIDED_SLICE": "not with ends counted from begins",
    "SVDF": "of eight bits, too, exact to the bit, and out again",
    "UNIDIRECTIONAL_SEQUENCE_LSTM": "of eight bits with gates of 16, too, exact to the bit, and out again",
    "VAR_HANDLE": "not inside of loops and branches",
}
"""What of an operator is refused, or is exact."""


def page() -> str:
    """The page, from the rules that there are."""
    same = {c: op for kind in Kind for c, op in same_in_tensorflow(kind).items()}
    rows = {name: _row(name, same) for name in sorted(schema.OP_CODES)}
    lifted = sum(f"tfl.{name}" in rules() for name in rows)
    custom = sorted(op.removeprefix(CUSTOM) for op in rules() if op.startswith(CUSTOM))
    parts = [INTRODUCTION, f"Of {len(rows)} builtin operators {lifted} are read.\n"]
    parts += ["\n| operator | read | |\n|---|---|---|\n", *rows.values(), "\n## Custom operators\n\n"]
    parts += [
        f"Read are {', '.join(f'`{name}`' for name in custom)}, and `Flex` operators, which hold an op of\n"
    ]
    parts += ["TensorFlow with its attributes. Others are refused by name.\n"]
    return "".join(parts)


def _row(name: str, same: dict[str, str]) -> str:
    if f"tfl.{name}" not in rules():
        return f"| `{name}` | no | {REFUSED[name]} |\n"
    how = f"`{same[name]}`" if name in same else "lifted"
    return f"| `{name}` | {how} | {LIMITS.get(name, '')} |\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
