"""Folders that build, for phones, boards and pages."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from thinflow.api.converting import convert_verified
from thinflow.ir.graph import Graph
from thinflow.load.graphs import Source, opening
from thinflow.typing import Progress, Shapes

if TYPE_CHECKING:
    from thinflow.deploy.deployment import Deployment
    from thinflow.quantize.sample_files import Scaling
    from thinflow.typing import FilePath


def deploy(
    source: Source,
    out: FilePath,
    target: str,
    *,
    labels: FilePath | Sequence[str] | None = None,
    scaling: Scaling | None = None,
    sample: FilePath | None = None,
    name: str = "",
    top: int = 5,
    sample_rate: int | None = None,
    cpu: str | None = None,
    ram: float | str | None = None,
    rounding: str | None = None,
    sound: str | None = None,
    shapes: Shapes | None = None,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    tags: str | None = None,
    signature: str | None = None,
    checkpoint: FilePath | None = None,
    progress: Progress | None = None,
) -> Deployment:
    """Make a folder that builds: the model, its labels, code for a platform that does what goes before and
    behind it, a README with the commands, and a self-test.

        made = thinflow.deploy("mobilenet.tflite", "app", target="linux", labels="labels.txt")
        made.test()                              # builds it, and runs the sample in it

    The model has to become a .tflite file, whole. How pictures become numbers is
    what `evaluate` does with the same arguments.

    Args:
        source: path or Graph.
        out: the folder. One that deploy made is replaced if nothing in it was changed.
        target: "python", "linux", "raspberrypi", ...; `thinflow deploy --list` tells all.
        labels: names of classes, or a file with one a line; default: those of the model's file, else of a
            labels file beside it.
        scaling: of pictures; default: as the model's file says.
        sample: of the self-test: a picture, a .wav, an .npy or .npz file; default: made up.
        name: of the program or package; default: after the model's file.
        top: how many of the likeliest classes are shown.
        sample_rate: of sound, hertz; default: as the model's file says, else 16000.
        cpu, ram, rounding, sound: of the model's C, for "arduino", "cortex-m" and "zephyr", as for `convert`;
            samples of sound are of 16 bits there unless `sound` says otherwise.
        shapes: input name -> shape to assume.
        inputs, outputs, tags, signature, checkpoint: as for `load`.
        progress: called with (done, total, label).

    Raises:
        ParameterError: there is no such target, or a choice makes no sense.
        PartialModel: the target can run only a part of the model; nothing is written.
        UnsupportedOp: operators have no form in C, for such a target, all of them named.
        WriteError: the folder holds something else, or cannot be written.
    """
    from thinflow.deploy.making import AppOptions, make
    from thinflow.deploy.opened import Asked
    from thinflow.optimize.c_options import COptions
    from thinflow.optimize.samples import read_class_names

    # Before the model is opened: wrong options should not cost a minute.
    names = read_class_names(labels)
    convert = partial(
        convert_verified,
        source,
        strict=True,
        shapes=shapes,
        inputs=inputs,
        outputs=outputs,
        progress=progress,
        **opening(tags, signature, checkpoint),
    )
    options = AppOptions(
        target,
        Asked(names, scaling, sample_rate),
        name,
        None if sample is None else os.fspath(sample),
        top,
        COptions(rounding, cpu, sound, ram=ram),
    )
    path = source.path if isinstance(source, Graph) else os.fspath(source)
    return make(path, out, convert, options)


def open_deployment(path: FilePath) -> Deployment:
    """A folder that `deploy` made before.

    Raises:
        FormatError: it is none.
    """
    from thinflow.deploy.deployment import Deployment

    return Deployment.open(path)


def deploy_targets() -> list[tuple[str, str]]:
    """Name and title of each target of `deploy`."""
    from thinflow.deploy.targets import targets

    return [(one.name, one.title) for one in targets()]
