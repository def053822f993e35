"""`thinflow quantize`: a smaller model for LiteRT or ONNX Runtime."""

from __future__ import annotations

import glob
import shlex
from argparse import ArgumentParser, Namespace
from typing import Any

from thinflow.cli._options import (
    add_effort,
    add_interface,
    add_json,
    add_layouts,
    add_scaling,
    add_strict,
    interface,
    interface_flags,
)

EXAMPLES = """
  thinflow quantize model.pb model_int8.tflite --calibration samples/
  thinflow quantize model.pb model_f16.tflite --scheme float16      # half the size, needs no samples
  thinflow quantize model.pb model_dyn.tflite --scheme dynamic      # a quarter of it, needs no samples
  thinflow quantize model.pb model_16x8.tflite --scheme int16x8 --calibration samples/
  thinflow quantize model.pb model_int8.onnx --calibration samples/ # for ONNX Runtime
  thinflow quantize model.pb best.tflite --calibration samples/ --effort best --test test/
  thinflow quantize model.pb best.tflite --calibration samples/ --save-recipe best.toml
  thinflow quantize model.pb out.tflite --calibration samples/ --sensitivity --keep-float 'logits*'
"""

SCHEMES = """schemes:
  int8          int8 weights and activations, int32 biases; the default; needs samples
  int16x8       int8 weights, int16 activations; needs samples
  dynamic       int8 weights; activations are rounded while the model runs
  float16       weights stored in 16 bits, computed in 32
  int8_weights  weights stored in 8 bits, computed in 32
  int4_weights  weights stored in 4 bits, first and last layer in 8, computed in 32
An .onnx file takes int8 and float16.
"""
SHOWN = 8


def add_arguments(p: ArgumentParser) -> None:
    p.description = f"{p.description}\n\n{SCHEMES}"
    p.add_argument("model", help="any model: GraphDef, SavedModel, .meta, .onnx, .tflite, .h5, .keras, .json")
    p.add_argument("output", help="the .tflite or .onnx file to write")
    p.add_argument("--scheme", metavar="NAME", help="see above; default int8")
    p.add_argument(
        "--calibration", metavar="FOLDER|FILE", help="samples for the ranges; without it inputs are made up"
    )
    p.add_argument(
        "--test", metavar="FOLDER|FILE", help="samples to judge on (default: the calibration samples)"
    )
    p.add_argument(
        "--labels",
        metavar="FILE",
        help="class names, one a line (default: those in the model's file, else a labels file beside it)",
    )
    p.add_argument(
        "--samples", type=int, metavar="N", help="use N samples only, spread evenly over classes and files"
    )
    add_scaling(p)
    _add_choices(p)
    _add_onnx(p)
    add_interface(p)
    add_layouts(p)
    add_strict(p)
    add_json(p)


def _add_choices(p: ArgumentParser) -> None:
    add_effort(p)
    p.add_argument("--save-recipe", metavar="FILE", help="write down how it was made, for --recipe")
    p.add_argument(
        "--tune", dest="effort", action="store_const", const="best", help="the same as --effort best"
    )
    p.add_argument(
        "--sensitivity", action="store_true", help="list the layers by what rounding each alone costs"
    )
    p.add_argument(
        "--keep-float",
        action="append",
        default=[],
        metavar="NODE",
        help="leave the nodes of this name or pattern (*, ?) float; repeat for several",
    )
    p.add_argument(
        "--observer",
        metavar="NAME[(OPTION=N)]",
        help="who proposes ranges: minmax (default), percentile(percent=99.99), mse, kl, moving, sigma",
    )
    p.add_argument(
        "--per-tensor",
        dest="per_channel",
        action="store_false",
        default=None,
        help="one scale for all of a layer's weights, not one per output channel",
    )
    p.add_argument(
        "--columns",
        metavar="KIND",
        help="int8: read images of few channels by columns: off (default), portable, or amx for such CPUs",
    )
    for side in ("input", "output"):
        p.add_argument(
            f"--{side}-type",
            metavar="TYPE",
            help=f"of the model's {side}s: float32 (default); int8: int8, uint8; int16x8: int16",
        )


def _add_onnx(p: ArgumentParser) -> None:
    p.add_argument("--opset", type=int, metavar="N", help=".onnx: version of the op set, 17 (default) to 21")
    p.add_argument(
        "--external-data",
        action="store_true",
        default=None,
        help=".onnx: weights in a second file (default: only if they do not fit into one)",
    )
    p.add_argument(
        "--activations", metavar="TYPE", help=".onnx: codes of activations, uint8 (default) or int8"
    )
    p.add_argument(
        "--reduce-range",
        action="store_true",
        default=None,
        help=".onnx: weights of 7 bits, for x86 processors without VNNI, where 8 bits overflow",
    )


def run(args: Namespace) -> int:
    import json

    from thinflow.api import picture_scaling, quantization_recipe, quantize_to_file
    from thinflow.cli._console import print_lines, progress

    recipe = quantization_recipe(
        args.recipe,
        scheme=args.scheme,
        observer=args.observer,
        per_channel=args.per_channel,
        keep_float=args.keep_float,
        input_type=args.input_type,
        output_type=args.output_type,
        columns=args.columns,
    )
    names = ("opset", "external_data", "activations", "reduce_range")
    # Only those that were given: a .tflite file takes none of them.
    for_onnx = {name: value for name in names if (value := getattr(args, name)) is not None}
    report = quantize_to_file(
        args.model,
        args.output,
        args.calibration,
        test=args.test,
        labels=args.labels,
        recipe=recipe,
        effort=args.effort,
        save_recipe=args.save_recipe,
        sensitivity=args.sensitivity,
        samples=args.samples,
        scaling=picture_scaling(args.mean, args.std),
        strict=args.strict,
        progress=progress(),
        **for_onnx,
        **interface(args),
    )
    if args.json:
        print(json.dumps(report, indent=2, default=str))
    else:
        print_lines(_lines(args, report))
    return 0


def _lines(args: Namespace, report: dict[str, Any]) -> list[str]:
    """What is printed: size and quality first, the next command last."""
    from thinflow.api import trial_lines
    from thinflow.cli._console import human_bytes

    smaller = report["float_bytes"] / max(report["size_bytes"], 1)
    sizes = f"{human_bytes(report['size_bytes'])}, {smaller:.1f}x smaller than float"
    lines = [report["verdict"]] if report["partial"] else []
    lines.append(f"wrote {report['path']}: {sizes}; {report['quality']}")
    lines += [f"  {line}" for line in (*report["origin"], f"samples: {report['samples']}")]
    if report["tested_on"] != report["samples"]:
        lines.append(f"  judged on: {report['tested_on']}")
    lines += [f"  {line}" for line in report["judged"]]
    lines += [f"  {line}" for line in trial_lines(report["trials"])]
    lines.append(f"  computed: {report['arithmetic']['sentence']}")
    if report["noise_by_layer"]["sentence"]:
        lines.append(f"  layers: {report['noise_by_layer']['sentence']}")
    lines += [f"  float: {code} {node}: {why}" for code, node, why in report["float_operators"][:SHOWN]]
    lines += [f"  warning: {warning}" for warning in report["warnings"]]
    lines += _sensitivity_lines(report["sensitivity"])
    return [*lines, f"next: {_next(args, report)}"]


def _next(args: Namespace, report: dict[str, Any]) -> str:
    if report["partial"]:
        return f"thinflow run {shlex.quote(args.model)}{interface_flags(args)}"
    return f"thinflow benchmark {shlex.quote(report['path'])}"


def _sensitivity_lines(losses: list[dict[str, Any]]) -> list[str]:
    """A table of the layers that lose most when they alone are rounded."""
    if not losses:
        return []
    shown = [loss["name"] for loss in losses[:SHOWN]]
    width = max(map(len, shown))
    lines = [f"  {'rounded alone':{width}}  weights   output"]
    for name, loss in zip(shown, losses[:SHOWN], strict=True):
        cells = [_decibels(loss["weights_db"]), _decibels(loss["output_db"])]
        lines.append(f"  {name:{width}}  {cells[0]:>7}  {cells[1]:>7}")
    # Rounding an output is spared only where what reads it is float, too.
    names = [shlex.quote(glob.escape(name)) for name in losses[0]["keep"]]
    return [*lines, f"  to spare the first: {' '.join(f'--keep-float {name}' for name in names)}"]


def _decibels(value: float | None) -> str:
    return "" if value is None else f"{value:.1f} dB"
