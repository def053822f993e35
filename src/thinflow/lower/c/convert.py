"""A LiteRT program as a network in C: a layer for each operator, and places for what they compute."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from thinflow.errors import ParameterError, UnsupportedOp, closest
from thinflow.ir.graph import Graph, Node
from thinflow.ir.order import ancestors
from thinflow.lower.c.banded import banded
from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.constant_channels import drop_constant_channels
from thinflow.lower.c.flow import flattened
from thinflow.lower.c.forms import REFUSED, NotHere, codes, forms_of
from thinflow.lower.c.layer import Constant, Layer
from thinflow.lower.c.list_items import write_list_items
from thinflow.lower.c.options import Bands, Options
from thinflow.lower.c.pictures import PICTURE, RESIZING, fuse_pictures
from thinflow.lower.c.plan import Plan, alive_bytes, plan
from thinflow.lower.c.processors import PROCESSORS
from thinflow.lower.c.reach import height_of, reaches
from thinflow.lower.c.schedule import Scheduler
from thinflow.lower.c.settle import C_TYPES, settle
from thinflow.lower.c.sound import fuse_features, take_samples
from thinflow.lower.c.streaming import stream
from thinflow.lower.tflite.convert import lower_graph, unsupported
from thinflow.tflite.model import Operator, Program, Subgraph, Tensor

__all__ = ["C_TYPES", "Network", "TooLittleMemory", "layer_of", "network", "refused_nodes"]

_SHOWN = 12
_SHOWN_LIMITS = 3


@dataclass
class Network:
    """What is written: layers in the order they run, and where what they compute lies.

    Attributes:
        block: the operators, each whole.
        layers: of the operators; of those in bands, of each part that a band does.
        plan: of the layers.
        options: that were asked for.
        bands: chains of operators that run a few rows at a time.
        counts: values that have fewer rows than memory -> what tells how many; of outputs that is an output
            of the block, too.
    """

    block: Subgraph
    layers: list[Layer]
    plan: Plan
    options: Options
    bands: tuple[Bands, ...] = ()
    counts: Mapping[Tensor, Tensor] = field(default_factory=dict)

    @property
    def outputs(self) -> list[Tensor]:
        """Those of the model: of the block without counts."""
        told = {*self.counts.values()}
        return [t for t in self.block.outputs if t not in told]

    @property
    def macs(self) -> int:
        """Products that are summed in a run."""
        return sum(layer.macs * layer.count for layer in self.layers)

    @property
    def ram_bytes(self) -> int:
        """Bytes of arena, inputs, outputs and state."""
        return self.plan.arena_bytes + self.outside_bytes

    @property
    def outside_bytes(self) -> int:
        """Bytes of what is not in the arena: inputs, outputs and state."""
        ports = {*self.block.inputs, *self.block.outputs}
        return sum(t.size_bytes or 0 for t in ports if not t.is_constant) + self.state_bytes

    @property
    def state_bytes(self) -> int:
        """Bytes that last from run to run."""
        return sum(s.size_bytes for s in {s: None for layer in self.layers for s in layer.states()})

    @property
    def weights_bytes(self) -> int:
        """Bytes of the arrays in flash."""
        arguments = [a for layer in self.layers for a in layer.arguments()]
        tensors = {id(a): a.array() for a in arguments if isinstance(a, Tensor) and a.is_constant}
        constants = {id(a): a.data for a in arguments if isinstance(a, Constant)}
        # What is alike is written once: layers that run on parts of their rows have the same weights.
        arrays = (*tensors.values(), *constants.values())
        return sum({(array.dtype.str, array.tobytes()): array.nbytes for array in arrays}.values())


class TooLittleMemory(ParameterError):
    """There is no schedule in the memory that is given.

    Attributes:
        least: the network that takes the least.
        needed_bytes: what it takes, the stack that was asked for included.
    """

    def __init__(self, least: Network, ram: int) -> None:
        cpu, arena, stack = least.options.cpu, least.plan.arena_bytes, least.options.stack
        self.least = least
        self.needed_bytes = least.ram_bytes + stack
        more = f" and stack {stack:,}" if stack else ""
        super().__init__(
            f"{ram:,} bytes of memory are too few for {cpu}: the least is {self.needed_bytes:,}, arena"
            f" {arena:,}, inputs, outputs and state {least.outside_bytes:,}{more}; most is taken at"
            f" {_limits(least)}{_running_whole(least)}",
            hint=f"give {self.needed_bytes:,} bytes or more; smaller pictures or fewer channels take less",
        )


def network(program: Program, options: Options) -> Network:
    """The network that a program is.

    Args:
        program: its first subgraph is what runs; open batches become 1 in it.
        options: see there.

    Raises:
        UnsupportedOp: operators without a form, all of them; or sizes that are open.
        TooLittleMemory: there is no schedule in the memory that is given.
    """
    block = flattened(program)
    write_list_items(block)
    counts = settle(block)
    fuse_features(block)
    # Who hears a stream keeps rows of each value, and knows every operator by itself.
    if not options.stream:
        fuse_pictures(block, options)
    if options.sound != "float":
        take_samples(block, is_fixed=options.sound == "fixed")
    if options.stream:
        stream(block)
    drop_constant_channels(block, options)
    layers = _layers(block, options)
    made = Network(block, layers, plan(block, layers, keep_all=options.keep_all), options, (), counts)
    bands = options.bands
    if bands is None and options.ram is not None:
        bands = _scheduled(replace(made, plan=plan(block, layers)), options.ram)
    return in_bands(made, bands) if bands else made


def _specialize(whole: Sequence[Layer], parts: Sequence[Layer]) -> None:
    """Give parts of a layer functions of their own where the layer had one: compilers build the settings of a
    call into what is called once, which makes a kernel in plain C a fifth faster and more."""
    once = Counter(call.function for layer in whole for call in layer.calls)
    taken: Counter[str] = Counter()
    for call in (call for layer in parts for call in layer.calls if layer.source is not None):
        name = call.function
        if once[name] == 1:
            taken[name] += 1
            call.words["own"] = str(taken[name])


def _scheduled(whole: Network, ram: int) -> tuple[Bands, ...]:
    """The cheapest schedule in so much memory.

    Raises:
        TooLittleMemory: there is none.
    """
    scheduler = Scheduler(
        whole.block,
        whole.layers,
        whole.plan,
        lambda operator: layer_of(operator, whole.options),
        lambda bands: in_bands(whole, bands).plan.arena_bytes,
    )
    limit = ram - whole.outside_bytes - whole.options.stack
    found = scheduler.within(limit)
    if found is not None:
        return found
    least, least_bytes = scheduler.least()
    if least_bytes <= limit:
        return least
    raise TooLittleMemory(in_bands(whole, least) if least else whole, ram)


def _deciding(made: Network) -> list[Layer]:
    """The layers that decide how much memory a network takes."""
    alive = alive_bytes(made.plan, made.layers)
    # Those within a tenth of the most: taking less at one of them alone would gain nothing.
    least = 0.9 * max(alive, default=0)
    return [layer for layer, n in zip(made.layers, alive, strict=True) if n >= least]


def _limits(made: Network) -> str:
    return ", ".join([*dict.fromkeys(_told(layer.whole) for layer in _deciding(made))][:_SHOWN_LIMITS])


def _running_whole(made: Network) -> str:
    """What makes pictures for these layers, and does not go a few rows at a time."""
    read = {t for layer in _deciding(made) for t in layer.whole.reads()}
    makers = [layer.whole for layer in made.layers if read.intersection(layer.whole.outputs)]
    # Of one row there is nothing less.
    pictures = [o for o in makers if len(o.outputs[0].shape or ()) == 4 and height_of(o.outputs[0]) > 1]
    found = next((o for o in pictures if reaches(o) is None), None)
    if found is None:
        return ""
    # Of a camera's picture in one layer it is the resizing.
    parts = found.options["parts"] if found.code == PICTURE else [found]
    return f"; {_told(next((p for p in parts if p.code == RESIZING), found))} runs whole"


def _told(operator: Operator) -> str:
    y = next(iter((*operator.outputs, *operator.reads())))
    return f"{operator.code} '{y.name.split(';')[0]}'"


def in_bands(whole: Network, bands: Sequence[Bands]) -> Network:
    """A network with chains of its operators in bands."""
    keep_all = whole.options.keep_all
    parts = banded(whole.block, bands, keep_all=keep_all)
    ready = dict(zip(whole.block.operators, whole.layers, strict=True))
    layers = []
    for operator in parts.block.operators:
        layer = ready.get(operator) or layer_of(operator, whole.options)
        layer.source, layer.count = parts.sources.get(operator), parts.counts.get(operator, 1)
        layers.append(layer)
    _specialize(whole.layers, layers)
    planned = plan(parts.block, layers, parts.views, keep_all=keep_all)
    return replace(whole, layers=layers, plan=planned, bands=tuple(bands))


def _layers(block: Subgraph, options: Options) -> list[Layer]:
    """The layers of all operators.

    Raises:
        UnsupportedOp: operators without a form, all of them.
    """
    layers: list[Layer] = []
    refused: list[tuple[Operator, UnsupportedOp]] = []
    for operator in block.operators:
        try:
            layers.append(layer_of(operator, options))
        except UnsupportedOp as error:
            refused.append((operator, error))
    # All at once: whoever mends a model wants to know everything there is to mend.
    if refused:
        raise _refusal(refused)
    return layers


def layer_of(operator: Operator, options: Options) -> Layer:
    """The layer of an operator, by the form that needs most of what the processor has.

    Raises:
        UnsupportedOp: none fits.
    """
    # The first input says what is computed with; what has none, such as a range, its output.
    features = PROCESSORS[options.cpu].features
    types = [t.dtype.name for t in (*list(operator.reads())[:1], *operator.outputs)] or [""]
    forms = forms_of(operator.code if operator.code != "CUSTOM" else operator.custom_code)
    fitting = [f for f in forms if f.needs <= features and (not f.types or types[0] in f.types)]
    for form in fitting:
        builder = LayerBuilder(operator, options)
        try:
            form.rule(builder, operator)
        except NotHere:
            continue
        except UnsupportedOp:
            # What a processor has nothing for, such as weights that are computed, portable C may have.
            if form.needs:
                continue
            raise
        return builder.layer
    # What C has of it says whether another scheme of quantization would help.
    if forms:
        known = sorted({name for f in forms for name in f.types})
        raise UnsupportedOp(f"it is of {types[0]}; C has it of {', '.join(known)}")
    why = REFUSED.get(operator.code)
    raise UnsupportedOp("C has no such operator" + (f", as {why}" if why else ""))


def refused_nodes(graph: Graph, nodes: Iterable[Node]) -> dict[Node, str]:
    """Nodes that LiteRT's ops express, but C does not; each is tried by itself, and why. O(nodes)."""
    found = {}
    for node in nodes:
        # Constants are part of what is lowered: weights have to be constant in C.
        read = [v for v in node.inputs if v.node.tensor is None]
        # What is computed from constants alone is a constant, and no layer.
        if not read or node.op == "NoOp":
            continue
        try:
            # The statistics that a norm gives besides have no form, and nobody reads them.
            wanted = [v for v in node.outputs if v.uses or v in graph.outputs] or node.outputs[:1]
            program = lower_graph(graph, read, wanted, specs={}).program
            made = network(program, Options())
        except UnsupportedOp as error:
            found[node] = error.problem
            continue
        # Who reads rows that are counted may refuse them, which is known of the whole alone.
        is_counted = any(t in made.counts for t in made.outputs)
        if is_counted and any(value.uses for value in node.outputs):
            found[node] = "how many rows it makes follows from what is computed, and others read them"
    return found


def _refusal(refused: list[tuple[Operator, UnsupportedOp]]) -> UnsupportedOp:
    """One error for all operators without a form, those of a kind and for one reason together."""
    operators = [
        (
            o.code if o.code != "CUSTOM" else o.custom_code,
            o.outputs[0].name if o.outputs else "",
            error.problem,
        )
        for o, error in refused
    ]
    # The nearest that there are: often one is the other without an option.
    unknown = dict.fromkeys(code for code, _, _ in operators if code not in codes() and code not in REFUSED)
    near = " ".join(filter(None, (closest(code, codes(), 1) for code in unknown)))
    return UnsupportedOp(
        _listed(operators),
        hint=(f"{near} " if near else "")
        + "cut them off with --inputs or --outputs, or run the model with LiteRT",
    )


def _listed(refused: Sequence[tuple[str, str, str]]) -> str:
    """All that has no form, as code, name and reason: those of a kind and for one reason together."""
    kinds = Counter((code, why) for code, _, why in refused)
    first = {(code, why): name for code, name, why in reversed(refused)}
    told = [
        f"{count} x {code} ('{first[code, why]}'): {why}"
        for (code, why), count in list(kinds.items())[:_SHOWN]
    ]
    more = f"; and {len(kinds) - _SHOWN} more kinds" if len(kinds) > _SHOWN else ""
    what = "1 operator has" if len(refused) == 1 else f"{len(refused)} operators have"
    return f"{what} no form in C: {'; '.join(told)}{more}"


def refused_graph(graph: Graph, first: UnsupportedOp) -> UnsupportedOp:
    """One error for all nodes of a graph that LiteRT's operators do not express, from which C is made.

    Args:
        graph: its outputs tell which nodes are needed.
        first: what was told of the first of them.
    """
    needed = ancestors(v.node for v in graph.outputs)
    refused = unsupported(graph, [n for n in graph if n in needed])
    # What stands in the way of several together, such as a loop, is known of the whole alone.
    if len(refused) < 2:
        return first
    return UnsupportedOp(
        _listed([(node.op, node.name, why) for node, why in refused.items()]),
        hint="cut them off with --inputs or --outputs, or run the model with --engine reference",
    )
