"""`thinflow quantize`: a smaller model for LiteRT or ONNX Runtime."""

from __future__ import annotations

import glob
import shlex
from argparse import SUPPRESS, ArgumentParser, BooleanOptionalAction, Namespace
from typing import Any

from thinflow.cli._making import add_c, add_onnx, add_samples, add_scheme, c_options
from thinflow.cli._options import (
    add_cluster,
    add_effort,
    add_html,
    add_interface,
    add_json,
    add_layouts,
    add_model,
    add_output,
    add_state,
    add_strict,
    html_lines,
    interface,
    interface_flags,
    scaling_options,
)

EXAMPLES = """
  thinflow quantize model.pb model_int8.tflite --calibration samples/
  thinflow quantize model.pb model_f16.tflite --scheme float16      # half the size, needs no samples
  thinflow quantize model.pb model_dyn.tflite --scheme dynamic      # a quarter of it, needs no samples
  thinflow quantize model.pb model_16x8.tflite --scheme int16x8 --calibration samples/
  thinflow quantize model.pb model_int8.onnx --calibration samples/ # for ONNX Runtime
  thinflow quantize model.pb model.c --calibration samples/ --cpu cortex-m4 --ram 64KB   # plain C
  thinflow quantize model.pb best.tflite --calibration samples/ --effort best --test test/
  thinflow quantize model.pb best.tflite --calibration samples/ --save-recipe best.toml
  thinflow quantize model.pb out.tflite --calibration samples/ --cluster local:4   # ranges, on four processes
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
    add_model(p)
    add_output(p, "the .tflite, .onnx, .xml, .c or .pb file to write")
    add_scheme(p)
    add_samples(p)
    _add_choices(p)
    _add_onnx(p)
    add_c(p)
    add_cluster(p, "look at the samples")
    add_interface(p)
    add_layouts(p)
    add_state(p)
    add_strict(p)
    add_html(p)
    add_json(p)


def _add_choices(p: ArgumentParser) -> None:
    add_effort(p)
    p.add_argument("--save-recipe", metavar="FILE", help="write down how it was made, for --recipe")
    # What `--effort best` was called before there were others.
    p.add_argument("--tune", dest="effort", action="store_const", const="best", help=SUPPRESS)
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
        metavar="OBSERVER[(OPTION=N)]",
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
    add_onnx(p)
    p.add_argument(
        "--activations", metavar="TYPE", help="for .onnx: codes of activations, uint8 (default) or int8"
    )
    p.add_argument(
        "--reduce-range",
        action=BooleanOptionalAction,
        help="for .onnx: weights of 7 bits; --no-reduce-range: all of 8, which overflow on x86 without VNNI",
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
        scaling=picture_scaling(**scaling_options(args)),
        strict=args.strict,
        cluster=args.cluster,
        store=args.store,
        html=args.html,
        progress=progress(),
        **for_onnx,
        **c_options(args),
        **interface(args),
    )
    if args.json:
        print(json.dumps(report, indent=2, default=str))
    else:
        print_lines(_lines(args, report))
    return 0


def _beside(float_bytes: int, size: int) -> str:
    """How large a smaller model is beside float. Scales and headers outweigh what a tiny network saves."""
    larger, factor = size > float_bytes, max(size, float_bytes) / max(min(size, float_bytes), 1)
    shown = f"{factor:.1f}"
    return "as large as" if shown == "1.0" else f"{shown}x {'LARGER' if larger else 'smaller'} than"


def _lines(args: Namespace, report: dict[str, Any]) -> list[str]:
    """What is printed: size and quality first, the next command last."""
    from thinflow.api import trial_lines
    from thinflow.cli._console import human_bytes

    sizes = (
        f"{human_bytes(report['size_bytes'])}, {_beside(report['float_bytes'], report['size_bytes'])} float"
    )
    if args.output.endswith(".c"):
        # Text, which says nothing about what it will take on a device.
        sizes = f"{human_bytes(report['size_bytes'])} of C"
    lines = [report["verdict"]] if report["partial"] else []
    lines.append(f"wrote {report['path']}: {sizes}; {report['quality']}")
    lines += [f"  {line}" for line in (*report["origin"], f"samples: {report['samples']}")]
    if report["tested_on"] != report["samples"]:
        lines.append(f"  judged on: {report['tested_on']}")
    lines += [f"  {line}" for line in (*report["judged"], *report["c"])]
    lines += [f"  {line}" for line in trial_lines(report["trials"])]
    lines.append(f"  computed: {report['arithmetic']['sentence']}")
    if report["noise_by_layer"]["sentence"]:
        lines.append(f"  layers: {report['noise_by_layer']['sentence']}")
    lines += [f"  float: {code} {node}: {why}" for code, node, why in report["float_operators"][:SHOWN]]
    lines += [f"  warning: {warning}" for warning in report["warnings"]]
    lines += _sensitivity_lines(report["sensitivity"])
    return [*lines, *html_lines(args), f"next: {_next(args, report)}"]


def _next(args: Namespace, report: dict[str, Any]) -> str:
    if report["partial"]:
        return f"thinflow run {shlex.quote(args.model)}{interface_flags(args)}"
    if args.output.endswith(".c"):
        return f"thinflow benchmark {shlex.quote(args.model)} --engine litert,c{interface_flags(args)}"
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
