"""Whether a model fits a microcontroller."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from thinflow.load.graphs import Source, opening
from thinflow.typing import Progress, Shapes

if TYPE_CHECKING:
    from thinflow.fit.report import Fit
    from thinflow.typing import FilePath


def fit(
    source: Source,
    *,
    cpu: str | None = None,
    ram: float | str | None = None,
    flash: float | str | None = None,
    clock: float | str | None = None,
    chip: str | None = None,
    compile: bool = True,
    remedies: bool = True,
    sound: str | None = None,
    stream: bool = False,
    sample_rate: int | None = None,
    shapes: Shapes | None = None,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    tags: str | None = None,
    signature: str | None = None,
    checkpoint: FilePath | None = None,
    progress: Progress | None = None,
) -> Fit:
    """What a model takes as C on a microcontroller: flash, memory, instructions, time, layer by layer; which
    chips hold it, and what would make it smaller.

        found = thinflow.fit("model.tflite", cpu="cortex-m4", ram="64KB", flash="256KB")
        found.fits, found.verdict                # True, fits cortex-m4: 37.6 kB of flash, 9.63 kB of RAM, ...
        [one.chip.name for one in found.holding] # the smallest memory first

    Args:
        source: path or Graph.
        cpu: the processor, as for `convert`; default "cortex-m4", or the chip's.
        ram, flash: what may be taken: bytes, or with a unit: "64KB" (1000 bytes each), "256KiB".
        clock: of the processor: megahertz, or with a unit: "120MHz". Default: that of a common board, or the
            chip's.
        chip: one of the table, which has all of these.
        compile: whether to ask the compiler for the processor, where it is installed: flash and stack are
            exact then, and estimated otherwise.
        remedies: whether to look for what would make it smaller, which takes longer.
        sound, stream, sample_rate: as for `convert_verified`: how samples of sound come in, whether only what
            is new, and how many a second.
        shapes: input name -> shape to assume.
        inputs, outputs, tags, signature, checkpoint: as for `load`.
        progress: called with (done, total, label).

    Raises:
        ParameterError: there is no such processor or chip, or a limit makes no sense.
        UnsupportedOp: operators have no form in C, all of them named; or sizes are open.
    """
    from thinflow.fit.judge import place_of
    from thinflow.lower.c.options import Options
    from thinflow.optimize.fit_job import FitOptions
    from thinflow.optimize.fit_job import fit as run_job
    from thinflow.optimize.ladder.budget import budget_of

    # Before the model is opened: wrong options should not cost a minute.
    budget = budget_of(None, flash, None, ram)
    place = place_of(cpu, clock, budget.ram_bytes, budget.size_bytes, chip)
    names = {"inputs": inputs, "outputs": outputs, **opening(tags, signature, checkpoint)}
    # Refuses a kind of sound that does not exist.
    kind = Options(sound=sound or "float").sound
    chosen = FitOptions(place, compile, remedies, progress, kind, stream, sample_rate)
    return run_job(source, shapes, names, chosen)
