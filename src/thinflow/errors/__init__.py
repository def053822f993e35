"""Everything thinflow raises on purpose.

ThinflowError
├── FormatError            a file is not what it should be (file, byte offset)
│   └── WriteError         a file cannot be written
├── GraphError             the graph itself is wrong
│   └── NodeError          one node is wrong (node, op)
│       ├── ShapeError     shapes or dtypes do not fit together
│       └── UnsupportedOp  nothing here can run or translate this op
├── ParseError             a transform string or flag cannot be read (also a ValueError)
├── ParameterError         an option has a wrong name or value (also a ValueError)
├── TransformError         a transform failed; the graph was rolled back (also a RuntimeError)
├── EngineUnavailable      the engine is not installed, or refused the model
│   └── EngineCrashed      the engine took its process with it, or never answered
├── PagesUnavailable       the scripts of the pages were not built with this installation
├── PartialModel           a runtime can hold only a part of the model, and all of it was asked for
├── FeedError              wrong, missing or surplus input of a run (also a ValueError)
└── VerificationError      two graphs that should agree do not

Low code raises the problem alone; the layer that knows the file or the node adds it with `at()`
and re-raises `from` the original.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from typing import TYPE_CHECKING

from thinflow.errors.plain_text import shown

if TYPE_CHECKING:
    from typing_extensions import Self


class ThinflowError(Exception):
    """One problem, where it is, and what to do about it.

    Args:
        problem: what is wrong, in one sentence without a full stop.
        where: the thing it is wrong with ("node 'conv1' (Conv2D)", "model.pb, byte 120"); may be empty.
        hint: the next step for the user; may be empty.
    """

    def __init__(self, problem: str, where: str = "", hint: str = "") -> None:
        super().__init__(problem, where, hint)
        self.problem = problem
        self.where = where
        self.hint = hint

    def at(self, where: str) -> Self:
        """A copy of the error, placed; one that already knows its place gets the outer one in front."""
        placed = copy(self)
        placed.where = f"{where}, {self.where}" if self.where else where
        placed.args = (self.problem, placed.where, self.hint)
        return placed

    @property
    def message(self) -> str:
        """Place and problem on one line, without the hint."""
        return f"{self.where}: {self.problem}" if self.where else self.problem

    def __str__(self) -> str:
        """As `message`, and the hint under it. Names in them cannot command a terminal."""
        return shown(f"{self.message}\nhint: {self.hint}" if self.hint else self.message)


class FormatError(ThinflowError):
    """A file cannot be understood."""


class WriteError(FormatError):
    """A file cannot be written; whatever stood there before is untouched."""


class GraphError(ThinflowError):
    """The graph breaks a structural rule."""


class NodeError(GraphError):
    """One node is at fault."""


class ShapeError(NodeError):
    """Shapes, ranks or dtypes of a node's inputs do not fit."""


class UnsupportedOp(NodeError):
    """No kernel, shape rule or lowering rule for this op, or not for these attributes."""


class ParseError(ThinflowError, ValueError):
    """A string in one of thinflow's little languages is malformed."""


class ParameterError(ThinflowError, ValueError):
    """An option does not exist or has a value it cannot take."""


class TransformError(ThinflowError, RuntimeError):
    """A transform failed or broke the graph."""


class EngineUnavailable(ThinflowError):
    """The engine is missing, or cannot take this model."""


class EngineCrashed(EngineUnavailable):
    """The engine ended its process or gave no answer in time; it ran in a child, so nothing else is lost.

    Attributes:
        is_slow: whether it was ended, as it gave no answer in time.
        how: it ended by itself, "signal 11, SIGSEGV" or "exit code 3"; "" if that is not known.
    """

    def __init__(
        self, problem: str, where: str = "", hint: str = "", *, is_slow: bool = False, how: str = ""
    ) -> None:
        super().__init__(problem, where, hint)
        self.is_slow, self.how = is_slow, how


class PagesUnavailable(ThinflowError):
    """The scripts inside pages are missing from this installation."""


class PartialModel(ThinflowError):
    """A file could hold only a part of the model, and nothing less than all of it was wanted."""


class FeedError(ThinflowError, ValueError):
    """The tensors given to a run do not match the graph's inputs."""


class VerificationError(ThinflowError):
    """Numbers differ by more than they may."""


def closest(name: str, candidates: Iterable[str], count: int = 3) -> str:
    """A "did you mean …" sentence for a name that does not exist; empty when nothing is near."""
    import difflib

    near = difflib.get_close_matches(name, list(candidates), n=count, cutoff=0.5)
    return f"did you mean {' or '.join(repr(n) for n in near)}?" if near else ""
