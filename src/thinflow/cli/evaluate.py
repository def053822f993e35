"""`thinflow evaluate`: how often is a model right, and is another one better?"""

from __future__ import annotations

import shlex
from argparse import ArgumentParser, Namespace
from typing import Any

from thinflow.cli._console import print_lines, progress
from thinflow.cli._device import add_device, device_flags, devices
from thinflow.cli._making import add_labels
from thinflow.cli._options import (
    add_cluster,
    add_engine,
    add_html,
    add_interface,
    add_json,
    add_scaling,
    check_html,
    html_lines,
    interface,
    interface_flags,
    model_flags,
    scaling_flags,
    scaling_options,
)
from thinflow.errors import ParameterError

EXAMPLES = """
  thinflow evaluate kws.pb clips/ --labels labels.txt        # clips are named LABEL_something.wav
  thinflow evaluate digits.pb test.npz                       # arrays image and labels
  thinflow evaluate kws.tflite clips/ --html report.html     # a page with the clips that it got wrong
  thinflow evaluate net.pb net_int8.tflite --data photos/    # is the second as good, or is it chance?
  thinflow evaluate net.onnx --data 'val-{000..127}.tar' --resize 256 --crop center
  thinflow evaluate ssd.tflite --data s3://data/val.tfrecord --metric map
  thinflow evaluate net_int8.tflite --data photos/ --device ssh:pi@board    # as good there?
  thinflow evaluate net_int8.tflite --data photos/ --device local,ssh:pi@board,adb    # in one table
  thinflow evaluate net.pb --data val.parquet --metric mine.py:name --fields label=class
"""


def add_arguments(p: ArgumentParser) -> None:
    p.add_argument("models", metavar="MODEL", nargs="+", help="models; each is compared with the first")
    p.add_argument(
        "--data",
        metavar="SOURCE",
        help="labelled samples: a folder of LABEL_... files or of a folder for each class, a CSV of paths,"
        " .npy, .npz, TFRecord, Parquet or WebDataset tars, as a path, a pattern or a URL;"
        " default: the last word",
    )
    add_labels(p)
    _add_measures(p)
    add_scaling(p)
    add_engine(p, None)
    _add_work(p)
    add_interface(p)
    p.add_argument("--csv", metavar="FILE", help="also write the table, a row for each model")
    add_html(p)
    add_json(p)


def _add_measures(p: ArgumentParser) -> None:
    p.add_argument(
        "--metric",
        action="append",
        default=[],
        metavar="METRIC",
        help="measure this as well: map, wer, top(k=3), cosine, or FILE.py:NAME, a function or class of"
        " yours, which is run; repeat for several",
    )
    p.add_argument(
        "--fields",
        metavar="INPUT=FIELD,...",
        help="which field of a sample an input or the label is, where names do not tell: label=class",
    )
    p.add_argument("--wrong", action="store_true", help="list every sample that a model got wrong")


def _add_work(p: ArgumentParser) -> None:
    p.add_argument(
        "--strict",
        action="store_true",
        help="fail at the first sample that cannot be read; else it is left out",
    )
    add_cluster(p, "run the models")
    add_device(p, "all of them in one table")
    p.add_argument(
        "--shard-samples",
        type=int,
        default=1024,
        metavar="N",
        help="samples of a shard, where the files leave the choice (default 1024)",
    )


def run(args: Namespace) -> int:
    import json

    import thinflow
    from thinflow.api import picture_scaling

    check_html(args)
    models, data = _models_and_data(args)
    found = thinflow.evaluate(
        models,
        data,
        labels=args.labels,
        scaling=picture_scaling(**scaling_options(args)),
        fields=_fields(args.fields),
        metrics=args.metric,
        engine=args.engine,
        strict=args.strict,
        store=args.store,
        cluster=args.cluster,
        device=devices(args),
        shard_samples=args.shard_samples,
        progress=progress(),
        **interface(args),
    )
    following = _next(args, models[-1], data)
    alone = found[0] if len(found) == 1 else None
    if args.json:
        wrong = {"wrong": [one._asdict() for one in found.answers()]} if args.wrong else {}
        print(json.dumps((found if alone is None else alone).data() | wrong))
    else:
        if alone is None:
            _print_several(found)
        else:
            print_lines([*alone.lines, *found.unreached])
        if args.wrong:
            _print_wrong(found)
        print_lines([*html_lines(args), *_csv_lines(args), f"next: {following}"])
    if args.csv is not None:
        from thinflow.api import write_text

        write_text(args.csv, found.csv())
    if args.html is not None:
        (found if alone is None else alone).save_html(args.html, [following])
    return 1 if found.unreached else 0


def _models_and_data(args: Namespace) -> tuple[list[str], str]:
    """The models, and the samples, which may stand behind them."""
    # The old form, MODEL SAMPLES, stays: the samples are the last word.
    if args.data is not None:
        return args.models, args.data
    if len(args.models) < 2:
        raise ParameterError("it is not said which samples", hint="give them: --data FOLDER")
    return args.models[:-1], args.models[-1]


def _fields(text: str | None) -> dict[str, str]:
    found = {}
    for item in filter(None, (text or "").split(",")):
        name, equals, field = item.partition("=")
        if not equals or not field:
            raise ParameterError(f"--fields {text} cannot be read", hint="write --fields image=jpg,label=cls")
        found[name.strip()] = field.strip()
    return found


def _print_several(found: Any) -> None:
    from thinflow.cli._console import print_table

    print_lines([found.verdict])
    rows = found.rows()
    known = [name for name in rows[0] if any(row[name] is not None for row in rows)]
    # Ends of intervals stand in brackets behind their figure; the files have them as columns.
    shown = [name for name in known if name not in _NOT_SHOWN]
    titles = [_TITLES.get(name, name) for name in shown]
    print_table([[_cell(name, row) for name in shown] for row in rows], titles)
    print_lines([line for line in dict.fromkeys(one.taken for one in found) if line])
    print_lines(found[0].left_out.lines())
    print_lines(dict.fromkeys(f"device: {one.device}" for one in found if one.device))
    print_lines(found.unreached)


_NOT_SHOWN = (
    "accuracy_low",
    "accuracy_high",
    "points_low",
    "points_high",
    "correct",
    "may_be_chance",
    "largest",
)
_TITLES = {
    "same_answer": "same",
    "p": "p",
    "sqnr_db": "SQNR dB",
    "accuracy": "right % (95 %)",
    "points": "points (95 %)",
}


def _cell(name: str, row: dict[str, Any]) -> str | None:
    value = row[name]
    if name == "points" and value is not None:
        return f"{value:+.2f} ({row['points_low']:+.1f} to {row['points_high']:+.1f})"
    if name == "accuracy" and value is not None:
        return f"{value:.2f} ({row['accuracy_low']:.1f} to {row['accuracy_high']:.1f})"
    if value is None or not isinstance(value, float):
        return None if value is None else str(value)
    return f"{value:.2g}" if name == "p" else f"{value:.2f}"


def _print_wrong(found: Any) -> None:
    for one in found.answers():
        labelled = f" is {one.label}" if one.label else ""
        print_lines([f"  {one.number} {one.place}{labelled}, answered {', '.join(one.answers)}"])


def _csv_lines(args: Namespace) -> list[str]:
    return [] if args.csv is None else [f"table: {args.csv}"]


def _next(args: Namespace, model: str, data: str) -> str:
    """Make a smaller one of a graph; see what a file takes that an engine runs as it is."""
    from thinflow.api import runtime_format

    # A file that engines run as it is cannot be made smaller here.
    if runtime_format(model):
        flags = model_flags(args) + device_flags(args)
        return f"thinflow benchmark {shlex.quote(model)} --calibration {shlex.quote(data)}{flags}"
    labels = f" --labels {shlex.quote(args.labels)}" if args.labels else ""
    flags = f"{labels}{scaling_flags(args)}{interface_flags(args)}"
    return f"thinflow optimize {shlex.quote(model)} out --calibration {shlex.quote(data)}{flags}"
