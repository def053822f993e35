"""What label_image takes from a model's file where the user says nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from thinflow.compat.label_image.pictures import Preparation, Scale
from thinflow.engines.session import Session
from thinflow.errors import ParameterError
from thinflow.ir.types import STRING, TensorSpec
from thinflow.ir.usage import BGR, InputUsage, Usage, Words, scaling_text
from thinflow.optimize.stated_usage import labels_of, picture_usage
from thinflow.optimize.stated_usage import scaling_text as told_scaling


@dataclass(frozen=True)
class StatedUse:
    """A model's own account of its use, beside what the user says, which wins."""

    session: Session
    usage: Usage

    def preparation(self, source: str, given: Preparation) -> tuple[Preparation, list[str]]:
        """How a picture becomes an input, and what is worth saying about it.

        Args:
            source: name of the input.
            given: by the user.
        """
        spec = self.session.inputs.get(source)
        if spec is None or spec.dtype == STRING:
            return given, []
        grid = self.session.grids.get(self.session.aliases.get(source, source))
        found = picture_usage(self.usage, source, spec, grid)
        if found is None:
            return given, []
        if found.size is not None and not given.is_sized and _is_open(spec):
            given = replace(given, height=found.size[0], width=found.size[1])
        if found.colours == BGR and not given.bgr:
            given = replace(given, bgr=True)
        stated = self.usage.input(source) or found
        if given.is_scaled:
            return given, _contradiction(stated, given)
        if found.is_scaled:
            scaled = replace(given, mean=_scale(found.mean), std=_scale(found.std))
            return scaled, [f"from the model's file: {told_scaling(found)}"]
        if not stated.is_scaled or stated.assumed:
            return given, []
        codes = f"from the model's file: its codes are pixels, which stand for {stated.formula}"
        return given, [f"{codes} ({stated.said})"]

    def labels(self, output: str, given: Sequence[str], path: str) -> tuple[list[str], list[str]]:
        """The names of the classes, and what is worth saying about them.

        Args:
            output: name of the scores.
            given: by the user; empty for none.
            path: of the file with these.

        Raises:
            ParameterError: neither the user nor the file gives any.
        """
        found = self._stated_labels(output)
        if not given:
            if found is None:
                raise ParameterError(
                    f"the model's file has no labels for its output '{output}'",
                    hint="give a file of them, one a line: --labels=labels.txt",
                )
            return list(found.words), [f"from the model's file: {found.text('labels')} of {found.name}"]
        # The original's lists are filled up, so that fewer need not be others.
        if found is None or list(found.words) == list(given):
            return list(given), []
        return list(given), [f"{path} is taken; the model's file has other labels: {found.text('labels')}"]

    def _stated_labels(self, output: str) -> Words | None:
        spec = self.session.outputs.get(output)
        return labels_of(self.usage, {output: spec if spec is not None else TensorSpec(None, None)})


def _scale(values: tuple[float, ...]) -> Scale:
    return values[0] if len(values) == 1 else values


def _is_open(spec: TensorSpec) -> bool:
    return spec.shape is None or None in spec.shape[1:]


def _contradiction(found: InputUsage, given: Preparation) -> list[str]:
    """A note if the user scales pixels otherwise than the file says."""
    mean, std = (0.0 if given.mean is None else given.mean), (255.0 if given.std is None else given.std)
    asked = scaling_text(*((v if isinstance(v, tuple) else (v,)) for v in (mean, std)))
    if not found.is_scaled or found.assumed or asked == found.formula:
        return []
    return [
        f"pixels go in as {asked}, as the flags say; the model's file says {found.formula} ({found.said})"
    ]
