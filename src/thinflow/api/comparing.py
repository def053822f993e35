"""Two models beside each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from thinflow.errors import ParameterError, ThinflowError
from thinflow.ir.graph import Graph
from thinflow.load.graphs import Opening, Source, load, opening
from thinflow.typing import Progress, Shapes

if TYPE_CHECKING:
    from thinflow.compare.diff.conversion import ConversionDiff
    from thinflow.compare.diff.report import Diff
    from thinflow.compare.verification import Verification
    from thinflow.device.base import Devices
    from thinflow.typing import Feed, FilePath

# A structural comparison is quick at any size; a run on the reference interpreter is not.
MOST_NODES_TO_RUN = 20_000
"""Up to which `diff` runs graphs without being asked to."""


def verify(
    a: Source,
    b: Source | None = None,
    feeds: Iterable[Feed] | Feed | None = None,
    *,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    shapes: Shapes | None = None,
    engine: str = "reference",
    device: Devices | None = None,
    tolerance: float | None = None,
    runs: int = 2,
    seed: int | Sequence[int] = 0,
    tags: str | None = None,
    signature: str | None = None,
    checkpoint: FilePath | None = None,
    state: str = "auto",
    progress: Progress | None = None,
) -> Verification:
    """Whether two models compute the same: largest error per output, and the first value that differs.

    Both are run, whatever they look like. `diff` tells what changed from one to the other, `compare` lists
    where two graphs are not the same, name by name.

    Args:
        a, b: paths or Graphs. A .tflite or .onnx file is run by its own engine. With a device, `b` may be
            left out: then `a` there is compared with `a` here.
        feeds: one feed or several; made up if None.
        inputs, outputs: names in `a`, or pairs "A=B" of one in `a` and one in `b`; inner values will do. They
            are paired by name, or by structure if no name is shared. Where one is a file: by name, else by
            type and shape, else by position. Where one model is a part of the other, that is fed and read
            where the part begins and ends.
        shapes: input name in `a` -> shape, where it is left open.
        engine: what runs graphs.
        device: where `b` runs, in LiteRT: "ssh:[user@]host[:port]", "adb[:serial]", a name from
            thinflow.toml, or what `open_device` gives. What is no .tflite file becomes one.
        tolerance: largest |a - b| relative to the largest |a| up to which they agree. Default: 1e-4 in one
            engine, 1e-3 where each is computed by another one, as proofs of converted files have it; or where
            a graph computes in half precision or bfloat16, eight steps of that type, and 0.1 where one model
            alone quantizes activations as it runs; a note tells.
        runs: how many made-up feeds per seed.
        seed: for made-up feeds, or several.
        tags, signature, checkpoint: how to open `a`, as for `load`. Of .tflite files, both run the signature
            where they have it.
        state: what becomes of variables that runs of `a` change: as for `load`, but kept if that is possible.
            Where both keep state, the feeds are calls one after the other, at least four if they are made up.
        progress: called with (done, total, label).

    Returns:
        The proof: `ok`, the `worst` relative error, `outputs` one by one, and where the models part.
        Quantized files that are farther apart agree, too, if each layer gives the same codes when it is fed
        with the file's own: then `roundings` says so. That is not asked where a tolerance is given.

    Raises:
        GraphError: a name or signature does not exist.
        FeedError: the feeds do not fit, or made-up ones do not go through.
        EngineUnavailable: the device cannot be used, or does not run the model; DeviceLost: it stopped
            answering.
    """
    from thinflow.analysis.precision import usual_tolerance
    from thinflow.compare.boundaries import named_pairs
    from thinflow.compare.verify import verify as verify_models
    from thinflow.engines._files import engine_of, is_file
    from thinflow.load.frozen import AUTO

    named = named_pairs(inputs, "input"), named_pairs(outputs, "output")
    options, given = opening(tags, signature, checkpoint), dict(shapes or {})
    options["state"] = state
    first: dict[str, Any] = {"inputs": named[0].first, "outputs": named[1].first, "shapes": given}
    if b is None:
        if device is None:
            raise ParameterError(
                "one model alone is compared with nothing", hint="name a second one, or a device"
            )
        b = a
    # Files are opened by their engines, with inputs and outputs of their own.
    one = a if is_file(a) else load(a, **first, **options)
    # A shape is told by a's name and holds for b's twin, which may be called otherwise.
    sizes = {named[0].pairs.get(n, n): s for n, s in given.items()}
    # Without the options of `a`: tags, signature and checkpoint are about that one.
    other = b if _stays_file(b, device) else _with_shapes(load(b, state=AUTO), sizes)
    # Each against the other as it came: both keep their states if neither takes them as inputs.
    one, other = _handing_on(one, other), _handing_on(other, one)
    runtimes = {engine_of(m) if is_file(m) else engine for m in (one, other)}
    count = len(runtimes) if device is None else 2
    usual, why = usual_tolerance(*(m for m in (one, other) if isinstance(m, Graph)), runtimes=count)
    if tolerance is None and not why:
        usual, why = _where_one_quantizes_as_it_runs(one, other, usual)
    limit, why = (usual, why) if tolerance is None else (tolerance, "")
    # Whoever gives a tolerance wants to hear of what is beyond, and a part has no layers of its own.
    is_whole = tolerance is None and device is None and not (inputs or outputs or signature)
    compared = partial(
        verify_models,
        one,
        other,
        engine=engine,
        tolerance=limit,
        runs=runs,
        seed=seed,
        signature=_signature(options, a, b),
        inputs=named[0],
        outputs=named[1],
        shapes=given,
        only_roundings=_roundings(one, other, limit, feeds) if is_whole else None,
        progress=progress,
    )
    found = compared(feeds) if device is None else _compared_there(compared, feeds, device, progress)
    found.notes += [*([why] if why else []), *_part_notes(a, b), *_opened_notes((a, one), (b, other))]
    return found


def _roundings(one: Source, other: Source, tolerance: float, feeds: Any) -> Callable[[], str] | None:
    """What tells whether files differ by roundings alone; None of graphs, and where feeds are gone."""
    from thinflow.engines._files import is_file, path_of

    if not (is_file(one) and is_file(other)) or not isinstance(feeds, Mapping | Sequence | None):
        return None
    again = [feeds] if isinstance(feeds, Mapping) else feeds

    def told() -> str:
        from thinflow.optimize.only_roundings import only_roundings

        return only_roundings(path_of(one), path_of(other), tolerance, again)

    return told


def _where_one_quantizes_as_it_runs(one: Source, other: Source, usual: float) -> tuple[float, str]:
    """The tolerance where one model computes in eight bits what the other computes in float, and why."""
    from thinflow import formats
    from thinflow.analysis.precision import AS_IT_RUNS_TOLERANCE, quantizes_as_it_runs
    from thinflow.engines._files import engine_of, is_file, path_of

    files = [m for m in (one, other) if is_file(m)]
    try:
        there = [(engine_of(m), quantizes_as_it_runs(formats.load(path_of(m)))) for m in files]
    except ThinflowError:  # whoever opens it to run it says more
        return usual, ""
    if not any(is_so for _, is_so in there) or (len(there) == 2 and there[0] == there[1]):
        return usual, ""
    return AS_IT_RUNS_TOLERANCE, (
        f"a model brings what it multiplies to eight bits in each run, and the other not in its way: the"
        f" tolerance is {AS_IT_RUNS_TOLERANCE}"
    )


def _stays_file(model: Source, device: Devices | None) -> bool:
    """Whether a model is run from its file as it is; on a device only those of LiteRT are."""
    from thinflow.engines._files import engine_of, is_file

    return is_file(model) if device is None else engine_of(model) == "litert"


def _compared_there(
    compared: Callable[..., Verification], feeds: Any, device: Devices, progress: Progress | None
) -> Verification:
    """A comparison with the second model on a device, and who is to blame for a difference.

    Args:
        compared: the comparison, but for the feeds.
    """
    from thinflow.device.engine import engine_on
    from thinflow.device.finding import find_one

    # They may have to be fed twice.
    feeds = feeds if feeds is None or isinstance(feeds, Mapping) else list(feeds)
    place = find_one(device)
    with engine_on(place, progress) as there:
        found = compared(feeds, elsewhere=there.name, second_opinion=False)
        found.notes.append(f"device: {place.name}: {there.connection.facts}")
    if not found.ok:
        # The same on this machine's LiteRT: either it differs here as well, or it is the device.
        here = compared(feeds, elsewhere="litert", second_opinion=False)
        found.notes.append(
            f"LiteRT on this machine agrees (largest relative difference {here.worst:.3g}): what differs is "
            "the device, whose processor may round otherwise"
            if here.ok
            else f"LiteRT on this machine differs as well, by {here.worst:.3g}: it is the model, and not the "
            "device"
        )
    return found


def _opened_notes(*models: tuple[Source, Source]) -> list[str]:
    """What became of files that were opened for this, and what was assumed; of one file only once."""
    sources = (m.source for given, m in models if isinstance(m, Graph) and not isinstance(given, Graph))
    return list(dict.fromkeys(source.line for source in sources if source is not None))


def _handing_on(model: Source, other: Source) -> Source:
    """A graph with its states as inputs and outputs where the other model takes them as such."""
    from thinflow.engines._files import is_file
    from thinflow.engines.session import Session

    if not isinstance(model, Graph) or not model.states:
        return model
    # A graph keeps its state inside; a .onnx made of it has inputs for that.
    names = Session(other).inputs if is_file(other) else [v.name for v in load(other).inputs]
    taken = {n.removesuffix(":0") for n in names}
    if (isinstance(other, Graph) and other.states) or not all(s.input in taken for s in model.states):
        return model
    graph = model.clone()
    graph.states = ()
    return graph


def _part_notes(*models: Source) -> list[str]:
    """For each file that says it is a part of a model, that only this part was compared."""
    from pathlib import Path

    from thinflow.engines._files import is_file
    from thinflow.formats.foreign import PARTIAL, part_note

    told = [(m, part_note(m)) for m in models if is_file(m)]
    names = [Path(m.path if isinstance(m, Graph) else m).name for m, _ in told]
    return [
        f"{PARTIAL}only what {name} holds was compared: {note}"
        for name, (_, note) in zip(names, told, strict=True)
        if note
    ]


def _with_shapes(graph: Graph, shapes: Shapes) -> Graph:
    """The graph with the shapes of those inputs that it has."""
    own = {v.name for v in graph.inputs}
    return load(graph, shapes={n: s for n, s in shapes.items() if n.removesuffix(":0") in own})


def _signature(options: Opening, *models: Source) -> str | None:
    """The signature to run, of the models that are .tflite files with that one.

    Raises:
        GraphError: only files are compared, and none has it.
    """
    from thinflow.engines._files import has_signature, is_file
    from thinflow.errors import GraphError

    key = options.get("signature")
    # A signature of a SavedModel was taken when the graph was opened: nothing is left to choose.
    if key is None or any(has_signature(m, key) for m in models) or not all(map(is_file, models)):
        return key
    raise GraphError(f"neither model has a signature '{key}'", hint="`thinflow inspect MODEL` lists them")


_DIFF_STEPS = 3
"""Of a comparison, for those who watch it."""


def diff(
    a: Source,
    b: Source,
    feeds: Feed | None = None,
    *,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    numerics: bool | None = None,
    tolerance: float = 1e-4,
    seed: int = 0,
    tags: str | None = None,
    signature: str | None = None,
    checkpoint: FilePath | None = None,
    progress: Progress | None = None,
) -> Diff | ConversionDiff:
    """What changed from one graph to another: structure, attributes, weights, shapes, outputs.

    For reading. `verify` proves that two models compute the same, whatever changed; `compare` lists where two
    graphs are not the same, name by name, as a test wants it.

    Nodes are matched by what they compute, so it does not matter what they are called. Where one of them is
    a .tflite or .onnx file, what both compute is matched by the names of tensors, and both are run by their
    engines, with the inner tensors side by side. The result has a `verdict` of one line, `str()` lists the
    differences, `data()` is the same for machines.

    Args:
        a, b: paths or Graphs.
        feeds: one feed, by the names in `a`; made up if None.
        inputs, outputs: names in `a`, and in `b` as far as it has them; default: guessed.
        numerics: whether to run both and compare the outputs; default: for up to `MOST_NODES_TO_RUN` nodes.
        tolerance: as for `verify`.
        seed: for a made-up feed.
        tags, signature, checkpoint: how to open `a`, as for `load`; a .tflite file as `b` runs the signature,
            too, if it has it.
        progress: called with (done, total, label).

    Returns:
        The differences; a `ConversionDiff` if one of the two is a file of another vocabulary.
    """
    from thinflow.compare.diff.conversion import compare_models
    from thinflow.compare.diff.report import compare_graphs
    from thinflow.engines._files import has_signature, is_file

    tell = progress if progress is not None else _told_to_nobody
    tell(0, _DIFF_STEPS, "open both")
    options = opening(tags, signature, checkpoint)
    key = _signature(options, a, b)
    first = load(a, inputs=inputs, outputs=outputs, lift=False, **_openings(a, options))
    names = [None if n is None else list(n) for n in (inputs, outputs)]
    chosen: dict[str, Any] = {"signature": key} if has_signature(b, key) else {}
    second = load(b, lift=False, **chosen)
    if any(names):
        # Names of `a` count in `b` only if it has them all; else its own ends are taken.
        present = [
            None if n is None or any(x.partition(":")[0] not in second for x in n) else n for n in names
        ]
        second = load(second, inputs=present[0], outputs=present[1], lift=False)
    tell(1, _DIFF_STEPS, "match the nodes")
    small = max(len(first), len(second)) <= MOST_NODES_TO_RUN
    # Two files of one vocabulary in the same numbers are graphs that can be matched node by node.
    crossing = is_file(first) or is_file(second)
    if crossing and not _is_alike(first, second):
        crossed = compare_models(first, second)
        if numerics or (numerics is None and small):
            tell(2, _DIFF_STEPS, "run both")
            _run_both(crossed, feeds, tolerance, seed)
        tell(_DIFF_STEPS, _DIFF_STEPS, "done")
        return crossed
    found = compare_graphs(first, second)
    # Equal graphs compute the same.
    if numerics or (numerics is None and small and not found.is_equal):
        tell(2, _DIFF_STEPS, "run both")
        _run_both(found, feeds, tolerance, seed)
    tell(_DIFF_STEPS, _DIFF_STEPS, "done")
    return found


def _told_to_nobody(done: int, total: int, label: str) -> None:
    """Progress that nobody asked for."""


def _openings(model: Source, options: Opening) -> dict[str, Any]:
    """The options for opening a model; of those a file that an engine runs knows only the signature."""
    from thinflow.engines._files import has_signature, is_file

    if not is_file(model):
        return dict(options)
    key = options.get("signature")
    return {"signature": key} if has_signature(model, key) else {}


def _is_alike(a: Graph, b: Graph) -> bool:
    """True if two models speak one vocabulary and compute in the same numbers."""
    from thinflow.analysis.precision import precision

    return a.vocabulary == b.vocabulary and precision(a) == precision(b)


def _run_both(found: Diff | ConversionDiff, feeds: Feed | None, tolerance: float, seed: int) -> None:
    """Add the comparison of outputs, and of the inner tensors of files, or why there is none."""
    from thinflow.compare.verify import verify as verify_models

    try:
        found.numbers = verify_models(
            *(found.a, found.b, feeds),
            tolerance=tolerance,
            runs=1,
            seed=seed,
            signature=_read_for(found),
            layers=True,
            second_opinion=False,
        )
    except ThinflowError as error:
        found.note = f"the outputs were not compared: {error.message}"


def _read_for(found: Diff | ConversionDiff) -> str | None:
    """The signature that one of the graphs was read for."""
    return found.a.facts.get("signature") or found.b.facts.get("signature")


def compare(
    a: Source,
    b: Source,
    *,
    functions: bool = False,
    versions: bool = False,
    internal_attrs: bool = False,
    ignore_defaults: bool = False,
    rtol: float = 0.0,
    atol: float = 0.0,
) -> list[str]:
    """Differences of two graphs in structure and constants, as sentences; empty if they are equal.

    Nothing is run and nodes are paired by name, in TensorFlow's words, as its tests compare graphs. `diff`
    tells what changed and needs no names, `verify` whether both compute the same.

    Args:
        a, b: paths or Graphs; `b` is what `a` is expected to be.
        functions, versions, internal_attrs: whether to compare those, too.
        ignore_defaults: whether an absent attribute equals its default.
        rtol, atol: floats are equal if |a - b| <= atol + rtol |b|.
    """
    from thinflow.compare.same_structure import Rules, graph_differences

    rules = Rules(functions, versions, internal_attrs, ignore_defaults, rtol, atol)
    # No ends: nothing is to be guessed, and nodes that lead nowhere count, too.
    one, other = (load(m, inputs=[], outputs=[], lift=False) for m in (a, b))
    return graph_differences(one, other, rules)


def structure_lines(graph: Graph) -> list[str]:
    """The nodes in execution order, one per line, as summarize_graph --print_structure prints them."""
    from thinflow.analysis.summary import structure_lines as lines

    return lines(graph)
