"""`thinflow freeze`: variables become constants, and what the outputs do not need goes."""

from __future__ import annotations

import shlex
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from thinflow.cli._console import print_lines
from thinflow.cli._options import add_ends, add_json, add_model, add_model_options, add_output, names
from thinflow.errors import ParameterError

if TYPE_CHECKING:
    from thinflow.load.frozen import Frozen

EXAMPLES = """
  thinflow freeze export_dir -o frozen.pb
  thinflow freeze export_dir -o frozen.pb --signature serving_default
  thinflow freeze model.ckpt-7.meta -o frozen.pb --outputs softmax
  thinflow freeze graph.pbtxt --checkpoint train_dir@latest -o frozen.pb --outputs softmax
  thinflow freeze graph.pb --checkpoint model.ckpt -o frozen.pb --outputs y --rename 'tower_0/='
"""
_SHOWN = 8


def add_arguments(p: ArgumentParser) -> None:
    add_model(p, "variables are in a SavedModel's folder, beside a .meta file, or in --checkpoint")
    add_output(p, "the frozen graph to write")
    add_ends(p)
    add_model_options(p)
    p.add_argument("--only", metavar="NAMES", help="freeze only these variables; wildcards allowed")
    p.add_argument("--exclude", metavar="NAMES", help="do not freeze these variables; wildcards allowed")
    p.add_argument("--averages", action="store_true", help="take moving averages in place of the variables")
    p.add_argument(
        "--rename",
        action="append",
        default=[],
        metavar="OLD=NEW",
        help="variables that begin with OLD in the graph begin with NEW in the checkpoint; repeatable",
    )
    p.add_argument(
        "--initializers",
        metavar="NAMES",
        help="nodes of the graph that initialise what the checkpoint lacks, such as init",
    )
    p.add_argument(
        "--allow-missing",
        action="store_true",
        help="leave variables without a value, and tables without their file, in the graph",
    )
    p.add_argument("--clear-devices", action="store_true", help="drop the placement of nodes")
    add_json(p)


def run(args: Namespace) -> int:
    import json

    import thinflow
    from thinflow.api import freeze_with_report

    frozen = freeze_with_report(
        args.model,
        names(args.outputs),
        inputs=names(args.inputs),
        checkpoint=args.checkpoint,
        tags=args.tags,
        signature=args.signature,
        only=names(args.only) or (),
        exclude=names(args.exclude) or (),
        averages=args.averages,
        renames=_renames(args.rename),
        allow_missing=args.allow_missing,
        clear_devices=args.clear_devices,
        initializers=names(args.initializers) or (),
    )
    size = thinflow.save(frozen.graph, args.output)
    if args.json:
        print(json.dumps(_data(frozen, args.output, size), indent=2))
    else:
        print_lines(_lines(frozen, args.output, size))
    return 0


def _renames(texts: list[str]) -> dict[str, str]:
    found = {}
    for text in texts:
        old, equals, new = text.partition("=")
        if not equals:
            raise ParameterError(f"--rename {text}: there is no =", hint="write --rename OLD=NEW")
        found[old] = new
    return found


def _data(frozen: Frozen, path: str, size: int) -> dict[str, Any]:
    return {
        "path": path,
        "size_bytes": size,
        "inputs": [v.name for v in frozen.graph.inputs],
        "outputs": [v.name for v in frozen.graph.outputs],
        "nodes_before": frozen.nodes_before,
        "nodes": len(frozen.graph),
        "variables": {n: {"key": k.name, "told_by": k.told_by} for n, k in frozen.variables.items()},
        "missing": frozen.missing,
        "unused": frozen.unused,
        "notes": frozen.notes,
    }


def _lines(frozen: Frozen, path: str, size: int) -> list[str]:
    from thinflow.cli._console import human_bytes

    count = len(frozen.variables)
    lines = [
        f"wrote {path}: {human_bytes(size)}, {count} variable{'s' if count != 1 else ''} frozen, "
        f"{frozen.nodes_before} nodes before, {len(frozen.graph)} now"
    ]
    lines += [f"  input  {v.name}  {v.spec}" for v in frozen.graph.inputs]
    lines += [f"  output {v.name}  {v.spec}" for v in frozen.graph.outputs]
    by_source: dict[str, int] = {}
    for key in frozen.variables.values():
        by_source[key.told_by] = by_source.get(key.told_by, 0) + 1
    lines += [f"  {number} found by {source}" for source, number in by_source.items()]
    lines += [f"  {note}" for note in frozen.notes]
    if frozen.unused:
        shown = ", ".join(frozen.unused[:_SHOWN]) + (", ..." if len(frozen.unused) > _SHOWN else "")
        lines.append(f"  {len(frozen.unused)} values of the checkpoint were not needed: {shown}")
    lines.append(f"next: thinflow inspect {shlex.quote(path)}")
    return lines
