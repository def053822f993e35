"""The argument parser every command gets."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any, NoReturn

from thinflow.errors import ThinflowError


class _Layout(argparse.RawDescriptionHelpFormatter):
    """argparse's own, which would import shutil and all compressors with it to ask for the width."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)


def _columns() -> int:
    """The width of the terminal; 80 if there is none. The variable COLUMNS overrides it."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given):
        return int(given)
    try:
        # The stream that the process began with: stdout is behind a gate by now, or may be replaced.
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or 80  # type: ignore[union-attr]
    except (AttributeError, ValueError, OSError):
        return 80


class Parser(argparse.ArgumentParser):
    """argparse with thinflow's manners: no abbreviated flags, our error layout, our errors kept.

    Usage errors leave with code 2. A `type=` function may raise a ThinflowError; that one passes through
    with its hint, where plain argparse would replace it by "invalid value" since some are ValueErrors.
    """

    def __init__(self, verb: str, description: str, examples: str = "") -> None:
        super().__init__(
            prog=f"thinflow {verb}",
            description=description,
            epilog=f"examples:\n{examples.strip(chr(10))}" if examples else None,
            formatter_class=_Layout,
            allow_abbrev=False,
        )

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        try:
            return super()._get_value(action, arg_string)
        except argparse.ArgumentError as e:
            # argparse has turned our error into its own; ours is what was being handled then.
            if isinstance(e.__context__, ThinflowError):
                raise e.__context__ from None
            raise

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {message}\nhint: '{self.prog} --help' lists the options\n")
