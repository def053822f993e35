"""`thinflow convert`: one format in, another out."""

from __future__ import annotations

import shlex
from argparse import ArgumentParser, Namespace
from typing import Any

from thinflow.cli._console import print_lines
from thinflow.cli._making import add_c, add_coreml, add_onnx, add_verify, c_options, coreml_options
from thinflow.cli._options import (
    add_interface,
    add_json,
    add_layouts,
    add_model,
    add_output,
    add_state,
    add_strict,
    add_timeout,
    interface,
    interface_flags,
)

EXAMPLES = """
  thinflow convert model.pb model.tflite
  thinflow convert model.pb model.onnx
  thinflow convert model_int8.tflite model.c     # plain C for microcontrollers
  thinflow convert model_int8.tflite model.c --cpu cortex-m4 --ram 64KB
  thinflow convert model.pb model.mlpackage --compute-precision float16   # Core ML, for the Neural Engine
  thinflow convert model.pb model.xml            # OpenVINO; its weights go to model.bin
  thinflow convert model.pb model.pbtxt
  thinflow convert pose.pb pose.tflite --shape image=1,184,184,3
"""


def add_arguments(p: ArgumentParser) -> None:
    add_model(p)
    add_output(
        p, "what to write; the suffix chooses the format: .tflite, .onnx, .xml, .c, .mlpackage, .pb, .pbtxt"
    )
    add_interface(p)
    add_layouts(p)
    add_verify(p)
    add_onnx(p)
    add_c(p)
    add_coreml(p)
    p.add_argument(
        "--why",
        action="store_true",
        help="also say which operators were not fused with their neighbours, though they nearly qualified",
    )
    add_state(p)
    add_strict(p)
    add_timeout(p)
    add_json(p)


def run(args: Namespace) -> int:
    import json

    from thinflow.api import convert_verified
    from thinflow.cli._console import human_bytes, progress
    from thinflow.cli._ledger import reason_lines

    report = convert_verified(
        args.model,
        args.output,
        verify=args.verify,
        opset=args.opset,
        external_data=args.external_data,
        timeout=args.timeout,
        strict=args.strict,
        progress=progress(),
        **c_options(args),
        **coreml_options(args),
        **interface(args),
    )
    if args.json:
        print(json.dumps(report.data(), indent=2))
        return 0
    if report.is_part:
        print_lines([report.verdict])
    print(f"wrote {report.path}: {human_bytes(report.size_bytes)}; {report.proof}")
    for line in report.notes:
        print_lines([f"  {line}"])
    if args.why:
        lines = reason_lines(report.not_fused) or ["nothing was left to fuse"]
        print_lines([f"  {line}" for line in lines])
    print(f"next: {_next(args, report)}")
    return 0


def _next(args: Namespace, report: Any) -> str:
    """The command to try: what measures the file, or what makes or runs all of a model it is a part of."""
    from pathlib import Path

    from thinflow.api import runtime_format

    source, model = shlex.quote(args.model), shlex.quote(report.path)
    if report.is_part:
        flags = interface_flags(args)
        if report.whole_fits:
            whole = shlex.quote(str(Path(args.output).with_suffix(report.whole_fits)))
            return f"thinflow convert {source} {whole}{flags}"
        return f"thinflow run {source}{flags}"
    # C is run by way of its source: a device is not at hand.
    if args.output.endswith(".c"):
        return f"thinflow benchmark {source} --engine litert,c{interface_flags(args)}"
    if args.output.endswith(".mlpackage"):
        return f"thinflow verify {source} {model}{interface_flags(args)}"
    # Of the source, since the same graph runs on both engines; a file of a runtime runs on its own.
    if args.output.endswith(".onnx") and not runtime_format(args.model):
        return f"thinflow benchmark {source} --engine litert,onnxruntime"
    runs = args.output.endswith((".tflite", ".onnx", ".xml"))
    return f"thinflow {'benchmark' if runs else 'inspect'} {model}"
