"""Microcontrollers: firmware is built and run in QEMU, sketches and applications on this computer; what they
feed is what `evaluate` feeds, byte for byte.
"""

from __future__ import annotations

import ctypes
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.deploy.app_models import detector, numbers, sound
from tests.deploy.apps import fed_by_evaluate, picture_model, sound_model, write_pictures
from thinflow import zoo
from thinflow.deploy.targets import find
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph
from thinflow.ir.types import FLOAT
from thinflow.zoo import digits

_ZEPHYR = Path(__file__).parents[1] / "zephyr"
_STRICT = ("-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror")

needs_gcc = pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
needs_qemu = pytest.mark.skipif(
    not all(map(shutil.which, ("cmake", "arm-none-eabi-gcc", "qemu-system-arm"))),
    reason="needs cmake, arm-none-eabi-gcc and qemu-system-arm",
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The digits, which are trained, so that answers mean something."""
    path: Path = tmp_path_factory.mktemp("models") / "digits.pb"
    thinflow.save(digits.build(0), path)
    return path


@pytest.fixture(scope="module")
def samples() -> tuple[bytes, list[int]]:
    """Pictures of digits, as a camera would hand them over, and what they are."""
    images, labels = (zoo.test_set("digits")[key][:4] for key in ("image", "labels"))
    return np.round(np.asarray(images)).astype(np.uint8).tobytes(), [int(n) for n in labels]


@pytest.fixture(scope="module")
def application(model: Path, tmp_path_factory: pytest.TempPathFactory) -> thinflow.Deployment:
    """Of Zephyr, with pixels as they are."""
    folder = tmp_path_factory.mktemp("zephyr")
    return thinflow.deploy(model, folder / "app", "zephyr", scaling=thinflow.Scaling())


def answered(text: str) -> list[int]:
    """The likeliest class of each line."""
    return [int(line.split()[0]) for line in text.strip().splitlines()]


def compiled(made: thinflow.Deployment, *, more: tuple[str, ...] = (), out: str = "app.so") -> Path:
    """All of the C in a folder but what is a board's, and `more`, for this computer."""
    folder = Path(made.path)
    own = ("main.c", "board.c", "start.c")
    sources = [file for file in folder.rglob("*.c") if file.name not in own]
    paths = [f"-I{folder / path}" for path in ("src", "network/include")]
    command = [
        "gcc",
        "-O1",
        "-std=c99",
        *_STRICT,
        *paths,
        *map(str, sources),
        *more,
        "-lm",
        "-o",
        folder / out,
    ]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / out


@needs_gcc
@pytest.mark.parametrize(
    ("scaling", "channels"),
    [
        (thinflow.Scaling(mean=(1.5, 2.0, 3.0), std=(58.4, 57.1, 57.4), resize=40, crop="center"), 3),
        (thinflow.Scaling(std=255.0, crop="center"), 1),
        (thinflow.Scaling(mean=127.5, std=127.5, bgr=True), 3),
        (thinflow.Scaling(resize=(30, 35), crop="center"), 3),
    ],
    ids=["shorter_side", "grey_part", "bgr", "both_sides"],
)
def test_it_feeds_what_evaluate_feeds(scaling: thinflow.Scaling, channels: int, tmp_path: Path) -> None:
    from PIL import Image

    source = picture_model(tmp_path / "net.pb", channels)
    made = thinflow.deploy(source, tmp_path / "app", "zephyr", scaling=scaling)
    library = ctypes.CDLL(str(compiled(made, more=("-shared", "-fPIC"))))
    library.net_prepare.restype = ctypes.c_bool
    pictures = write_pictures(tmp_path, ("png",))
    fed = np.zeros(24 * 32 * channels, np.float32)
    for picture, wanted in zip(pictures, fed_by_evaluate(source, pictures, scaling), strict=True):
        with Image.open(picture) as image:
            pixels = np.asarray(image.convert("RGB" if channels == 3 else "L"))
        given = pixels.tobytes()
        assert library.net_prepare(given, *pixels.shape[:2], fed.ctypes.data_as(ctypes.c_void_p))
        np.testing.assert_array_equal(fed, wanted.ravel())
    assert not library.net_prepare(bytes(3), 1, 321, fed.ctypes.data_as(ctypes.c_void_p))


@needs_qemu
@pytest.mark.slow
def test_firmware_answers_in_qemu(model: Path, samples: tuple[bytes, list[int]], tmp_path: Path) -> None:
    made = thinflow.deploy(model, tmp_path / "app", "cortex-m", scaling=thinflow.Scaling())
    assert made.model == "network/src/digits.c"
    told = made.test().strip().splitlines()
    assert told[-2].startswith(made.answer[:3])
    assert told[-1] == "self-test passed: the sample's answer is the expected one"
    (qemu,) = re.findall(
        r"qemu-system-arm .*(?= build/digits.elf)", (tmp_path / "app" / "README.md").read_text()
    )
    done = subprocess.run(
        [*qemu.split(), "build/digits.elf"], cwd=made.path, input=samples[0], capture_output=True, timeout=60
    )
    assert done.returncode == 0
    assert answered((done.stdout + done.stderr).decode()) == samples[1]
    # Another sample than the one that was prepared; another weight than the network has.
    app, weights = (Path(made.path, name) for name in ("src/digits_app.c", "network/src/digits_weights.c"))
    held = app.read_text()
    app.write_text(held.replace("sample_raw[221] = {\n    ", "sample_raw[221] = {\n    255 - "))
    with pytest.raises(thinflow.VerificationError, match="self-test failed: the sample is not prepared"):
        made.test()
    app.write_text(held)
    weights.write_text(weights.read_text().replace("{\n    ", "{\n    1.0f + ", 1))
    with pytest.raises(thinflow.VerificationError, match="self-test failed: numbers of the network's answer"):
        made.test()


@needs_qemu
@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "cpu"), [("sound", "cortex-m0"), ("detector", "cortex-m33"), ("codes", "cortex-m55")]
)
def test_other_models_and_processors(kind: str, cpu: str, tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    scaling = None
    if kind == "sound":
        path = sound_model(tmp_path / "net.pb", 1600)
    elif kind == "detector":
        path.write_bytes(detector())
    else:
        rng = np.random.default_rng(0)
        feeds = [{"picture": rng.uniform(-1, 1, (1, 24, 32, 3)).astype(np.float32)} for _ in range(4)]
        recipe = thinflow.Recipe(input_type="int8")
        thinflow.quantize(picture_model(tmp_path / "net.pb"), calibration=feeds, recipe=recipe).save(path)
        scaling = thinflow.Scaling(mean=127.5, std=127.5)
    made = thinflow.deploy(path, tmp_path / "app", "cortex-m", cpu=cpu, scaling=scaling)
    inputs = made.contract["inputs"]
    if kind == "sound":
        # As a microphone gives them; the rate is in the filters.
        assert [(one["kind"], one["dtype"]) for one in inputs] == [("sound", "int16")]  # type: ignore[attr-defined]
    told = made.test().strip().splitlines()
    assert told[-1].startswith("self-test passed")
    name, number = made.answer.split(" at ")[0].rsplit(" ", 1)
    found, close = told[-2].split(",")[0].split(" at ")[0].rsplit(" ", 1)
    assert (found, float(close)) == (name, pytest.approx(float(number), abs=0.002))


@pytest.mark.skipif(not all(map(shutil.which, ("make", "c++", "cc"))), reason="needs make and c++")
@pytest.mark.slow
def test_a_sketch_answers_on_this_computer(
    model: Path, samples: tuple[bytes, list[int]], tmp_path: Path
) -> None:
    made = thinflow.deploy(model, tmp_path / "app", "arduino", scaling=thinflow.Scaling())
    told = made.test()
    assert told.endswith("self-test passed: the sample's answer is the expected one\n")
    done = subprocess.run([tmp_path / "app/build/digits"], input=samples[0], capture_output=True, timeout=60)
    assert done.stdout.decode() == told + done.stdout.decode()[len(told) :]
    assert answered(done.stdout.decode()[len(told) :]) == samples[1]
    assert {"library.properties", "examples/digits/digits.ino", "src/digits.h"} <= set(made.files)
    assert "none was ever compiled by Arduino's own tools" in made.notes[-1]
    assert made.notes[-1][1:] in (tmp_path / "app" / "README.md").read_text().replace("Limit: T", "Limit: t")
    app = tmp_path / "app/src/digits_app.c"
    app.write_text(app.read_text().replace('strncmp(text, "', 'strncmp(text, "not '))
    with pytest.raises(thinflow.VerificationError, match="self-test failed: the answer is another"):
        made.test()


@pytest.mark.slow
def test_a_sketch_with_the_kernels_of_one_processor_is_tested_on_boards_alone(
    model: Path, tmp_path: Path
) -> None:
    made = thinflow.deploy(model, tmp_path / "app", "arduino", cpu="cortex-m4", scaling=thinflow.Scaling())
    assert made.next == f"cd {tmp_path / 'app'} && arduino-cli compile --fqbn BOARD --library . examples/*"
    assert "make -C extras/computer" not in (tmp_path / "app" / "README.md").read_text()
    if shutil.which("make") and shutil.which("c++"):
        with pytest.raises(thinflow.EngineUnavailable, match="its kernels are for a cortex-m4"):
            made.test()


@needs_gcc
def test_an_application_answers_beside_zephyrs_signatures(
    application: thinflow.Deployment, samples: tuple[bytes, list[int]]
) -> None:
    folder = Path(application.path)
    more = (f"-I{_ZEPHYR}", str(folder / "src" / "main.c"), "-DDIGITS_SELFTEST")
    app = compiled(application, more=more, out="app")
    done = subprocess.run([app], input=samples[0], capture_output=True, timeout=60)
    lines = done.stdout.decode().splitlines()
    assert lines[1] == "self-test passed: the sample's answer is the expected one"
    assert answered("\n".join(lines[2:])) == samples[1]
    symbol = re.search(r"config (\w+)", (folder / "network" / "Kconfig").read_text())
    assert symbol is not None
    assert f"CONFIG_{symbol[1]}=y" in (folder / "prj.conf").read_text()
    for file in (name for name in application.files if not name.startswith("assets/")):
        assert "%{" not in (folder / file).read_text(), file


@needs_gcc
@pytest.mark.parametrize("content", [sound, numbers, detector])
def test_code_of_other_models_passes_without_a_warning(content: object, tmp_path: Path) -> None:
    (tmp_path / "net.tflite").write_bytes(content())  # type: ignore[operator]
    made = thinflow.deploy(tmp_path / "net.tflite", tmp_path / "app", "zephyr")
    for flags in ((), ("-DNET_SELFTEST",)):
        compiled(made, more=("-shared", "-fPIC", *flags))


def test_what_it_takes_is_told(model: Path, tmp_path: Path) -> None:
    labels = ['a "b"', "??/", "gr\u00fcn \U0001f600", *"defghij"]
    made = thinflow.deploy(model, tmp_path / "app", "arduino", labels=labels)
    told = made.contract["c"]
    assert isinstance(told, dict)
    fit = thinflow.fit(model, cpu="cortex-m3", remedies=False)
    assert (told["flash_bytes"], told["ram_bytes"]) == (fit.flash_bytes, fit.ram_bytes)
    readme = (tmp_path / "app" / "README.md").read_text()
    assert f"flash: {fit.flash_bytes:,} bytes" in readme
    assert f"{len(fit.holding)} of {len(fit.chips)} chips" in readme
    again = thinflow.Deployment.open(made.path)
    assert (again.model, again.contract) == (made.model, made.contract)
    assert json.loads((tmp_path / "app" / "extras" / "model.json").read_text())["file"] == "../src/digits.c"
    answer = (tmp_path / "app" / "src" / "digits_answer.c").read_text()
    assert '"a \\042b\\042"' in answer
    assert '"\\077\\077/"' in answer
    assert '"gr\\303\\274n \\360\\237\\230\\200"' in answer


@pytest.mark.parametrize(
    ("target", "options", "problem"),
    [
        ("python", {"cpu": "cortex-m4"}, "--cpu is for targets whose model is plain C"),
        ("linux", {"ram": "64KB"}, "--ram is for targets whose model is plain C"),
        ("cortex-m", {"cpu": "cortex-a53"}, "cortex-m is not made for the processor 'cortex-a53'"),
        ("arduino", {"cpu": "cortex-m44"}, "there is no processor 'cortex-m44'"),
        ("zephyr", {"ram": "1KB"}, "1,000 bytes of memory are too few for cortex-m3"),
        ("zephyr", {"scaling": thinflow.Scaling(resize=20)}, "the picture would be resized to 20 and then"),
    ],
)
def test_wrong_options(
    target: str, options: dict[str, object], problem: str, model: Path, tmp_path: Path
) -> None:
    with pytest.raises(thinflow.ParameterError, match=problem):
        thinflow.deploy(model, tmp_path / "app", target, **options)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_a_board_that_is_too_small_is_told(tmp_path: Path) -> None:
    graph = Graph()
    x = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr((1, 200_000))}).output()
    graph.inputs, graph.outputs = [x], [graph.add("Relu", [x], "y").output()]
    with pytest.raises(
        thinflow.ParameterError, match=r"of flash, and mps3-an547, which QEMU plays, has 524\.3 kB"
    ):
        thinflow.deploy(graph, tmp_path / "app", "cortex-m", cpu="cortex-m55")
    assert list(tmp_path.iterdir()) == []


def test_what_tests_need_is_told(
    application: thinflow.Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(thinflow.EngineUnavailable, match="the self-test needs west"):
        application.test()
    for target, tool in (("cortex-m", "cmake"), ("arduino", "make")):
        with pytest.raises(thinflow.EngineUnavailable, match=f"the self-test needs {tool}"):
            find(target).test(tmp_path)


@needs_gcc
def test_a_detector_that_sees_nothing_passes_its_test(tmp_path: Path) -> None:
    (tmp_path / "net.tflite").write_bytes(detector())
    # Dark pictures: scores below the half from which on boxes are shown.
    scaling = thinflow.Scaling(mean=400.0, std=100.0)
    made = thinflow.deploy(tmp_path / "net.tflite", tmp_path / "app", "zephyr", scaling=scaling)
    assert float(made.answer.split(" at ")[0].split()[-1]) < 0.5
    more = (f"-I{_ZEPHYR}", str(tmp_path / "app" / "src" / "main.c"), "-DNET_SELFTEST")
    done = subprocess.run([compiled(made, more=more, out="app")], input=b"", capture_output=True, timeout=60)
    assert done.stdout.decode().splitlines()[0] == "no box"
    assert done.returncode == 0
