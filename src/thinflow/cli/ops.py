"""`thinflow ops`: which operations a model needs, for builds that leave out the rest."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from thinflow.cli._console import print_lines
from thinflow.cli._options import add_json, add_model

EXAMPLES = """
  thinflow ops model.pb
  thinflow ops model.tflite --micro > model_ops.h
  thinflow ops model.pb --ort > required_operators.config
  thinflow ops model.pb --header > ops_to_register.h
"""


def add_arguments(p: ArgumentParser) -> None:
    add_model(p)
    kind = p.add_mutually_exclusive_group()
    kind.add_argument("--micro", action="store_true", help="C++ op resolver for TFLite Micro")
    kind.add_argument("--ort", action="store_true", help="configuration of a reduced ONNX Runtime build")
    kind.add_argument("--header", action="store_true", help="header for TensorFlow's selective registration")
    add_json(kind)
    p.add_argument("--release", metavar="X.Y", help="TensorFlow release whose kernel classes to name")


def run(args: Namespace) -> int:
    from thinflow.compat.requirements import micro_resolver, onnxruntime_config, selective_registration

    if args.micro:
        found = micro_resolver(args.model)
    elif args.ort:
        found = onnxruntime_config(args.model)
    else:
        found = selective_registration([args.model], release=args.release, as_list=not args.header)
    for warning in found.warnings:
        print_lines([f"warning: {warning}"], sys.stderr)
    print(found.text, end="")
    return 0
