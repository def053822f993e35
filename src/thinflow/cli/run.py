"""`thinflow run`: compute a model's outputs once."""

from __future__ import annotations

import math
import shlex
from argparse import ArgumentParser, Namespace
from typing import Any

from thinflow.cli._console import print_lines
from thinflow.cli._feeds import add_feed, feed_paths, whole_feed
from thinflow.cli._inspect_text import placement_lines
from thinflow.cli._options import (
    add_alias,
    add_engine,
    add_inter_op,
    add_interface,
    add_json,
    add_model,
    add_output,
    add_seed,
    add_state,
    add_threads,
    interface,
    interface_flags,
    model_flags,
    names,
    shapes,
)
from thinflow.errors import GraphError

EXAMPLES = """
  thinflow run model.pb --feed input=x.npy
  thinflow run speech.pb --feed wav_data=yes.wav
  thinflow run model.pb                              # made-up input, to see that it runs
  thinflow run model.pb --feed input=x.npy -o out.npz --engine reference
  thinflow run model.tflite
  thinflow run model.pb --placement                  # which engine runs each node, and why not the other
"""


def add_arguments(p: ArgumentParser) -> None:
    add_model(p)
    add_feed(p)
    add_interface(p)
    add_engine(p, "auto")
    add_threads(p)
    add_inter_op(p)
    p.add_argument(
        "--measure",
        action="store_true",
        help="with --engine auto: try every engine in turns; the fastest that agrees runs it",
    )
    p.add_argument(
        "--engine-cache",
        metavar="FILE",
        help="as --measure, and keep the choice in a file, so that it is made once",
    )
    p.add_argument(
        "--max-iterations",
        type=int,
        metavar="N",
        help="turns after which a loop is taken to be endless (default 1000000; an engine does not count)",
    )
    p.add_argument(
        "--placement",
        action="store_true",
        help="also tell which engine runs each node, and why not the other",
    )
    add_seed(p)
    saved = add_output(p, "all outputs by name, as .npz", word="")
    add_alias(p, saved, "--save")
    add_state(p)
    add_json(p)


def run(args: Namespace) -> int:
    from thinflow.api import read_feeds, run_synthetic, synthetic_feed, write_arrays

    feed = whole_feed(args)
    paths = feed_paths(args) if feed is None else {}
    session = _opened(args)
    if feed is None:
        feed = (
            read_feeds(session, paths) if paths else synthetic_feed(session, args.seed, _sizes(args, session))
        )
    fetches = names(args.outputs) or list(session.outputs)
    # Made-up input may not fit; that is told as such, not as an error of the model.
    results = session.run(fetches, feed) if args.feed else run_synthetic(session, fetches, feed)
    outputs = dict(zip(fetches, results, strict=True))
    if args.output:
        # In the archive a name is a path: slashes would make folders.
        write_arrays(args.output, {name.replace("/", "__"): a for name, a in outputs.items()})
    if args.json:
        _print_data(args, session, outputs)
    else:
        _print_outputs(args, session, outputs)
    return 0


def _sizes(args: Namespace, session: Any) -> Any:
    """Sizes of what is made up for a file; a graph has them by now."""
    return shapes(args.shape) if session.graph is None else None


def _opened(args: Namespace) -> Any:
    """A session that has something to compute."""
    from thinflow.api import open_session, own_engine

    wanted = interface(args)
    # A file runs with the sizes of what it is fed, and that is made up with those that are asked for.
    if not args.feed and (own := own_engine(args.model)) and args.engine in ("auto", own):
        wanted["shapes"] = None
    session = open_session(
        args.model,
        **wanted,
        engine=args.engine,
        threads=args.threads,
        inter_op_threads=args.inter_op,
        measure=args.measure,
        cache=args.engine_cache,
        max_iterations=args.max_iterations,
    )
    if not session.outputs:
        raise GraphError(
            "the graph has no outputs to compute",
            args.model,
            hint=f"name them: thinflow run {shlex.quote(args.model)} --outputs NAMES",
        )
    return session


def _print_data(args: Namespace, session: Any, outputs: dict[str, Any]) -> None:
    import json

    data: dict[str, Any] = {name: _as_data(array) for name, array in outputs.items()}
    if args.placement:
        data = {"outputs": data, "placement": session.placement, "reasons": session.reasons}
        if session.choice is not None:
            data["measured"] = session.choice.data()
    print(json.dumps(data, indent=2))


def _print_outputs(args: Namespace, session: Any, outputs: dict[str, Any]) -> None:
    """How many there are and who computed them, a line for each, and what to do next."""
    from thinflow.api import picture_note

    places = sorted(set(session.placement.values()))
    source = "the given feed" if args.feed else "made-up input"
    print(
        f"{len(outputs)} output{'s' if len(outputs) != 1 else ''} of {args.model} on {source}, "
        f"run by {' and '.join(places) or 'nobody'}"
    )
    if session.choice is not None:
        print_lines([f"measured: {session.choice.sentence}"])
    for name, array in outputs.items():
        print_lines([f"{name}  {array.dtype}{list(array.shape)}  {_preview(array)}"])
    if args.placement:
        print_lines(placement_lines(session.placement, session.reasons))
    if note := picture_note(session, {} if whole_feed(args) else feed_paths(args)):
        print_lines([note])
    print(f"next: {_next_command(args, session)}")


def _next_command(args: Namespace, session: Any) -> str:
    from thinflow.api import is_sound

    model = shlex.quote(args.model)
    if session.graph is None or session.is_lifted:
        return f"thinflow benchmark {model}{model_flags(args)}"
    if is_sound(session.graph):  # `optimize` takes no other
        return f"thinflow optimize {model} out{interface_flags(args)}"
    return f"thinflow inspect {model}{model_flags(args)} --all"


def _preview(array: Any) -> str:
    flat = array.ravel()
    # One row of floats is taken for scores, of which the best are the answer.
    if array.dtype.kind == "f" and array.size >= 2 and array.shape[-1] == array.size:
        best = [int(i) for i in (-flat).argsort()[:3]]
        return "top: " + ", ".join(f"[{i}] {flat[i]:.4g}" for i in best)
    shown = ", ".join(str(v) if array.dtype.kind == "O" else f"{v:.6g}" for v in flat[:6])
    return shown + (", ..." if array.size > 6 else "")


def _as_data(array: Any) -> dict[str, Any]:
    return {
        "dtype": str(array.dtype),
        "shape": list(array.shape),
        # Enough to look at; `--output` writes all.
        "values": [_plain(v) for v in array.ravel()[:1000].tolist()],
        "complete": array.size <= 1000,
    }


def _plain(value: Any) -> Any:
    """A value that JSON has: text for bytes, complex numbers, NaN and infinities."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, (bool, int, str)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return str(value)
