"""Pages of the gallery: networks of the zoo and of examples/, each opened in the explorer."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import thinflow
from thinflow import zoo
from thinflow.errors import PagesUnavailable

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Entry:
    """A page of the gallery.

    Attributes:
        file: its name.
        title: of the link to it.
        says: what there is to see.
        page: the HTML.
    """

    file: str
    title: str
    says: str
    page: bytes


NETWORKS = {
    "digits": "89 nodes as training left them: batch norms, dropout, a saver's remains",
    "mobilenet_v1": "a graph of TensorFlow 1 with TF-Slim's scopes; 13 pairs of depthwise and pointwise",
    "mobilenet_v2": "the same family as TensorFlow 2 freezes it from Keras: inverted residuals",
    "resnet_v2_50": "1,099 nodes, batch norms spelt out; blocks that repeat are found where scopes are",
    "inception_v3_2015": "a graph of 2015 that decodes JPEG files itself; branches that join again",
}
"""Samples of the zoo, and what there is to see in each."""


def entries() -> Iterator[Entry]:
    """Every page, made now; none where the scripts of pages were not built."""
    with tempfile.TemporaryDirectory(prefix="thinflow-gallery-") as made:
        folder = Path(made)
        try:
            for name, says in NETWORKS.items():
                zoo.write(name, folder / f"{name}.pb")
                yield _entry(name, says, folder / f"{name}.pb")
            yield from _examples(folder)
            yield from _comparison(folder)
            yield _report(folder)
        except PagesUnavailable:
            return


def _entry(title: str, says: str, model: Path, other: Path | None = None) -> Entry:
    page = thinflow.view(model, other).page
    return Entry(f"{title.replace(' ', '_')}.html", title, says, page)


def _examples(folder: Path) -> Iterator[Entry]:
    """Networks that programs of examples/ make."""
    for example, says in (
        ("keywords", "a keyword spotter that begins with the bytes of a WAV file"),
        ("detector", "a detector that ends in non-maximum suppression"),
    ):
        script = ROOT / "examples" / f"make_{example}.py"
        subprocess.run([sys.executable, str(script), str(folder)], check=True, capture_output=True)
        yield _entry(example, says, folder / f"{example}.pb")


def _comparison(folder: Path) -> Iterator[Entry]:
    """A graph beside what became of it."""
    source, small = folder / "digits.pb", folder / "digits_int8.tflite"
    quantized = thinflow.quantize(source, zoo.calibration("digits"), effort="none")
    small.write_bytes(quantized.content)
    says = "digits.pb beside its eight-bit .tflite: what became what; a click on one shows its twin"
    yield _entry("before and after", says, source, small)


def _report(folder: Path) -> Entry:
    """What `optimize` writes to show to others."""
    out = folder / "out"
    samples, test = zoo.calibration("digits"), zoo.test_set("digits")
    thinflow.optimize(folder / "digits.pb", out, calibration=samples, test=test, max_drop=0.5, measure=False)
    page = (out / "report.html").read_bytes()
    says = "what optimize writes beside the models: every scheme that was tried, accuracy, layers, the ledger"
    return Entry("report.html", "report", says, page)


def listing(made: list[Entry]) -> str:
    """Markdown with a link to each page, relative to gallery.md."""
    if not made:
        return "*The scripts of the pages were not built (they need Node.js): nothing to open here.*\n"
    rows = [f"| [{e.title}](gallery/{e.file}) | {e.says} | {len(e.page) / 1000:.0f} kB |" for e in made]
    return "\n".join(["| open | what there is to see | size |", "|---|---|---|", *rows, ""])
