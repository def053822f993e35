"""Pictures to the input of a model as label_image makes it, also where it took the input for granted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from thinflow.engines.session import Session
from thinflow.errors import FeedError, FormatError, ParameterError, ThinflowError
from thinflow.interpreter import Plan
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.types import FLOAT, INT32, STRING, UINT8, TensorSpec, shape_text
from thinflow.ops.traits import Trait, has
from thinflow.typing import Array

Grid = tuple[float, int]
Scale = float | tuple[float, ...]

# The defaults of label_image's own flags, which are those of Inception v3.
DEFAULT_MEAN, DEFAULT_STD = 0.0, 255.0
_DEFAULT_SIZE = 299
_COLOURS, _GREY = 3, 1
# (first bytes, op that decodes it, attributes)
_DECODERS: tuple[tuple[bytes, str, dict[str, Any]], ...] = (
    (b"\x89PNG", "DecodePng", {"channels": 3, "dtype": UINT8}),
    (b"GIF8", "DecodeGif", {}),
    # Channels as the file has them; `_with_channels` makes of those what is wanted.
    (b"BM", "DecodeBmp", {"channels": 0}),
    (b"\xff\xd8", "DecodeJpeg", {"channels": 3}),
)
_LUMA = np.array([0.299, 0.587, 0.114], np.float32)  # ITU-R BT.601, as the decoders weigh colours


@dataclass(frozen=True)
class Preparation:
    """Preparation of a picture for an input.

    Attributes:
        width, height: sizes to resize to; 0: those of the model, else 299.
        mean, std: (pixel - mean) / std, numbers or one for each channel as it is fed; None: 0 and 255, and of
            whole numbers the pixels themselves.
        bgr: blue first.
        channels: 1 or 3; 0: as `picture` decodes them.
    """

    width: int = 0
    height: int = 0
    mean: Scale | None = None
    std: Scale | None = None
    bgr: bool = False
    channels: int = 0

    def __post_init__(self) -> None:
        if self.std == 0:
            raise ParameterError("--input_std=0 would divide by zero", hint="give another one, such as 255")
        for name, size in (("width", self.width), ("height", self.height)):
            if size < 0:
                raise ParameterError(
                    f"--input_{name}={size} is no size", hint="give 1 or more, or leave it out"
                )

    @property
    def is_scaled(self) -> bool:
        """True if somebody said how to scale."""
        return self.mean is not None or self.std is not None

    @property
    def is_sized(self) -> bool:
        """True if somebody said how large."""
        return bool(self.width or self.height)


@dataclass(frozen=True)
class Layout:
    """Places of the height, the width and the channels of a picture in an input; sizes may be None.

    Attributes:
        channels_first: [n,c,h,w], else [n,h,w,c].
        has_batch: there is the axis n.
        is_flat: all sizes in one axis.
    """

    height: int | None = None
    width: int | None = None
    channels: int | None = None
    channels_first: bool = False
    has_batch: bool = True
    is_flat: bool = False


def layout_of(name: str, spec: TensorSpec, preparation: Preparation) -> Layout:
    """The layout that an input declares.

    Raises:
        FeedError: it is none of a picture.
    """
    shape = spec.shape
    if shape is None:
        return Layout()
    if len(shape) in (3, 4):
        sizes, has_batch = shape[-3:], len(shape) == 4
        # Channels last where both ends could be channels, or neither.
        is_last = sizes[2] in (_GREY, _COLOURS) or sizes[0] not in (_GREY, _COLOURS)
        if is_last:
            return Layout(sizes[0], sizes[1], sizes[2], False, has_batch)
        return Layout(sizes[1], sizes[2], sizes[0], True, has_batch)
    if len(shape) in (1, 2) and shape[-1] is not None:
        return _flat_layout(name, shape[-1], len(shape) == 2, preparation)
    raise FeedError(
        f"the input '{name}' has the shape {shape_text(shape)}, which is none of a picture",
        hint="name another --input_layer",
    )


def _flat_layout(name: str, size: int, has_batch: bool, preparation: Preparation) -> Layout:
    """A picture in one row; a square one unless its sizes are given."""
    # Grey first: 784 numbers are a digit of 28 x 28.
    for channels in (_GREY, _COLOURS):
        side = round((size / channels) ** 0.5)
        height, width = preparation.height or side, preparation.width or side
        if height * width * channels == size:
            return Layout(height, width, channels, False, has_batch, True)
    raise FeedError(
        f"the {size} numbers of the input '{name}' are no picture of these sizes",
        hint="give its sizes: --input_width=W --input_height=H",
    )


def picture(path: Path, preparation: Preparation) -> Array:
    """A picture as float32 [1, height, width, channels], resized as the original resizes it.

    That is bilinear with corners not aligned, pixel centres not halved and no antialiasing. Without sizes it
    keeps its own.

    Raises:
        FormatError: the file cannot be read, or is no picture.
    """
    mean, std = _scale(preparation)
    with np.errstate(over="ignore"):
        return ((pixels(path, preparation) - mean) / std).astype(np.float32)


def _scale(preparation: Preparation) -> tuple[Array, Array]:
    # float32, as the original's graph subtracts and divides in it: wider numbers round otherwise.
    mean = DEFAULT_MEAN if preparation.mean is None else preparation.mean
    std = DEFAULT_STD if preparation.std is None else preparation.std
    return np.asarray(mean, np.float32), np.asarray(std, np.float32)


def pixels(path: Path, preparation: Preparation) -> Array:
    """The resized pixels of a picture, float32 [1, height, width, channels], 0 to 255.

    Raises:
        FormatError: the file cannot be read, or is no picture.
    """
    data = _content(path)
    found = next(((op, attrs) for magic, op, attrs in _DECODERS if data.startswith(magic)), None)
    if found is None:
        raise FormatError("this is not a picture", str(path), "give a JPEG, PNG, GIF or BMP file")
    op, attrs = found
    if preparation.channels and attrs.get("channels"):
        attrs = {**attrs, "channels": preparation.channels}
    # TensorFlow's own ops by our kernels: other libraries resize and decode to other pixels.
    graph = _picture_graph(op, attrs, preparation)
    try:
        (made,) = Plan(graph, graph.outputs, graph.inputs).run({graph.inputs[0]: np.array(data, object)})
    except ThinflowError as e:
        raise FormatError(f"the picture cannot be read: {e.problem}", str(path), e.hint) from e
    # After resizing, which is linear, as is the weighting of colours.
    made = _with_channels(made, preparation.channels, path)
    return np.ascontiguousarray(made[..., ::-1] if preparation.bgr else made)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as e:
        raise FormatError(f"cannot be read: {e.strerror}", str(path), "check the path") from e


def _with_channels(made: Array, wanted: int, path: Path) -> Array:
    """A picture with the channels that are wanted: decoders of GIF and BMP leave them as the file has them.

    Raises:
        FormatError: one channel of a BMP may be grey or numbers of colours in a palette.
    """
    own = made.shape[-1]
    if not wanted or own == wanted:
        return made
    if own > _COLOURS:  # red, green, blue and how opaque
        return _with_channels(made[..., :_COLOURS], wanted, path)
    if wanted == _GREY:
        return np.asarray(made @ _LUMA[:, None], np.float32)
    raise FormatError(
        f"the picture has {own} channel, the model takes {wanted}", str(path), "save it as PNG or JPEG"
    )


def _picture_graph(decoder: str, attrs: Mapping[str, Any], preparation: Preparation) -> Graph:
    """The pixels as a graph of TensorFlow's ops: decode, cast, resize."""
    graph = Graph()
    content = graph.add("Placeholder", name="content", attrs={"dtype": STRING})
    decoded = graph.add(decoder, [content], "decode", attrs=attrs)
    value = graph.add("Cast", [decoded], "float", attrs={"SrcT": UINT8, "DstT": FLOAT}).output()
    if decoder == "DecodeGif":  # its frames are the batch; the first one counts
        begin = graph.constant(np.zeros(4, np.int32), "begin")
        size = graph.constant(np.array([1, -1, -1, -1], np.int32), "size")
        value = graph.add("Slice", [value, begin, size], "frame", attrs={"T": FLOAT, "Index": INT32}).output()
    else:
        axis = graph.constant(np.array(0, np.int32), "axis")
        value = graph.add("ExpandDims", [value, axis], "batch", attrs={"T": FLOAT, "Tdim": INT32}).output()
    if preparation.height and preparation.width:
        sizes = graph.constant(np.array([preparation.height, preparation.width], np.int32), "sizes")
        value = graph.add(
            "ResizeBilinear", [value, sizes], "resize", attrs={"T": FLOAT, "align_corners": False}
        ).output()
    graph.inputs, graph.outputs = [content.output()], [value]
    return graph


# --- in the form of an input --------------------------------------------------------------------------------


def picture_feeds(path: Path, session: Session, name: str, preparation: Preparation) -> dict[str, Array]:
    """Feed of a picture: its pixels in the layout and type of the input, or the file's bytes.

    Raises:
        FormatError: the file cannot be read, or is no picture.
        FeedError: the input takes no picture.
    """
    spec = session.spec(name)
    if spec.dtype == STRING:
        content = np.array(_content(path), object)
        return {name: content.reshape((1,) * len(spec.shape or ()))}
    layout = layout_of(name, spec, preparation)
    grid = session.grids.get(session.aliases.get(name, name))
    chosen = _sized(preparation, layout)
    return {name: _placed(_typed(pixels(path, chosen), spec, grid, chosen, name), layout)}


def _sized(preparation: Preparation, layout: Layout) -> Preparation:
    """The preparation with the sizes and channels of the model where it has them."""
    # Any other number is no picture's, and is left to the decoder.
    channels = layout.channels if layout.channels in (_GREY, _COLOURS) else 0
    return Preparation(
        preparation.width or layout.width or _DEFAULT_SIZE,
        preparation.height or layout.height or _DEFAULT_SIZE,
        preparation.mean,
        preparation.std,
        preparation.bgr and channels != _GREY,
        channels,
    )


def _typed(made: Array, spec: TensorSpec, grid: Grid | None, preparation: Preparation, name: str) -> Array:
    """Pixels in the type of an input.

    Whole numbers get the pixels themselves, int8 those less 128; if somebody said how to scale and the model
    says which numbers its integers stand for, they get the scaled ones so.

    Raises:
        FeedError: the input takes something else.
    """
    element = spec.dtype
    mean, std = _scale(preparation)
    if element is None or element.is_floating:
        scaled = (made - mean) / std
        return scaled if element is None else scaled.astype(element.numpy())
    if not element.is_integer or not element.numpy_name:
        raise FeedError(
            f"the input '{name}' takes {element}, not pictures", hint="name another --input_layer"
        )
    limits = np.iinfo(element.numpy())
    if grid is not None and preparation.is_scaled:
        codes = np.rint((made - mean) / std / np.float32(grid[0])) + grid[1]
    else:
        # Eight-bit models take pixels as they are: int8 has the same grid as uint8,
        # with the zero point moved by 128.
        codes = np.rint(made) - (128 if element.numpy() == np.int8 else 0)
    result: Array = np.clip(codes, limits.min, limits.max).astype(element.numpy())
    return result


def _placed(made: Array, layout: Layout) -> Array:
    """Pixels [1,h,w,c] in the layout of an input."""
    if layout.channels_first:
        made = np.transpose(made, (0, 3, 1, 2))
    if layout.is_flat:
        made = made.reshape(1, -1)
    return np.ascontiguousarray(made if layout.has_batch else made[0])


_INPUT, _MEAN, _STD = "Mul", 128.0, 128.0
"""Of Inception v3 of 2015 and what was retrained from it: pixels from -1 to 1."""


def as_of_2015(
    session: Session, source: str, output: str, preparation: Preparation
) -> tuple[str, Preparation, str]:
    """A better guess of the input and its scale, and what to say about it; "" if the guess stays.

    A graph that decodes and scales pictures itself gets the file's bytes: it knows best. Where somebody said
    how to scale or resize, pixels are meant.

    Args:
        session: runs the model.
        source: the input that was guessed.
        output: the layer with the scores.
        preparation: as far as it was given.
    """
    # Whoever says how to scale knows the input.
    if preparation.is_scaled:
        return source, preparation, ""
    graph = session.graph
    found = None if graph is None or preparation.is_sized else _jpeg_bytes(graph, output)
    if found is not None and found.name == source:
        return source, preparation, ""
    if found is not None:
        told = f"the model decodes pictures itself: the file goes into '{found.name}'"
        return found.name, preparation, told
    if source.partition(":")[0] != _INPUT:
        return source, preparation, ""
    told = f"'{_INPUT}' is scaled as Inception of 2015 has it: --input_mean=128 --input_std=128"
    return source, replace(preparation, mean=_MEAN, std=_STD), told


def _jpeg_bytes(graph: Graph, output: str) -> Value | None:
    """The string that the only decoder of pictures behind an output takes."""
    end = graph.find(output.partition(":")[0])
    decoders = [] if end is None else [node for node in _behind(end) if has(node.op, Trait.DECODES_IMAGE)]
    return decoders[0].inputs[0] if len(decoders) == 1 and decoders[0].inputs else None


def _behind(node: Node) -> list[Node]:
    """A node and all it needs."""
    seen = {node: None}
    waiting = [node]
    while waiting:
        for value in waiting.pop().inputs:
            if value.node not in seen:
                seen[value.node] = None
                waiting.append(value.node)
    return list(seen)
