"""Files people give by mistake: what they are, and what to give instead."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

from thinflow.errors import FormatError
from thinflow.formats.format import Format, Sample
from thinflow.ir.vocabulary import EXPORT_HINT
from thinflow.wire.fields import read_varint

_GIVE = "give the model file"
_UNPACK = "unpack it and give the model in it"
_EXPORT = "export the model as .onnx with the tools it was made with"
_LOAD_WEIGHTS = f"load the weights into their model, and {EXPORT_HINT}"
_UNBUNDLE = "take them out: litert-lm-peek --litertlm_file FILE --dump_files_dir FOLDER"
_SCRIPT = 'torch.onnx.export(torch.jit.load("model.pt"), (example,), "model.onnx", dynamo=False)'
_FOLDER = "give the folder that it is in, or saved_model.pb"
_SAVE_AGAIN = "save the whole model again with Keras: model.save('model.keras')"

# (bytes, at, what it is, what to do). Checked in order, so the specific ones stand first.
_MAGIC = [
    (b"\xff\xd8\xff", 0, "a JPEG picture", _GIVE),
    (b"\x89PNG", 0, "a PNG picture", _GIVE),
    (b"GIF8", 0, "a GIF picture", _GIVE),
    (b"WAVE", 8, "a WAV sound", _GIVE),
    (b"WEBP", 8, "a WebP picture", _GIVE),
    (b"RIFF", 0, "a RIFF file (sound?)", _GIVE),
    (b"%PDF", 0, "a PDF document", _GIVE),
    (b"\x7fELF", 0, "a program", _GIVE),
    (b"\x93NUMPY", 0, "a numpy array", "give it as --calibration or --feed, and the model itself"),
    (b"ustar", 257, "a tar archive", _UNPACK),
    (b"7z\xbc\xaf\x27\x1c", 0, "a 7z archive", _UNPACK),
    (b"BZh", 0, "a bzip2 archive", _UNPACK),
    (b"\xfd7zXZ\x00", 0, "an xz archive", _UNPACK),
    (b"\x28\xb5\x2f\xfd", 0, "a zstd archive", _UNPACK),
    (b"Rar!", 0, "a RAR archive", _UNPACK),
    (b"SQLite format 3", 0, "an SQLite database", _GIVE),
    (b"bplist00", 0, "a property list", _GIVE),
    (b"GGUF", 0, "a GGUF model of llama.cpp", _EXPORT),
    (b"ORTM", 4, "a model in ONNX Runtime's own form", "give the .onnx file that it was made from"),
    (b"LITERTLM", 0, "a bundle for LiteRT-LM, with .tflite models in it", _UNBUNDLE),
    # Behind 8 bytes, which are the length of this JSON.
    (b'{"', 8, "a safetensors file (weights without their model)", _LOAD_WEIGHTS),
    (b"version https://git-lfs", 0, "a Git LFS pointer", "fetch the model itself: git lfs pull"),
    (b"<!DOCTYPE", 0, "a web page", "download the model file itself, not the page about it"),
    (b"<html", 0, "a web page", "download the model file itself, not the page about it"),
    (b"<?xml", 0, "an XML document", _GIVE),
    # The opcode PROTO and the protocol; older ones than 2 have no such mark.
    *((bytes([0x80, v]), 0, "a Python pickle (PyTorch?)", EXPORT_HINT) for v in range(2, 6)),
]

# What is in a zip archive -> what it is. Checked in order.
_ZIPS: list[tuple[Callable[[str], bool], str, str]] = [
    (
        lambda name: "/code/__torch__" in name,
        "a TorchScript archive",
        f"write it as ONNX with PyTorch: {_SCRIPT}",
    ),
    (lambda name: name.endswith("data.pkl"), "a PyTorch file", EXPORT_HINT),
    (lambda name: name.endswith("model.weights.h5"), "a Keras archive without config.json", _SAVE_AGAIN),
    (lambda name: name == "metadata.json", "a Keras archive without model.weights.h5", _SAVE_AGAIN),
    (lambda name: name == "AndroidManifest.xml", "an Android app", "unzip it and give the model in assets/"),
    (lambda name: name.endswith("saved_model.pb"), "a zip archive with a SavedModel in it", _UNPACK),
    (
        lambda name: name.endswith(".npy"),
        "an .npz file of numpy arrays",
        "give it as --calibration, and the model itself",
    ),
]
_KEPT_ELSEWHERE = frozenset({_EXPORT, EXPORT_HINT, _LOAD_WEIGHTS, _SAVE_AGAIN})
_PICKLED = frozenset({".pt", ".pth"})
_PICTURES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp"})
_SOUNDS = frozenset({".wav", ".flac", ".mp3", ".ogg"})
_MODELS = frozenset({".pb", ".pbtxt", ".tflite", ".onnx", ".meta", ".mmpb", ".keras", ".h5", ".hdf5"})
_SAMPLES = "give it as --calibration or --data, and the model itself"
_MOST_FILES = 10_000
"""Of a folder only so many names are looked at."""


def refuse(sample: Sample) -> None:
    """Raise if this is a kind of file or folder that holds no graph.

    Raises:
        FormatError: naming the kind, and what to give instead.
    """
    if sample.is_folder:
        raise _folder_error(sample.path)
    what, hint = kind_of(sample)
    if what:
        raise FormatError(f"this is {what}, not a model that can be read", str(sample.path), hint=hint)


def kind_of(sample: Sample) -> tuple[str, str]:
    """The kind of a file that holds no graph, and a hint what to do; both empty if nobody can tell."""
    if sample.head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _zip_kind(sample.path)
    # The oldest pickles are texts.
    if sample.path.suffix in _PICKLED and _text_kind(sample.head)[0]:
        return "a Python pickle (PyTorch?)", EXPORT_HINT
    # Files beside saved_model.pb, of which the names tell no more than this one's does.
    if sample.head[:1] == b"\n" and b"_tf_keras_" in sample.head[:64]:
        return "what Keras noted of the layers of a SavedModel", _FOLDER
    if sample.path.name == "fingerprint.pb":
        return "the checksums of a SavedModel", _FOLDER
    for magic, at, what, hint in _MAGIC:
        if sample.head[at : at + len(magic)] == magic:
            return what, hint
    # What a download that reserved its space and then failed leaves behind.
    if not any(sample.head):
        return "a file of zeros", "the download or copy failed; fetch it again"
    return _text_kind(sample.head)


def holds_weights(hint: str) -> bool:
    """Whether the hint of a kind is one of those for files of trained networks that are not read here."""
    return hint in _KEPT_ELSEWHERE or _SCRIPT in hint


def is_archive(hint: str) -> bool:
    """Whether the hint of a kind is one of those for archives of files."""
    return hint.startswith(("unpack it", "unzip it"))


def _zip_kind(path: Path) -> tuple[str, str]:
    import zipfile

    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError):
        return "a damaged zip archive", "download it again"
    if any(name.startswith(("/", "\\")) or ".." in name.replace("\\", "/").split("/") for name in names):
        return "a zip archive with files that would lie outside of its folder", "do not trust it"
    for fits, what, hint in _ZIPS:
        if any(map(fits, names)):
            return what, hint
    models = [name for name in names if _MODELS & set(Path(name).suffixes)]
    if models:
        return "a zip archive with a model in it", f"unpack it and give {models[0]}"
    return ("a zip archive", _UNPACK) if names else ("an empty zip archive", "download or export it again")


def _text_kind(head: bytes) -> tuple[str, str]:
    """The kind of a text, and a hint; empty if it is no text."""
    try:
        text = head.decode("utf-8", "strict" if len(head) < 64 else "ignore")
    except UnicodeDecodeError:
        return "", ""
    lost = len(head) - len(text.encode())  # a letter may be cut in two at the end
    if lost > 3 or not all(c.isprintable() or c in "\r\n\t\f\ufeff" for c in text):
        return "", ""
    lines = text.strip().splitlines()
    if not lines:
        return "", ""
    if text.lstrip()[:1] in ("{", "["):
        return "a JSON text", _GIVE
    # The first lines only: the last one of a sample may be cut anywhere.
    if len(lines) > 1 and all(line.count(",") == lines[0].count(",") > 0 for line in lines[:3]):
        return "a table (CSV)", "give it as --data, and the model itself"
    if all(len(line.split()) < 8 for line in lines):
        return "a text (a list of labels?)", "give it as --labels, and the model itself"
    return "a text", _GIVE


# --- folders ------------------------------------------------------------------------------------------------


def _folder_error(folder: Path) -> FormatError:
    names = [entry.name for entry in islice(folder.iterdir(), _MOST_FILES)]
    problem, hint = _folder_kind(names)
    return FormatError(problem, str(folder), hint=hint)


def _folder_kind(names: Sequence[str]) -> tuple[str, str]:
    """The problem with a folder, and a hint what to do."""
    suffixes = Counter(Path(name).suffix.lower() for name in names)
    models = sorted(name for name in names if _MODELS & set(Path(name).suffixes))
    if models:
        return "this is a folder, not a model", f"it contains {', '.join(models[:5])}"
    if not names:
        return "this folder is empty", "name a model's file or folder"
    if any("tfevents" in name for name in names):
        event = next(name for name in sorted(names) if "tfevents" in name)
        return "this is a folder of TensorBoard event files", f"one of them may hold the graph: {event}"
    if {"variables", "assets"} & set(names):
        return "this is a SavedModel's folder without saved_model.pb", "copy the whole folder again"
    if "ladder" in names:
        pages = sorted(name for name in names if Path(name).suffix == ".html")
        seen = f"; {pages[0]} shows how far it came" if pages else ""
        return "an unfinished optimize left this, and no model", f"the same command goes on from there{seen}"
    for kinds, what in ((_PICTURES, "picture"), (_SOUNDS, "sound"), ({".npy", ".npz"}, "array")):
        count = sum(suffixes[suffix] for suffix in kinds)
        if 2 * count > len(names):
            return f"this is a folder of {count} {what}{'s' if count > 1 else ''}, not a model", _SAMPLES
    return "this is a folder, not a model", "name a model's file or folder"


# --- Core ML models, which look like ONNX ones --------------------------------------------------------------


_NEWEST = 32
"""Specification versions are small numbers; 9 is the newest known."""


def is_core_ml(sample: Sample) -> bool:
    """True if a file begins with a version and a description that begins with a feature or metadata.

    Where Core ML has a message in field 2, ONNX has the name of the producer, a printable text.
    """
    head = sample.head
    # 0x08: field 1, a varint (the version); 0x12: field 2, with a length. ONNX
    # models begin with the same two.
    if len(head) < 8 or head[0] != 0x08 or not 0 < head[1] < _NEWEST or head[2] != 0x12:
        return False
    try:
        size, at = read_varint(head, 3)
        tag, at = read_varint(head, at)
        length, _ = read_varint(head, at)
    except FormatError:
        return False
    # Fields 1 (an input) and 10 (an output) of the description, which must fit into it.
    return tag in (0x0A, 0x52) and length <= size


FORMAT = Format(
    "mlmodel",
    "a Core ML model",
    is_core_ml,
    rank=18,
    hint="give the folder .mlpackage that it is from, or the model that it was made from",
)
