"""How much of a trained network is left in eight bits: ours beside others', on the same samples.

    python -m benchmarks ptq [NETWORK ...] [--keywords] [--ours-only] [--effort E ...] [--json FILE]

Judged are the numbers before the softmax, over samples that calibrated nothing: signal to quantization noise,
the share of samples whose top answer stays what it was in float, and the share of right answers. Then all
files of a form run by turns on one thread: how long beside float, and beside the eight-bit file of the tool
that the form comes with. Others run in the environment of `make oracle-peers`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

import thinflow
from benchmarks.ptq.cases import Case, keyword_case, keywords, shared, trained, trained_case
from benchmarks.ptq.judging import Judge, Quality, by_turns, opened, times_as_long
from benchmarks.ptq.others import REFERENCE, others
from thinflow.api.optimizing import quantize_to_file

OURS = "thinflow"
EFFORTS = ("none", "default", "best")
FORMS = (".tflite", ".onnx")
HEADERS = ("network", "made by", "SQNR, dB", "same answer", "right", "kB", "x float", "x peer", "s")


@dataclass(frozen=True)
class Row:
    """A file of a network.

    Attributes:
        made_by: tool and setting; "float" for what all are compared with.
        form: its suffix.
        kilobytes: of the file.
        seconds: that it took to make; 0 for float.
        times_float, times_peer: how many times as long a run takes as in float, and as in the eight bits of
            `REFERENCE`; None where there is nothing to compare with.
    """

    network: str
    made_by: str
    form: str
    quality: Quality
    kilobytes: float
    seconds: float = 0.0
    times_float: float | None = None
    times_peer: float | None = None

    @property
    def is_float(self) -> bool:
        return self.made_by == "float"

    @property
    def is_ours(self) -> bool:
        return self.made_by.startswith(OURS)

    def cells(self) -> list[str]:
        """For the table."""
        same, right = (
            "" if share is None else f"{share:.1%}" for share in (self.quality.agreement, self.quality.right)
        )
        slower = ("" if ratio is None else f"{ratio:.2f}" for ratio in (self.times_float, self.times_peer))
        took = f"{self.seconds:.1f}" if self.seconds else ""
        decibels = f"{self.quality.sqnr_db:.1f}"
        made_by = f"{self.made_by} {self.form}"
        return [self.network, made_by, decibels, same, right, f"{self.kilobytes:.0f}", *slower, took]


def main(argv: list[str] | None = None) -> int:
    from benchmarks.ptq.summary import summaries

    parser = argparse.ArgumentParser(prog="python -m benchmarks ptq", description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NETWORK", help="default: all trained here")
    parser.add_argument("--keywords", action="store_true", help="the keyword networks of ../shared instead")
    parser.add_argument("--ours-only", action="store_true", help="without other tools")
    parser.add_argument(
        "--effort", action="append", choices=EFFORTS, help="of ours, several times; default: all three"
    )
    parser.add_argument("--form", action="append", choices=FORMS, help="of ours; default: both")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all rows and the summary, too")
    args = parser.parse_args(argv)
    known = keywords() if args.keywords else trained()
    if args.keywords and not known:
        print(f"skipped: no kws_*.pb and clips in {shared()}; THINFLOW_SHARED says where else they are")
        return 0
    unknown = set(args.names) - set(known)
    if unknown:
        parser.error(f"there is no network {min(unknown)!r}; there are: {', '.join(known)}")
    make = [(form, effort) for effort in args.effort or EFFORTS for form in args.form or FORMS]
    print(f"| {' | '.join(HEADERS)} |\n{'|---' * len(HEADERS)}|")
    found: list[Row] = []
    for name in args.names or known:
        with tempfile.TemporaryDirectory(prefix="thinflow-ptq-") as folder:
            case = keyword_case(name, Path(folder)) if args.keywords else trained_case(name)
            for row in rows(case, Path(folder), make, ours_only=args.ours_only):
                print(f"| {' | '.join(row.cells())} |", flush=True)
                found.append(row)
    told = summaries(found)
    print("", *told, sep="\n")
    if args.json is not None:
        args.json.write_text(json.dumps({"rows": [plain(row) for row in found], "summary": told}, indent=1))
    return 0


def plain(row: Row) -> dict[str, object]:
    """For JSON, which has no infinity: no noise is null."""
    told = asdict(row)
    quality = told.pop("quality")
    return told | quality | {"sqnr_db": None if np.isinf(row.quality.sqnr_db) else row.quality.sqnr_db}


def rows(case: Case, folder: Path, make: Sequence[tuple[str, str]], *, ours_only: bool) -> Iterator[Row]:
    """Float, ours, and the others', timed by turns.

    Args:
        make: form and effort of each of ours.
    """
    paths = {form: folder / f"float{form}" for form in FORMS}
    for path in paths.values():
        thinflow.save(case.graph, path)
    wanted = np.concatenate([opened(paths[".tflite"])(sample[None]) for sample in case.x])
    judge = Judge(case.x, case.y, wanted)
    made = [("float", path, 0.0) for path in paths.values()]
    made += [(setting, path, took) for setting, path, took in ours(case, folder, make)]
    made += [] if ours_only else others(case, folder)
    judged = []
    for setting, path, took in made:
        try:
            quality = judge.quality(path)
        except Exception as error:  # files of some tools load in no runtime
            print(f"{case.name}: {setting} does not run: {str(error).splitlines()[0][:150]}", file=sys.stderr)
            continue
        size = path.stat().st_size / 1000
        judged.append((path, Row(case.name, setting, path.suffix, quality, size, took)))
    for form in FORMS:
        yield from _timed([(path, row) for path, row in judged if row.form == form], case)


def ours(case: Case, folder: Path, make: Sequence[tuple[str, str]]) -> Iterator[tuple[str, Path, float]]:
    """Files of ours, and the seconds that they took."""
    for form, effort in make:
        path, started = folder / f"ours_{effort}{form}", time.monotonic()
        quantize_to_file(case.graph, path, {case.graph.inputs[0].name: case.calibration}, effort=effort)
        yield f"{OURS} --effort {effort}", path, time.monotonic() - started


def _timed(judged: Sequence[tuple[Path, Row]], case: Case) -> Iterator[Row]:
    """The rows of one form, with how long their files run."""
    times = by_turns([path for path, _ in judged], case.x[:1])
    plain = next(time for time, (_, row) in zip(times, judged, strict=True) if row.is_float)
    peers = (
        t for t, (_, row) in zip(times, judged, strict=True) if row.made_by.startswith(REFERENCE[row.form])
    )
    peer = next(peers, None)
    for time_, (_, row) in zip(times, judged, strict=True):
        beside = None if peer is None else times_as_long(time_, peer)
        yield replace(row, times_float=times_as_long(time_, plain), times_peer=beside)
