"""Text for `inspect`: SavedModels, checkpoints, .tflite and .onnx files, and the placement of nodes."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from thinflow.cli._console import human_bytes, human_count
from thinflow.cli._options import shape_flag

if TYPE_CHECKING:
    from thinflow.analysis.summary import Summary
    from thinflow.formats.checkpoint import Checkpoint
    from thinflow.ir.graph import Graph
    from thinflow.load.describing import ModelInfo

_SHOWN = 30
_SHOWN_NOTES = 12


def plural(count: int, noun: str) -> str:
    """`1 graph`, `2 graphs`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def model_verdict(info: ModelInfo) -> str:
    """One line: what it is, how many graphs, signatures and variables it has."""
    from pathlib import Path

    name = Path(info.path).resolve().name
    signatures = sum(len(g.signatures) for g in info.graphs)
    parts = []
    if info.format == "savedmodel":
        tags = " ".join("{" + ", ".join(g.tags) + "}" for g in info.graphs)
        parts = [f"{plural(len(info.graphs), 'graph')} {tags}", plural(signatures, "signature")]
    else:
        parts = [plural(info.graphs[0].nodes, "node")]
        parts += [plural(signatures, "signature")] if signatures else []
    return f"{name} is {info.title}: {', '.join([*parts, _variables(info)])}"


def _variables(info: ModelInfo) -> str:
    if info.problem:
        return f"a checkpoint that cannot be read ({info.problem})"
    if info.checkpoint is None:
        count = max(g.variables for g in info.graphs)
        return f"{plural(count, 'variable')} whose checkpoint is not there" if count else "no variables"
    shards = plural(info.shards, "shard" if info.checkpoint.version == 2 else "file")
    return f"{plural(len(info.checkpoint), 'variable')} ({human_bytes(info.value_bytes)}) in {shards}"


def signature_lines(info: ModelInfo) -> Iterator[str]:
    """What Keras noted, and the signatures of each graph, with what they take and give."""
    if "model" in info.facts:
        yield f"made of {info.facts['model']}, by {info.facts.get('producer', 'Keras')}"
    for graph in info.graphs:
        tags = f" of {{{', '.join(graph.tags)}}}" if len(info.graphs) > 1 else ""
        for key, signature in graph.signatures.items():
            takes = ", ".join(f"{n} {e.spec}" for n, e in signature.inputs.items()) or "nothing"
            gives = ", ".join(f"{n} {e.spec}" for n, e in signature.outputs.items()) or "nothing"
            yield f"signature {key}{tags}: {takes} -> {gives}"
        if graph.assets:
            yield f"files{tags}: {', '.join(graph.assets)}"


def open_flags(info: ModelInfo) -> str:
    """The flags that open the first graph, where it is not opened without."""
    flags = ""
    # As opening it chooses.
    graph = next((g for g in info.graphs if g.tags == ("serve",)), info.graphs[0])
    if len(info.graphs) > 1 and graph.tags != ("serve",):
        flags += f" --tags {shlex.quote(','.join(graph.tags))}"
    if graph.signatures:
        key = "serving_default" if "serving_default" in graph.signatures else next(iter(graph.signatures))
        flags += f" --signature {shlex.quote(key)}"
    return flags


def checkpoint_data(path: str, checkpoint: Checkpoint, *, with_stats: bool = False) -> dict[str, Any]:
    """A checkpoint for machines; with what its bytes and numbers are like, if every value is to be read."""
    from thinflow.api import variable_bytes

    full_names = checkpoint.full_names()
    data: dict[str, Any] = {
        "path": path,
        "format": "checkpoint",
        "prefix": str(checkpoint.prefix),
        "version": checkpoint.version,
        "variables": [
            {
                "name": name,
                "dtype": str(checkpoint.spec(name).dtype),
                "shape": list(checkpoint.spec(name).shape or ()),
                "bytes": variable_bytes(checkpoint, name),
                "slices": [[list(e) for e in part.extents] for part in checkpoint.slices(name)],
                "full_name": full_names.get(name),
            }
            for name in checkpoint
        ],
    }
    if with_stats:
        _add_states(data, checkpoint)
    return data


def _add_states(data: dict[str, Any], checkpoint: Checkpoint) -> None:
    from thinflow.api import variable_states

    states = {state.name: state for state in variable_states(checkpoint, with_stats=True)}
    data["damaged"] = [name for name, state in states.items() if state.problem]
    for variable in data["variables"]:
        state = states[variable["name"]]
        variable["places"] = [
            {"file": str(place.file), "offset": place.offset, "bytes": place.size} for place in state.places
        ]
        variable["problem"] = state.problem or None
        variable["stats"] = vars(state.stats) if state.stats is not None else None


def checkpoint_lines(data: dict[str, Any], everything: bool) -> list[str]:
    """What `checkpoint_data` tells, for people: the verdict first, the next command last."""
    from pathlib import Path

    listed = data["variables"]
    numbers = sum(_count(v["shape"]) for v in listed if v["dtype"] != "string")
    size = human_bytes(sum(v["bytes"] for v in listed))
    name = Path(data["prefix"]).name
    damaged = data.get("damaged", [])
    state = f"; {len(damaged)} DAMAGED, first '{damaged[0]}'" if damaged else ""
    state = state or ("; all checksums are right" if "damaged" in data else "")
    lines = [
        f"{name} is a TensorFlow checkpoint of version {data['version']}, weights without a graph: "
        f"{plural(len(listed), 'variable')}, {human_count(numbers)} numbers, {size}{state}",
        "",
    ]
    shown = listed if everything else listed[:_SHOWN]
    # Damage is shown however long the list is.
    shown = shown + [v for v in listed[len(shown) :] if v["name"] in damaged]
    width = max((len(v["name"]) for v in shown), default=0)
    for v in shown:
        parts = f"  in {plural(len(v['slices']), 'part')}" if v["slices"] else ""
        shape = ",".join(map(str, v["shape"]))
        what = f"{v['dtype']}[{shape}]  {human_bytes(v['bytes'])}{parts}"
        lines.append(f"  {v['name']:{width}}  {what}{_state_text(v)}")
    if len(listed) > len(shown):
        lines.append(f"  ... and {len(listed) - len(shown)} more (--all)")
    lines += ["", "to use it: thinflow freeze GRAPH.pb --checkpoint PREFIX -o frozen.pb"]
    lines += [f"next: {_next_for_checkpoint(data)}"]
    return lines


def _state_text(variable: dict[str, Any]) -> str:
    """What is wrong with a variable's bytes, or what its numbers are like; "" if they were not read."""
    if variable.get("problem"):
        return f"  DAMAGED: {variable['problem']}"
    stats = variable.get("stats")
    if not stats:
        return ""
    shown = (("min", "minimum"), ("max", "maximum"), ("mean", "mean"))
    words = [f"{word} {stats[name]:.4g}" for word, name in shown if stats[name] is not None]
    words += [f"{stats[n]} {text}" for n, text in (("nans", "NaN"), ("infinities", "infinite")) if stats[n]]
    return "".join(f"  {word}" for word in words)


def _count(shape: list[int]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def _next_for_checkpoint(data: dict[str, Any]) -> str:
    from pathlib import Path

    if data.get("damaged"):  # which bytes to fetch again; nothing else can be done with it
        return f"thinflow inspect_checkpoint --file_name {shlex.quote(data['prefix'])} --verify_checksum"
    meta = Path(f"{data['prefix']}.meta")
    if meta.is_file():
        return f"thinflow inspect {shlex.quote(str(meta))}"
    return f"thinflow inspect_checkpoint --file_name {shlex.quote(data['prefix'])} --all_tensors"


_FLEX = "tfl.custom.Flex"
_FLOATS = ("float", "half", "bfloat16")


def verdict(summary: Summary, cost: str) -> str:
    """One line: what it is, in which numbers, how large, what a run costs."""
    from pathlib import Path

    from thinflow.api import part_note
    from thinflow.ir.vocabulary import vocabulary_named

    graph, facts = summary.graph, summary.graph.facts
    about = [summary.precision]
    if "runtime" in facts:
        about.append(f"for runtimes from {facts['runtime']}")
    if "signatures" in facts:
        about.append(f"{'signatures' if ',' in facts['signatures'] else 'signature'} {facts['signatures']}")
    if "opset" in facts:
        about.append(f"opset {facts['opset']}")
    if "producer" in facts:
        about.append(f"made by {facts['producer']}")
    count = sum(n for op, n in summary.ops.items() if op not in ("Const", "Placeholder"))
    size = f", {human_bytes(summary.file_bytes)}" if summary.file_bytes else ""
    name = Path(graph.path).name or "the graph"
    vocabulary = vocabulary_named(graph.vocabulary)
    kind = vocabulary.title if vocabulary is not None else "a model"
    constants = human_count(summary.parameters.count)
    operators = "1 operator" if count == 1 else f"{count} operators"
    mark = "PARTIAL: " if part_note(graph) else ""
    return f"{mark}{name} is {kind} ({'; '.join(about)}): {operators}, {constants} constants{size}{cost}"


def findings(summary: Summary) -> Iterator[str]:
    """Ops that a plain runtime does not have, sizes that have a name, and what of the file is not shown."""
    from thinflow.analysis.foreign import is_in_runtime
    from thinflow.analysis.size_names import is_settled, size_names
    from thinflow.api import sizes_to_give

    flex = [op.removeprefix(_FLEX) for op in summary.unknown_ops if op.startswith(_FLEX)]
    # Of ONNX the whole name with its domain, of LiteRT what the file calls the op.
    others = [op for op in summary.unknown_ops if _FLEX not in op]
    custom = [op.partition(".")[2].removeprefix("custom.") for op in others if not is_in_runtime(op)]
    own = [op.partition(".")[2].removeprefix("custom.") for op in others if is_in_runtime(op)]
    if flex:
        yield f"TensorFlow ops inside: {', '.join(flex)}; they need the Flex delegate"
    if custom:
        yield f"custom ops: {', '.join(custom)}; the app's runtime must have them registered"
    if own:
        yield f"ops of the runtime's own, beyond the standard: {', '.join(own)}"
    fitting = sizes_to_give(summary.graph)
    for name, places in size_names(summary.graph.inputs).items():
        if is_settled(places):
            continue
        where = ", ".join(dict.fromkeys(value.name for value, _ in places))
        yield f"open size '{name}' of {where}:{shape_flag(name, fitting.get(name, (1,)))} settles it"
    facts = summary.graph.facts
    topics = [t for t in facts if t.startswith("signature ")]
    # A single signature that only repeats inputs and outputs says nothing new.
    if len(topics) > 1 or any(facts[t] != _ends_text(summary.graph) for t in topics):
        yield from (f"{topic}: {facts[topic]}" for topic in topics)
    if summary.graph.functions:
        yield f"functions: {len(summary.graph.functions)}, bodies of control flow or other signatures"
    for topic in ("slip", "description", "metadata", "left out"):
        if topic in facts:
            yield f"{topic}: {facts[topic]}"


def usage_lines(graph: Graph) -> Iterator[str]:
    """How the model is used, as far as its file says or its first steps tell."""
    usage = graph.usage
    shapes = {v.name: v.shape for v in graph.inputs}
    told = [(name, u.text(shapes[name])) for name, u in usage.inputs.items() if name in shapes]
    names = {v.name for v in graph.outputs}
    told += [(name, u.text()) for name, u in usage.outputs.items() if name in names]
    if any(text for _, text in told):
        yield "usage:"
        yield from (f"  {name}: {text}" for name, text in told if text)
    yield from (
        f"the file says: {topic} = {text}" for topic, text in list(usage.notes.items())[:_SHOWN_NOTES]
    )
    if len(usage.notes) > _SHOWN_NOTES:
        yield f"... and {len(usage.notes) - _SHOWN_NOTES} notes more (--json)"
    yield from (f"not read of the file's metadata: {problem}" for problem in usage.problems)


def _ends_text(graph: Graph) -> str:
    """Inputs and outputs as a signature that adds no names would tell them."""
    sides = (", ".join(f"{v.name} {v.spec}" for v in side) for side in (graph.inputs, graph.outputs))
    return " -> ".join(sides)


def smaller_line(summary: Summary, model: str, shapes: str = "") -> str:
    """The command that makes a file of floats smaller; "" where it would not get far, or has been done."""
    from pathlib import Path

    from thinflow.ir.vocabulary import vocabulary_named
    from thinflow.load.lifted import has_rules

    vocabulary = vocabulary_named(summary.graph.vocabulary)
    stored = summary.parameters.bytes_by_dtype
    # Most of a quantized file are integers, but for a few scales.
    is_float = 2 * sum(stored.get(name, 0) for name in _FLOATS) > sum(stored.values())
    if vocabulary is None or not vocabulary.engine or not is_float or summary.unknown_ops:
        return ""
    if not has_rules(summary.graph):
        return ""
    folder = shlex.quote(Path(model).stem + "_out")
    return f"weights are floats: `thinflow optimize {shlex.quote(model)} {folder}{shapes}` tries int8"


def next_command(summary: Summary, model: str, shapes: str = "") -> str:
    """What to type now: measure what runs here, look closer at what needs more than the plain runtime."""
    from pathlib import Path

    from thinflow.analysis.foreign import is_in_runtime, require_known_opset
    from thinflow.errors import UnsupportedOp
    from thinflow.ir.vocabulary import vocabulary_named

    facts = summary.graph.facts
    vocabulary = vocabulary_named(summary.graph.vocabulary)
    engine = vocabulary.engine if vocabulary is not None else ""
    path = shlex.quote(model)
    keys = [t.removeprefix("signature ") for t in facts if t.startswith("signature ")]
    chosen = facts.get("signature") or (keys[0] if len(keys) > 1 else "")
    flag = f" --signature {shlex.quote(chosen)}" if chosen else ""
    try:
        require_known_opset(facts)
    except UnsupportedOp:  # its runtime does not take it, either
        return f"thinflow view {path} -o {shlex.quote(Path(model).stem + '.svg')}"
    if not all(map(is_in_runtime, summary.unknown_ops)):
        # It cannot be run without its own ops: for LiteRT they are registered in C++, else there is only a
        # look at what stands around them.
        if engine == "litert":
            return f"thinflow ops {path} --micro"
        return f"thinflow view {path} -o {shlex.quote(Path(model).stem + '.html')}"
    if "slip" in facts:
        return f"thinflow convert {path} {shlex.quote(Path(model).stem + '_mended.tflite')}"
    if vocabulary is not None and not engine:
        # Nothing here runs the file as it is.
        return f"thinflow convert {path} OUT.tflite{shapes}"
    return f"thinflow benchmark {path} --engine {engine}{flag}{shapes}"


def placement_lines(
    placement: Mapping[str, str], reasons: Mapping[str, str], most: int | None = None
) -> list[str]:
    """How many nodes each engine runs; then the nodes that fell back with the reason, at most so many.

    Without a limit every node has a line.
    """
    lines = ["placement:"]
    for engine, count in Counter(placement.values()).most_common():
        lines.append(f"  {count} node{'s' if count != 1 else ''} on {engine}")
    # Nodes on the engine that was asked for are the rule and need no line.
    listed = [(n, e) for n, e in placement.items() if most is None or n in reasons]
    for name, engine in listed[:most]:
        why = reasons.get(name, "")
        lines.append(f"  {name}  {engine}" + (f"  ({why})" if why else ""))
    if len(listed) > len(listed[:most]):
        lines.append(f"  ... and {len(listed) - len(listed[:most])} more (--all)")
    return lines
