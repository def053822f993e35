"""What `thinflow quantize` does: one smaller .tflite file, and how good it is."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from thinflow.errors import ParameterError
from thinflow.formats._files import write_file
from thinflow.optimize.batch_check import checked_batch
from thinflow.optimize.checking import compare_models, open_or_fixed
from thinflow.optimize.preparing import prepared
from thinflow.optimize.quantizing import QuantizedModel, chosen_recipe, quantized_model
from thinflow.optimize.sensitivity import sensitivity as measure_sensitivity
from thinflow.optimize.tuning import TunedModel, tuned_model
from thinflow.quantize.pictures import Scaling
from thinflow.quantize.recipe import Recipe
from thinflow.typing import Progress


def quantize_to_file(
    source: Any,
    path: str | os.PathLike[str],
    calibration: Any = None,
    *,
    test: Any = None,
    labels: str | os.PathLike[str] | Sequence[str] | None = None,
    scheme: str | None = None,
    recipe: Recipe | None = None,
    tune: bool = False,
    sensitivity: bool = False,
    samples: int | None = None,
    scaling: Scaling | None = None,
    strict: bool = False,
    progress: Progress | None = None,
    **names: Any,
) -> dict[str, Any]:
    """Write a smaller .tflite, and tell its size, its quality beside the graph, and warnings.

    A part of the model is written under another name: small.tflite becomes small_part.tflite.

    Args:
        source: path or Graph.
        calibration: samples for the ranges; None makes inputs up.
        test: other samples to judge on; default: the calibration samples.
        labels: class names in the order of the outputs, or a file of them; default: a labels file beside the
            model.
        scheme, recipe: as for `quantize`.
        tune: try what often helps and keep what does, see `tuned_model`.
        sensitivity: also measure what each layer loses alone, see `sensitivity`.
        samples: use so many samples only.
        strict: refuse to write a part.
        names: as for `load`.

    Raises:
        PartialModel: the file could hold only a part, and `strict` forbids that; nothing is written.
        ThinflowError: the model cannot be read, quantized or written.
    """
    if not os.fspath(path).endswith(".tflite"):
        raise ParameterError(
            f"{os.fspath(path)}: a quantized model is a .tflite or .onnx file",
            hint="end the name in .tflite or .onnx",
        )
    recipe = chosen_recipe(scheme, recipe)
    ready = prepared(
        source,
        calibration,
        test,
        names,
        runtime="litert",
        labels=labels,
        samples=samples,
        scaling=scaling,
        progress=progress,
    )
    model = open_or_fixed(ready.graph, ready.fitting)
    if strict:
        model.coverage.require_whole()
    make = tuned_model if tune else quantized_model
    made = checked_batch(model, make(model, ready.fitting, recipe=recipe, progress=progress), ready.fitting)
    contents = {"it": made.comparable}
    quality = compare_models(model, contents, ready.original, ready.judging, progress=progress)["it"]
    losses = []
    if sensitivity:
        losses = measure_sensitivity(model, ready.fitting, recipe=recipe, progress=progress)
    target = model.coverage.path(os.fspath(path))
    sizes = write_file(target, [made.content]), len(model.content)
    return {
        **ready.account(made, quality, recipe, path, sizes, model.coverage),
        "trials": _trials(made),
        "sensitivity": [asdict(loss) for loss in losses],
    }


def _trials(made: QuantizedModel) -> list[dict[str, Any]]:
    return [asdict(trial) for trial in made.trials] if isinstance(made, TunedModel) else []


def observer_named(text: str) -> tuple[str, dict[str, float]]:
    """`percentile(percent=99.99)` as a name and options.

    Raises:
        ParameterError: it is not written like that.
    """
    name, bracket, rest = text.strip().partition("(")
    options: dict[str, float] = {}
    if bracket and not rest.endswith(")"):
        raise ParameterError(f"--observer {text}: a bracket is open", hint="write percentile(percent=99.99)")
    for item in filter(None, rest.removesuffix(")").split(",")):
        option, equals, value = item.partition("=")
        try:
            number = float(value)
        except ValueError:
            equals = ""
        if not equals:
            raise ParameterError(
                f"--observer {text}: '{item}' is no option", hint="write percentile(percent=99.99)"
            )
        options[option.strip()] = int(number) if number.is_integer() else number
    return name, options


def recipe_from(
    *,
    scheme: str = "int8",
    observer: str = "minmax",
    per_channel: bool = True,
    keep_float: Sequence[str] = (),
    input_type: str = "float32",
    output_type: str = "float32",
    columns: str = "off",
) -> Recipe:
    """The recipe that a command line describes.

    Raises:
        ParameterError: something of it does not exist.
    """
    name, options = observer_named(observer)
    return Recipe(
        scheme=scheme,
        observer=name,
        observer_options=options,
        per_channel=per_channel,
        skip_nodes=tuple(keep_float),
        input_type=input_type,
        output_type=output_type,
        columns=columns,
    )
