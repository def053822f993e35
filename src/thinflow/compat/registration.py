"""Headers of the operations that a model needs, for builds that leave out the rest.

TensorFlow's selective registration takes a C++ header of ops and kernel classes, TFLite Micro an op resolver,
and ONNX Runtime's reduced build a list of operators.
"""

from __future__ import annotations

import functools
import gzip
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

from thinflow.errors import ParameterError, ThinflowError
from thinflow.ir.attrs import Attr
from thinflow.ir.function import reachable
from thinflow.ir.graph import Graph, Node
from thinflow.ir.types import DType, dtype
from thinflow.ops._defaults import defaults_of

# As the original's --default_ops: ops that TensorFlow itself puts into graphs.
DEFAULT_OPS = "NoOp:NoOp,_Recv:RecvOp,_Send:SendOp"
# TensorFlow rewrites it into other ops before it runs.
_WITHOUT_KERNEL = frozenset({"AccumulateNV2"})
_DATA = re.compile(r"kernels-(\d+\.\d+)\.txt\.gz$")


@dataclass(frozen=True, order=True)
class Need:
    """One op and the class of its kernel; "" if it has none."""

    op: str
    kernel: str


@dataclass(frozen=True)
class _Kernel:
    """A kernel for the CPU: the attributes that choose it, and its class."""

    types: Mapping[str, DType]
    kernel: str

    def fits(self, node: Node) -> bool:
        """True if it is the one for a node."""
        # An attribute that is not known speaks against no kernel.
        return all(_type_of(node, name) in (None, element) for name, element in self.types.items())


def _type_of(node: Node, name: str) -> Attr | None:
    """An attribute, or what its absence means; None if that is not known."""
    given = node.attrs.get(name)
    return (defaults_of(node.op) or {}).get(name) if given is None else given


def releases() -> list[str]:
    """The TensorFlow releases whose kernel classes are known, oldest first."""
    names = (entry.name for entry in files("thinflow").joinpath("data").iterdir())
    found = [match[1] for match in map(_DATA.match, names) if match]
    return sorted(found, key=lambda text: tuple(map(int, text.split("."))))


@functools.cache
def _kernels(release: str) -> dict[str, list[_Kernel]]:
    if release not in releases():
        raise ParameterError(
            f"the kernel classes of TensorFlow {release} are not known",
            hint=f"choose {', '.join(releases())}, or --ops_only",
        )
    data = files("thinflow").joinpath(f"data/kernels-{release}.txt.gz").read_bytes()
    table: dict[str, list[_Kernel]] = {}
    for line in gzip.decompress(data).decode().splitlines():
        op, constraints, kernel = line.split("\t")
        # One line per kernel: op, the types it is for, class.
        pairs = (item.split("=") for item in constraints.split(",") if item)
        types = {name: dtype(element) for name, element in pairs}
        table.setdefault(op, []).append(_Kernel(types, kernel))
    return table


def needs_of(
    graph: Graph, *, release: str | None = None, ops_only: bool = False
) -> tuple[list[Need], list[str]]:
    """The ops of a graph and of the functions it calls, with the classes of their kernels.

    Args:
        graph: the graph.
        release: of TensorFlow, such as "2.21"; default: the newest known.
        ops_only: leave the classes out.

    Returns:
        The needs, sorted and each once; and warnings about nodes that no kernel is known for, which are left
        out.
    """
    table = {} if ops_only else _kernels(release or releases()[-1])
    needs: set[Need] = set()
    warnings: dict[str, str] = {}
    for node in _all_nodes(graph):
        if ops_only or node.op in _WITHOUT_KERNEL:
            needs.add(Need(node.op, ""))
            continue
        kernel = next((k.kernel for k in table.get(node.op, ()) if k.fits(node)), "")
        if kernel:
            needs.add(Need(node.op, kernel))
        else:
            known = "for these types" if node.op in table else "of this name"
            warnings.setdefault(node.op, f"{node.where}: no kernel {known} is known; it is left out")
    return sorted(needs), list(warnings.values())


def _all_nodes(graph: Graph) -> Iterable[Node]:
    # A node that calls a function by its name needs no kernel of its own.
    yield from (n for n in graph if n.op not in graph.functions)
    try:
        names = reachable(graph)
    except ThinflowError:
        names = set(graph.functions)
    for name in sorted(names):
        body = graph.functions[name].graph
        yield from (n for n in body if n.op != "_Arg" and n.op not in graph.functions)


def read_ops_list(text: str, where: str) -> list[Need]:
    """The pairs of an `ops_list`: JSON, [["Op", "KernelClass"], ...].

    Raises:
        ParameterError: it is not written so, or empty.
    """
    try:
        pairs = json.loads(text)
        needs = [Need(str(op), str(kernel or "")) for op, kernel in pairs]
    except (ValueError, TypeError) as e:
        raise ParameterError(
            f"{where} is not a list of pairs of op and kernel class: {e}", hint='write [["Add", "AddOp"]]'
        ) from e
    if not needs:
        raise ParameterError(f"{where} lists no op", hint="give a model, or a list that is not empty")
    return needs


def with_defaults(needs: Iterable[Need], defaults: str) -> list[Need]:
    """The needs with default pairs `Op:Class,...` added.

    Raises:
        ParameterError: a pair is not written so.
    """
    found = set(needs)
    for item in filter(None, (i.strip() for i in defaults.split(","))):
        op, colon, kernel = item.partition(":")
        if not colon:
            raise ParameterError(f"--default_ops: '{item}' is no pair", hint=f"write {DEFAULT_OPS}")
        found.add(Need(op, kernel))
    return sorted(found)


def ops_list(needs: Sequence[Need]) -> str:
    """The needs as JSON, one pair a line."""
    pairs = (json.dumps([need.op, need.kernel or None]) for need in needs)
    return "[" + ",\n ".join(pairs) + "]\n"


# --- the header ---------------------------------------------------------------------------------------------

# C++11 allows a constexpr function a single return: hence the recursion.
_HELPERS = """
namespace thinflow_registration {

// The next character that is no blank: templates are spelled with and without them.
constexpr const char* after_blanks(const char* text) {
  return *text == ' ' ? after_blanks(text + 1) : text;
}

constexpr bool same(const char* a, const char* b) {
  return *after_blanks(a) != *after_blanks(b) ? false
         : *after_blanks(a) == '\\0' ? true
         : same(after_blanks(a) + 1, after_blanks(b) + 1);
}

constexpr bool listed(const char* const names[], int count, const char* name) {
  return count == 0 ? false : same(names[count - 1], name) ? true : listed(names, count - 1, name);
}

}  // namespace thinflow_registration
"""

_EVERYTHING = """
#define SHOULD_REGISTER_OP(op) true
#define SHOULD_REGISTER_OP_KERNEL(clz) true
#define SHOULD_REGISTER_OP_GRADIENT true
"""


def header(needs: Sequence[Need] | None, *, all_kernels: bool = False) -> str:
    """`ops_to_register.h`: what a build with `-DSELECTIVE_REGISTRATION` includes. Plain C++11.

    Args:
        needs: what to register; None: everything.
        all_kernels: register every kernel of the ops.
    """
    body = _EVERYTHING if needs is None else _HELPERS + _lists(needs, all_kernels)
    return (
        "// Written by thinflow print_selective_registration_header.\n"
        f"#ifndef OPS_TO_REGISTER\n#define OPS_TO_REGISTER\n{body}\n#endif  // OPS_TO_REGISTER\n"
    )


def _c_text(name: str) -> str:
    """A name for a string literal in C++. Names come from the file: a quote in one would end the literal."""
    # Three octal digits always, so that a digit behind is not taken for one; a `?` could begin a trigraph.
    plain = (chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else f"\\{b:03o}" for b in name.encode())
    return "".join(plain)


def _lists(needs: Sequence[Need], all_kernels: bool) -> str:
    classes = [need.kernel for need in needs if need.kernel]
    ops = sorted({need.op for need in needs})
    quoted = "\n".join(f'"{_c_text(kernel)}",' for kernel in classes)
    choices = "\n".join(f'      || thinflow_registration::same(op, "{_c_text(op)}")' for op in ops)
    if all_kernels or not classes:
        kernels = "#define SHOULD_REGISTER_OP_KERNEL(clz) true"
    else:
        kernels = (
            f"constexpr const char* kNecessaryOpKernelClasses[] = {{\n{quoted}\n}};\n"
            "#define SHOULD_REGISTER_OP_KERNEL(clz) \\\n"
            f"  (thinflow_registration::listed(kNecessaryOpKernelClasses, {len(classes)}, clz))"
        )
    # Only this op looks gradients up while a graph runs.
    gradient = str("SymbolicGradient" in ops).lower()
    return f"""
{kernels}

constexpr inline bool ShouldRegisterOp(const char op[]) {{
  return false
{choices}
      ;
}}
#define SHOULD_REGISTER_OP(op) ShouldRegisterOp(op)
#define SHOULD_REGISTER_OP_GRADIENT {gradient}
"""


# --- TFLite Micro and ONNX Runtime --------------------------------------------------------------------------

# Builtins whose resolver method is not the name in camel case.
_MICRO_NAMES = {
    "CONV_2D": "Conv2D",
    "DEPTHWISE_CONV_2D": "DepthwiseConv2D",
    "MAX_POOL_2D": "MaxPool2D",
    "AVERAGE_POOL_2D": "AveragePool2D",
    "L2_POOL_2D": "L2Pool2D",
    "L2_NORMALIZATION": "L2Normalization",
    "BATCH_MATMUL": "BatchMatMul",
    "CUMSUM": "CumSum",
    "PADV2": "PadV2",
    "UNIDIRECTIONAL_SEQUENCE_LSTM": "UnidirectionalSequenceLSTM",
}

# What TFLite Micro has kernels for. Source: `micro_mutable_op_resolver.h` of TensorFlow Lite for
# Microcontrollers.
_MICRO_TABLE = """
    ABS ADD ADD_N ARG_MAX ARG_MIN ASSIGN_VARIABLE AVERAGE_POOL_2D BATCH_MATMUL BATCH_TO_SPACE_ND
    BROADCAST_ARGS BROADCAST_TO CALL_ONCE CAST CEIL CONCATENATION CONV_2D COS CUMSUM DEPTH_TO_SPACE
    DEPTHWISE_CONV_2D DEQUANTIZE DIV DYNAMIC_UPDATE_SLICE ELU EMBEDDING_LOOKUP EQUAL EXP EXPAND_DIMS FILL
    FLOOR FLOOR_DIV FLOOR_MOD FULLY_CONNECTED GATHER GATHER_ND GREATER GREATER_EQUAL HARD_SWISH IF
    L2_NORMALIZATION L2_POOL_2D LEAKY_RELU LESS LESS_EQUAL LOG LOG_SOFTMAX LOGICAL_AND LOGICAL_NOT
    LOGICAL_OR LOGISTIC MAX_POOL_2D MAXIMUM MEAN MINIMUM MIRROR_PAD MUL NEG NOT_EQUAL PACK PAD PADV2 PRELU
    QUANTIZE READ_VARIABLE REDUCE_MAX REDUCE_MIN RELU RELU6 RESHAPE RESIZE_BILINEAR
    RESIZE_NEAREST_NEIGHBOR REVERSE_V2 ROUND RSQRT SELECT_V2 SHAPE SIN SLICE SOFTMAX SPACE_TO_BATCH_ND
    SPACE_TO_DEPTH SPLIT SPLIT_V SQRT SQUARE SQUARED_DIFFERENCE SQUEEZE STRIDED_SLICE SUB SUM SVDF TANH
    TRANSPOSE TRANSPOSE_CONV UNIDIRECTIONAL_SEQUENCE_LSTM UNPACK VAR_HANDLE WHILE ZEROS_LIKE
"""
_MICRO_OPS = frozenset(_MICRO_TABLE.split())
_MICRO_CUSTOM = {
    "TFLite_Detection_PostProcess": "DetectionPostprocess",
    "CIRCULAR_BUFFER": "CircularBuffer",
    "ethos-u": "EthosU",
}
"""Custom ops that TFLite Micro brings along."""


def micro_resolver(codes: Iterable[str], custom: Iterable[str] = ()) -> tuple[str, list[str]]:
    """C++ that registers the kernels of a .tflite model with TFLite Micro; and warnings.

    Args:
        codes: builtin names, such as "CONV_2D", with repetitions.
        custom: names of custom ops.
    """
    counts = Counter(codes)
    names = sorted(counts)
    others = sorted(set(custom))
    warnings = [f"TFLite Micro has no kernel for {name}" for name in names if name not in _MICRO_OPS]
    calls = [_micro_call(_micro_name(name)) if name in _MICRO_OPS else _micro_gap(name) for name in names]
    calls += [
        _micro_call(_MICRO_CUSTOM[name]) if name in _MICRO_CUSTOM else _own_call(name) for name in others
    ]
    # C++ has no array without elements, which the resolver would make of 0.
    count = max(len(names) + len(others), 1)
    text = f"""// The {count} kernels this model needs. Written by thinflow ops --micro.
#pragma once
#include "tensorflow/lite/micro/micro_mutable_op_resolver.h"

using ModelOpResolver = tflite::MicroMutableOpResolver<{count}>;

inline TfLiteStatus RegisterModelOps(ModelOpResolver& resolver) {{
{chr(10).join(calls)}
  return kTfLiteOk;
}}
"""
    return text, warnings


def _micro_call(name: str) -> str:
    return f"  if (resolver.Add{name}() != kTfLiteOk) return kTfLiteError;"


def _micro_gap(code: str) -> str:
    return f"  // {code}: TFLite Micro has no kernel for it; the model will not run."


def _own_call(name: str) -> str:
    """A comment on registering a custom op, for the app's author. Names come from the file: hostile."""
    return f'  // resolver.AddCustom("{_word(name)}", ...): a custom op, whose registration the app has.'


def _word(name: str) -> str:
    """A name without what would end it in a configuration file, or in a comment in C++."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "_-.:") else "?" for c in name)


def _micro_name(code: str) -> str:
    return _MICRO_NAMES.get(code) or "".join(part.capitalize() for part in code.lower().split("_"))


def onnx_config(needs: Mapping[tuple[str, int], Iterable[str]]) -> str:
    """The lines of a `required_operators.config`, for ONNX Runtime's `--include_ops_by_config`.

    Args:
        needs: domain ("" is ONNX's own) and version of its op set -> names of ops.
    """
    lines = [
        f"{_word(domain) or 'ai.onnx'};{opset};{','.join(sorted(set(map(_word, ops))))}"
        for (domain, opset), ops in sorted(needs.items())
        if ops
    ]
    return "\n".join(["# Written by thinflow ops --ort.", *lines, ""])
