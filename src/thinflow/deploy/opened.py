"""The model of an app, opened as an evaluation opens it: its inputs and outputs, and how they are used."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from thinflow.analysis.interface import in_front, is_class_scores
from thinflow.datasets.fields import Feeding
from thinflow.deploy.contract import (
    BOX_CLASSES,
    BOX_COUNT,
    BOX_SCORES,
    BOXES,
    NUMBERS,
    PICTURE,
    QUANTIZED,
    RATE,
    REAL,
    SCORES,
    SOUND,
    WHOLE,
    AppInput,
    AppOutput,
    PictureSteps,
    SoundSteps,
)
from thinflow.engines.session import Session
from thinflow.errors import ParameterError, UnsupportedOp
from thinflow.errors.plain_text import markdown_code
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.types import STRING, TensorSpec, shape_text
from thinflow.ir.usage import AUDIO, IMAGE, InputUsage, Usage
from thinflow.load.graphs import load
from thinflow.ops.traits import Trait, has
from thinflow.optimize.detections import places_of
from thinflow.optimize.evaluation.models import ModelSource, OpenModel
from thinflow.optimize.samples import one_sample
from thinflow.optimize.stated_usage import picture_usage, usage_of
from thinflow.quantize.sample_files import Scaling
from thinflow.synthetic import USUAL, concrete_shape, fitting_specs, synthetic_feeds
from thinflow.typing import Array

SAMPLE_RATE = 16000
"""Hertz: that of the keyword models of TensorFlow's tutorials, where nothing says another."""
_SMALLEST_SIDE = 16
_CHANNELS, _WITH_ALPHA = (1, 3, 4), 4
_PIXELS = ("float32", "float16", "uint8", "int8")
_OF_SOUND = "spectrogram"
_MOST_STEPS = 64
"""Of nodes behind an input that are looked at."""
_OF_CODES = frozenset(
    ("Cast", "Minimum", "Maximum", "AddV2", "Add", "Sub", "Round", "Rint", "RealDiv", "Mul", "QuantizeV2")
)
"""Ops by which a graph says what quantizing does."""
_FEWEST_SAMPLES = 256
"""What is shorter is hardly a sound."""
# As large as rounding gets in other kernels and on other processors: answers stay the same, digits differ.
_TOLERANCE = 1e-3
_CODES = 3


@dataclass(frozen=True)
class Asked:
    """What a user says of a model, before its file.

    Attributes:
        labels: names of classes, or a file of them.
        scaling: of pictures.
        sample_rate: of sound, hertz; None: as the file says.
    """

    labels: Any = None
    scaling: Scaling | None = None
    sample_rate: int | None = None


class OpenedModel:
    """A .tflite file as an app uses it.

    Args:
        path: of the file.
        asked: what a user says of it.
        has_alpha: whether apps can be fed pictures with transparency.

    Attributes:
        inputs: what it takes.
        labels: of its classes; empty if they are not known.
        feeding: makes inputs of pictures and sounds, the same that `evaluate` has.
        doubts: what is not known.

    Raises:
        UnsupportedOp: it takes text.
        ParameterError: it leaves sizes open.
    """

    def __init__(self, path: str, asked: Asked, *, has_alpha: bool = False) -> None:
        self.has_alpha = has_alpha
        self._model = OpenModel(ModelSource(path), asked.labels, asked.scaling, {})
        self._asked = asked
        self.session = self._model.session
        self.specs = {name: one_sample(self.session.spec(name)) for name in self.session.inputs}
        self.feeding: Feeding = self._model.feeding
        self.labels = tuple(self._model.names)
        self.usage: Usage = _by_names_of(self.session, path)
        self.graph: Graph = load(path)
        self.doubts: list[str] = []
        fitting = fitting_specs(self.graph.inputs, first=USUAL)
        for number, (name, spec) in enumerate(self.specs.items()):
            value = self.graph.inputs[number] if number < len(self.graph.inputs) else None
            _require_sizes(name, spec, spec if value is None else fitting.get(value, spec))
        self.inputs = self._inputs()

    @property
    def has_open_batch(self) -> bool:
        """Whether an input leaves open how many samples it takes at once."""
        return any(None in (self.session.spec(one.name).shape or ()) for one in self.inputs)

    @property
    def channels_first(self) -> tuple[str, ...]:
        """The inputs that look like pictures with their channels behind the batch, as PyTorch has them."""
        return tuple(
            one.name
            for one in self.inputs
            if one.kind == NUMBERS
            and len(one.shape) == 4
            and one.shape[0] == 1
            and one.dtype in _PIXELS
            and one.shape[1] in _CHANNELS
            and one.shape[3] not in _CHANNELS
            and _looks_like_picture(one.shape[2], one.shape[3], one.shape[1])
        )

    @cached_property
    def _aliases(self) -> dict[str, str]:
        """Name of an input or output -> what the signature calls it."""
        return {name: alias for alias, name in self.session.aliases.items()}

    def made_up(self) -> dict[str, Array]:
        """What the ops of the graph can take, by name of input."""
        (feed,) = synthetic_feeds(self.graph.inputs, 1)
        arrays = [feed[value] for value in self.graph.inputs]
        return {
            one.name: np.asarray(array, one.dtype).reshape(one.shape)
            for one, array in zip(self.inputs, arrays, strict=True)
        }

    # --- inputs

    def _inputs(self) -> tuple[AppInput, ...]:
        found = [self._input(name, spec) for name, spec in self.specs.items()]
        pictures = [i for i in found if i.kind == PICTURE]
        sounds = [i for i in found if i.kind == SOUND]
        # Two pictures side by side are a matter of the app's author.
        if len(pictures) + len(sounds) > 1:
            return tuple(replace(i, kind=NUMBERS, picture=None, sound=None) for i in found)
        if sounds:
            assert sounds[0].sound is not None
            rate = sounds[0].sound.sample_rate
            found = [replace(i, kind=RATE, value=rate) if _is_rate(i) else i for i in found]
        return tuple(found)

    def _input(self, name: str, spec: TensorSpec) -> AppInput:
        assert spec.dtype is not None
        scale, zero = self.session.grids.get(name, (0.0, 0))
        usage = self.usage.input(name) or InputUsage()
        plain = AppInput(
            name=name,
            alias=self._aliases.get(name, name),
            shape=tuple(n or 1 for n in spec.shape or ()),
            dtype=spec.dtype.numpy().name,
            scale=float(scale),
            zero_point=int(zero),
        )
        picture = self._picture(plain, spec, usage)
        if picture is not None:
            return replace(plain, kind=PICTURE, picture=picture, said=self._said(name, spec))
        sound = self._sound(plain, usage)
        if sound is not None:
            return replace(plain, kind=SOUND, sound=sound, said=usage.said)
        return plain

    def _picture(self, one: AppInput, spec: TensorSpec, usage: InputUsage) -> PictureSteps | None:
        shape = one.shape
        channels = shape[-1] if shape else 0
        if len(shape) not in (3, 4) or channels not in _CHANNELS or (len(shape) == 4 and shape[0] != 1):
            return None
        height, width = shape[-3:-1]
        is_said = usage.kind == IMAGE or self._asked.scaling is not None
        if one.dtype not in _PIXELS or not (is_said or _looks_like_picture(height, width, channels)):
            return None
        if channels == _WITH_ALPHA and not self.has_alpha:
            self.doubts.append(
                f"{markdown_code(one.name)} looks like a picture with transparency, which this target has no"
                " code for: it is fed as numbers; --target python has"
            )
            return None
        scaling = self.feeding.scaling
        if self._said(one.name, spec) == "" and one.dtype != "uint8":
            self.doubts.append(
                f"nothing says how pixels become the numbers of {markdown_code(one.name)}; they are fed as"
                " 0..255: give --mean and --std if it was trained otherwise"
            )
        is_whole = one.dtype == "uint8"
        return PictureSteps(
            height=height,
            width=width,
            channels=channels,
            order={1: "grey", _WITH_ALPHA: "rgba"}.get(channels, "bgr" if scaling.bgr else "rgb"),
            resize=scaling.resize,
            crop=scaling.crop,
            mean=(0.0,) * channels if is_whole else _per_channel(scaling.mean, channels, "mean"),
            std=(1.0,) * channels if is_whole else _per_channel(scaling.std, channels, "std"),
            store=WHOLE if is_whole else self._store(one, scaling),
        )

    def _store(self, one: AppInput, scaling: Scaling) -> str:
        if one.dtype != "int8":
            return REAL
        # Where scaling leads to whole numbers in -128..127, these are the codes.
        ends = [(np.float32(p) - np.asarray(scaling.mean, np.float32)) / scaling.std for p in (0, 255)]
        is_plain = all(np.array_equal(end, np.round(end)) for end in ends) and np.all(
            np.asarray(scaling.std) == 1
        )
        is_within = min(map(np.min, ends)) >= -128 and max(map(np.max, ends)) <= 127
        return WHOLE if is_plain and is_within else QUANTIZED

    def _said(self, name: str, spec: TensorSpec) -> str:
        """Where it stands how pictures become an input; "" if nowhere."""
        asked = self._asked.scaling
        if asked is not None and not asked.keeps_range:
            return "flags"
        found = picture_usage(self.usage, name, spec, self.session.grids.get(name))
        if found is None or not (found.is_scaled or found.kind == IMAGE):
            return ""
        return found.said or (f"assumed: {found.assumed}" if found.assumed else "")

    def _sound(self, one: AppInput, usage: InputUsage) -> SoundSteps | None:
        length = [n for n in one.shape if n != 1]
        if one.dtype not in ("float32", "int16") or len(length) != 1:
            return None
        inside = self._inside(one)
        is_asked = self._asked.sample_rate is not None and length[0] >= _FEWEST_SAMPLES
        if usage.kind != AUDIO and not inside and not is_asked:
            return None
        rate = self._asked.sample_rate or usage.sample_rate
        if not rate:
            rate = SAMPLE_RATE
            self.doubts.append(
                f"nothing says the sample rate of {markdown_code(one.name)}; {rate} a second are assumed:"
                " give --sample-rate if it is another"
            )
        store = WHOLE if one.dtype == "int16" else REAL
        return SoundSteps(length[0], rate, store, inside)

    def _inside(self, one: AppInput) -> tuple[str, ...]:
        """What the model makes of sound, in words."""
        place = list(self.specs).index(one.name)
        value = self.graph.inputs[place]
        found: list[str] = []
        seen: set[Node] = set()
        stack = [r for r in value.readers]
        while stack:
            node = stack.pop()
            if node in seen or len(seen) > _MOST_STEPS:
                continue
            seen.add(node)
            words = in_front(node.op)
            found += [words] if words else []
            if words or has(node.op, Trait.IDENTITY | Trait.RESHAPE | Trait.REARRANGES):
                stack.extend(r for out in node.outputs for r in out.readers)
        # Other numbers in a row are cast or scaled, too.
        return tuple(dict.fromkeys(found)) if _OF_SOUND in found else ()

    # --- outputs

    def run(self, feed: Mapping[str, Array]) -> list[Array]:
        """Its answers, in the order of the file."""
        return self.session.run(None, feed)

    def outputs(self, arrays: Sequence[Array]) -> tuple[AppOutput, ...]:
        """What it gives.

        Args:
            arrays: its answers to some sample, in the order of the file.
        """
        places = places_of(self.graph.outputs, [self._real(n, a) for n, a in self._named(arrays)])
        kinds: dict[int, str] = {}
        if places is not None:
            kinds = {places.boxes: BOXES, places.scores: BOX_SCORES}
            kinds |= {places.kinds: BOX_CLASSES} if places.kinds is not None else {}
            kinds |= {places.number: BOX_COUNT} if places.number is not None else {}
        elif self._has_scores(arrays):
            kinds = {0: SCORES}
        found = []
        for place, (name, array) in enumerate(self._named(arrays)):
            scale, zero = self.session.grids.get(name, (0.0, 0))
            reals = self._real(name, array)
            one = AppOutput(
                name, self._aliases.get(name, name), array.shape, array.dtype.name, float(scale), int(zero)
            )
            if place in kinds:
                one = replace(one, kind=kinds[place])
            is_logits = one.kind == SCORES and not _ends_in_probabilities(self.graph.outputs[place], reals)
            found.append(replace(one, softmax=is_logits, tolerance=_tolerance(reals, float(scale))))
        if not self.labels:
            self.labels = self._names_of_boxes(found)
        return tuple(found)

    def _names_of_boxes(self, outputs: Sequence[AppOutput]) -> tuple[str, ...]:
        """The names of the classes whose numbers an output of a detector has; () if the file has none."""
        for one in outputs:
            if one.kind == BOX_CLASSES:
                usage = self.usage.output(one.name)
                return () if usage is None or usage.labels is None else usage.labels.words
        return ()

    def _named(self, arrays: Sequence[Array]) -> list[tuple[str, Array]]:
        return list(zip(self.session.outputs, arrays, strict=True))

    def _has_scores(self, arrays: Sequence[Array]) -> bool:
        """Whether the first output has a score for each class."""
        first = arrays[0]
        width = first.shape[-1] if first.ndim else 0
        if width < 2 or first.size != width or first.dtype.kind not in "fiu":
            return False
        return len(self.labels) == width or is_class_scores(_source(self.graph.outputs[0]))

    def _real(self, name: str, array: Array) -> Array:
        """Codes as the numbers that they stand for."""
        grid = self.session.grids.get(name)
        if grid is None:
            return array
        return ((array.astype(np.float64) - grid[1]) * grid[0]).astype(np.float32)

    def reals(self, arrays: Sequence[Array]) -> list[Array]:
        """Answers as real numbers."""
        return [self._real(name, array) for name, array in self._named(arrays)]


def _by_names_of(session: Session, path: str) -> Usage:
    """The usage of a file by the names that a session has, which may be those of a signature."""
    held, graph = usage_of(path), load(path, lift=False)
    ends = [(graph.inputs, session.inputs), (graph.outputs, session.outputs)]
    inputs, outputs = (dict(zip((v.name for v in values), names, strict=False)) for values, names in ends)
    return replace(
        held,
        inputs={inputs.get(name, name): one for name, one in held.inputs.items()},
        outputs={outputs.get(name, name): one for name, one in held.outputs.items()},
    )


def _looks_like_picture(height: int, width: int, channels: int) -> bool:
    """Whether sizes are those of a picture, where nothing says so."""
    is_square = height == width >= _SMALLEST_SIDE // 2
    return is_square or (channels != 1 and min(height, width) >= _SMALLEST_SIDE)


def _require_sizes(name: str, spec: TensorSpec, likely: TensorSpec) -> None:
    if spec.dtype is STRING:
        raise UnsupportedOp(
            "it takes text, which apps cannot be made for yet",
            f"input '{name}'",
            "cut the model behind what takes the text apart: --inputs NAME",
        )
    if spec.shape is not None and None in spec.shape:
        sizes = ",".join(map(str, concrete_shape(likely, *USUAL)))
        raise ParameterError(
            f"input '{name}' has open sizes, {shape_text(spec.shape)}, and an app feeds one size",
            hint=f"say which: --shape {name}={sizes}",
        )


def _is_rate(one: AppInput) -> bool:
    return np.dtype(one.dtype).kind in "iu" and math.prod(one.shape) == 1


def _per_channel(numbers: Any, channels: int, what: str) -> tuple[float, ...]:
    """A number for each channel, as float32 has them."""
    found = np.asarray(numbers, np.float32).reshape(-1)
    if len(found) not in (1, channels):
        raise ParameterError(
            f"--{what} has {len(found)} numbers, and pictures have {channels} channels",
            hint=f"give one number, or {channels}",
        )
    return tuple(float(x) for x in np.broadcast_to(found, (channels,)))


def _ends_in_probabilities(value: Value, reals: Array) -> bool:
    """Whether scores are probabilities already: a softmax or a sigmoid gives them, or they look like it."""
    node = _source(value).node
    if has(node.op, Trait.SOFTMAX) or node.op == "Sigmoid":
        return True
    # A softmax of eight bits has steps of 1/256, and hardly ever adds up to 1 exactly.
    return bool(reals.min() >= 0 and abs(float(reals.sum()) - 1) < 0.02)


def _source(value: Value) -> Value:
    """The value that an output passes on, be it as codes: scaled, rounded and held in their range."""
    steps = 0
    is_code = value.dtype is not None and value.dtype.is_integer
    while value.node.inputs and steps < _MOST_STEPS:
        node = value.node
        is_passed = has(node.op, Trait.IDENTITY | Trait.RESHAPE | Trait.FAKE_QUANT)
        is_scaled = node.op in _OF_CODES and all(v.node.tensor is not None for v in node.inputs[1:])
        if not is_passed and not (is_code and is_scaled):
            break
        value, steps = node.inputs[0], steps + 1
    return value


def _tolerance(reals: Array, scale: float) -> float:
    """The largest difference that is none: of rounding in other kernels."""
    if reals.dtype.kind not in "f" or not reals.size:
        return 0.0
    largest = float(np.max(np.abs(reals)))
    return max(_TOLERANCE * largest, _CODES * scale, 1e-6)
