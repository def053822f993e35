"""`--feed`: real inputs from files."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from thinflow.cli._options import add_alias, model_options, names
from thinflow.errors import ParameterError


def add_feed(p: ArgumentParser, more: str = "") -> None:
    """`--feed`."""
    flag = p.add_argument(
        "--feed",
        action="append",
        default=[],
        metavar="NAME=FILE",
        help="an input from a file: .npy, .npz, .txt, a picture, or any file for a string; one .npz without "
        f"NAME= holds all inputs by name{more and f'; {more}'}",
    )
    add_alias(p, flag, "--feeds")


def feed_paths(args: Namespace) -> dict[str, str]:
    """The files by the names of the inputs.

    Raises:
        ParameterError: a name is missing.
    """
    paths: dict[str, str] = {}
    for text in args.feed:
        name, equals, path = text.partition("=")
        if not equals:
            raise ParameterError(f"--feed {text}: the name is missing", hint="write --feed NAME=FILE")
        paths[name.strip()] = path
    return paths


def whole_feed(args: Namespace) -> dict[str, Any] | None:
    """All inputs by name, if one archive holds them; None if not."""
    if len(args.feed) != 1 or "=" in args.feed[0] or not args.feed[0].endswith(".npz"):
        return None
    from thinflow.api import read_arrays

    return read_arrays(args.feed[0])


def read_feed_flags(args: Namespace, model: str) -> dict[str, Any] | None:
    """One feed from files; None if there are none.

    Args:
        args: with `feed`, and how the model is opened.
        model: whose inputs they are.
    """
    if not args.feed:
        return None
    if (whole := whole_feed(args)) is not None:
        return whole
    from thinflow.api import open_session, read_feeds

    paths = feed_paths(args)
    wanted: dict[str, Any] = {"inputs": names(args.inputs), "outputs": names(args.outputs)}
    # The model tells which inputs are text, for which any file will do.
    session = open_session(model, **wanted, **model_options(args))
    return read_feeds(session, paths)
