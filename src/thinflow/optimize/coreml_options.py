"""What can be asked of a Core ML package, in words: checked, and as the options of what writes it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from thinflow.errors import ParameterError, closest
from thinflow.ir.usage import word_lines
from thinflow.lower.coreml.options import PRECISIONS, TARGETS, WEIGHTS, Options

if TYPE_CHECKING:
    from thinflow.typing import FilePath

SUFFIX = ".mlpackage"
_MOST_LABELS = 1 << 22


@dataclass(frozen=True)
class CoreMLOptions:
    """What is asked of a package, None and False where nothing is; see `thinflow.convert_verified`.

    Attributes:
        mean, std: of pixels, one number or one for each channel.
        compute_precision, weights, deployment_target, image_input: as in `Options`, by other names.
        labels: path of a file with the names of classes, one a line.
    """

    compute_precision: str | None = None
    weights: str | None = None
    deployment_target: str | None = None
    image_input: bool = False
    labels: FilePath | None = None
    mean: float | Sequence[float] | None = None
    std: float | Sequence[float] | None = None

    def require_coreml(self, path: FilePath) -> None:
        """Refuse a file that is no .mlpackage if anything is asked of one.

        Raises:
            ParameterError: something is.
        """
        given = [_NAMES[f.name] for f in fields(self) if getattr(self, f.name) not in (None, False)]
        if given and not os.fspath(path).endswith(SUFFIX):
            raise ParameterError(
                f"{given[0]} goes with {SUFFIX} only", hint=f"end the output's name in {SUFFIX}"
            )

    def chosen(self) -> Options:
        """The same for what writes packages.

        Raises:
            ParameterError: there is no such precision, kind of weights or system; they do not go together; or
                labels cannot be read.
        """
        precision = _one_of("compute precision", self.compute_precision, PRECISIONS, PRECISIONS[0])
        weights = _one_of("kind of weights", self.weights, WEIGHTS, WEIGHTS[0])
        target = _one_of("deployment target", self.deployment_target, TARGETS, TARGETS[1])
        if weights == "int8" and target == TARGETS[0]:
            raise ParameterError(f"{target} has no weights in int8", hint=f"--deployment-target {TARGETS[1]}")
        labels = () if self.labels is None else _labels(self.labels)
        mean, std = _numbers(self.mean), _numbers(self.std)
        if (mean or std) and not self.image_input:
            raise ParameterError(
                "a mean or deviation of pixels goes with an image input", hint="--image-input"
            )
        if 0 in std:
            raise ParameterError("std is 0", hint="give what pixels are divided by")
        return Options(precision, weights, target, self.image_input, mean, std, labels)


_NAMES = {
    "compute_precision": "a compute precision",
    "weights": "a kind of weights",
    "deployment_target": "a deployment target",
    "image_input": "an image input",
    "labels": "a list of labels",
    "mean": "a mean of pixels",
    "std": "a deviation of pixels",
}


def _one_of(what: str, given: str | None, known: tuple[str, ...], default: str) -> str:
    if given is None:
        return default
    if given not in known:
        raise ParameterError(
            f"there is no {what} '{given}'", hint=closest(given, known) or f"choose of {', '.join(known)}"
        )
    return given


def _numbers(given: float | Sequence[float] | None) -> tuple[float, ...]:
    if given is None:
        return ()
    return (float(given),) if isinstance(given, int | float) else tuple(float(n) for n in given)


def _labels(path: FilePath) -> tuple[str, ...]:
    try:
        with open(path, encoding="utf-8") as file:
            words = word_lines(file.read(_MOST_LABELS))
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no text in UTF-8"
        raise ParameterError(
            f"{os.fspath(path)}: the labels cannot be read: {why}", hint="one a line"
        ) from error
    if not words:
        raise ParameterError(f"{os.fspath(path)}: there are no labels in it", hint="write one a line")
    return words
