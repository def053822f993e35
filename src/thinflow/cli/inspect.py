"""`thinflow inspect`: what a model is, what goes in, what comes out, what it costs, and what to do next."""

from __future__ import annotations

import shlex
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from thinflow.cli import _inspect_text
from thinflow.cli._console import human_bytes, human_count
from thinflow.cli._inspect_text import (
    checkpoint_data,
    checkpoint_lines,
    model_verdict,
    open_flags,
    placement_lines,
    plural,
    signature_lines,
)
from thinflow.cli._options import (
    add_all,
    add_json,
    add_model,
    add_model_options,
    add_shape,
    model_flags,
    model_options,
    shape_flag,
    shape_flags,
    shapes,
)
from thinflow.errors import ParameterError
from thinflow.errors.plain_text import one_line

if TYPE_CHECKING:
    from thinflow.analysis.summary import Summary
    from thinflow.load.describing import ModelInfo

EXAMPLES = """
  thinflow inspect model.pb
  thinflow inspect pose.pb --shape image=1,184,184,3
  thinflow inspect export_dir --signature serving_default
  thinflow inspect model.ckpt-7                      # the variables of a checkpoint
  thinflow inspect model.ckpt-7 --stats              # are they sound, what are their numbers
  thinflow inspect model.pb --placement litert
  thinflow inspect model.pb --json | jq .outputs
"""
_SHOWN = 5
_DEVICES = {"a 2016 phone": 15e9, "a Raspberry Pi 3": 5e9}
"""Floating-point operations a second, the rules of thumb of TensorFlow's mobile guide."""


def add_arguments(p: ArgumentParser) -> None:
    add_model(p, "or a checkpoint")
    add_shape(p)
    add_model_options(p)
    add_all(p)
    p.add_argument(
        "--stats",
        action="store_true",
        help="of a checkpoint: read every value, verify its checksum, and tell what its numbers are like",
    )
    p.add_argument(
        "--placement",
        nargs="?",
        const="auto",
        metavar="ENGINE",
        help="also tell which engine runs each node, and why not the other (default auto)",
    )
    add_json(p)


def run(args: Namespace) -> int:
    from thinflow.api import describe_model, leads_to_checkpoint

    if leads_to_checkpoint(args.model):
        return _inspect_checkpoint(args)
    if args.stats:
        raise ParameterError("--stats goes with a checkpoint only", hint="name the checkpoint's prefix")
    info = describe_model(args.model)
    reason = _why_not_opened(info, args) if info is not None else ""
    if info is not None and reason:
        return _inspect_unopened(info, reason, args)
    return _inspect_graph(info, args)


def _inspect_checkpoint(args: Namespace) -> int:
    import json

    from thinflow.api import load_checkpoint

    data = checkpoint_data(args.model, load_checkpoint(args.model), with_stats=args.stats)
    text = (
        json.dumps(data, indent=2)
        if args.json
        else "\n".join(map(one_line, checkpoint_lines(data, args.all)))
    )
    print(text)
    return 1 if data.get("damaged") else 0


def _why_not_opened(info: ModelInfo, args: Namespace) -> str:
    """Why a model cannot be opened without being told more; "" if it can."""
    graphs = [g for g in info.graphs if args.tags is None or g.tags == _tags(args.tags)]
    if len(info.graphs) > 1 and args.tags is None and not any(g.tags == ("serve",) for g in info.graphs):
        return "it holds several graphs: choose one with --tags"
    graph = next((g for g in graphs if g.tags == ("serve",)), graphs[0]) if graphs else None
    if graph is None:
        return ""  # opening it tells which there are
    if len(graph.signatures) > 1 and args.signature is None and "serving_default" not in graph.signatures:
        return "it has several signatures: choose one with --signature"
    if graph.variables and info.checkpoint is None and args.checkpoint is None:
        return (
            info.problem or "its variables are in a checkpoint that is not there: give it with --checkpoint"
        )
    return ""


def _tags(text: str) -> tuple[str, ...]:
    return tuple(sorted(t.strip() for t in text.split(",") if t.strip()))


def _inspect_unopened(info: ModelInfo, reason: str, args: Namespace) -> int:
    """What can be told of a model that is not complete, or holds several."""
    import json

    if args.json:
        print(json.dumps({**info.data(), "opened": False, "reason": reason}, indent=2))
        return 0
    lines = [model_verdict(info), "", *signature_lines(info), f"not opened: {reason}", ""]
    more = " --checkpoint PREFIX" if "checkpoint" in reason else open_flags(info)
    print("\n".join(map(one_line, [*lines, f"next: thinflow inspect {shlex.quote(args.model)}{more}"])))
    return 0


def _inspect_graph(info: ModelInfo | None, args: Namespace) -> int:
    import json

    import thinflow
    from thinflow.api import obstacles

    summary = thinflow.summarize(args.model, shapes=shapes(args.shape), **model_options(args))
    session = None
    if args.placement and not _broken(summary):
        from thinflow.api import open_session

        session = open_session(
            args.model, shapes=shapes(args.shape), engine=args.placement, **model_options(args)
        )
    if args.json:
        data = summary_data(summary) | {"obstacles": [] if _broken(summary) else obstacles(summary)}
        if info is not None:
            data["model"] = info.data()
        if session is not None:
            data |= {"placement": session.placement, "placement_reasons": session.placement_reasons}
        print(json.dumps(data, indent=2))
    else:
        lines = inspect_lines(summary, args, info)
        if session is not None:
            most = None if args.all else _SHOWN
            lines[-2:-2] = placement_lines(session.placement, session.placement_reasons, most)
        print("\n".join(map(one_line, lines)))
    return 1 if _broken(summary) else 0


def _broken(summary: Summary) -> list[Any]:
    return [
        p for p in summary.problems if p.kind in {"missing input", "cycle", "duplicate name", "order", "port"}
    ]


def inspect_lines(summary: Summary, args: Namespace, info: ModelInfo | None = None) -> list[str]:
    """The report, verdict first, next command last. Of a SavedModel or a MetaGraph it is told first."""
    from thinflow.api import obstacles, opening_notes

    lines = [_verdict(summary), ""]
    if info is not None:
        opened = f"opened as {_verdict(summary).partition(' is a ')[2]}"
        lines = [model_verdict(info), *signature_lines(info), opened, ""]
    lines += _interface_lines(summary, args.all)
    lines += _inspect_text.usage_lines(summary.graph)
    lines += _cost_lines(summary, args)
    ops = list(summary.ops.items())
    shown = ops if args.all else ops[:12]
    rest = len(ops) - len(shown)
    more = f", and {rest} {'kind' if rest == 1 else 'kinds'} more" if rest else ""
    lines.append("ops: " + ", ".join(f"{count} {op}" for op, count in shown) + more)
    lines += [f"note: {note}" for note in opening_notes(summary.graph)]
    lines += _findings(summary)
    reasons = [] if _broken(summary) else obstacles(summary)
    lines += _obstacle_lines(summary, reasons, args.all)
    if summary.problems:
        lines += [f"problem: {p}" for p in summary.problems[: None if args.all else 10]]
        if len(summary.problems) > 10 and not args.all:
            lines.append(f"... and {len(summary.problems) - 10} problems more (--all)")
    step = next_command(summary, reasons, args, info)
    if summary.graph.vocabulary and step.startswith("thinflow benchmark"):
        lines += filter(None, [_inspect_text.smaller_line(summary, args.model, shape_flags(args.shape))])
    lines += ["", f"next: {step}"]
    return lines


def _verdict(summary: Summary) -> str:
    from pathlib import Path

    graph = summary.graph
    name = Path(graph.path).name or "the graph"
    size = f", {human_bytes(summary.file_bytes)}" if summary.file_bytes else ""
    broken = _broken(summary)
    if broken:
        return f"{name} is a BROKEN GraphDef of {len(graph)} nodes{size}: {broken[0]}"
    has_variables = summary.has_variables
    kind = "GraphDef with variables (not frozen)" if has_variables else "frozen GraphDef"
    flops, partly = _counted_flops(summary), "at least " if summary.cost.unknown else ""
    cost = f", {partly}{flop_text(flops)} a run" if flops else ""
    if graph.vocabulary:
        return _inspect_text.verdict(summary, cost)
    constants = human_count(summary.parameters.count + summary.parameters.in_functions)
    kind += f" in {graph.facts['kept in']}" if "kept in" in graph.facts else ""
    if graph.source is not None:  # of layers, which became this graph
        return f"{name} is {graph.source.title}: {len(graph)} nodes, {constants} constants{size}{cost}"
    return f"{name} is a {kind}: {len(graph)} nodes, {constants} constants{size}{cost}"


def _interface_lines(summary: Summary, everything: bool) -> list[str]:
    interface = summary.interface
    lines: list[str] = []
    for title, candidates in (("inputs", interface.inputs), ("outputs", interface.outputs)):
        likely = [c for c in candidates if c.score > 0]
        others = [c for c in candidates if c.score <= 0]
        lines.append(f"{title}:" + ("" if candidates else " none found"))
        lines += [f"  {c}" for c in (likely if everything else likely[:_SHOWN])]
        lines += [f"  (not suggested) {c}" for c in (others if everything else others[:_SHOWN])]
        hidden = len(likely) + len(others) - len(lines[lines.index(f"{title}:") + 1 :]) if candidates else 0
        if hidden > 0:
            lines.append(f"  ... and {hidden} more (--all)")
    if interface.cut is not None:
        lines.append(f"cut: {interface.cut}")
    if interface.preprocessing:
        lines.append(f"embedded preprocessing: {', '.join(interface.preprocessing)}")
    if interface.postprocessing:
        lines.append(f"embedded postprocessing: {', '.join(interface.postprocessing)}")
    return lines


def _cost_lines(summary: Summary, args: Namespace) -> list[str]:
    from thinflow.program.amounts import ms_text

    parts = ", ".join(
        f"{human_bytes(size)} {name}" for name, size in summary.parameters.bytes_by_dtype.items()
    )
    inside = summary.parameters.in_functions
    more = f"; {human_count(inside)} more in the functions that it calls" if inside else ""
    lines = [f"constants: {human_count(summary.parameters.count)} values: {parts or 'none'}{more}"]
    cost = summary.cost
    if _counted_flops(summary):
        heavy = sorted(cost.by_node.items(), key=lambda item: -item[1].flops)[:3]
        top = ", ".join(f"{name} {100 * c.flops / cost.total.flops:.0f}%" for name, c in heavy)
        lines.append(
            f"work: {flop_text(cost.total.flops)} ({human_count(cost.total.macs)} multiply-adds) "
            f"a run; most in {top}"
        )
    unknown = cost.unsized
    if cost.total.flops and not cost.unknown:
        floors = ", ".join(
            f"{ms_text(1000 * cost.total.flops / rate)} on {name}" for name, rate in _DEVICES.items()
        )
        lines.append(f"latency floor: {floors} (its operations a second, all used)")
    others = [f"'{name}', {why}" for name, why in cost.others.items()]
    if unknown:
        others.insert(0, f"{plural(unknown, 'node')} of unknown size; {_size_advice(summary, args)}")
    begin = "  not counted" if _counted_flops(summary) else "work not known"
    lines += [f"{begin}: {text}" for text in others[:_SHOWN]]
    if len(others) > _SHOWN:
        lines.append(f"  ... and {len(others) - _SHOWN} more (--json)")
    if summary.peak is not None and summary.peak.size_bytes:
        partly = "" if summary.peak.complete else " at least (some sizes are unknown)"
        lines.append(
            f"activations: peak {human_bytes(summary.peak.size_bytes)}{partly}, at {summary.peak.node}"
        )
    return lines


def flop_text(count: int) -> str:
    """`7.00 GFLOP`, `84 FLOP`."""
    number = human_count(count)
    return f"{number}FLOP" if " " in number else f"{number} FLOP"


def _counted_flops(summary: Summary) -> int:
    """The operations that were counted, if that says anything."""
    return summary.cost.total.flops if summary.cost.layers_are_counted else 0


def _findings(summary: Summary) -> list[str]:
    lines: list[str] = []
    training, inference = summary.training_norms, summary.inference_norms
    if training:
        lines.append(
            f"batch norms: {len(training)} of {len(training) + len(inference)} are in TRAINING mode "
            f"(first '{training[0]}'): they use the statistics of each batch, cannot be folded, and run "
            "slowly; freeze_batch_norms can freeze them on your data, which changes the answers"
        )
    elif inference:
        lines.append(f"batch norms: {len(inference)} with stored statistics, candidates for folding")
    if summary.sample_norms:
        lines.append(
            f"norms of each sample: {len(summary.sample_norms)} (first '{summary.sample_norms[0]}'), layer, "
            "group or instance norms written as batch norms in training mode; they need no stored statistics"
        )
    if summary.graph.vocabulary:
        lines += _inspect_text.findings(summary)
    elif summary.unknown_ops:
        names = ", ".join(f"{count} {op}" for op, count in summary.unknown_ops.items())
        lines.append(f"unknown ops, carried through untouched: {names}")
    if summary.devices:
        lines.append("devices: " + ", ".join(f"{count} nodes on {d}" for d, count in summary.devices.items()))
    if summary.shape_failures:
        name, why = next(iter(summary.shape_failures.items()))
        count = plural(len(summary.shape_failures), "node")
        lines.append(f"sizes or attributes do not fit at {count}, first '{name}': {why}")
    return lines


def _obstacle_lines(summary: Summary, reasons: Sequence[str], everything: bool) -> list[str]:
    """Why it cannot run as it is, beside what `_findings` tells of sizes."""
    others = [reason for reason in reasons if reason not in summary.shape_failures.values()]
    shown = others if everything else others[:_SHOWN]
    more = [f"... and {len(others) - len(shown)} reasons more (--all)"] if len(others) > len(shown) else []
    return [f"cannot run as it is: {reason}" for reason in shown] + more


def _size_advice(summary: Summary, args: Namespace) -> str:
    """What would settle sizes that are not known, if that is the inputs' shapes."""
    given = {text.partition("=")[0].strip().removesuffix(":0") for text in args.shape}
    wanted = [flag for name, flag in _wanted_shapes(summary) if name not in given]
    if wanted:
        return f"give the shape of each input:{''.join(wanted)}"
    return "they do not follow from the shapes of the inputs, and show when it runs"


def next_command(
    summary: Summary, reasons: Sequence[str], args: Namespace, info: ModelInfo | None = None
) -> str:
    """What to type now, ready to paste.

    Args:
        summary: of the model.
        reasons: why it cannot run as it is, if so.
        args: of this command.
        info: of a SavedModel or a MetaGraph.
    """
    from pathlib import Path

    model = shlex.quote(args.model)
    if _broken(summary):
        return _closer_look(model, args)
    if not summary.interface.outputs:
        return _closer_look(model, args)
    if summary.graph.vocabulary:
        return _inspect_text.next_command(summary, args.model, shape_flags(args.shape))
    if summary.problems:  # `optimize` takes sound graphs only
        return _closer_look(model, args)
    if info is None and "checkpoint" not in model_options(args) and summary.has_variables:
        return f"thinflow freeze {model} --checkpoint PREFIX -o frozen.pb"
    if reasons:  # nothing that runs it would get far
        return _closer_look(model, args)
    stem = Path(args.model).resolve().name.split(".")[0]
    flags = model_flags(args) or (open_flags(info) if info is not None else "")
    shapes = shape_flags(args.shape) or "".join(flag for _, flag in _wanted_shapes(summary))
    return f"thinflow optimize {model} {shlex.quote(stem + '_out')}{flags}{shapes}"


def _closer_look(model: str, args: Namespace) -> str:
    """What tells more of a graph than this command did."""
    if not args.all:
        return f"thinflow inspect {model} --all{model_flags(args)}"
    stem = args.model.rstrip("/").rpartition("/")[2].partition(".")[0]
    return f"thinflow view {model} -o {shlex.quote(stem + '.html')}"


def _wanted_shapes(summary: Summary) -> Iterator[tuple[str, str]]:
    """Name and `--shape` flag of each input whose sizes the graph leaves open, filled in with common ones.

    Of a file's own ops, those that fit each other; an open size that has a name is settled by that.
    """
    from thinflow.api import sizes_to_give

    if summary.graph.vocabulary:
        yield from ((n, shape_flag(n, sizes)) for n, sizes in sizes_to_give(summary.graph).items())
        return
    opened = summary.interface.open_inputs
    fitting = sizes_to_give(summary.graph, [name for name, _ in opened])
    for name, shape in opened:
        if name in fitting:
            yield name, shape_flag(name, fitting[name])
        elif shape is None:
            yield name, f" --shape {shlex.quote(f'{name}=1,SIZE')}"
        else:
            common = [1, 224, 224, 3] if len(shape) == 4 else [1] + [16] * (len(shape) - 1)
            sizes = ",".join(str(c if d is None else d) for d, c in zip(shape, common, strict=True))
            yield name, f" --shape {shlex.quote(f'{name}={sizes}')}"


def summary_data(summary: Summary) -> dict[str, Any]:
    """The report for machines."""
    interface = summary.interface
    return {
        "path": summary.graph.path,
        "nodes": len(summary.graph),
        "file_bytes": summary.file_bytes,
        "inputs": [_candidate_data(c) for c in interface.inputs],
        "outputs": [_candidate_data(c) for c in interface.outputs],
        "cut": _candidate_data(interface.cut) if interface.cut is not None else None,
        "preprocessing": interface.preprocessing,
        "postprocessing": interface.postprocessing,
        "ops": summary.ops,
        "constants": summary.parameters.count,
        "constants_in_functions": summary.parameters.in_functions,
        "bytes_by_dtype": summary.parameters.bytes_by_dtype,
        "largest_constants": [list(item) for item in summary.parameters.largest],
        "control_edges": summary.control_edges,
        "devices": summary.devices,
        "flops": summary.cost.total.flops,
        "macs": summary.cost.total.macs,
        "flops_by_node": {name: c.flops for name, c in summary.cost.by_node.items()},
        "not_counted": summary.cost.unknown,
        "peak_activation_bytes": summary.peak.size_bytes if summary.peak is not None else None,
        "peak_at": summary.peak.node if summary.peak is not None else None,
        "training_batch_norms": summary.training_norms,
        "inference_batch_norms": summary.inference_norms,
        "sample_norms": summary.sample_norms,
        "unknown_ops": summary.unknown_ops,
        "vocabulary": summary.graph.vocabulary or "tensorflow",
        "precision": summary.precision,
        "facts": summary.graph.facts,
        "usage": summary.graph.usage.data(),
        "shape_failures": summary.shape_failures,
        "problems": [{"kind": p.kind, "node": p.node, "text": p.text} for p in summary.problems],
        "versions": vars(summary.graph.versions) if summary.graph.versions is not None else None,
    }


def _candidate_data(candidate: Any) -> dict[str, Any]:
    """A guessed input or output, as declared: the open batch that costs are counted for is not part of it."""
    value = candidate.value
    declared = value.node.get("shape") if value.node.op.startswith("Placeholder") else value.spec.shape
    return {
        "name": value.name,
        "op": value.node.op,
        "dtype": value.spec.dtype.name if value.spec.dtype is not None else None,
        "shape": list(declared) if isinstance(declared, tuple) else None,
        "score": candidate.score,
        "reasons": candidate.reasons,
    }
