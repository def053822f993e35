"""Options that several commands share which make models: samples, schemes, transforms, checks."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from thinflow.cli._options import add_scaling, channel_numbers
from thinflow.cli._values import (
    C_LAYOUTS,
    COREML_TARGETS,
    COREML_WEIGHTS,
    CPUS,
    PRECISIONS,
    ROUNDINGS,
    SCHEMES,
    SOUNDS,
)


def add_verify(p: ArgumentParser) -> None:
    """`--no-verify`."""
    p.add_argument(
        "--no-verify",
        dest="verify",
        action="store_false",
        help="skip running the model before and after, and comparing",
    )


def add_samples(p: ArgumentParser) -> None:
    """`--calibration`, `--test`, `--labels`, `--samples`, and `add_scaling`."""
    add_calibration(p)
    p.add_argument(
        "--test",
        metavar="FOLDER|FILE",
        help="samples to judge models on (default: the calibration samples)",
    )
    add_labels(p)
    p.add_argument(
        "--samples", type=int, metavar="N", help="use N samples only, spread evenly over classes and files"
    )
    add_scaling(p)


def add_calibration(p: ArgumentParser, what: str = "without them inputs are made up") -> None:
    """`--calibration`."""
    p.add_argument("--calibration", metavar="FOLDER|FILE", help=f"real samples; {what}")


def add_labels(p: ArgumentParser) -> None:
    """`--labels`."""
    p.add_argument(
        "--labels",
        metavar="FILE",
        help="class names, one a line (default: those in the model's file, else a labels file beside it)",
    )


def add_scheme(p: ArgumentParser, more: str = "") -> None:
    """`--scheme`."""
    p.add_argument(
        "--scheme",
        metavar="SCHEME",
        help=f"how to make it smaller: {', '.join(SCHEMES)}{more} (default {SCHEMES[0]})",
    )


def add_onnx(p: ArgumentParser) -> None:
    """`--opset`, `--external-data`."""
    p.add_argument(
        "--opset",
        type=int,
        metavar="N",
        help="for .onnx: version of ONNX's op set, 17 to 21 (default 17, or what the model needs)",
    )
    p.add_argument(
        "--external-data",
        action="store_true",
        default=None,
        help="for .onnx: put the weights into a second file, OUTPUT.data, as is done above 2 GB anyway",
    )


def add_c(p: ArgumentParser) -> None:
    """`--rounding`, `--cpu`, `--sound`, `--sample-rate`, `--layout`, `--stream`, `--ram`."""
    add_rounding(p)
    add_cpu(p)
    add_sound(p)
    p.add_argument(
        "--layout",
        metavar="C_LAYOUT",
        help=f"for .c: how its files are arranged: {', '.join(C_LAYOUTS)} (default {C_LAYOUTS[0]})",
    )
    add_stream(p)
    add_ram(p)


def add_rounding(p: ArgumentParser) -> None:
    """`--rounding`."""
    p.add_argument(
        "--rounding",
        metavar="ROUNDING",
        help=f"for .c: whose answers to give, bit by bit: {', '.join(ROUNDINGS)} (default {ROUNDINGS[0]})",
    )


def add_cpu(p: ArgumentParser, default: str = CPUS[0]) -> None:
    """`--cpu`."""
    p.add_argument(
        "--cpu",
        metavar="CPU",
        help=f"the processor that kernels of C are chosen for; {', '.join(CPUS)} (default {default})",
    )


def add_ram(p: ArgumentParser) -> None:
    """`--ram`."""
    p.add_argument(
        "--ram",
        metavar="BYTES",
        help="64KB or 64KiB: memory that may be taken, the stack included; for .c: layers run a few rows at a"
        " time where that is too little for them whole (default: all whole, the fastest)",
    )


def add_coreml(p: ArgumentParser) -> None:
    """`--compute-precision`, `--weights`, `--deployment-target`, `--image-input`, its scale, `--labels`."""
    p.add_argument(
        "--compute-precision",
        metavar="PRECISION",
        help=f"for .mlpackage: {' or '.join(PRECISIONS)}, which the Neural Engine needs (default"
        f" {PRECISIONS[0]}: the model's own answers)",
    )
    p.add_argument(
        "--weights",
        metavar="WEIGHTS",
        help=f"for .mlpackage: {' or '.join(COREML_WEIGHTS)}, with a scale for each channel (default"
        f" {COREML_WEIGHTS[0]})",
    )
    p.add_argument(
        "--deployment-target",
        metavar="SYSTEM",
        help=f"for .mlpackage: the oldest system that runs it: {', '.join(COREML_TARGETS)} (default"
        f" {COREML_TARGETS[1]}; macOS12 to macOS15 are the same)",
    )
    p.add_argument(
        "--image-input",
        action="store_true",
        help="for .mlpackage: take pictures where inputs are such, scaled as the model's metadata says",
    )
    p.add_argument(
        "--mean",
        metavar="X[,X...]",
        help="pictures: (pixel - mean) / std, one number or one for each channel; with --image-input",
    )
    p.add_argument("--std", metavar="X[,X...]", help="see --mean")
    p.add_argument(
        "--labels", metavar="FILE", help="class names, one a line; makes an .mlpackage a classifier"
    )


def coreml_options(args: Namespace) -> dict[str, Any]:
    """What `add_coreml` parsed, by the names of `thinflow.convert`.

    Raises:
        ParameterError: a number cannot be read.
    """
    names = ("compute_precision", "weights", "deployment_target", "image_input", "labels")
    scaling = {name: channel_numbers(f"--{name}", getattr(args, name)) for name in ("mean", "std")}
    return {name: getattr(args, name) for name in names} | scaling


def c_options(args: Namespace) -> dict[str, Any]:
    """What `add_c` parsed, by the names of `thinflow.convert`."""
    names = ("rounding", "cpu", "sound", "sample_rate", "layout", "stream", "ram")
    return {name: getattr(args, name) for name in names}


def add_sound(p: ArgumentParser, default: str = SOUNDS[0]) -> None:
    """`--sound`, and `add_sample_rate`."""
    p.add_argument(
        "--sound",
        metavar="SOUND",
        help="for .c: samples of sound as float or int16, or fixed: int16 with features made in fixed point;"
        f" where the model makes a spectrogram of them (default {default})",
    )
    add_sample_rate(p)


def add_sample_rate(p: ArgumentParser) -> None:
    """`--sample-rate`."""
    p.add_argument(
        "--sample-rate",
        type=int,
        metavar="HZ",
        help="for .c: samples a second, where the model takes that beside the samples (default 16000)",
    )


def add_stream(p: ArgumentParser) -> None:
    """`--stream`."""
    p.add_argument(
        "--stream",
        action="store_true",
        help="for .c: a network over time hears only what is new in a run, and keeps what it computed before",
    )


def add_transforms(p: Any) -> None:
    """`--transforms`, on a parser or a group."""
    p.add_argument(
        *("-t", "--transforms"),
        action="append",
        metavar="TRANSFORMS",
        help="a transform string; may be repeated",
    )
