"""`thinflow transform`: apply transforms, prove each, and say what each did and why not."""

from __future__ import annotations

import os
import shlex
from argparse import ArgumentParser, Namespace
from typing import Any

from thinflow.cli._console import print_lines, terminal_width
from thinflow.cli._ledger import ledger_data, ledger_lines
from thinflow.cli._making import add_calibration, add_transforms, add_verify
from thinflow.cli._options import (
    add_alias,
    add_interface,
    add_json,
    add_model,
    add_output,
    add_plugin,
    add_seed,
    interface,
    load_plugins,
)

EXAMPLES = """
  thinflow transform model.pb small.pb -t 'fold_constants fold_batch_norms'
  thinflow transform model.pb out.pb --outputs softmax -t 'strip_unused_nodes(type=float, shape="1,8,8,3")'
  thinflow transform model.pb small.pb --pipeline float
  thinflow transform model.pb --dry-run -t quantize_weights
  thinflow transform pose.pb frozen.pb -t freeze_batch_norms --calibration frames/ --shape image=1,184,184,3
  thinflow transform eight.pb frozen.pb -t freeze_requantization_ranges --calibration pictures/
"""


def add_arguments(p: ArgumentParser) -> None:
    add_model(p)
    add_output(p, "where to write the result: .pb, .pbtxt or .tflite", needed=False)
    what = p.add_mutually_exclusive_group(required=True)
    add_transforms(what)
    what.add_argument(
        "--pipeline",
        action="append",
        dest="transforms",
        metavar="PIPELINE",
        help="a named order of transforms: float, eight_bit, smallest, for_runtime(runtime=litert)",
    )
    add_interface(p)
    add_calibration(p, "of freeze_batch_norms (else made up) and freeze_requantization_ranges")
    add_verify(p)
    dry = p.add_argument("--dry-run", action="store_true", help="write nothing, only tell what would happen")
    add_alias(p, dry, "--dry_run")
    add_seed(p)
    going = p.add_argument(
        "--keep-going",
        action="store_true",
        help="undo a transform that fails and go on with the next, as with ignore_errors=true everywhere",
    )
    add_alias(p, going, "--keep_going")
    p.add_argument("--report", metavar="FILE.json", help="also write what each transform did to this file")
    add_plugin(p)
    add_json(p)


def run(args: Namespace) -> int:
    import thinflow
    from thinflow.api import transform_with_ledger, write_json
    from thinflow.cli._console import progress
    from thinflow.errors import ParameterError

    if args.output is None and not args.dry_run:
        raise ParameterError(
            "no output file was given", hint=f"name it behind {shlex.quote(args.model)}, or add --dry-run"
        )
    load_plugins(args)
    transforms, norms = _measured(args, " ".join(args.transforms))
    result = transform_with_ledger(
        args.model,
        transforms,
        verify=args.verify,
        seed=args.seed,
        keep_going=args.keep_going,
        progress=progress(),
        **interface(args),
    )
    _tell_statistics(args, result, norms)
    if not args.dry_run:
        thinflow.save(result.graph, args.output)
    if args.report:
        write_json(args.report, ledger_data(result))
    _print_ledger(args, result)
    return 0


def _print_ledger(args: Namespace, result: Any) -> None:
    """What each transform did, and what to do next."""
    import json

    if args.json:
        print(json.dumps(ledger_data(result), indent=2))
        return
    print_lines(ledger_lines(result, verified=args.verify, width=terminal_width()))
    print("nothing was written (--dry-run)" if args.dry_run else f"next: {_next(args, result)}")


def _next(args: Namespace, result: Any) -> str:
    """What was proposed, on what was written; else a look at it."""
    written = shlex.quote(args.output)
    stem, suffix = os.path.splitext(args.output)
    # Files of other runtimes are written with their norms folded.
    if not result.proposed or suffix not in {".pb", ".pbtxt"}:
        return f"thinflow inspect {written}"
    ends = (f" --{key} {shlex.quote(','.join(v.name for v in getattr(result.graph, key)))}" for key in _ENDS)
    return (
        f"thinflow transform {written} {shlex.quote(f'{stem}_2{suffix}')} -t {result.proposed}{''.join(ends)}"
    )


_ENDS = ("inputs", "outputs")


def _tell_statistics(args: Namespace, result: Any, norms: Any) -> None:
    """Say in the ledger where the statistics of frozen norms, and ranges, come from."""
    for step in result.steps:
        if step.transform.startswith("freeze_requantization_ranges") and args.calibration is not None:
            step.trace.notes.append(f"ranges measured on {args.calibration}")
        if not step.transform.startswith("freeze_batch_norms") or not step.changes:
            continue
        if args.calibration is None:
            step.trace.warnings.append(
                "no --calibration was given: the statistics come from made-up inputs and fit nothing real"
            )
        else:
            step.trace.notes.append(f"statistics measured on {args.calibration}")
            if norms is not None and (told := norms.sentence()):
                (step.trace.notes if norms.is_alike else step.trace.warnings).append(told)


def _measured(args: Namespace, transforms: str) -> tuple[str, Any]:
    """The transforms with what some of them need measured, where it is wanted, and what frozen norms do."""
    # Without parameters it needs statistics, made up if need be; with some they are given there.
    if args.calibration is None and "freeze_batch_norms" not in transforms.replace("freeze_batch_norms(", ""):
        return transforms, None
    with_statistics, norms = _with_statistics(args, transforms)
    return _with_ranges(args, with_statistics), norms


def _with_statistics(args: Namespace, transforms: str) -> tuple[str, Any]:
    """The transforms with measured statistics for every freeze_batch_norms that has none; written beside the
    output.
    """
    from thinflow.api import measure_batch_norms, parse_transforms

    calls = parse_transforms(transforms)
    wanting = [c for c in calls if c.name == "freeze_batch_norms" and "statistics" not in c.params]
    norms = None
    if wanting:
        target = f"{args.output or args.model}.norms.npz"
        norms = measure_batch_norms(args.model, args.calibration, target, **interface(args))
        for call in wanting:
            call.params["statistics"] = [target]
    return " ".join(str(call) for call in calls), norms


def _with_ranges(args: Namespace, transforms: str) -> str:
    """The transforms with a log of measured ranges, written beside the output, for the first
    freeze_requantization_ranges that has none: of the graph as the transforms before it leave it.
    """
    from thinflow.api import measure_ranges, parse_transforms, transform

    calls = parse_transforms(transforms)
    for number, call in enumerate(calls):
        if call.name != "freeze_requantization_ranges" or "min_max_log_file" in call.params:
            continue
        if args.calibration is None:
            break
        before = " ".join(str(c) for c in calls[:number])
        # Transforms before it decide which ranges there are; the final run proves them, not this one.
        graph = transform(args.model, before, verify=False, **interface(args)) if before else args.model
        target = f"{args.output or args.model}.ranges.txt"
        # A graph that was transformed has its inputs and outputs already.
        measure_ranges(graph, args.calibration, target, **({} if before else interface(args)))
        call.params["min_max_log_file"] = [target]
        break
    return " ".join(str(call) for call in calls)
