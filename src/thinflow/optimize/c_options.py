"""What can be asked of a model's C, in words: checked, and as the options of what writes it."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from thinflow.errors import ParameterError

if TYPE_CHECKING:
    from thinflow.lower.c.options import Options
    from thinflow.typing import FilePath


@dataclass(frozen=True)
class COptions:
    """What is asked of C, None and False where nothing is; see `thinflow.convert`.

    Attributes:
        rounding, cpu, sound, layout, stream: as in `Options`.
        sample_rate: hertz, of sound whose rate is an input.
        ram: bytes, or with a unit, that it may take.
    """

    rounding: str | None = None
    cpu: str | None = None
    sound: str | None = None
    sample_rate: int | None = None
    layout: str | None = None
    stream: bool = False
    ram: float | str | None = None

    def require_c(self, path: FilePath) -> None:
        """Refuse a file that is no .c if anything is asked of C.

        Raises:
            ParameterError: something is.
        """
        given = [_NAMES[f.name] for f in fields(self) if getattr(self, f.name) not in (None, False)]
        if given and not os.fspath(path).endswith(".c"):
            raise ParameterError(f"{given[0]} goes with .c files only", hint="end the output's name in .c")

    def chosen(self) -> Options:
        """The same for what writes C.

        Raises:
            ParameterError: there is no such rounding, processor, sound or layout, or amount of memory.
        """
        from thinflow.lower.c.options import Options
        from thinflow.optimize.ladder.budget import budget_of

        words = (self.rounding or "litert", self.cpu or "generic", self.sound or "float")
        chosen = Options(*words, self.layout or "files", self.stream)
        limit = budget_of(max_ram=self.ram).ram_bytes
        return chosen if limit is None else replace(chosen, ram=int(limit))


_NAMES = {
    "rounding": "a rounding",
    "cpu": "a processor",
    "sound": "a kind of sound",
    "sample_rate": "a sample rate",
    "layout": "a layout",
    "stream": "a stream",
    "ram": "a limit of memory",
}
