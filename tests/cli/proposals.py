"""What commands propose to type next: found in what they print, and run as it is printed.

Every command that a test of this folder runs is watched. When the test is over, what was proposed behind
`next:` and in hints is run in the same folder, every command once; by day, of those that are alike in many
tests only the first, while the others are parsed.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from tests.night import AT_NIGHT
from thinflow import cli
from thinflow.cli import COMMANDS, main
from thinflow.cli._hints import commands_in
from thinflow.cli._parser import WrongUsage, parser_of
from thinflow.errors import ThinflowError

MAY_DIFFER = {
    "inspect",
    "diff",
    "verify",
    "compare_graphs",
    "summarize_graph",
    "inspect_checkpoint",
    "reduce",
}
"""Commands whose exit code 1 is an answer: broken or damaged, different, or still failing."""
PLACEHOLDER = re.compile(r"(?<![A-Za-z0-9_.])[A-Z][A-Z_]{2,}(?:\.\w+)?\b|\.\.\.|@latest")
"""What the reader is to fill in: FOLDER_OF_SAMPLES, PREFIX, OUT.pb."""
PROJECT = Path(__file__).resolve().parents[2]
TRIED_BY_DAY = 1
"""In one process, of proposals of the same shape."""
_tried: Counter[tuple[str, ...]] = Counter()
QUICK = {
    "benchmark": ["--seconds", "0.01", "--no-memory", "--no-peak"],
    "optimize": ["--seconds", "0.01", "--samples", "2"],
}
"""What else is said, so that it takes no time."""


@dataclass
class Watched:
    """What one command printed, where, and with which environment."""

    args: list[str]
    folder: str
    text: str
    environment: dict[str, str]

    def proposals(self) -> Iterator[list[str]]:
        """The commands it proposes, as words without `thinflow`."""
        for line in self.text.split("\n"):
            if line.startswith("next: "):
                yield self._words(line.removeprefix("next: "))
            elif line.startswith("hint: "):
                yield from commands_in(line.removeprefix("hint: "))

    def _words(self, line: str) -> list[str]:
        words = shlex.split(line)
        while words and "=" in words[0] and not words[0].startswith("-"):
            words = words[1:]  # THINFLOW_KEY=... in front
        assert words[:1] == ["thinflow"], f"after {self.args}: 'next: {line}' is no command"
        return words[1:]


@dataclass
class Watch:
    """Every command of a test."""

    seen: list[Watched] = field(default_factory=list)

    def around(self, run: Callable[[list[str], bool], int]) -> Callable[[list[str], bool], int]:
        """The function that runs a command, watched."""

        def watched(args: list[str], debug: bool) -> int:
            given, told = list(args), io.StringIO()
            write = cli._gate.Gate.write

            def tee(gate: Any, text: str) -> int:
                told.write(gate.said(text))
                return write(gate, text)

            cli._gate.Gate.write = tee  # type: ignore[method-assign]
            try:
                return run(args, debug)
            finally:
                cli._gate.Gate.write = write  # type: ignore[method-assign]
                with contextlib.suppress(OSError):  # its folder is gone
                    self.seen.append(Watched(given, os.getcwd(), told.getvalue(), dict(os.environ)))

        return watched

    def try_proposals(self) -> None:
        """Run what was proposed, in the folder where it was, each command once."""
        tried: set[tuple[str, ...]] = set()
        for command in self.seen:
            for words in command.proposals():
                assert words != command.args, f"it proposes what was just run: thinflow {shlex.join(words)}"
                one = (command.folder, *words)
                if one not in tried and os.path.isdir(command.folder):
                    tried.add(one)
                    alike = tuple(shape_of(words))
                    _tried[alike] += 1
                    if AT_NIGHT or _tried[alike] <= TRIED_BY_DAY:
                        try_one(words, command)
                    else:
                        # What names a key's file sets a variable.
                        with mock.patch.dict(os.environ):
                            flags_are_known(words, f"after 'thinflow {shlex.join(command.args)}'")


def shape_of(words: Sequence[str]) -> Iterator[str]:
    """A command without what differs from model to model: its verb, its flags, and the kinds of its files."""
    yield words[0]
    for word in words[1:]:
        yield word.partition("=")[0] if word.startswith("-") else Path(word).suffix


def try_one(words: list[str], command: Watched) -> None:
    """Run a proposed command; where the reader has to fill something in, only its flags are tried."""
    assert words, f"after {command.args}: an empty command"
    verb = words[0]
    where = f"after 'thinflow {shlex.join(command.args)}': thinflow {shlex.join(words)}"
    assert verb in COMMANDS or verb == "--help", f"{where}: there is no such command"
    if PLACEHOLDER.search(" ".join(words)):
        flags_are_known(words, where)
        return
    told = io.StringIO()
    with (
        mock.patch.dict(os.environ, command.environment, clear=True),  # keys of packages
        _in_folder(command.folder),
        contextlib.redirect_stdout(told),
        contextlib.redirect_stderr(told),
    ):
        code = main([*words, *([] if "--help" in words else QUICK.get(verb, []))])
    text = told.getvalue()
    is_answer = (
        code == 1 and verb in MAY_DIFFER and not text.startswith("error: ") and "\nerror: " not in text
    )
    # A graph that breaks TensorFlow's rules runs and is measured; `optimize` says that it cannot change it.
    is_answer |= verb == "optimize" and ": the graph is not valid: " in text
    assert code == 0 or is_answer, f"{where}\n{text[-2000:]}"


@contextlib.contextmanager
def _in_folder(folder: str) -> Iterator[None]:
    """In the folder where it was proposed; in an empty one where that would write into the project."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as empty:
        os.chdir(empty if Path(folder).resolve().is_relative_to(PROJECT) else folder)
        try:
            yield
        finally:
            os.chdir(before)


def flags_are_known(words: Sequence[str], where: str) -> None:
    """A command with words to fill in has flags that its command knows."""
    assert words[0] in COMMANDS or words[0] == "--help", f"{where}: there is no such command"
    if words[0] in cli.DROP_INS or "--help" in words or "..." in words:  # an old tool's flags; or cut short
        return
    try:
        parser_of(words[0]).parse_args(list(words[1:]))
    except WrongUsage as error:
        raise AssertionError(f"{where}\n{error.message}") from error
    except ThinflowError:  # a value to fill in is no number
        return
