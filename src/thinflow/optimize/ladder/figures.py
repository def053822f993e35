"""The figures of one candidate, and its time beside the float model's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from thinflow.device.base import DeviceLost
from thinflow.errors import EngineCrashed, ThinflowError
from thinflow.optimize.ladder.candidates import Candidate
from thinflow.optimize.ladder.ground import Ground
from thinflow.optimize.ladder.measured import Latency, Measured
from thinflow.optimize.ladder.needs import needs_of
from thinflow.optimize.ladder.store import digest_of
from thinflow.optimize.maker import ModelPair
from thinflow.optimize.on_device import race
from thinflow.optimize.trial_runs import first_sample
from thinflow.optimize.trials import Climb


def figures_of(
    candidate: Candidate, pair: ModelPair[Any, Any], ground: Ground[Any, Any], latency: Latency | None = None
) -> Measured:
    """All figures of a pair's smaller model.

    Raises:
        UnsupportedOp: C, where it is to be that, has no form of it.
    """
    program = pair.quantized.quantized.program
    needs = needs_of(pair.quantized.content, program, ground.target, ground.ram_bytes)
    made, quality = pair.quantized, pair.qualities[pair.maker.names[1]]
    way: Climb = made.way
    return Measured(
        candidate.name,
        candidate.scheme,
        candidate.effort,
        recipe=way.recipe,
        digest=digest_of(made.content),
        size_bytes=needs.size_bytes,
        ram_bytes=needs.ram_bytes,
        quality=quality,
        latency=latency,
        failure="it gives NaN or infinity where the model gives numbers" if quality.not_finite else "",
        trials=way.trials,
        warnings=list(made.warnings),
        note=way.note,
    )


def latency_of(
    ground: Ground[Any, Any], write: Callable[[Path], object], folder: Path, float_path: Path
) -> tuple[Latency | None, str]:
    """The time of a model, in turns with the float one, or None; and why it could not be taken.

    Args:
        write: writes it into a file.
        folder: for that file.
        float_path: of the float model.

    Raises:
        KeyboardInterrupt: it was interrupted.
    """
    options = ground.job.options
    if not ground.is_timed:
        return None, ""
    path = folder / f"candidate{float_path.suffix}"
    write(path)
    core = ground.model.core
    try:
        found = race(
            options.devices[:1],
            [path, float_path],
            threads=options.threads[:1],
            seconds=options.seconds,
            feeds=first_sample(ground.job, {path: core, float_path: core}),
            memory=False,
        )
        ratio = found.ratio(path, float_path)
    except (EngineCrashed, DeviceLost):
        raise
    except ThinflowError as error:  # the model itself ran before: it can be judged without its time
        return None, f"some were not timed: {error.message}"
    if found.interrupted:
        raise KeyboardInterrupt
    # Of a half that was measured nothing is kept: it is measured whole when the device is back.
    if any(device.failure for device in found.devices):
        raise DeviceLost(found.devices[0].failure, hint="look after the device")
    return Latency(ratio.a.median_ms, ratio.b.median_ms, ratio.interval.low, ratio.interval.high), ""
