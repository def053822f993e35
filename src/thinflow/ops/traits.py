"""Traits: properties that code outside this package asks an op for, instead of keeping a list of names.

A class says its traits beside its shape rule; a subclass has those of its bases, too:

    @op("Enter", "RefEnter")
    class Enter(OpDef):
        traits = Trait.ENTER | Trait.CONTROL_FLOW

Whoever treats such ops alike asks by the name of the op. An op that nobody declared has no trait:

    if has(node.op, Trait.ENTER | Trait.EXIT):  # either
    switches = [n for n in graph if n.op in ops_with(Trait.SWITCH)]

A trait is a fact about the op that holds in every graph, whoever asks. What only one transform or one target
thinks of an op is no trait; it stays there. Of ops without a class, `declare` says at least the traits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set
from enum import Enum, Flag, auto
from functools import cache
from typing import Any, Generic, TypeVar

from thinflow.ir.discovery import Registered
from thinflow.ir.types import STRING


class Trait(Flag):
    """A property of an op; `|` makes "any of these"."""

    # ---- How it runs

    STATEFUL = auto()
    """Has a side effect, or gives another answer next time (variables, random numbers, queues, Print)."""
    RESOURCE = auto()
    """Its result is made once per session and kept between runs (variables, tables, queues)."""
    GIVES_REFERENCE = auto()
    """Gives a TF1 variable itself (Variable, Assign...), whose readers see what it holds when they run."""
    TAKES_REFERENCE = auto()
    """Its first input may be a TF1 variable itself, not what that holds."""

    # ---- Control flow

    CONTROL_FLOW = auto()
    """Needs the interpreter's frame machinery: the next five, and LoopCond."""
    ENTER = auto()
    EXIT = auto()
    NEXT_ITERATION = auto()
    SWITCH = auto()
    MERGE = auto()
    WHILE = auto()
    """Calls a condition and a body until the condition is false."""
    IF = auto()
    """Calls one of two functions, by a condition."""
    CASE = auto()
    """Calls one of many functions, by a number."""
    CALL = auto()
    """Calls one function, once."""

    # ---- Types

    T_OF_FIRST_INPUT = auto()
    """The attribute T is the type of input 0."""
    T_OF_ALL_INPUTS = auto()
    """The attribute T is the type of every input."""

    # ---- Ends of a graph, and what only watches

    PLACEHOLDER = auto()
    """Takes what the caller feeds."""
    FED = auto()
    """A placeholder without a default."""
    ASSERT = auto()
    """Stops the run if something is wrong, and else changes nothing."""
    PRINT = auto()
    """Writes something for people to read, or words it."""
    SUMMARY = auto()
    """Makes a record for TensorBoard."""
    SHAPE_OF = auto()
    """Reads the shape of its inputs, not their elements."""

    # ---- Variables, tables, queues

    VARIABLE = auto()
    """A variable of the model, itself or a handle of it."""
    TF1_VARIABLE = auto()
    """A variable of the model itself, not a handle."""
    ASSIGN = auto()
    """Input 0, a variable, holds input 1 from now on."""
    TABLE = auto()
    """Makes a lookup table."""
    TABLE_FILL = auto()
    """Puts keys (input 1) with their values (input 2) into a table (input 0)."""
    TABLE_FILE = auto()
    """Fills a table (input 0) with what a text file (input 1) says."""
    TABLE_FIND = auto()
    """Looks keys (input 1) up in a table (input 0)."""
    TABLE_SIZE = auto()
    TENSOR_ARRAY = auto()
    """Makes a tensor array."""
    TENSOR_ARRAY_SIZE = auto()
    TENSOR_ARRAY_WRITE = auto()
    """Puts something into a tensor array, and gives the array."""
    TENSOR_LIST = auto()
    """Makes, changes or reads a list of tensors: a TensorList or a tensor array."""
    QUEUE = auto()
    """Makes a queue."""
    FIFO = auto()
    """Makes a queue that gives its items in the order in which they came."""
    QUEUE_STATE = auto()
    """Asks or sets what state a queue is in, and moves no item."""
    ENQUEUE = auto()
    DEQUEUE = auto()
    DEQUEUE_MANY = auto()
    DEQUEUE_UP_TO = auto()

    # ---- Data movement: the elements that come out went in

    PASSES_THROUGH = auto()
    """Output 0 is input 0, unchanged; it may be there for a check or a message (CheckNumerics, Print)."""
    IDENTITY = auto()
    """Its output is its one input, and nothing else happens: away with it, and no number changes."""
    RESHAPE = auto()
    """Input 0 in another shape, its elements in the same order."""
    REARRANGES = auto()
    """Elements of input 0 in other places: some or all, perhaps several times, perhaps conjugated."""
    CAST = auto()
    """Input 0 in another type."""
    CONCAT = auto()
    """Joins tensors along an axis that exists."""
    STACK = auto()
    """Joins tensors along a new axis."""
    SPLIT = auto()
    GATHER = auto()
    """Rows of input 0, at the indices in input 1."""
    PAD = auto()
    """Input 0 with a margin of one number around it."""
    SELECT = auto()
    """Elements of input 1 where input 0 is true, else of input 2."""

    # ---- Arithmetic

    ELEMENTWISE = auto()
    """Each element of the output is made of the elements at its place in the inputs, which broadcast."""
    COMMUTATIVE = auto()
    """Two inputs may change places; not those of strings, which Add joins."""
    LINEAR = auto()
    """Moves, adds or subtracts numbers: the parts of complex ones go through it each by itself."""
    ADD = auto()
    SUBTRACT = auto()
    MULTIPLY = auto()
    BIAS_ADD = auto()
    """Adds a vector (input 1) along the channels."""
    DIVIDE = auto()
    """The quotient, which for integers is rounded."""
    HAS_DIVISOR = auto()
    """Input 1 divides, be it a quotient or a remainder that comes out."""
    EXTREME = auto()
    """The larger or the smaller of two numbers."""
    NOT_NEGATIVE = auto()
    """Of real numbers it makes none below 0."""
    RECTIFIER = auto()
    """Makes 0 of what is below it, and leaves other numbers alone, at least up to a bound."""
    TYPE_BITS = auto()
    """Depends on how a type stores its numbers, so that it gives something else in another type."""
    COMPARISON = auto()
    """Compares two numbers; gives bools."""
    REDUCTION = auto()
    """Makes one number of all along the axes that input 1 lists."""
    SEGMENT = auto()
    """Reduces rows that belong together: those with one number in input 1, which is in order."""
    ARG = auto()
    """The place of the largest or smallest number along an axis."""
    TOP_K = auto()
    RANDOM = auto()
    """Random numbers, other ones in each session unless its attributes hold a seed."""
    RANDOM_UNIFORM = auto()
    """Random numbers, evenly spread over [0, 1)."""

    # ---- Layers

    MATMUL = auto()
    """Product of matrices (inputs 0 and 1)."""
    CONVOLUTION = auto()
    """Input 0 under a moving filter, input 1: [*window, channels in, channels out or a multiplier]."""
    FUSED_CONV = auto()
    """A convolution with what stands before it: a resize, a margin."""
    CONV_2D = auto()
    """A convolution of images: filter [h,w,channels in,channels out or a multiplier]."""
    CONV_TRANSPOSE = auto()
    """The gradient of a convolution for its input: sizes, filter, what came out -> what went in."""
    BATCH_NORM = auto()
    """Normalizes input 0 with moments and parameters for each channel, its other inputs."""
    FUSED_BATCH_NORM = auto()
    """A batch norm whose inputs are x, scale, offset, mean and variance, in this order."""
    POOL = auto()
    """The largest or mean number under a moving window."""
    SOFTMAX = auto()
    """Softmax along the last axis, or its logarithm."""
    TAKES_IMAGES = auto()
    """Input 0 has four axes: [n,h,w,c], unless `data_format` names another order."""
    RESIZE = auto()
    """Images [n,h,w,c] in another size (input 1)."""
    NMS = auto()
    """Chooses boxes that overlap little."""
    LITERT_CUSTOM = auto()
    """LiteRT has it as it is installed, as a custom op of that name."""
    DECODES_IMAGE = auto()
    """The pixels of an image file's bytes."""

    # ---- Quantization

    FAKE_QUANT = auto()
    """Rounds floats to what a few bits can say."""
    SIMULATES_QUANTIZATION = auto()
    """Quantizes floats and dequantizes them at once, whatever its range: they stay floats."""
    QUANTIZE = auto()
    """Floats to eight-bit numbers of a given range."""
    DEQUANTIZE = auto()
    """Eight-bit numbers to the floats they stand for."""
    MEASURES_RANGE = auto()
    """Finds the range of the numbers at hand, so that it is known only once they are."""
    GIVES_RANGE = auto()
    """Its outputs are the minimum and maximum of the quantized values it reads, and nothing else."""
    QUANTIZED_PRODUCT = auto()
    """A matrix product or convolution of TF1's eight-bit numbers; input 1 are the weights."""
    QUANTIZED = auto()
    """Computes with TF1's eight-bit numbers, whose ranges are inputs and outputs of their own."""
    KEEPS_RANGE = auto()
    """A quantized op whose result has the range of its quantized operand."""
    REFUSES_EMPTY_RANGE = auto()
    """A quantized op that fails if the ends of an operand's range are equal."""


class Role(Enum):
    """The meaning of the numbers of an input, where not any number will do."""

    SOUND = auto()
    """A sound: [samples, channels]."""
    RATE = auto()
    """Samples a second."""
    SIDES = auto()
    """Height and width of a picture."""
    SHAPE = auto()
    """Sizes of what is there already, in another arrangement; one may be -1."""
    COUNT = auto()
    """The number of things to make, along each axis if there are several."""
    SPLITS = auto()
    """Where rows of a ragged tensor begin and the last one ends: from 0 up to the number of values."""


T = TypeVar("T")
classes: Registered[type[Any]] = Registered("thinflow.ops", "op", "declare")
"""The class of each op; see `registry`."""
_declared: dict[str, int] = {}
"""Op name -> its traits as bits: plain integers answer several times as fast as a Flag."""


def declare(names: Iterable[str], traits: Trait) -> None:
    """Note the traits of ops; `registry.op` does it for those with a class."""
    # Tests and plug-ins define ops later; what was answered before would miss them.
    _declared.update(dict.fromkeys(names, traits.value))
    _listed.cache_clear()


def has(op: str, traits: Trait) -> bool:
    """True if an op has any of these traits; an op that nobody declared has none."""
    bits = _declared.get(op)
    if bits is None:
        classes.find(op)  # which imports the module that declares it
        bits = _declared.get(op, 0)
    # The integers themselves: `&` of flags and `.value` cost ten times as much, at every node of a graph.
    return (bits & traits._value_) != 0


def commutes(op: str, element: object) -> bool:
    """True if the inputs of an op may change places, its elements being of this type (attribute `T`)."""
    # Strings are joined by Add, too.
    return has(op, Trait.COMMUTATIVE) and element is not STRING


def ops_with(traits: Trait) -> Set[str]:
    """The names of all ops that have any of these traits.

    Whether an op is among them takes no import but that op's; who goes through them imports all ops.
    """
    return _OpsWith(traits)


class _OpsWith(Set[str]):
    def __init__(self, traits: Trait) -> None:
        self._traits = traits

    def __contains__(self, op: object) -> bool:
        return isinstance(op, str) and has(op, self._traits)

    def __iter__(self) -> Iterator[str]:
        return iter(_listed(self._traits))

    def __len__(self) -> int:
        return len(_listed(self._traits))

    @classmethod
    def _from_iterable(cls, it: Iterable[T]) -> frozenset[T]:
        return frozenset(it)


@cache
def _listed(traits: Trait) -> frozenset[str]:
    len(classes)
    return frozenset(op for op, bits in _declared.items() if bits & traits.value)


Rule = TypeVar("Rule", bound=Callable[..., Any])


class RuleTable(Generic[Rule]):
    """Rules by op, each registered beside its function, for names of ops and for traits.

    rules: RuleTable[Callable[[Node], Value | None]] = RuleTable()

    @rules.rule("Tile", Trait.PAD)
    def _nothing_added(node: Node) -> Value | None: ...
    """

    def __init__(self) -> None:
        self._rules: list[tuple[frozenset[str], Trait, Rule]] = []
        self._of: dict[str, tuple[Rule, ...]] = {}
        # How many ops had traits when these answers were given: tests and plug-ins define ops later.
        self._known = 0

    def rule(self, *ops: str | Trait) -> Callable[[Rule], Rule]:
        """Decorator: the rule for these ops, and for all that have one of these traits."""
        names = frozenset(name for name in ops if isinstance(name, str))
        traits = Trait(0)
        for trait in ops:
            traits |= trait if isinstance(trait, Trait) else Trait(0)

        def register(function: Rule) -> Rule:
            self._rules.append((names, traits, function))
            return function

        return register

    def of(self, op: str) -> tuple[Rule, ...]:
        """The rules for an op, in the order in which they were registered."""
        if self._known != len(_declared):
            self._of, self._known = {}, len(_declared)
        if op not in self._of:
            self._of[op] = tuple(
                rule for names, traits, rule in self._rules if op in names or has(op, traits)
            )
        return self._of[op]
