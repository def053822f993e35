"""Recipes, choices of the user about quantization as frozen data; and what came of one, tensor by tensor."""

from __future__ import annotations

import glob
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any, Generic, TypeVar

from thinflow.errors import GraphError, ParameterError, closest
from thinflow.ir.brief import brief_repr
from thinflow.program.model import Operator
from thinflow.quantize import observers
from thinflow.tflite import schema
from thinflow.tflite.model import Program
from thinflow.typing import Array

SCHEMES = {
    "int8": "int8 weights and activations, int32 biases; needs samples",
    "int16x8": "int8 weights, int16 activations, int64 biases; needs samples",
    "dynamic": "int8 weights, float activations that LiteRT rounds while it runs",
    "float16": "weights and constants stored as float16, computed in float32",
    "int8_weights": "weights stored as int8, computed in float32",
    "int4_weights": "weights stored as int4, the first and last layer as int8; computed in float32",
}
"""Every scheme, in a few words."""

NEEDS_SAMPLES = frozenset(("int8", "int16x8"))
"""Schemes with ranges of activations."""

BORDER_TYPES = {"int8": ("float32", "int8", "uint8"), "int16x8": ("float32", "int16")}
"""Types of inputs and outputs of a model by scheme; float32 alone for the others."""

RESCALING = {
    "off": "channels stay as they were trained",
    "unequal": "where one channel is many times the size of the others",
    "all": "wherever channels can be rescaled without a change of any answer",
}
"""Choices for rescaling channels before their numbers are rounded."""

ROUNDING = {
    "nearest": "each weight to the nearest step",
    "gptq": "weight by weight, each making up for the errors of those before it",
    "sequential": "the same layer by layer, each making up for what the layers before it lost as well",
}
"""Choices for the rounding of weights."""

COLUMNS = {
    "off": "never: layers keep the form that accelerators know",
    "portable": "where that is no loss on common processors",
    "amx": "for processors that multiply matrices of int8 in one instruction; slower on others",
}
"""Choices for convolutions of images with few channels, which can read several columns at once, to the same
result."""

BLOCK_SIZES = (16, 32, 64, 128, 256)
"""Inputs of a channel that can share a scale."""

FLOAT_PARTS = {
    "slow": "operators whose integer kernel takes longer than float and the way there and back",
    "scores": "softmax, sigmoid and joints of unlike ranges that make the answers, and what follows them",
    "recurrent": "LSTMs of one operator, whose state would be rounded in every step",
}
"""What can be left to float beside integers. A model that takes and gives integers has none of it."""

_CHOICES: Mapping[str, Mapping[str, str]] = {
    "columns": COLUMNS,
    "rescale": RESCALING,
    "rounding": ROUNDING,
}

_PATTERNS = ("skip_nodes", "weights_only", "dynamic_nodes", "eight_bits")
"""Fields with patterns for names of operators."""
_FLOAT_PATTERNS = ("weights_only", "dynamic_nodes")
"""Those for layers between floats whose weights are integers."""


@dataclass(frozen=True)
class Recipe:
    """Choices for one quantization.

    Attributes:
        scheme: a key of `SCHEMES`.
        observer: name of a range observer, see `observers`.
        observer_options: keyword arguments of that observer.
        per_channel: one weight scale per output channel instead of one per tensor.
        skip_ops: op codes ("SOFTMAX") that stay float.
        skip_nodes: patterns (`*` and `?`) for operators that stay float: matched with the name of the source
            node and of each output.
        weights_only: patterns, as in `skip_nodes`, for layers that stay float with their weights stored as
            int8, for schemes with integer activations.
        dynamic_nodes: patterns, as in `skip_nodes`, for layers of LiteRT that compute as in the scheme
            "dynamic", for schemes with integer activations.
        eight_bits: patterns, as in `skip_nodes`, for layers whose weights keep eight bits in the scheme
            "int4_weights".
        block_size: inputs of a channel that share a scale in the scheme "int4_weights", where a layer has a
            multiple of them; 0 for one scale per channel. For ONNX: LiteRT's kernels take none.
        input_type, output_type: what the model's float inputs and outputs become, see `BORDER_TYPES`.
        columns: a key of `COLUMNS`; the scheme "int8" alone looks at it.
        few_samples: below this many calibration samples there is a warning.
        keep_weights: whether weights that lie on a grid already, as those of a quantized file do, stay
            exactly what they are; else the largest of a channel becomes the largest integer.
        rescale: a key of `RESCALING`.
        scale_inputs: whether the model multiplies the channels of its float inputs by factors first, which
            its layers make up for: one scale for features of unlike size leaves the small ones few steps.
        scale_outputs: the same behind the layers that give float outputs: one scale for numbers of 5000 and
            of 0.1 leaves nothing of the small ones.
        rounding: a key of `ROUNDING`; all but "nearest" look at samples whatever the scheme.
        correct_bias: whether biases make up for the mean error of rounded weights; looks at samples, too.
        float_parts: keys of `FLOAT_PARTS`; schemes with integer activations look at them.
        looked_at: at most so many samples, spread over all, tell what takes many walks: rescaling, rounding,
            biases and channels that go.
        prune: decibels below a layer's sum that channels have to be, all together, to be left out: see
            `pruning`; 0 keeps all of them.
    """

    scheme: str = "int8"
    observer: str = "minmax"
    observer_options: Mapping[str, object] = field(default_factory=dict)
    per_channel: bool = True
    skip_ops: frozenset[str] = frozenset()
    skip_nodes: tuple[str, ...] = ()
    weights_only: tuple[str, ...] = ()
    dynamic_nodes: tuple[str, ...] = ()
    eight_bits: tuple[str, ...] = ()
    block_size: int = 0
    input_type: str = "float32"
    output_type: str = "float32"
    columns: str = "off"
    few_samples: int = 100
    keep_weights: bool = False
    rescale: str = "off"
    scale_inputs: bool = False
    scale_outputs: bool = False
    rounding: str = "nearest"
    correct_bias: bool = False
    float_parts: frozenset[str] = frozenset(("slow", "scores", "recurrent"))
    looked_at: int = 64
    prune: float = 0.0

    def __post_init__(self) -> None:
        require_scheme(self.scheme)
        self._check_borders()
        for field_name, choices in _CHOICES.items():
            chosen = getattr(self, field_name)
            if chosen not in choices:
                hint = closest(chosen, choices) or f"there are: {', '.join(choices)}"
                raise ParameterError(f"{field_name} cannot be '{chosen}'", hint=hint)
        # Made and dropped: a wrong name or option is refused now, not when samples are about to be walked.
        observers.make(self.observer, self.observer_options)
        for field_name in ("skip_ops", *_PATTERNS, "float_parts"):
            if isinstance(getattr(self, field_name), str):
                raise ParameterError(f"{field_name} is a string", hint="give a collection of strings")
        for field_name in _FLOAT_PATTERNS:
            if getattr(self, field_name) and not self.needs_samples:
                raise ParameterError(
                    f"{field_name} says which layers stay float,"
                    f" and scheme '{self.scheme}' leaves all of them",
                    hint=f"leave it out, or choose {' or '.join(sorted(NEEDS_SAMPLES))}",
                )
        if self.eight_bits and self.scheme != "int4_weights":
            raise ParameterError(
                f"eight_bits says which weights have more than four, and scheme '{self.scheme}' has none",
                hint="leave it out, or choose int4_weights",
            )
        if self.block_size and (self.block_size not in BLOCK_SIZES or self.scheme != "int4_weights"):
            raise ParameterError(
                f"block_size cannot be {self.block_size} in scheme '{self.scheme}'",
                hint=f"with int4_weights choose 0 or one of {', '.join(map(str, BLOCK_SIZES))}",
            )
        # Written so that what is no number is refused, too.
        if not self.looked_at >= 1:
            raise ParameterError(f"looked_at cannot be {self.looked_at}", hint="give 1 or more")
        if self.prune and not 10 <= self.prune <= 200:
            raise ParameterError(
                f"prune cannot be {self.prune:g}",
                hint="give 0, or 10 to 200 decibels; 40 is what int8 itself loses",
            )
        for code in self.skip_ops:
            if schema.op_code(code) is None:
                raise ParameterError(
                    f"skip_ops: '{code}' is no LiteRT op", hint=closest(code, schema.OP_CODES)
                )
        for part in self.float_parts:
            if part not in FLOAT_PARTS:
                hint = closest(part, FLOAT_PARTS) or f"there are: {', '.join(FLOAT_PARTS)}"
                raise ParameterError(f"float_parts: there is no '{part}'", hint=hint)
        # Lists are welcome, and frozen here, so that recipes can be compared and hashed.
        object.__setattr__(self, "skip_ops", frozenset(self.skip_ops))
        for field_name in _PATTERNS:
            object.__setattr__(self, field_name, tuple(getattr(self, field_name)))
        object.__setattr__(self, "float_parts", frozenset(self.float_parts))

    def _check_borders(self) -> None:
        allowed = BORDER_TYPES.get(self.scheme, ("float32",))
        for side, kind in (("input", self.input_type), ("output", self.output_type)):
            if kind not in allowed:
                raise ParameterError(
                    f"scheme '{self.scheme}' cannot have {kind} {side}s",
                    hint=f"it can have: {', '.join(allowed)}",
                )

    @property
    def needs_samples(self) -> bool:
        """True if ranges of activations are needed."""
        return self.scheme in NEEDS_SAMPLES

    def leaves(self, part: str) -> bool:
        """True if a key of `FLOAT_PARTS` is left to float."""
        # Who asks for integers at both ends has a processor that knows nothing else.
        return part in self.float_parts and "float32" in (self.input_type, self.output_type)

    @property
    def needs_a_look(self) -> bool:
        """True if samples tell something besides ranges."""
        is_rescaled = self.rescale != "off" or self.scale_inputs or self.scale_outputs
        is_learned = is_rescaled or self.rounding != "nearest" or self.correct_bias
        return is_learned or self.prune > 0

    @property
    def scales_inputs(self) -> bool:
        """True if inputs are scaled: those that are integers have been rounded already."""
        return self.scale_inputs and self.input_type == "float32"

    @property
    def scales_outputs(self) -> bool:
        """The same of outputs."""
        return self.scale_outputs and self.output_type == "float32"

    def why_skipped(self, operator: Operator[Any]) -> str:
        """The choice that keeps all of an operator float; empty if there is none."""
        if operator.code in self.skip_ops:
            return f"skip_ops names {operator.code}"
        return self._matching("skip_nodes", operator)

    def why_float(self, operator: Operator[Any]) -> str:
        """The choice that keeps an operator's arithmetic float; empty if there is none."""
        reasons = (self._matching(field_name, operator) for field_name in _FLOAT_PATTERNS)
        return self.why_skipped(operator) or next(filter(None, reasons), "")

    def stores_weights(self, operator: Operator[Any], field_name: str = "weights_only") -> bool:
        """True if a field has an operator stay between floats, and its weights become integers."""
        return not self.why_skipped(operator) and self._matching(field_name, operator) != ""

    def keeps_eight_bits(self, operator: Operator[Any]) -> bool:
        """True if a layer's weights have eight bits though others have four."""
        return self._matching("eight_bits", operator) != ""

    def reasons_beside(self, other: Recipe) -> list[str]:
        """What `why_float` says of patterns that another recipe does not have."""
        return [
            _reason(field_name, pattern)
            for field_name in _PATTERNS
            for pattern in getattr(self, field_name)
            if pattern not in getattr(other, field_name)
        ]

    def _matching(self, field_name: str, operator: Operator[Any]) -> str:
        """A pattern of a field that names an operator, as a reason; empty if there is none."""
        for pattern in getattr(self, field_name):
            if _matches(pattern, names_of(operator)):
                return _reason(field_name, pattern)
        return ""

    def for_names(self, names: Collection[str]) -> Recipe:
        """The recipe without patterns that match none of some names of operators."""
        kept: dict[str, Any] = {
            field_name: tuple(p for p in getattr(self, field_name) if _matches(p, names))
            for field_name in _PATTERNS
        }
        return replace(self, **kept)

    def check_names(self, operators: Iterable[Operator[Any]], runtime: str) -> None:
        """Refuse patterns that match no operator of a runtime's model.

        Raises:
            ParameterError: with the closest name.
        """
        names = list(dict.fromkeys(name for o in operators for name in names_of(o)))
        for pattern in (p for field_name in _PATTERNS for p in getattr(self, field_name)):
            if not _matches(pattern, names):
                hint = closest(pattern, names) or "sensitivity lists the layers there are"
                raise ParameterError(f"no operator of the {runtime} model is called '{pattern}'", hint=hint)


def _reason(field_name: str, pattern: str) -> str:
    return f"{field_name} has '{pattern}'"


def _matches(pattern: str, names: Collection[str]) -> bool:
    """True if a pattern is one of some names, or fits one."""
    # Names may hold brackets, which in a pattern stand for one of several letters.
    return pattern in names or any(fnmatchcase(name, pattern) for name in names)


def pattern_of(operator: Operator[Any]) -> str:
    """The pattern that names an operator; "" if it has no name."""
    return glob.escape(next(iter(names_of(operator)), ""))


def names_of(operator: Operator[Any]) -> list[str]:
    """Names of an operator: the node it was made from, and its outputs."""
    return [name for name in (operator.origin, *(t.name for t in operator.outputs)) if name]


def require_scheme(name: str) -> None:
    """Refuse the name of a scheme that does not exist.

    Raises:
        ParameterError: with the closest name.
    """
    if name not in SCHEMES:
        raise ParameterError(
            f"there is no quantization scheme '{name}'",
            hint=closest(name, SCHEMES) or f"there are: {', '.join(SCHEMES)}",
        )


PLAIN = Recipe()
"""The recipe of those who choose nothing."""


def chosen_recipe(scheme: str | None, recipe: Recipe | None) -> Recipe:
    """A recipe, or the plain one of a scheme.

    Raises:
        ParameterError: there is no such scheme, or both are given and differ.
    """
    if recipe is None:
        return Recipe(scheme=scheme or "int8")
    if scheme is not None and scheme != recipe.scheme:
        raise ParameterError(
            f"scheme is '{scheme}' and the recipe's is '{recipe.scheme}'", hint="give one of them"
        )
    return recipe


# ------------------------------------------------------------------------------------------------ ONNX models

ACTIVATIONS = ("uint8", "int8")
"""Types that the activations of an ONNX model can be stored in."""

ONNX_SCHEMES = ("int8", "float16", "int8_weights", "int4_weights")
"""Those of `SCHEMES` that have an ONNX form."""


@dataclass(frozen=True)
class QdqOptions:
    """Choices for 8-bit ONNX models besides the recipe: how integers are stored.

    Attributes:
        activations: their type, "uint8" or "int8". The numbers are the same, 128 apart.
        reduce_range: weights of 7 bits. x86 processors without VNNI add two products in 16 bits and saturate;
            with 7 bits they cannot. None: scales are as coarse as pairs of weights need for that, see
            `narrow_sums`. False: of 8 bits all the same, for other processors alone.
    """

    activations: str = "uint8"
    reduce_range: bool | None = None

    def __post_init__(self) -> None:
        if self.activations not in ACTIVATIONS:
            raise ParameterError(
                f"activations cannot be {self.activations}", hint=f"choose {' or '.join(ACTIVATIONS)}"
            )

    @property
    def offset(self) -> int:
        """The number added to quantized values from -128 to 127."""
        return 128 if self.activations == "uint8" else 0

    @property
    def weight_max(self) -> int:
        """The largest quantized weight."""
        # 2 * 255 * 64 = 32640 still fits 16 bits; with 127 it would be 64770.
        return 64 if self.reduce_range else 127


def check_recipe(recipe: Recipe) -> None:
    """Refuse what only LiteRT models can have.

    Raises:
        ParameterError: names it.
    """
    if recipe.scheme not in ONNX_SCHEMES:
        raise ParameterError(
            f"scheme '{recipe.scheme}' has no ONNX form",
            hint=f"choose {' or '.join(ONNX_SCHEMES)}, or write a .tflite file",
        )
    if recipe.skip_ops:
        raise ParameterError("skip_ops names LiteRT ops", hint="for .onnx use skip_nodes")
    if recipe.dynamic_nodes:
        raise ParameterError("dynamic_nodes names layers of LiteRT", hint="for .onnx use weights_only")
    if (recipe.input_type, recipe.output_type) != ("float32", "float32"):
        raise ParameterError("inputs and outputs of an ONNX model stay float32", hint="leave the types out")


# ---------------------------------------------------------------------------------------------------- results

P = TypeVar("P")


@brief_repr
@dataclass(frozen=True)
class Decision:
    """Quantization parameters of one tensor of the result, and their reason.

    Attributes:
        tensor: its name in the result.
        scale: float32 [1], or one per channel; empty for float16.
        zero_point: of all channels.
        range: real numbers that were to be representable.
        observer: who proposed the range; "weights", "constant" or "fixed" if no observer did.
        reason: in a few words.
    """

    tensor: str
    scale: Array
    zero_point: int
    range: tuple[float, float]
    observer: str
    reason: str


@brief_repr
@dataclass
class Quantized(Generic[P]):
    """A smaller program, of LiteRT or ONNX, and how it came to be.

    Attributes:
        decisions: one per quantized tensor, in the order of the program.
        float_operators: operators of `program` that the scheme leaves in float, and why.
        warnings: what is likely to cost accuracy.
        made: operators of the float program -> those of `program` that do their work.
        source: the float program, its channels rescaled; None where nobody said.
    """

    program: P
    decisions: list[Decision] = field(default_factory=list)
    float_operators: list[tuple[Any, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    made: dict[Any, Any] = field(default_factory=dict)
    source: P | None = field(default=None, repr=False)

    @property
    def stated(self) -> list[str]:
        """Tensors with a range that the model itself states: by training, or by the scales of its file."""
        return [d.tensor for d in self.decisions if d.observer in STATED]

    @property
    def measured(self) -> list[str]:
        """Tensors whose range is what samples showed."""
        return [d.tensor for d in self.decisions if d.observer not in (*STATED, *_NOT_OBSERVED)]


STATED = ("trained", "kept")
"""Observers of ranges that a model brings along."""
_NOT_OBSERVED = ("weights", "constant", "fixed")


def require_float(program: Program, subgraphs: int | None = None) -> None:
    """Refuse a program whose first `subgraphs` (default: all) are quantized already.

    Recurrent ops that compute with codes of their own may be in a float program.

    Raises:
        GraphError: naming the tensor.
    """
    for subgraph in program.subgraphs[:subgraphs]:
        tensors = list(subgraph.tensors())
        if any(t.is_variable and t.quantization is not None for t in tensors):
            continue
        for tensor in tensors:
            if tensor.quantization is not None and len(tensor.quantization.scale):
                raise GraphError(f"tensor '{tensor.name}' is quantized already", hint="give the float model")
