"""Layouts of a network's files, each built by the tools that are here."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.lower.c.c_answers import STRICT
from tests.lower.c.c_networks import Layers, mixed
from thinflow.api import convert_verified
from thinflow.engines._c_library import compiler
from thinflow.errors import ParameterError
from thinflow.lower.c.layouts import FOLDERS, LAYOUTS
from thinflow.lower.c.options import ROUNDINGS, SOUNDS
from thinflow.lower.c.processors import PROCESSORS

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C compiler")
ARM = shutil.which("arm-none-eabi-gcc")
COMPILERS = [c for c in ("gcc", "clang") if shutil.which(c)]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "net.tflite"
    path.write_bytes(mixed("int8"))
    return path


def run(*command: str | Path, folder: Path) -> None:
    done = subprocess.run([str(c) for c in command], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def written(source: Path, folder: Path, layout: str, verify: bool = False) -> Path:
    convert_verified(source, folder / "my-net.c", layout=layout, verify=verify)
    return folder / "my-net" if layout in FOLDERS else folder


TEST = "int main(void)\n{\n    return my_net_selftest() != 0;\n}\n"


def test_one_file_is_its_own_header(source: Path, tmp_path: Path) -> None:
    folder = written(source, tmp_path, "one-file", verify=True)
    assert [p.name for p in folder.iterdir()] == ["my-net.c"]
    (folder / "main.c").write_text(f'#define MY_NET_DECLARATIONS_ONLY\n#include "my-net.c"\n{TEST}')
    for command in COMPILERS:
        run(command, "-std=c99", *STRICT, "-DMY_NET_SELFTEST", "main.c", "my-net.c", "-o", "t", folder=folder)
        run(folder / "t", folder=folder)


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler")
def test_a_class_in_cpp(source: Path, tmp_path: Path) -> None:
    folder = written(source, tmp_path, "c++17", verify=True)
    (folder / "main.cpp").write_text(
        '#include "my-net.hpp"\n'
        "static std::int8_t in[MY_NET_INPUT_SIZE], one[MY_NET_OUTPUT_SIZE], two[MY_NET_OUTPUT_SIZE];\n"
        "int main()\n{\n    static my_net_network::Network a, b;\n    a.run(in, one);\n    in[0] = 99;\n"
        "    b.run(in, two);\n    in[0] = 0;\n    b.run(in, two);\n"
        "    for (int i = 0; i < MY_NET_OUTPUT_SIZE; i++) {\n"
        "        if (one[i] != two[i]) {\n            return 1;\n        }\n    }\n"
        "    return my_net_selftest();\n}\n"
    )
    for name in ("my-net.c", "my-net_weights.c"):
        run("gcc", "-std=c99", "-DMY_NET_SELFTEST", "-c", name, folder=folder)
    built = ["g++", "-std=c++17", *STRICT, "-DMY_NET_SELFTEST", "main.cpp", "my-net.o", "my-net_weights.o"]
    run(*built, "-o", "t", folder=folder)
    run(folder / "t", folder=folder)


def test_a_class_keeps_the_state_of_a_network(tmp_path: Path, shared: Path) -> None:
    model = shared / "zoo" / "tflite" / "mnist_lstm_int8.tflite"
    convert_verified(model, tmp_path / "net.c", layout="c++17", verify=False)
    (tmp_path / "main.cpp").write_text('#include "net.hpp"\nnet_network::Network n;\n')
    if shutil.which("g++"):
        run("g++", "-std=c++17", *STRICT, "-c", "main.cpp", folder=tmp_path)
    assert "net_state state_{};" in (tmp_path / "net.hpp").read_text()


@pytest.mark.parametrize("layout", sorted(FOLDERS))
def test_folders_that_build_systems_take(source: Path, tmp_path: Path, layout: str) -> None:
    folder = written(source, tmp_path, layout)
    headers = list(folder.rglob("my-net.h"))
    sources = list(folder.rglob("*.c"))
    assert (len(headers), len(sources)) == (1, 2)
    # As their build systems would: the folder of the header, and every source by itself.
    builds = [[c, "-std=c99"] for c in COMPILERS]
    builds += [[ARM, "-std=c99", "-mcpu=cortex-m4", "-mthumb"]] if ARM else []
    for build in builds:
        for path in sources:
            run(*build, *STRICT, "-I", headers[0].parent, "-c", path, "-o", "x.o", folder=tmp_path)


def test_what_the_folders_say(source: Path, tmp_path: Path) -> None:
    arduino = written(source, tmp_path, "arduino")
    told = dict(line.split("=", 1) for line in (arduino / "library.properties").read_text().splitlines())
    assert told["name"] == "my_net"
    assert (arduino / "src" / told["includes"]).exists()
    assert (arduino / "examples" / "my_net" / "my_net.ino").exists()
    shutil.rmtree(arduino)
    zephyr = written(source, tmp_path, "zephyr")
    assert "config MY_NET\n" in (zephyr / "Kconfig").read_text()
    assert "if(CONFIG_MY_NET)" in (zephyr / "CMakeLists.txt").read_text()
    shutil.rmtree(zephyr)
    pack = written(source, tmp_path, "cmsis-pack")
    (description,) = pack.glob("*.pdsc")
    files = ElementTree.parse(description).getroot().iter("file")
    assert all((pack / f.attrib["name"]).exists() for f in files)


def test_layouts_that_do_not_exist(source: Path, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="there is no layout 'arduin'") as told:
        written(source, tmp_path, "arduin")
    assert "arduino" in told.value.hint
    with pytest.raises(ParameterError, match=r"a layout goes with \.c files only"):
        convert_verified(source, tmp_path / "net.onnx", layout="arduino")


def test_words_of_flags_are_those_of_the_library() -> None:
    from thinflow.cli import _values

    assert list(_values.C_LAYOUTS) == list(LAYOUTS)
    assert list(_values.CPUS) == list(PROCESSORS)
    assert _values.ROUNDINGS == ROUNDINGS
    assert _values.SOUNDS == SOUNDS


def test_two_compilers_have_nothing_to_say(tmp_path: Path) -> None:
    """The portable kernels of many layers, by each compiler that is here."""
    for kind in ("float", "int8"):
        path = tmp_path / "net.tflite"
        path.write_bytes(mixed(kind))
        convert_verified(path, tmp_path / "net.c", verify=False)
        for command in COMPILERS:
            for level in ("-O0", "-O2"):
                run(command, "-std=c99", level, *STRICT, "-c", "net.c", "-o", "x.o", folder=tmp_path)


@pytest.mark.skipif(ARM is None, reason="arm-none-eabi-gcc is not installed")
@pytest.mark.parametrize(("cpu", "flags"), [("cortex-m4", []), ("cortex-m55", ["-mfloat-abi=hard"])])
def test_the_compiler_of_a_board_has_nothing_to_say(cpu: str, flags: list[str], tmp_path: Path) -> None:
    """Where all sizes are built into kernels, it sees how far each pointer goes."""
    for filters in (7, 8):
        net = Layers(1, 9, 8, 4, seed=filters)
        net.conv(filters)
        net.depthwise()
        net.dense(filters)
        (tmp_path / "net.tflite").write_bytes(net.content())
        convert_verified(tmp_path / "net.tflite", tmp_path / "net.c", cpu=cpu, verify=False)
        for level in ("-O2", "-O3"):
            built = [str(ARM), f"-mcpu={cpu}", "-mthumb", *flags, "-std=c99", level, *STRICT]
            run(*built, "-c", "net.c", "-o", "x.o", folder=tmp_path)
