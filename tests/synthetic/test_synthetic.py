"""Made-up inputs."""

from __future__ import annotations

import base64
import io
import re
import wave
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.library import constant, function, graph_of, node
from tests.transforms.golden import parse_graph
from thinflow.cli import main
from thinflow.errors import FeedError, ParameterError
from thinflow.interpreter import run_graph
from thinflow.ir.types import FLOAT, INT32, STRING, TensorSpec
from thinflow.synthetic import concrete_shape, override_shapes, synthetic_feeds, synthetic_png, synthetic_wav


def feed(line: str, seed: int = 0, more: str = "") -> np.ndarray:
    graph = parse_graph(f"x = Placeholder() {{{line}}}\n{more}\ninputs: x")
    (only,) = synthetic_feeds(graph.inputs, 1, seed)
    return only[graph.value("x")]


@pytest.mark.parametrize(
    ("line", "shape", "kind"),
    [
        ("dtype=float, shape=shape[?,?,?,3]", (1, 96, 96, 3), "float32"),
        ("dtype=float, shape=shape[?,?]", (1, 8), "float32"),
        ("dtype=uint8, shape=shape[2,2]", (2, 2), "uint8"),
        ("dtype=int64, shape=shape[3]", (3,), "int64"),
        ("dtype=complex64, shape=shape[3]", (3,), "complex64"),
        ("dtype=bool, shape=shape[3]", (3,), "bool"),
        ("dtype=half, shape=shape[0,3]", (0, 3), "float16"),
        ("dtype=float, shape=shape?", (), "float32"),
    ],
)
def test_shapes_and_types(line: str, shape: tuple[int, ...], kind: str) -> None:
    array = feed(line)
    assert array.shape == shape
    assert array.dtype == kind
    if kind == "float32":
        assert np.all(np.abs(array) <= 1)


def test_the_seed_decides() -> None:
    line = "dtype=float, shape=shape[100]"
    assert np.array_equal(feed(line, 1), feed(line, 1))
    assert not np.array_equal(feed(line, 1), feed(line, 2))


def test_sound_and_pictures_for_decoders() -> None:
    sound = feed("dtype=string, shape=shape[]", more="d = DecodeWav(x) {desired_samples=800}").item()
    with wave.open(io.BytesIO(sound)) as file:
        assert (file.getnframes(), file.getnchannels(), file.getsampwidth(), file.getframerate()) == (
            800,
            1,
            2,
            16000,
        )
    assert feed("dtype=string, shape=shape[]", more="d = DecodeJpeg(x)").item().startswith(b"\x89PNG")


WORDS = "dtype=string, shape=shape[2]"
EXAMPLES = """
names = Const() {dtype=string, value=string[0]{}}
sparse = Const() {dtype=string, value=string[1]{tags}}
dense = Const() {dtype=string, value=string[3]{a,n,picture}}
ragged = Const() {dtype=string, value=string[1]{many}}
d = Const() {dtype=float, value=float[0]{}}
e = Const() {dtype=int64, value=int64[0]{}}
"""

SEQUENCES = """
names = Const() {dtype=string, value=string[0]{}}
none = Const() {dtype=string, value=string[0]{}}
tags = Const() {dtype=string, value=string[1]{tags}}
tag = Const() {dtype=string, value=string[]{tags}}
i = Const() {dtype=string, value=string[1]{i}}
k = Const() {dtype=string, value=string[]{i}}
f = Const() {dtype=string, value=string[1]{f}}
l = Const() {dtype=string, value=string[]{f}}
missing = Const() {dtype=bool, value=bool[1]{False}}
d = Const() {dtype=int64, value=int64[0]{}}
"""


TABLE = """
t = HashTableV2() {{key_dtype={key}, value_dtype=int64}}
k = Const() {{dtype={key}, value={keys}}}
v = Const() {{dtype=int64, value=int64[3]{{0,1,2}}}}
i = LookupTableImportV2(t, k, v) {{Tin={key}, Tout=int64}}
d = Const() {{dtype=int64, value=int64[]{{-1}}}}
f = LookupTableFindV2(t, {read}, d, ^i) {{Tin={key}, Tout=int64}}
"""


def test_text_is_looked_up_in_what_the_table_holds() -> None:
    """Most of it, so that a comparison sees more than the default."""
    table = TABLE.format(key="string", keys="string[3]{north,south,east}", read="x")
    found = feed("dtype=string, shape=shape[40]", more=table).tolist()
    known = [w for w in found if w in (b"north", b"south", b"east")]
    assert len(set(known)) == 3
    assert 20 < len(known) < 40


def test_sentences_are_of_the_words_of_a_table() -> None:
    table = TABLE.format(key="string", keys="string[3]{north,south,east}", read="s:1")
    split = 'e = Const() {dtype=string, value=string[]{" "}}\nl = StringLower(x)\ns = StringSplitV2(l, e)\n'
    found = b" ".join(feed("dtype=string, shape=shape[9]", more=split + table).tolist()).split()
    assert {b"north", b"south", b"east"} < set(found)


def test_numbers_are_looked_up_in_what_the_table_holds() -> None:
    table = TABLE.format(key="int64", keys="int64[3]{7,-90,5000000000}", read="x")
    found = feed("dtype=int64, shape=shape[40]", more=table)
    assert set(found.tolist()) == {7, -90, 5000000000, 5000000001}


def test_text_is_words() -> None:
    first, second = feed(WORDS).tolist()
    assert first != second
    assert all(2 <= len(text.split()) <= 6 for text in (first, second))


@pytest.mark.parametrize(
    ("more", "form"),
    [
        ("y = StringToNumber(x) {out_type=float}", rb"\d"),
        ("y = DecodeCSV(x, d, d, d) {OUT_TYPE=[float,float,float]}\nz = Neg(y:2)\nd = Const()", rb"\d,\d,\d"),
        ("s = Squeeze(x)\ny = StringToNumber(s) {out_type=float}", rb"\d"),
        ("y = StringLength(x)", rb"[a-z]+( [a-z]+)+"),
    ],
)
def test_text_is_what_its_reader_takes(more: str, form: bytes) -> None:
    for text in feed(WORDS, more=more).tolist():
        assert re.fullmatch(form, text)


@pytest.mark.parametrize("more", ["", ', field_delim=";"', ', field_delim="\\t"', ", select_cols=[1,4,6]"])
def test_records_are_what_their_reader_takes(more: str) -> None:
    """Whatever stands between the fields, whichever columns are chosen, and if only the first is read."""
    graph = parse_graph(
        f"x = Placeholder() {{{WORDS}}}\n"
        "d = Const() {dtype=float, value=float[1]{0}}\n"
        f"y = DecodeCSV(x, d, d, d) {{OUT_TYPE=[float,float,float]{more}}}\n"
        "z = Neg(y) {T=float}\ninputs: x\noutputs: z\n"
    )
    (feeds,) = synthetic_feeds(graph.inputs, 1)
    (found,) = run_graph(graph, {v.name: x for v, x in feeds.items()}, ["z"])
    assert {-float(n) for n in found.ravel()} <= {0.0, 1.0, 2.0, 3.0}


def test_raw_bytes_fill_the_shape_that_is_wanted() -> None:
    more = (
        "r = DecodeRaw(x) {out_type=float}\ny = Reshape(r, s)\ns = Const() {dtype=int32, value=int32[2]{3,4}}"
    )
    assert [len(text) for text in feed(WORDS, more=more)] == [48, 48]


def test_base64_of_what_comes_next() -> None:
    text = feed(WORDS, more="b = DecodeBase64(x)\np = DecodePng(b)").tolist()[0]
    assert base64.urlsafe_b64decode(text + b"==").startswith(b"\x89PNG")


def test_what_is_decoded_behind_an_array() -> None:
    """TensorFlow 1 maps over strings through a TensorArray, whose handle goes into the loop by itself."""
    more = (
        "n = Const() {dtype=int32, value=int32[]{0}}\narray = TensorArrayV3(n) {dtype=string}\n"
        "filled = TensorArrayScatterV3(array, n, x, array:1) {T=string}\n"
        'inside = Enter(array) {T=resource, frame_name="f"}\n'
        "item = TensorArrayReadV3(inside, n, filled) {dtype=string}\nd = DecodeJpeg(item)"
    )
    assert feed(WORDS, more=more).tolist()[0].startswith(b"\x89PNG")


def test_what_a_body_decodes() -> None:
    """Strings that go through a loop over pictures."""
    body = function("one", {"s": STRING}, [node("d", "DecodeJpeg", "s")], {"r": "d:image:0"})
    graph = graph_of([node("x", "Placeholder", dtype=STRING), node("y", "MapDefun", "x", f="@one")], [body])
    (only,) = synthetic_feeds([graph.value("x")], 1)
    assert only[graph.value("x")].item().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "line",
    [
        "p = ParseExampleV2(x, names, sparse, dense, ragged, d, e, names) {num_sparse=1,"
        " sparse_types=[string], Tdense=[float,int64,string], ragged_value_types=[int64],"
        " ragged_split_types=[int32], dense_shapes=[shape[2,3],shape[],shape[]]}",
        "p = ParseExample(x, names, k1, k2, k3, k4, d, e, names) {Nsparse=1, Ndense=3, sparse_types=[string],"
        " Tdense=[float,int64,string], dense_shapes=[shape[2,3],shape[],shape[]]}\n"
        + "\n".join(
            f"k{i} = Const() {{dtype=string, value=string[]{{{key}}}}}"
            for i, key in enumerate(("tags", "a", "n", "picture"), start=1)
        ),
    ],
)
def test_examples_can_be_parsed(line: str) -> None:
    more = f"{EXAMPLES}{line}\npicture = DecodePng(p:5)\na = Neg(p:3)\nn = Neg(p:4)\ntags = Identity(p:1)"
    graph = parse_graph(f"x = Placeholder() {{{WORDS}}}\n{more}\ninputs: x")
    (only,) = synthetic_feeds(graph.inputs, 1)
    feeds = {v.name: a for v, a in only.items()}
    tags, a, n = run_graph(graph, feeds, ["tags", "p:3", "p:4"])
    assert tags.shape == (6,)
    assert (a.shape, n.shape) == ((2, 2, 3), (2,))
    assert run_graph(graph, feeds, ["p:5"])[0][0].startswith(b"\x89PNG")


_SEQUENCE = (
    "Ncontext_sparse=1, context_sparse_types=[string], Tcontext_dense=[int64],"
    " context_dense_shapes=[shape[]], Nfeature_list_dense=1, feature_list_dense_types=[float],"
    " feature_list_dense_shapes=[shape[3]]"
)


@pytest.mark.parametrize(
    "line",
    [
        f"p = ParseSequenceExampleV2(x, names, tags, i, none, none, f, none, missing, d) {{{_SEQUENCE}}}",
        f'p = ParseSequenceExample(x, names, d) {{{_SEQUENCE}, context_sparse_keys=["tags"],'
        ' context_dense_keys=["i"], feature_list_sparse_keys=[], feature_list_dense_keys=["f"],'
        " feature_list_dense_missing_assumed_empty=[]}",
        "one = Unpack(x) {num=1, axis=0, T=string}\n"
        f"p = ParseSingleSequenceExample(one, none, tag, k, l, d, names) {{{_SEQUENCE}}}",
    ],
)
def test_sequences_can_be_parsed(line: str) -> None:
    more = f"{SEQUENCES}{line}\npicture = DecodePng(p:1)"
    graph = parse_graph(f"x = Placeholder() {{dtype=string, shape=shape[1]}}\n{more}\ninputs: x")
    (only,) = synthetic_feeds(graph.inputs, 1)
    feeds = {v.name: a for v, a in only.items()}
    tags, context, steps = run_graph(graph, feeds, ["p:1", "p:3", "p:4"])
    assert tags.tolist()[0].startswith(b"\x89PNG")
    assert context.size == 1
    assert steps.shape[-1] == 3
    assert steps.size >= 6


def test_files_are_seeded_too() -> None:
    for make in (synthetic_wav, synthetic_png):
        assert make(np.random.default_rng(1)) == make(np.random.default_rng(1))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("dtype=variant", "no input can be made up for 'x' of type variant\nhint: pass feeds of your own"),
        ("dtype=float, shape=shape[1099511627776]", r"too large to make up for 'x'\nhint: .*--shape x="),
        ("dtype=float, shape=shape[" + "1," * 99 + "1]", "too large to make up"),
    ],
)
def test_what_cannot_be_made_up(line: str, words: str) -> None:
    with pytest.raises(FeedError, match=words):
        feed(line)


def test_a_negative_seed() -> None:
    with pytest.raises(ParameterError, match="the seed is -1\nhint: give a whole number"):
        feed("dtype=float, shape=shape[1]", -1)


def test_concrete_shape() -> None:
    assert concrete_shape(TensorSpec(FLOAT, (None, 3, None))) == (1, 3, 8)
    assert concrete_shape(TensorSpec(FLOAT)) == ()


def test_override_shapes() -> None:
    graph = parse_graph("x = Placeholder() {dtype=float, shape=shape[?,4]}\ninputs: x")
    (spec,) = override_shapes(graph.inputs, {"x:0": [2, 4]}).values()
    assert spec == TensorSpec(FLOAT, (2, 4))
    with pytest.raises(FeedError, match="'q' is not an input\nhint: the inputs are x"):
        override_shapes(graph.inputs, {"q": [1]})


@pytest.mark.parametrize(
    "more",
    [
        "y = GatherV2(t, x, zero) {Tindices=int32, Tparams=float, Taxis=int32}",
        "y = Gather(t, x) {Tindices=int32, Tparams=float}",
        "w = Cast(x) {SrcT=int32, DstT=int64}\nr = Reshape(w, flat) {T=int64}\n"
        "y = GatherV2(t, r, zero) {Tindices=int64, Tparams=float, Taxis=int32}",
        "p = Pack(x, x) {N=2, T=int32}\n"
        "y = GatherV2(t, p, zero) {Tindices=int32, Tparams=float, Taxis=int32}",
        "k = Snapshot(x) {T=int32}\ny = Gather(t, k) {Tindices=int32, Tparams=float}",
        "k = CheckNumerics(x) {T=int32}\ny = Gather(t, k) {Tindices=int32, Tparams=float}",
    ],
)
def test_indices_stay_inside_their_table(more: str) -> None:
    tables = """t = Const() {dtype=float, value=float[2,2]{1, 2, 3, 4}}
zero = Const() {dtype=int32, value=int32[]{0}}
flat = Const() {dtype=int32, value=int32[1]{-1}}
"""
    found = feed("dtype=int32, shape=shape[200]", more=tables + more)
    assert set(found.tolist()) == {0, 1}


def test_indices_reach_through_a_large_table() -> None:
    rows = ", ".join(map(str, range(50)))
    table = f"t = Const() {{dtype=float, value=float[50]{{{rows}}}}}\n"
    gather = "y = Gather(t, x) {Tindices=int32, Tparams=float}"
    found = feed("dtype=int32, shape=shape[500]", more=table + gather)
    assert (found.min(), found.max()) == (0, 49)


def test_a_table_that_is_not_there_cannot_be_made_up() -> None:
    with pytest.raises(FeedError, match=r"'x' stands for a table or .*\nhint: open the SavedModel"):
        feed("dtype=resource, shape=shape[]")


def test_nothing_is_divided_by_zero_and_segments_are_in_order() -> None:
    divisors = feed("dtype=int32, shape=shape[99]", more="y = FloorMod(x, x) {T=int32}")
    assert divisors.min() == 1
    more = (
        "v = Const() {dtype=float, value=float[3]{1, 2, 3}}\ny = SegmentSum(v, x) {T=float, Tindices=int64}"
    )
    segments = feed("dtype=int64, shape=shape[3]", 5, more=more)
    assert segments.tolist() == sorted(segments.tolist())
    assert len(set(segments.tolist())) > 1


DENSE = (
    "y = RaggedTensorToTensor(all, x, none, s, t) {T=float, Tindex=int64, Tshape=int64,"
    ' num_row_partition_tensors=2, row_partition_types=["ROW_SPLITS","ROW_SPLITS"]}'
)
DIFFERENCE = """a = Const() {value=int32[1]{1}, dtype=int32}
b = Const() {value=int32[1]{-1}, dtype=int32}
from = StridedSlice(s, a, b, a) {T=int64, Index=int32, end_mask=1}
to = StridedSlice(s, a, b, a) {T=int64, Index=int32, begin_mask=1}
y = Sub(from, to) {T=int64}
z = Identity(t) {T=int64}"""


@pytest.mark.parametrize(
    ("reader", "sizes", "expected"),
    [
        (DENSE, {}, [[0, 1], [0, 8]]),
        (DENSE, {"x": (5,), "t": (4,), "s": (3,)}, [[0, 1, 3], [0, 1, 3, 5]]),
        (DIFFERENCE, {"x": (6,), "s": (4,)}, [[0, 2, 4, 6]]),
    ],
)
def test_rows_of_ragged_inputs_fit_their_values(
    reader: str, sizes: dict[str, tuple[int, ...]], expected: list[list[int]]
) -> None:
    """TensorFlow hands over the values, and behind them where rows begin, from the outside to the inside."""
    graph = parse_graph(
        "x = Placeholder() {dtype=float, shape=shape[?]}\n"
        "s = Placeholder() {dtype=int64, shape=shape[?]}\n"
        "t = Placeholder() {dtype=int64, shape=shape[?]}\n"
        "all = Const() {value=int64[]{-1}, dtype=int64}\nnone = Const() {value=float[]{0}, dtype=float}\n"
        f"{reader}\ninputs: x, s, t"
    )
    (made,) = synthetic_feeds(graph.inputs, 1, 0, override_shapes(graph.inputs, sizes))
    arrays = [made[v].tolist() for v in graph.inputs[1 : 1 + len(expected)]]
    assert arrays == expected


def test_places_that_are_written_once_are_named_once() -> None:
    more = (
        "v = Const() {dtype=float, value=float[6]{1, 2, 3, 4, 5, 6}}\n"
        "u = Const() {dtype=float, value=float[5]{1, 2, 3, 4, 5}}\n"
        "y = TensorScatterUpdate(v, x, u) {T=float, Tindices=int64, _is_unique=true}"
    )
    places = feed("dtype=int64, shape=shape[5,1]", more=more).reshape(-1)
    assert len(set(places.tolist())) == 5
    assert places.min() >= 0
    assert places.max() < 6


@pytest.mark.parametrize("op", ["RandomUniform", "RandomStandardNormal", "TruncatedNormal"])
def test_sizes_of_random_numbers_are_small_and_above_zero(op: str) -> None:
    found = feed("dtype=int32, shape=shape[40]", more=f"y = {op}(x) {{T=int32, dtype=float}}")
    assert (found.min(), found.max()) == (1, 3)


SIDES = (
    "n = Cast(%s) {SrcT=float, DstT=int32}\nsides = Pack(n, n) {N=2, T=int32}\nr = ResizeBilinear(p, sides)"
)


@pytest.mark.parametrize(
    ("made", "ends"),
    [
        ("s = RealDiv(c, x)", (16, 32)),
        ("d = RealDiv(c, x)\ns = RealDiv(c, d)", (0.5, 0.8)),
        ("e = Enter(x) {T=float}\ns = Mul(c, e)", (0.5, 0.8)),
        ("s = Identity(c)", (-1, 0.3)),
    ],
)
def test_sizes_that_are_computed_of_floats_stay_small(made: str, ends: tuple[float, float]) -> None:
    more = f"c = Const() {{dtype=float, value=float[]{{12}}}}\n{made}\n{SIDES % 's'}"
    found = feed("dtype=float, shape=shape[]", more=f"p = Placeholder() {{dtype=float}}\n{more}")
    assert ends[0] <= found <= ends[1]


def test_a_pyramid_of_pictures_ends_and_fits_into_memory() -> None:
    """Each round makes sizes smaller by a factor, from one that the smallest face divides."""
    body = function(
        "round",
        {"scale": FLOAT, "factor": FLOAT},
        [
            node("n", "Cast", "scale", SrcT=FLOAT, DstT=INT32),
            node("sides", "Pack", "n:y:0", "n:y:0", N=2, T=INT32),
            node("p", "Placeholder", dtype=FLOAT),
            node("r", "ResizeBilinear", "p:output:0", "sides:output:0", T=FLOAT),
            node("next", "Mul", "scale", "factor", T=FLOAT),
        ],
        {"scale": "next:z:0", "factor": "factor"},
    )
    nodes = [
        node("face", "Placeholder", dtype=FLOAT, shape="shape { }"),
        node("factor", "Placeholder", dtype=FLOAT, shape="shape { }"),
        node("first", "RealDiv", "c", "face", T=FLOAT),
        constant("c", 12.0),
        node("loop", "While", "first", "factor", body="@round", cond="@round"),
    ]
    graph = graph_of(nodes, [body])
    inputs = [graph.value("face"), graph.value("factor")]
    for fed in synthetic_feeds(inputs, 8):
        assert 16 <= fed[inputs[0]] <= 32
        assert 0.5 <= fed[inputs[1]] <= 0.8


# ---- Made-up sizes that do not fit: the error names the input and the flag.


TEXT = """
x = Placeholder() {dtype=float%s}
w = Const() {dtype=float, value=float[4,2]{1,2,3,4,5,6,7,8}}
y = BatchMatMulV2(x, w) {T=float}
inputs: x
outputs: y
"""


@pytest.fixture(params=["", ", shape=shape[?,?]"], ids=["any shape", "any sizes"])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    thinflow.save(parse_graph(TEXT % request.param), tmp_path / "m.pb")
    return str(tmp_path / "m.pb")


def problem(model: str) -> str:
    """How the error begins for a graph."""
    shape = thinflow.load(model).inputs[0].spec.shape
    if shape is None:
        return "the graph does not say what shape 'x' has, and [] does not fit: node 'y' (BatchMatMulV2)"
    return "'x' has the shape [?,?], and made-up sizes, [1,8], do not fit: node 'y' (BatchMatMulV2)"


def test_verify_and_run_name_the_input(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(FeedError) as caught:
        thinflow.verify(model, model)
    assert caught.value.message.startswith(problem(model))
    assert caught.value.hint.startswith("say what sizes it has, for example --shape x=1,")
    for command in (["verify", model, model], ["run", model, "--engine", "reference"]):
        assert main(command) == 1
        assert capsys.readouterr().err.startswith(f"error: {problem(model)}")
        assert main([*command, "--shape", "x=3,4"]) == 0
        capsys.readouterr()


def test_benchmark_names_the_input(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ai_edge_litert")
    assert main(["benchmark", model, "--runs", "1"]) == 1
    assert "hint: say what sizes it has, for example --shape x=1," in capsys.readouterr().err


def test_feeds_of_the_users_own_are_not_blamed_on_the_shape(model: str) -> None:
    import numpy as np

    with pytest.raises(thinflow.ThinflowError) as caught:
        thinflow.verify(model, model, {"x": np.zeros((1, 5), np.float32)})
    assert caught.value.message.startswith("node 'y' (BatchMatMulV2): ")


@pytest.mark.parametrize(
    "rounded",
    [
        "q = FakeQuantWithMinMaxArgs(x) {min=0.0, max=255.0, num_bits=8}",
        "lo = Const() {dtype=float, value=float[]{0}}\nhi = Const() {dtype=float, value=float[]{255}}\n"
        "q = FakeQuantWithMinMaxVars(x, lo, hi) {num_bits=8}",
    ],
)
def test_a_quantized_model_is_fed_in_the_range_that_it_states(rounded: str) -> None:
    """Of -1 to 1 it would see two of its 256 codes."""
    graph = parse_graph(
        f"x = Placeholder() {{dtype=float, shape=shape[1,64]}}\n{rounded}\ny = Relu(q) {{T=float}}\n"
        "inputs: x\noutputs: y"
    )
    (feed,) = synthetic_feeds(graph.inputs, 1)
    numbers = feed[graph.inputs[0]]
    assert numbers.min() >= 0
    assert 200 < numbers.max() <= 255
