"""`--feed` of the commands that run two models."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from thinflow.cli._options import model_options, names
from thinflow.errors import ParameterError


def add_feed(p: ArgumentParser) -> None:
    """`--feed`, for two models."""
    p.add_argument(
        "--feed",
        action="append",
        default=[],
        metavar="NAME=FILE",
        help="real input, by name in the first model: .npy, .npz, or any file for a string input; "
        "one .npz without NAME= holds all inputs by name",
    )


def read_feed_flags(args: Namespace) -> dict[str, Any] | None:
    """One feed from files; None if there are none."""
    from thinflow.api import open_session, read_arrays, read_feeds

    if not args.feed:
        return None
    if len(args.feed) == 1 and "=" not in args.feed[0]:
        return read_arrays(args.feed[0])
    paths: dict[str, str] = {}
    for text in args.feed:
        name, equals, path = text.partition("=")
        if not equals:
            raise ParameterError(f"--feed {text}: the name is missing", hint="write --feed NAME=FILE")
        paths[name.strip()] = path
    wanted: dict[str, Any] = {"inputs": names(args.inputs), "outputs": names(args.outputs)}
    # The first model tells which inputs are text, for which any file will do.
    session = open_session(args.a, **wanted, **model_options(args))
    return read_feeds(session, paths)
