"""Named orders of transforms, as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from thinflow.errors import ParameterError, closest


@dataclass(frozen=True)
class Order:
    """Transforms in the order that makes the most of them. They act inside library functions, too.

    Attributes:
        purpose: what the result is good for.
        repeated: a transform string that runs again until a whole round changes nothing.
        last: one that runs once after that.
    """

    purpose: str
    repeated: str
    last: str = ""

    @property
    def text(self) -> str:
        """All of it, once."""
        return f"{self.repeated}\n{self.last}".rstrip() + "\n"


# What every later step wants: only what the outputs need, loops and branches as calls, so that no step can
# tear a frame, constants folded, norms in the weights.
_FLOAT = """
    inline_partitionedcall
    strip_unused_nodes
    remove_training_ops
    raise_control_flow
    prune_loop_variables
    remove_nodes(op=Identity, op=CheckNumerics, op=StopGradient, op=Snapshot, op=PreventGradient)
    fold_constants
    simplify_shapes
    remove_dropout
    simplify_arithmetic
    cancel_transposes
    fold_batch_norms
    fold_old_batch_norms(fold_forward=true, lower_unfoldable=true)
    merge_duplicate_nodes
"""

AS_IT_CAME = "lower_control_flow(raised=true)"
"""Gives a graph back the frames it came with, for runtimes that know no other loops."""

PIPELINES: dict[str, Order] = {
    "float": Order("the smallest and fastest graph that computes the same", _FLOAT, f"\n    {AS_IT_CAME}\n"),
    "eight_bit": Order(
        "eight-bit weights and eight-bit computation, as TensorFlow's quantized ops do it",
        _FLOAT,
        f"""
    quantize_weights
    quantize_nodes
    {AS_IT_CAME}
    strip_unused_nodes
    sort_by_execution_order
""",
    ),
    "smallest": Order(
        "the smallest file: eight-bit weights that are floats again when the graph runs, and short names",
        _FLOAT,
        f"""
    quantize_weights
    merge_duplicate_nodes
    {AS_IT_CAME}
    remove_device
    remove_attribute(attribute_name=_output_shapes)
    strip_unused_nodes
    sort_by_execution_order
    obfuscate_names
""",
    ),
}
"""Name -> order. `for_runtime` makes one from its options."""


def _with(order: str, before: str, *steps: str) -> str:
    """An order of transforms with some more before one of them."""
    return order.replace(f"    {before}", "".join(f"    {step}\n" for step in steps) + f"    {before}")


_FOR_LITERT = _with(
    # In front of what cancels transposes, since changing the layout makes them; and behind it what takes
    # those inside of shuffles into weights, which norms were folded into.
    _with(
        _with(_FLOAT, "cancel_transposes", "to_nhwc(ignore_errors=true)"),
        "merge_duplicate_nodes",
        "absorb_shuffles(ignore_errors=true)",
    ),
    # In front of folding: constants are then computed in the type in which the runtime will compute.
    "fold_constants",
    "widen_floats(from=bfloat16, ends=true)",
    "widen_floats",
    "widen_floats(from=double, ignore_errors=true)",
)

FOR_RUNTIME = "for_runtime"
_RUNTIMES = {
    "litert": ("LiteRT, which wants channels last and float", _FOR_LITERT),
    "onnx": (
        "ONNX Runtime, which has no bfloat16",
        _with(_FLOAT, "fold_constants", "widen_floats(from=bfloat16, ends=true)"),
    ),
    "tensorflow": ("TensorFlow", _FLOAT),
    "mobile": ("the TensorFlow library for phones", _with(_FLOAT, "cancel_transposes", "to_nhwc")),
}
OPTIONS = ("functions", "ignore_errors")


def order_names() -> list[str]:
    """Every name of an order, sorted."""
    return sorted([*PIPELINES, FOR_RUNTIME])


def order_for(name: str, params: Mapping[str, Sequence[str]]) -> Order:
    """An order by its name.

    Args:
        name: one of `order_names`.
        params: its options as written, but for those every order has (OPTIONS).

    Raises:
        ParameterError: an option does not exist, is missing, or has an impossible value.
    """
    known = ("runtime", "version") if name == FOR_RUNTIME else ()
    for key, values in params.items():
        if key not in known:
            hint = closest(key, (*known, *OPTIONS)) or f"it takes {', '.join((*known, *OPTIONS))}"
            raise ParameterError(f"'{name}' has no parameter '{key}'", hint=hint)
        if len(values) != 1:
            raise ParameterError(f"Expected a single '{key}' parameter, but found {len(values)}", hint="once")
    if name != FOR_RUNTIME:
        return PIPELINES[name]
    return _for_runtime(*((params.get(key) or [""])[0] for key in known))


def _for_runtime(runtime: str, version: str) -> Order:
    if runtime not in _RUNTIMES:
        problem = f"there is no runtime '{runtime}'" if runtime else f"'{FOR_RUNTIME}' needs a runtime"
        raise ParameterError(problem, hint=f"write {FOR_RUNTIME}(runtime={'|'.join(_RUNTIMES)})")
    purpose, repeated = _RUNTIMES[runtime]
    options = [f"version={version}"] * bool(version) + ["mobile=true"] * (runtime == "mobile")
    if version and runtime in {"litert", "onnx"}:
        raise ParameterError(f"version={version} is TensorFlow's", hint="leave it out")
    lower = f"    target_runtime({', '.join(options)})\n" if options else ""
    # These have loops of their own; their converters take While and If, not frames.
    frames = "" if runtime in {"litert", "onnx"} else f"    {AS_IT_CAME}\n"
    return Order(purpose, repeated, f"\n{frames}{lower}    sort_by_execution_order\n")
