"""Writes docs/onnx-operators.md: what becomes of each operator of ONNX that a file may hold.

python docs/_make_onnx_table.py

It takes the package onnx for the version of the standard that is known here: which operators there are, since
when, and which of them the standard defines by others.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from thinflow.analysis.foreign import NEWEST_OPSET  # noqa: E402
from thinflow.ir.vocabulary import ONNX  # noqa: E402
from thinflow.lift.rules import rules  # noqa: E402

PAGE = Path(__file__).with_name("onnx-operators.md")
RUNTIMES_OWN = "com.microsoft."

INTRODUCTION = f"""# ONNX operators that are read

`thinflow.load` puts the operators of an `.onnx` file into TensorFlow's ops, see [Start from any
model](any-model.md#what-an-onnx-file-may-hold). Files of opset 1 to {NEWEST_OPSET} are read; a newer one is
refused with its version. Which operators a file holds is told by `thinflow inspect model.onnx`.

- `versions`: the opsets in which its definition changed.
- `rule`: the operator becomes one or several ops of TensorFlow.
- `definition`: the standard defines it by simpler operators, which are read in its place. The definitions
  come with the package `onnx` (`pip install 'thinflow[onnx]'`).
- `no`: it is refused by its name and node. The rest can still be had: `--outputs` in front of it. The file
  itself is inspected, and run by ONNX Runtime.

The last column says what is asked for, or what is refused. Many rules take open sizes; one that needs a size
says which, and `--shape` gives it. Axes, scales and numbers of parts are constants mostly, or follow from
sizes that are known. An option or operand that nobody here has looked at is refused by its name. Functions
that the model itself defines need no rule.

"""
OWN = """
## ONNX Runtime's own operators

Its optimizer writes them into files, and so do quantizers and exporters of transformers; those without a
domain were written by converters before opset 10. Those of `com.microsoft` that are not in the list are
refused by name.

"""

RANDOM = "draws random numbers, of which each runtime has its own"
TRAINING = "a step of training"
KERNEL = "over one to three axes"
SEQUENCE = "which tensors are in it follows from the file, and it is no input or output of the model"
REFUSED = {
    "Bernoulli": RANDOM,
    "ImageDecoder": "decode pictures before they are fed",
    "Multinomial": RANDOM,
    "RandomNormal": RANDOM,
    "RandomNormalLike": RANDOM,
    "RandomUniform": RANDOM,
    "RandomUniformLike": RANDOM,
    "ai.onnx.ml.CastMap": "TensorFlow has no dictionaries",
    "ai.onnx.ml.DictVectorizer": "TensorFlow has no dictionaries",
    "ai.onnx.ml.ZipMap": "gives dictionaries; export with `zipmap=False`, or cut it off by `--outputs`",
    "ai.onnx.preview.training.Adagrad": TRAINING,
    "ai.onnx.preview.training.Adam": TRAINING,
    "ai.onnx.preview.training.Gradient": TRAINING,
    "ai.onnx.preview.training.Momentum": TRAINING,
}
"""Operators that are not read -> why."""
LIMITS = {
    "AffineGrid": "to known sizes",
    "AveragePool": KERNEL,
    "BatchNormalization": "not in training mode",
    "BitCast": "not of types below a byte",
    "Cast": "not to `float8e8m0`; of numbers only whole ones become texts",
    "CastLike": "not to `float8e8m0`; of numbers only whole ones become texts",
    "Col2Im": KERNEL,
    "ConcatFromSequence": SEQUENCE,
    "Conv": KERNEL,
    "ConvTranspose": KERNEL,
    "DeformConv": "over pictures, weights and result of known sizes",
    "Dropout": "not in training mode",
    "GlobalLpPool": "an exponent above 0",
    "Loop": "one that carries a sequence iterates a known number of times",
    "LpPool": f"{KERNEL}, an exponent above 0",
    "MaxPool": f"{KERNEL}; places of maxima at known sizes",
    "MaxUnpool": "a stated size only where its input's is known",
    "MelWeightMatrix": "of constants",
    "NonMaxSuppression": "known numbers of pictures and classes, up to 1,024 classes in all",
    "Optional": SEQUENCE,
    "OptionalGetElement": SEQUENCE,
    "OptionalHasElement": SEQUENCE,
    "Pad": "an axis that is mirrored more than once has a known size",
    "QuantizeLinear": "to floats of eight bits with `saturate`; known sizes where blocks have scales",
    "DequantizeLinear": "known sizes where blocks have scales",
    "Resize": "`cubic` and antialiasing at known sizes",
    "STFT": "a known length and step of frames",
    "Scan": "in version 8 a known batch up to 64, and no lengths of single sequences",
    "SequenceAt": f"{SEQUENCE}; a computed position among tensors of one size",
    "SequenceConstruct": SEQUENCE,
    "SequenceEmpty": SEQUENCE,
    "SequenceErase": SEQUENCE,
    "SequenceInsert": SEQUENCE,
    "SequenceLength": SEQUENCE,
    "SequenceMap": SEQUENCE,
    "SplitToSequence": SEQUENCE,
    "StringNormalizer": "letters of an English locale, or of none",
    "TfIdfVectorizer": "up to 16 items, gaps up to 64",
    "Unique": "in order: no texts, slices of up to 64 numbers",
    "Upsample": "from version 7 on",
    "ai.onnx.ml.LabelEncoder": "up to 65,536 keys, of the type of the input",
    "ai.onnx.ml.LinearClassifier": "coefficients for each of its classes",
    "ai.onnx.ml.OneHotEncoder": "not with `zeros=0`, which fails at an unknown category",
    "ai.onnx.ml.SVMClassifier": "with support vectors, up to 32 classes",
    "ai.onnx.ml.SVMRegressor": "with support vectors",
    "ai.onnx.ml.TreeEnsemble": "up to 128 steps deep",
    "ai.onnx.ml.TreeEnsembleClassifier": "up to 128 steps deep; every class has a vote in each case",
    "ai.onnx.ml.TreeEnsembleRegressor": "up to 128 steps deep",
    "com.microsoft.Attention": "not with `do_rotary` or `past_present_share_buffer`",
    "com.microsoft.BiasSoftmax": "a bias of the rank of what it is added to",
    "com.microsoft.CDist": "`euclidean` and `sqeuclidean`",
    "com.microsoft.DynamicQuantizeLSTM": "as on one thread; on several, rows get ranges of their own",
    "com.microsoft.EmbedLayerNormalization": "`mask_index_type` 0",
    "com.microsoft.FusedMatMulActivation": "Softmax along the last axis",
    "com.microsoft.GatherBlockQuantized": "integers; not along the axis of its blocks",
    "com.microsoft.GroupQueryAttention": "no quantized or windowed cache",
    "com.microsoft.MatMulNBits": "2, 4 or 8 bits; no groups of columns",
    "com.microsoft.MultiHeadAttention": "not with `past_sequence_length` or `cache_indirection`",
    "com.microsoft.QAttention": "not with `do_rotary` or `past_present_share_buffer`",
    "com.microsoft.RotaryEmbedding": "not with `is_packed_batching`",
    "com.microsoft.SkipSimplifiedLayerNormalization": "its mean is not read",
}
"""What of an operator is refused, or is asked for."""


def standard() -> dict[str, dict[str, tuple[list[int], bool]]]:
    """Domain -> name in a file's graph -> versions, and whether the newest is defined by others."""
    from onnx import defs

    versions = defaultdict(list)
    for schema in defs.get_all_schemas_with_history():
        versions[schema.domain, schema.name].append(schema)
    found: dict[str, dict[str, tuple[list[int], bool]]] = defaultdict(dict)
    for (domain, name), schemas in sorted(versions.items()):
        schemas.sort(key=lambda s: s.since_version)
        newest = schemas[-1]
        is_defined = newest.has_function or newest.has_context_dependent_function
        key = f"{domain}.{name}" if domain else name
        found[domain][key] = [s.since_version for s in schemas], is_defined
    return found


def known() -> set[str]:
    """Operators with a rule."""
    return {op.removeprefix(ONNX.prefix) for op in rules() if op.startswith(ONNX.prefix)}


def how(name: str, *, is_defined: bool) -> str:
    """What becomes of an operator: `rule`, `definition` or `no`."""
    if name in REFUSED:
        return "no"
    return "rule" if name in known() else "definition" if is_defined else "no"


def page() -> str:
    """The page, from the rules that there are and the standard."""
    domains = standard()
    ways = [how(name, is_defined=d) for ops in domains.values() for name, (_, d) in ops.items()]
    parts = [
        INTRODUCTION,
        f"Of {len(ways)} operators of the standard {ways.count('rule')} are read by a rule, "
        f"{ways.count('definition')} by\ntheir definition; {ways.count('no')} are refused.\n",
    ]
    for domain, ops in domains.items():
        parts.append(f"\n## {domain or 'ai.onnx'}\n\n| operator | versions | read | |\n|---|---|---|---|\n")
        parts += [_row(name, domain, *facts) for name, facts in ops.items()]
    own = sorted(known() - set(REFUSED) - {name for ops in domains.values() for name in ops})
    parts += [OWN, "| operator | |\n|---|---|\n"]
    parts += [f"| `{name}` | {LIMITS.get(name, '')} |\n" for name in own]
    return "".join(parts)


def _row(name: str, domain: str, versions: list[int], is_defined: bool) -> str:
    said = REFUSED.get(name) or LIMITS.get(name, "")
    shown = name.removeprefix(f"{domain}.") if domain else name
    since = ", ".join(map(str, versions))
    return f"| `{shown}` | {since} | {how(name, is_defined=is_defined)} | {said} |\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
