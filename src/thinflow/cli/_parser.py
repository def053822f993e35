"""The argument parser every command gets."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from thinflow.errors import ThinflowError


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
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        try:
            return super()._get_value(action, arg_string)
        except argparse.ArgumentError as e:
            if isinstance(e.__context__, ThinflowError):
                raise e.__context__ from None
            raise

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {message}\nhint: '{self.prog} --help' lists the options\n")
