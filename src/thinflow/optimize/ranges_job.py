"""An eight-bit .tflite from ranges alone: those a model was trained with, or a default; without samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from thinflow.errors import GraphError, ParameterError, closest
from thinflow.ir.graph import Graph
from thinflow.optimize.float_graph import float_graph
from thinflow.optimize.litert import FloatModel, LiteRTMaker, checked_batch, smaller_model
from thinflow.optimize.quantized import QuantizedModel
from thinflow.optimize.samples import rebind, samples_for
from thinflow.quantize.calibrate import Calibration
from thinflow.quantize.kernels import float_inputs, float_outputs, is_float
from thinflow.quantize.kernels.litert import INT8_KERNELS
from thinflow.quantize.placement import place
from thinflow.quantize.ranges import Range
from thinflow.quantize.recipe import Recipe
from thinflow.quantize.schemes import quantize_program
from thinflow.quantize.trained import spread, without_fake_quants
from thinflow.tflite.model import Operator, Program, Tensor

# All codes of the type: mean and deviation say what each of them means, also the lowest of int8.
_CODES = {"uint8": (0, 255), "int8": (-128, 127)}


@dataclass(frozen=True)
class InputCodes:
    """The meaning of the codes of an input: real = (code - mean) / std."""

    mean: float
    std: float

    def range(self, kind: str) -> Range:
        """The numbers that its codes reach.

        Raises:
            ParameterError: the standard deviation is not positive.
        """
        if not self.std > 0:
            raise ParameterError(
                f"a standard deviation of {self.std:g} is not possible", hint="give more than 0"
            )
        low, high = _CODES[kind]
        return Range((low - self.mean) / self.std, (high - self.mean) / self.std, "stated")


def eight_bit_model(
    graph: Graph, kind: str, codes: Mapping[str, InputCodes], default: tuple[float, float] | None
) -> tuple[FloatModel, QuantizedModel]:
    """The float model and an integer one with inputs and outputs of that kind, but for those of custom ops.

    The only warnings of the latter are about its batch.

    Args:
        graph: with inputs and outputs set.
        kind: "uint8" or "int8".
        codes: name of an input -> what its codes mean; of each that takes floats.
        default: range of tensors of which nothing else tells one.

    Raises:
        GraphError: nothing tells the range of a tensor, and there is no default.
        ParameterError: senseless numbers, or an input without its codes.
    """
    recipe = Recipe(scheme="int8", input_type=kind, output_type=kind)
    # Two, so that an open batch can be proven with two samples at once.
    samples = samples_for(graph, None, limit=2)
    optimised = float_graph(graph, samples=samples, runtime="litert").graph
    moved = rebind(samples, graph, optimised)
    model = LiteRTMaker().open_or_fixed(optimised, moved)
    program, ranges = without_fake_quants(model.program)
    ranges.update(_stated(program.subgraphs[0].inputs, codes, kind))
    # Ops that hand their input on, such as pools and reshapes, share its range.
    ranges = spread(program, ranges)
    missing = _missing(program.subgraphs[0].operators, ranges)
    # Last: a range that somebody knows has been spread by now as far as it goes.
    if default is not None:
        ranges.update((t, _default(default)) for t in missing)
    else:
        _require_all(program, recipe, ranges, missing)
    quantized = quantize_program(program, recipe, ranges)
    made = smaller_model(model, quantized, Calibration(), [])
    return model, checked_batch(model, made, moved)


def _default(given: tuple[float, float]) -> Range:
    low, high = given
    if not low < high:
        raise ParameterError(
            f"the default range goes from {low:g} to {high:g}", hint="give the smaller one first"
        )
    return Range(low, high, "default")


def _stated(inputs: Sequence[Tensor], codes: Mapping[str, InputCodes], kind: str) -> dict[Tensor, Range]:
    """The ranges of the inputs."""
    # ":0" names the same tensor in TensorFlow's commands.
    wanted = {t.name.removesuffix(":0"): t for t in inputs if is_float(t)}
    given = {name.removesuffix(":0"): c for name, c in codes.items()}
    unknown = next((name for name in given if name not in {t.name.removesuffix(":0") for t in inputs}), None)
    if unknown is not None:
        raise ParameterError(f"there is no input '{unknown}'", hint=closest(unknown, list(wanted)))
    bare = next((name for name in wanted if name not in given), None)
    if bare is not None:
        raise ParameterError(
            f"nothing tells what the codes of the input '{bare}' mean",
            hint="give --mean_values and --std_dev_values, one each per input",
        )
    return {tensor: given[name].range(kind) for name, tensor in wanted.items()}


def _missing(operators: Sequence[Operator], ranges: Mapping[Tensor, Any]) -> list[Tensor]:
    """Tensors of floats without a range."""
    tensors = (t for o in operators for t in (*float_inputs(o), *float_outputs(o)))
    return list(dict.fromkeys(t for t in tensors if not t.is_constant and t not in ranges))


def _require_all(
    program: Program, recipe: Recipe, ranges: dict[Tensor, Range], missing: Sequence[Tensor]
) -> None:
    """Refuse where an operator has an integer form but for a range.

    Raises:
        GraphError: names the tensor.
    """
    main = program.subgraphs[0]
    # Placed twice: operators that have a reason now and none with a range for everything lack just that
    # range.
    now, then = (
        place(main, INT8_KERNELS, recipe, known) for known in (ranges, {**ranges, **dict.fromkeys(missing)})
    )
    needy = next((o for o, why in now.items() if why and not then[o]), None)
    if needy is None:
        return
    tensor = next(t for t in (*float_inputs(needy), *float_outputs(needy)) if t in set(missing))
    raise GraphError(
        f"nothing tells the range of '{tensor.name}', which {needy.code} needs: no FakeQuant is near it",
        hint="give --default_ranges_min and --default_ranges_max, or real samples: "
        "thinflow quantize MODEL OUT.tflite --calibration FOLDER",
    )
