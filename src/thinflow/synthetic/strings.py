"""Byte strings that what reads them understands: sounds, pictures, records, numbers, what a table knows, else
a few words."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from thinflow.analysis.tables import Content, content_of
from thinflow.errors import ThinflowError
from thinflow.ir.graph import Node, Use, Value, library_of
from thinflow.ir.order import uses_through
from thinflow.ir.types import STRING, DType
from thinflow.ops.traits import Trait, has
from thinflow.synthetic.files import example_maker, synthetic_png, synthetic_wav
from thinflow.synthetic.sequence_messages import sequence_example_maker

Maker = Callable[[np.random.Generator], bytes]

_WORDS = (b"the", b"a", b"small", b"model", b"runs", b"on", b"every", b"phone", b"and", b"board", b"today")


_EDIT = re.compile(r"String(Lower|Strip|Upper)|(Static)?RegexReplace")


def words(rng: np.random.Generator) -> bytes:
    """Two to six words."""
    return b" ".join(rng.choice(_WORDS) for _ in range(rng.integers(2, 7)))


def maker_for(value: Value) -> Maker:
    """The maker of strings for a value, given by who reads them: words if nobody wants anything else."""
    return known_maker(value) or words


def known_maker(value: Value) -> Maker | None:
    """The maker of the strings that the readers of a value want; None if they want none in particular.

    Strings that nobody known reads, but that go into loops or functions, are what those decode.
    """
    makers = (_maker_of_reader(use.node, use.index) for use in uses_through(value, _handed_on))
    return next((m for m in makers if m is not None), None) or _of_anything_inside(value)


def _handed_on(use: Use) -> Sequence[Value]:
    """The strings that an op gives as it got them, in another arrangement or much as they are."""
    op = use.node.op
    if has(op, Trait.TENSOR_ARRAY_WRITE):
        return _read_back(use.node)
    moves = (
        Trait.PASSES_THROUGH | Trait.RESHAPE | Trait.REARRANGES | Trait.STACK | Trait.CONCAT | Trait.GATHER
    )
    is_same = has(op, moves) or _EDIT.fullmatch(op) is not None
    return use.node.outputs if is_same and use.index == 0 else ()


def _read_back(write: Node) -> list[Value]:
    """What is read from the array that a node writes to: TensorFlow 1 maps over strings so."""
    same_array = Trait.PASSES_THROUGH | Trait.ENTER
    array = write.inputs[0]
    while has(array.node.op, same_array):
        array = array.node.inputs[0]

    def same(use: Use) -> Sequence[Value]:
        return use.node.outputs if has(use.node.op, same_array) else ()

    reads = (use.node for use in uses_through(array, same) if use.index == 0)
    return [
        v
        for n in reads
        if has(n.op, Trait.TENSOR_LIST) and not has(n.op, Trait.TENSOR_ARRAY_WRITE)
        for v in n.outputs
    ]


def _maker_of_reader(node: Node, port: int) -> Maker | None:
    if has(node.op, Trait.TABLE_FIND) and port == 1:
        return _key_maker(node)
    if port != 0:
        return None
    if node.op == "DecodeWav":
        samples = node.get("desired_samples", -1)
        return partial(synthetic_wav, samples=samples if isinstance(samples, int) and samples > 0 else 16000)
    if has(node.op, Trait.DECODES_IMAGE):
        return synthetic_png
    if node.op == "DecodeBase64":
        inner = maker_for(node.output())
        # TensorFlow decodes the web-safe alphabet; padding may be left out.
        return lambda rng: base64.urlsafe_b64encode(inner(rng)).rstrip(b"=")
    if node.op == "DecodeRaw":
        return partial(_raw, count=_raw_count(node))
    if node.op == "DecodeCSV":
        return _record_maker(node)
    if node.op == "StringToNumber":
        return _number
    if node.op == "StringSplitV2":
        # Its values; output 0 has the indices.
        word = known_maker(node.output(1))
        return None if word is None else partial(_sentence, word=word)
    if node.op.startswith(("ParseExample", "ParseSingleExample")):
        return example_maker(node, maker_for)
    if node.op.startswith(("ParseSequenceExample", "ParseSingleSequenceExample")):
        return sequence_example_maker(node, maker_for)
    return None


def _key_maker(node: Node) -> Maker | None:
    """The maker of keys of the table in which a node looks up, and now and then of another word."""
    content = content_of(node)
    if not isinstance(content, Content) or content.key is not STRING or not content.items:
        return None
    keys = [k.encode() if isinstance(k, str) else bytes(k) for k in content.items]
    return lambda rng: bytes(keys[n]) if (n := int(rng.integers(len(keys) + 1))) < len(keys) else words(rng)


def _sentence(rng: np.random.Generator, word: Maker) -> bytes:
    return b" ".join(word(rng) for _ in range(rng.integers(2, 7)))


def _record_maker(node: Node) -> Maker:
    """The maker of records with a field for each column, between the marks that DecodeCSV looks for."""
    types, columns = node.get("OUT_TYPE"), node.get("select_cols")
    # One output per column; where columns are selected, the records reach to the last of those.
    count = len(types) if isinstance(types, tuple | list) else len(node.inputs) - 1
    if isinstance(columns, tuple | list) and columns:
        count = max(int(n) for n in columns) + 1
    mark = node.get("field_delim", b",")
    mark = mark.encode() if isinstance(mark, str) else mark
    return lambda rng: mark.join(_number(rng) for _ in range(count))


def _number(rng: np.random.Generator) -> bytes:
    # Small enough for an index into most tables.
    return b"%d" % rng.integers(0, 4)


def _raw(rng: np.random.Generator, count: int) -> bytes:
    return rng.integers(0, 256, count, dtype=np.uint8).tobytes()


def _raw_count(node: Node) -> int:
    """Bytes that DecodeRaw's reader expects, if it says so."""
    element = node.get("out_type")
    size = element.itemsize if isinstance(element, DType) else 1
    for reader in node.output().readers:
        shape = reader.inputs[1].node.tensor if reader.op == "Reshape" else None
        if shape is not None:
            # An open size (-1) counts as 1.
            return size * math.prod(abs(int(n)) for n in shape.numpy().ravel())
    return size


def _of_anything_inside(value: Value) -> Maker | None:
    """The maker of what the bodies decode that a graph calls, if its strings go into one."""
    functions = library_of(value.node)
    if not functions:
        return None
    try:
        nodes = [n for name in functions for n in functions[name].graph]
    except ThinflowError:
        return None
    makers = (m for n in nodes if n.op != "StringToNumber" if (m := _maker_of_reader(n, 0)) is not None)
    by_op = {n.op: n for n in nodes}
    # It comes first wherever it is: what it decodes is what others take apart.
    if "DecodeBase64" in by_op:
        return _maker_of_reader(by_op["DecodeBase64"], 0)
    return next(makers, None)
