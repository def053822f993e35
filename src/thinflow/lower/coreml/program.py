"""A program of ONNX's operators as one of MIL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from thinflow.coreml.names import identifiers
from thinflow.coreml.runtime import coremltools, quiet
from thinflow.errors import ParameterError, ThinflowError, UnsupportedOp, closest
from thinflow.ir.usage import BGR, GREY, InputUsage, Usage
from thinflow.lower.coreml.builder import Builder, Var, checked, mil_type
from thinflow.lower.coreml.options import Options
from thinflow.lower.coreml.rules import codes, rule_for
from thinflow.onnx.program import Operator, Program, Tensor
from thinflow.ops.registry import RULE_ERRORS

MOST_BATCH, MOST_SIZE = 64, 4096
"""Bounds of open sizes: Core ML wants one for each."""
_SHOWN = 12
_CHANNELS = (1, 3)


@dataclass(frozen=True)
class Picture:
    """An input that takes a picture; what the model computes with is (pixel - mean) / std.

    Attributes:
        layout: order of the colours: "RGB", "BGR" or "G".
        mean, std: one number for each channel.
        is_first: whether the model takes channels in front of rows, as Core ML does.
        known: where the numbers are from; "" if nothing says, and pixels go in as they are.
    """

    layout: str
    mean: tuple[float, ...]
    std: tuple[float, ...]
    is_first: bool = False
    known: str = ""


@dataclass
class MilProgram:
    """A program of MIL, and what coremltools is told of its ends.

    Attributes:
        program: coremltools' own.
        types: of its inputs.
        names: of its ends -> what they are called in the source.
        pictures: inputs that take pictures, by their names in the source.
        open: inputs with open sizes, by their names in the source, and the sizes' bounds.
        narrowed: ends whose type Core ML lacks there, by their names in the source, and the type they have.
    """

    program: Any
    types: list[Any]
    names: dict[str, str]
    pictures: dict[str, Picture] = field(default_factory=dict)
    open: dict[str, str] = field(default_factory=dict)
    narrowed: dict[str, str] = field(default_factory=dict)


def mil_program(program: Program, options: Options, usage: Usage) -> MilProgram:
    """A program in MIL.

    Args:
        program: all of its operators.
        options: see there.
        usage: how its inputs are made, for pictures.

    Raises:
        UnsupportedOp: operators without a form in MIL, all of them.
        ParameterError: pictures are asked for, and no input takes one.
        EngineUnavailable: coremltools is missing.
    """
    ct = coremltools()
    with quiet():
        return _Writer(ct, program, options, usage).written()


class _Writer:
    def __init__(self, ct: Any, program: Program, options: Options, usage: Usage) -> None:
        from coremltools.converters.mil import Builder as mb
        from coremltools.converters.mil import mil

        self.ct, self.mil, self.mb = ct, mil, mb
        self.source, self.options, self.usage = program, options, usage
        self.builder = Builder(mb, int(options.target.removeprefix("iOS")))
        ends = [t.name for t in (*program.inputs, *program.outputs)]
        self.known_as = identifiers(ends)
        self.made = MilProgram(mil.Program(), [], {made: name for name, made in self.known_as.items()})
        self.batch: Any = None
        self.refused: list[tuple[Operator, ThinflowError]] = []

    def written(self) -> MilProgram:
        target = getattr(self.ct.target, self.options.target)
        inputs = {self.known_as[t.name]: self._placeholder(t) for t in self.source.inputs}
        if self.options.images and not self.made.pictures:
            raise ParameterError(
                "no input takes a picture: that is [n, height, width, 1 or 3] of floats",
                hint="leave --image-input out",
            )
        with self.mil.Function(inputs, opset_version=target) as function:
            for tensor in self.source.inputs:
                self.builder.values[tensor] = self._fed(tensor, function.inputs[self.known_as[tensor.name]])
            for operator in self.source.operators:
                self._say(operator)
            if self.refused:
                raise _refusal(self.refused)
            function.set_outputs([self._given(t) for t in self.source.outputs])
        self.made.program.add_function("main", function)
        return self.made

    # --- ends ----------------------------------------------------------------------------------------------

    def _placeholder(self, tensor: Tensor) -> Any:
        types = {"fp32": self.mil.types.fp32, "int32": self.mil.types.int32}
        kind = mil_type(tensor.dtype)
        wanted = "int32" if kind == "bool" else kind
        if tensor.shape is None:
            raise UnsupportedOp(
                f"the input '{tensor.name}' has no known number of axes",
                hint="give its shape: --shape NAME=...",
            )
        picture = self._picture(tensor)
        if picture is not None:
            return self._picture_placeholder(tensor, picture)
        shape, described = self._sizes(tensor)
        dtype = np.float32 if wanted == "fp32" else np.int32
        if tensor.dtype.name not in ("float", "int32"):
            self.made.narrowed[tensor.name] = "float32" if wanted == "fp32" else "int32"
        self.made.types.append(
            self.ct.TensorType(name=self.known_as[tensor.name], shape=described, dtype=dtype)
        )
        return self.mb.placeholder(shape=shape, dtype=types[wanted])

    def _sizes(self, tensor: Tensor) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """The sizes of an input for MIL, and for the description of the package. A number alone is [1]."""
        shape: list[Any] = []
        described: list[Any] = []
        bounds: list[str] = []
        for axis, n in enumerate(tensor.shape or (1,)):
            if n is not None:
                shape.append(n)
                described.append(n)
                continue
            most = MOST_BATCH if axis == 0 else MOST_SIZE
            # One batch for all inputs, or MIL could not tell that what they become goes together.
            size = (
                self.batch if axis == 0 and self.batch is not None else self.ct.RangeDim(1, most, default=1)
            )
            self.batch = size if axis == 0 else self.batch
            shape.append(size.symbol)
            described.append(size)
            bounds.append(f"1 to {most}")
        if bounds:
            self.made.open[tensor.name] = ", ".join(dict.fromkeys(bounds))
        return tuple(shape), tuple(described)

    def _picture(self, tensor: Tensor) -> Picture | None:
        """How a picture becomes this input; None if it takes none, or nobody asked."""
        shape = tensor.shape
        if not self.options.images or shape is None or len(shape) != 4 or tensor.dtype.name != "float":
            return None
        is_first = shape[3] not in _CHANNELS and shape[1] in _CHANNELS
        channels = shape[1] if is_first else shape[3]
        sides = shape[2:] if is_first else shape[1:3]
        if channels not in _CHANNELS or None in sides or shape[0] not in (None, 1):
            return None
        assert channels is not None
        found = self.usage.input(tensor.name) or InputUsage()
        layout = "G" if channels == 1 or found.colours == GREY else "BGR" if found.colours == BGR else "RGB"
        mean, std = (self.options.mean or found.mean or (0.0,)), (self.options.std or found.std or (1.0,))
        if not {len(mean), len(std)} <= {1, channels}:
            raise ParameterError(
                f"'{tensor.name}' has {channels} channels; give as many means and deviations, or one"
            )
        means, deviations = (
            tuple(numbers) * channels if len(numbers) == 1 else tuple(numbers) for numbers in (mean, std)
        )
        asked = "--mean, --std" if self.options.mean or self.options.std else ""
        return Picture(layout, means, deviations, is_first, asked or found.assumed or found.said)

    def _picture_placeholder(self, tensor: Tensor, picture: Picture) -> Any:
        sizes = tensor.shape or ()
        shape = (1, *sizes[1:]) if picture.is_first else (1, sizes[3], *sizes[1:3])
        layouts = {"RGB": "RGB", "BGR": "BGR", "G": "GRAYSCALE"}
        layout = getattr(self.ct.colorlayout, layouts[picture.layout])
        self.made.pictures[tensor.name] = picture
        options: dict[str, Any] = {}
        # The type has one scale for all channels; others are written out, see `_fed`.
        if len(set(picture.std)) == 1:
            bias = [-m / s for m, s in zip(picture.mean, picture.std, strict=True)]
            options = {"scale": 1 / picture.std[0], "bias": bias if len(bias) > 1 else bias[0]}
        name = self.known_as[tensor.name]
        self.made.types.append(self.ct.ImageType(name=name, shape=shape, color_layout=layout, **options))
        return self.mb.placeholder(shape=shape, dtype=self.mil.types.fp32)

    def _fed(self, tensor: Tensor, value: Var) -> Var:
        """The value of an input as the program reads it."""
        mb = self.mb
        picture = self.made.pictures.get(tensor.name)
        if picture is not None:
            if len(set(picture.std)) > 1:
                mean, std = (
                    np.array(row, np.float32).reshape(-1, 1, 1) for row in (picture.mean, picture.std)
                )
                value = mb.mul(x=mb.sub(x=value, y=mean), y=1 / std)
            return value if picture.is_first else mb.transpose(x=value, perm=[0, 2, 3, 1])
        if not tensor.shape:
            value = mb.squeeze(x=value, axes=[0])
        return mb.cast(x=value, dtype="bool") if tensor.dtype.name == "bool" else value

    def _given(self, tensor: Tensor) -> Var:
        """An output under its name. A number alone is [1], and a truth 0 or 1."""
        mb, value = self.mb, self.builder.value(tensor)
        kind = self.builder.type(value)
        if kind == "bool":
            value = mb.cast(x=value, dtype="int32")
        if tensor.dtype.name not in ("float", "int32"):
            self.made.narrowed[tensor.name] = "int32" if kind != "fp32" else "float32"
        name = self.known_as[tensor.name]
        if not value.shape:
            return mb.expand_dims(x=value, axes=[0], name=name)
        return mb.identity(x=value, name=name)

    # --- operators -----------------------------------------------------------------------------------------

    def _say(self, operator: Operator) -> None:
        """Say an operator in MIL, or note why it cannot be, and go on: whoever mends a model wants to know
        everything there is to mend."""
        values = self.builder.values
        missing = [t for t in operator.reads() if not t.is_constant and t not in values]
        rule = rule_for(operator.code)
        try:
            if rule is None or operator.bodies:
                raise UnsupportedOp("Core ML has no such operator here")
            if missing:
                return
            made = rule(self.builder, operator)
            results = list(made) if isinstance(made, (list, tuple)) else [made]
            for tensor, value in zip(operator.outputs, results, strict=True):
                values[tensor] = checked(value)
        except UnsupportedOp as error:
            self._refuse(operator, error)
        except (ThinflowError, AssertionError, NotImplementedError, *RULE_ERRORS) as error:
            why = str(error).strip().splitlines()
            self._refuse(operator, UnsupportedOp(f"coremltools refuses it: {why[0] if why else error!r}"))

    def _refuse(self, operator: Operator, error: ThinflowError) -> None:
        self.refused.append((operator, error))
        # A stand-in lets the operators behind it be looked at as well; what is drawn is not folded away.
        for tensor in operator.outputs:
            shape = tensor.shape
            if (
                shape is None
                or None in shape
                or 0 in shape
                or tensor.dtype.name not in ("float", "int32", "int64")
            ):
                continue
            try:
                drawn = self.mb.random_normal(shape=np.array(shape or (1,), np.int32))
                drawn = drawn if shape else self.mb.squeeze(x=drawn, axes=[0])
                self.builder.values[tensor] = self.builder.cast(drawn, mil_type(tensor.dtype))
            except RULE_ERRORS:
                continue


def _refusal(refused: Sequence[tuple[Operator, ThinflowError]]) -> UnsupportedOp:
    """One error for all operators that have no form, those of a kind and for one reason together."""
    kinds = Counter((o.code, e.problem) for o, e in refused)
    first: Mapping[tuple[str, str], Operator] = {(o.code, e.problem): o for o, e in reversed(refused)}
    told = [
        f"{count} x {code} ('{first[code, why].origin or first[code, why].outputs[0].name}'): {why}"
        for (code, why), count in list(kinds.items())[:_SHOWN]
    ]
    more = f"; and {len(kinds) - _SHOWN} more kinds" if len(kinds) > _SHOWN else ""
    what = "1 operator has" if len(refused) == 1 else f"{len(refused)} operators have"
    hints = [e.hint for _, e in refused if e.hint]
    near = " ".join(filter(None, (closest(code, codes(), 1) for code, _ in kinds if code not in codes())))
    return UnsupportedOp(
        f"{what} no form in Core ML: {'; '.join(told)}{more}",
        hint=hints[0]
        if hints
        else near or "cut them off with --inputs or --outputs, or write .onnx or .tflite",
    )
