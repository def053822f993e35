from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.device.android.phones import SERIAL, PhoneFolder, elf
from thinflow import zoo
from thinflow.cli import main
from thinflow.device.android.bridge import Bridge
from thinflow.device.base import DeviceLost, Job, Settings
from thinflow.device.finding import find_device
from thinflow.errors import EngineUnavailable, FormatError, ParameterError

pytestmark = pytest.mark.skipif(
    sys.platform == "win32" or not Path("/bin/sh").exists(), reason="the phone is played by sh"
)
Phones = Callable[..., PhoneFolder]


@pytest.fixture
def phones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Phones]:
    """Makes the phone that adb finds; at the end nothing unexpected was asked of it."""
    made: list[PhoneFolder] = []

    def make(**settings: Any) -> PhoneFolder:
        phone = PhoneFolder(tmp_path / "phone", **settings)
        monkeypatch.setenv("PATH", phone.path + os.pathsep + os.environ["PATH"])
        made.append(phone)
        return phone

    yield make
    for phone in made:
        assert phone.surprises() == ""


@pytest.fixture
def tool(tmp_path: Path) -> str:
    path = tmp_path / "benchmark_model_android"
    path.write_bytes(elf())
    return str(path)


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "digits.tflite"
    thinflow.convert(zoo.build("digits"), path, shapes={"image": (1, 8, 8, 1)})
    return path


def images(count: int) -> list[list[np.ndarray[Any, Any]]]:
    found = zoo.test_set("digits")["image"][:count].astype(np.float32)
    return [[image.reshape(1, 8, 8, 1)] for image in found]


def job(path: Path, threads: int = 4) -> Job:
    return Job(path.name, str(path), threads, tuple(images(1)[0]))


def device(address: str = "adb", **settings: Any) -> Any:
    return find_device(address, Settings(**settings))


# --- what it does -----------------------------------------------------------------------------------------


def test_what_a_phone_is_and_does(phones: Phones, tool: str) -> None:
    phones(heat=3)
    with device(binary=tool).connect() as connection:
        facts, state = connection.facts, connection.state()
    assert facts.model == "Google Pixel 7"
    assert facts.machine.cpu == (
        "Google GS201 (4x Cortex-A55, 2x Cortex-A78, 2x Cortex-X1), "
        "4 at 1.8 GHz + 2 at 2.3 GHz + 2 at 2.9 GHz"
    )
    assert facts.machine.system == "Android 14 (API 34), aarch64"
    assert (facts.machine.cores, facts.memory_bytes) == (8, 7718032 * 1024)
    assert facts.machine.multiplies_eight_bit
    assert facts.runtime == "LiteRT's benchmark_model"
    assert (
        str(state)
        == "governor sched_pixel, 1425 MHz, 48 °C, battery at 83 %, Android says the heat is severe"
    )


def test_times(phones: Phones, tool: str, digits: Path) -> None:
    phone = phones()
    with device(binary=tool).connect() as connection:
        one, other = job(digits), job(digits, threads=1)
        connection.open(one)
        connection.open(other)
        found = connection.time([one, other], runs=40, seconds=60.0, warmup=3, seed=1)
    assert found[one].times_ns == found[other].times_ns == [115_000] * 8
    assert found[one].ends == [86400.25] * 8
    assert found[one].note == ""
    runs = [set(line) for line in phone.tools()[2:]]
    assert len(runs) == 16
    assert all({"--num_runs=5", "--min_secs=0", "--warmup_runs=3", "mask="} <= flags for flags in runs)
    # Each of both in every round.
    assert all({"--num_threads=1", "--num_threads=4"} <= runs[n] | runs[n + 1] for n in range(0, 16, 2))
    # The same model was sent once.
    assert sum("benchmark_model" not in s and "mv " in s for s in phone.shells()) == 1
    assert phone.made() == []


def test_for_some_seconds(phones: Phones, tool: str, digits: Path) -> None:
    phone = phones()
    with device(binary=tool).connect() as connection:
        model = job(digits)
        connection.open(model)
        found = connection.time([model], runs=None, seconds=0.01, warmup=1)
    assert len(found[model].times_ns) == 1  # one round at least
    assert "--min_secs=0.2" in phone.tools()[-1]


def test_memory(phones: Phones, tool: str, digits: Path) -> None:
    phone = phones()
    with device(binary=tool).connect() as connection:
        assert connection.memory(job(digits)) == round(8.71875 * (1 << 20))
    assert "--report_peak_memory_footprint=true" in phone.tools()[-1]


def test_memory_of_a_tool_that_tells_less(phones: Phones, tool: str, digits: Path) -> None:
    phones(reply="of_2021")
    with device(binary=tool).connect() as connection:
        model = job(digits)
        connection.open(model)
        assert connection.memory(model) == round(3.61719 * (1 << 20))


def test_operators_within_the_delegate(phones: Phones, tool: str, digits: Path) -> None:
    phones()
    with device(binary=tool).connect() as connection:
        # In a connection of its own, for a job that was not opened before.
        found = connection.profile(job(digits), runs=50, warmup=1)
    micros = {name: row.micros.total for name, row in found.stats.rows.items()}
    assert micros["conv1/Relu"] == 13
    assert micros["conv3/Relu"] == 29
    assert micros["fc1/Relu"] == 27
    assert sum(micros.values()) == 93
    assert found.kernels["conv2_depthwise/Relu"] == "Convolution (NHWC, F32) DWConv"
    assert found.whole_micros == [126]
    assert found.threads == 4
    assert "averages of 50 runs" in found.method
    assert "within the delegate" in found.method


def test_operators_without_a_delegate(phones: Phones, tool: str, digits: Path) -> None:
    phones(replies={"enable_op_profiling": "of_2021"})
    with device(binary=tool, delegate="cpu").connect() as connection:
        model = job(digits, threads=1)
        connection.open(model)
        found = connection.profile(model, runs=50, warmup=1)
    micros = {name: (row.op, row.micros.total) for name, row in found.stats.rows.items()}
    assert micros["conv3/Relu"] == ("CONV_2D", 577)
    assert len(micros) == 9
    assert found.engine == "cpu"


def test_answers_are_what_litert_computes(phones: Phones, tool: str, digits: Path) -> None:
    phone = phones()
    feeds = images(3)
    session = thinflow.Session(str(digits), engine="litert")
    with device(binary=tool).connect() as connection:
        found = list(connection.answers(job(digits), feeds))
        kept = phone.made()
    for (answer,), (x,) in zip(found, feeds, strict=True):
        (expected,) = session.run(None, {"image": x})
        np.testing.assert_allclose(answer, expected, atol=1e-6)
    assert not [name for name in kept if name.partition("/")[2][:1].isdigit() and ".tflite" not in name]
    assert phone.made() == []


def test_cores_and_delegates(phones: Phones, tool: str, digits: Path) -> None:
    phone = phones(reply="gpu")
    with device(binary=tool, cpus="big", delegate="gpu:cl").connect() as connection:
        model = job(digits, threads=8)
        connection.open(model)
        note = connection.time([model], runs=1, seconds=1, warmup=0)[model].note
        assert connection.facts.runtime == "LiteRT's benchmark_model with delegate gpu on CPUs 4,5,6,7"
    assert note == "8 threads share 4 CPUs"
    assert {"mask=f0", "--use_gpu=true", "--gpu_backend=cl"} <= set(phone.tools()[0])


@pytest.mark.parametrize(
    ("reply", "delegate", "note"),
    [
        ("nnapi_ignored", "nnapi", "delegate nnapi was not applied; these are the CPU's times"),
        (
            "gpu_unsupported",
            "gpu",
            "delegate gpu was not applied (GPU acceleration is unsupported on this platform); "
            "these are the CPU's times",
        ),
        ("gpu_part", "gpu", "delegate gpu runs 6 of 9 operators, in 2 parts; the CPU runs the rest"),
        ("xnnpack", "hexagon", "delegate hexagon was not applied; these are the CPU's times"),
    ],
)
def test_a_delegate_that_does_not_run_all(
    phones: Phones, tool: str, digits: Path, reply: str, delegate: str, note: str
) -> None:
    phones(reply=reply)
    with device(binary=tool, delegate=delegate).connect() as connection:
        model = job(digits)
        connection.open(model)
        assert connection.time([model], runs=1, seconds=1, warmup=0)[model].note == note


def test_a_library_is_sent_along(phones: Phones, tool: str, digits: Path, tmp_path: Path) -> None:
    phone = phones(reply="gpu")
    library = tmp_path / "libvendor.so"
    library.write_bytes(elf())
    with device(binary=tool, delegate=f"external:{library}").connect() as connection:
        connection.open(job(digits))
        (flag,) = [f for f in phone.tools()[0] if f.startswith("--external_delegate_path=")]
        assert Path(flag.partition("=")[2]).read_bytes() == elf()


def test_kept_files_serve_the_next_run(phones: Phones, tool: str, digits: Path) -> None:
    phone = phones()
    for _ in range(2):
        with device(binary=tool, keep=True).connect() as connection:
            connection.open(job(digits))
    assert sum("mv " in script for script in phone.shells()) == 1
    kept = phone.made()
    assert kept[0] == "thinflow-kept"
    assert len([k for k in kept if k.endswith(".tflite")]) == 1
    assert not [name for name in kept if name.endswith(".in")]
    # It is another folder than that of a run, which is emptied.
    with device(binary=tool).connect():
        pass
    assert phone.made() == kept


def test_what_a_killed_run_left_is_removed(phones: Phones, tool: str) -> None:
    phone = phones()
    left = phone.root / "data/local/tmp/thinflow-run-0badcafe"
    left.mkdir()
    (left / "model.tflite").write_bytes(b"old")
    others = phone.root / "data/local/tmp/mine.txt"
    others.touch()
    with device(binary=tool).connect():
        assert not left.exists()
    assert phone.made() == ["mine.txt"]


def test_the_tool_of_the_environment(phones: Phones, tool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    phone = phones()
    monkeypatch.setenv("THINFLOW_BENCHMARK_MODEL", tool)
    with device(f"adb:{SERIAL}").connect():
        (there,) = (phone.root / "data/local/tmp").glob("*/benchmark_model.elf")
        assert there.read_bytes() == elf()


def test_old_adbs_tell_no_exit_codes_and_end_lines_their_own_way(
    phones: Phones, tool: str, digits: Path
) -> None:
    phones(tells_no_codes=True, carriage_returns=True)
    with device(binary=tool).connect() as connection:
        model = job(digits)
        connection.open(model)
        assert connection.time([model], runs=1, seconds=1, warmup=0)[model].times_ns == [115_000]
        assert connection.facts.model == "Google Pixel 7"


def test_names_tell_the_rows_of_one_phone_apart() -> None:
    assert device().name == "adb"
    assert device("adb:X1", delegate="gpu", cpus="big").name == "adb:X1 (gpu, cpus big)"
    assert device("adb:X1", name="pixel").name == "pixel"


@pytest.mark.slow
def test_the_command_puts_a_phone_and_this_machine_into_one_table(
    phones: Phones, tool: str, digits: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    phones(reply="gpu_part")
    flags = [
        "--device",
        "adb,local",
        "--binary",
        tool,
        "--delegate",
        "gpu",
        "--cpus",
        "big",
        "--seconds",
        "1",
    ]
    assert main(["benchmark", str(digits), *flags]) == 0
    told = capsys.readouterr().out
    assert "digits  adb (gpu, cpus big)  litert gpu" in told
    assert "digits  local " in told
    assert "delegate gpu runs 6 of 9 operators, in 2 parts; the CPU runs the rest" in told
    assert "Google Pixel 7" in told
    assert "Android 14 (API 34)" in told


@pytest.mark.slow
def test_the_command_profiles_on_a_phone(
    phones: Phones, tool: str, digits: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    phone = phones()
    flags = ["--device", "adb", "--binary", tool, "--profile", "--seconds", "1"]
    assert main(["benchmark", str(digits), *flags]) == 0
    told = capsys.readouterr().out
    assert "conv3/Relu" in told
    assert phone.made() == []


# --- what goes wrong ----------------------------------------------------------------------------------------


def refused(tool: str, address: str = "adb", **settings: Any) -> EngineUnavailable:
    with pytest.raises(EngineUnavailable) as error, device(address, binary=tool, **settings).connect():
        pass
    return error.value


def test_no_adb(tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("ANDROID_HOME", raising=False)
    monkeypatch.delenv("ANDROID_SDK_ROOT", raising=False)
    error = refused(tool)
    assert error.message == "adb: adb is not installed"
    assert "platform tools" in error.hint


def test_the_sdk_has_one(phones: Phones, tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    phone = phones()
    sdk = tmp_path / "sdk"
    sdk.mkdir()
    (sdk / "platform-tools").symlink_to(phone.path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("ANDROID_HOME", str(sdk))
    with device(binary=tool).connect() as connection:
        assert connection.facts.model == "Google Pixel 7"


@pytest.mark.parametrize(
    ("lines", "message", "hint"),
    [
        ([], "adb: no device is connected", "USB debugging"),
        (
            ["A1\tdevice model:Pixel_7", "B2\tdevice model:SM_G930F"],
            "adb: 2 devices are connected",
            "say which: --device adb:A1 (Pixel 7), adb:B2 (SM G930F)",
        ),
        ([f"{SERIAL}\tunauthorized usb:1-2"], f"adb:{SERIAL}: it does not know this computer yet", "unlock"),
        ([f"{SERIAL}\toffline usb:1-2"], f"adb:{SERIAL}: it is offline", "adb reconnect offline"),
        (
            [f"{SERIAL}\tno permissions (user in plugdev group; are your udev rules wrong?); see [http://x]"],
            f"adb:{SERIAL}: this user may not open its USB port",
            "udev rules",
        ),
        ([f"{SERIAL}\trecovery"], f"adb:{SERIAL}: it runs its recovery system", "adb reboot"),
        ([f"{SERIAL}\thost"], f"adb:{SERIAL}: adb says `host` of it", "plug it in again"),
    ],
)
def test_no_phone_to_use(phones: Phones, tool: str, lines: list[str], message: str, hint: str) -> None:
    phone = phones(devices=lines)
    error = refused(tool)
    assert error.message == message
    assert hint in error.hint
    assert phone.shells() == []


def test_one_of_several_by_its_serial_number(phones: Phones, tool: str) -> None:
    phones(devices=["A1\tdevice", f"{SERIAL}\tdevice"])
    with device(f"adb:{SERIAL}", binary=tool).connect() as connection:
        assert connection.facts.model == "Google Pixel 7"


def test_a_serial_number_that_is_not_there(phones: Phones, tool: str) -> None:
    phones()
    error = refused(tool, f"adb:{SERIAL[:-1]}X")
    assert error.message == f"adb:{SERIAL[:-1]}X: adb knows no such device"
    assert error.hint == f"did you mean '{SERIAL}'?"


def test_no_tool(phones: Phones, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    phones()
    monkeypatch.delenv("THINFLOW_BENCHMARK_MODEL", raising=False)
    error = refused("")
    assert error.message == "adb: there is no benchmark_model to send to the phone"
    assert "--binary FILE" in error.hint
    assert "THINFLOW_BENCHMARK_MODEL" in error.hint
    missing = refused(str(tmp_path / "gone"))
    assert missing.message == f"{tmp_path / 'gone'}: --binary: no such file"


def test_a_tool_of_another_processor_is_not_sent(phones: Phones, tmp_path: Path) -> None:
    phone = phones()
    (tmp_path / "tool86").write_bytes(elf(62))
    error = refused(str(tmp_path / "tool86"))
    assert error.message == (
        f"adb, {tmp_path / 'tool86'}: it is for x86_64, and the device runs arm64-v8a, armeabi-v7a, armeabi"
    )
    assert error.hint == "take the benchmark_model for arm64-v8a"
    assert phone.made() == []


def test_a_tool_that_is_none(phones: Phones, tmp_path: Path) -> None:
    phones()
    (tmp_path / "text").write_text("no program at all, but long enough")
    with pytest.raises(FormatError, match="no ELF header"), device(binary=str(tmp_path / "text")).connect():
        pass


def test_a_tool_that_fails_leaves_nothing(phones: Phones, tool: str, digits: Path) -> None:
    phone = phones(says="Segmentation fault", status=139)
    with device(binary=tool).connect() as connection:
        with pytest.raises(EngineUnavailable, match="benchmark_model crashed there") as error:
            connection.open(job(digits))
        assert error.value.where == "adb, digits.tflite"
        assert not isinstance(error.value, DeviceLost)
    assert phone.made() == []


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ("no_operator", "Didn't find op for builtin opcode 'GELU'"),
        ("gpu_failed", "Failed to apply GPU delegate"),
    ],
)
def test_a_model_that_does_not_run_leaves_the_phone_usable(
    phones: Phones, tool: str, digits: Path, reply: str, message: str
) -> None:
    phones(replies={"num_threads": reply, "enable_op_profiling": "profile"})
    with device(binary=tool, delegate="gpu").connect() as connection:
        with pytest.raises(EngineUnavailable, match=message):
            connection.open(job(digits))
        assert connection.state().battery == 83


def test_no_space(phones: Phones, tool: str, digits: Path) -> None:
    phone = phones(free=1000)
    with device(binary=tool).connect() as connection:
        with pytest.raises(EngineUnavailable, match="no space left on the device") as error:
            connection.open(job(digits))
        assert "df /data" in error.value.hint
    assert phone.made() == []


def test_a_folder_that_cannot_be_made(phones: Phones, tool: str) -> None:
    phone = phones()
    (phone.root / "data/local/tmp/file").touch()
    error = refused(tool, folder="/data/local/tmp/file")
    assert error.problem.startswith("no folder can be made there")
    with (
        pytest.raises(ParameterError, match="is none of the device"),
        device(binary=tool, folder="/data/$(reboot)").connect(),
    ):
        pass


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ("error: device 'R5CW30ABCDE' not found", "it is gone"),
        ("error: device offline", "it went offline"),
        ("error: closed", "the connection to it ended"),
        ("adb: no devices/emulators found", "it is gone"),
        (
            "error: device unauthorized.\nThis adb server's $ADB_VENDOR_KEYS is not set",
            "it does not know this",
        ),
        ("error: out of luck", "adb ended with exit code 1: error: out of luck"),
        ("", "adb ended with exit code 1"),
    ],
)
def test_a_phone_that_is_gone(phones: Phones, said: str, problem: str) -> None:
    phone = phones(gone_after=0, gone_with=said)
    with pytest.raises(DeviceLost) as error:
        Bridge(f"{phone.path}/adb", SERIAL, "adb", 30.0).shell("true")
    assert error.value.problem.startswith(problem)
    assert error.value.where == "adb"
    assert error.value.hint


def test_a_phone_that_is_unplugged_between_runs(phones: Phones, tool: str, digits: Path) -> None:
    phone = phones()
    with device(binary=tool).connect() as connection:
        model = job(digits)
        connection.open(model)
        phone.tell(gone_after=0)
        with pytest.raises(DeviceLost, match="it is gone"):
            connection.time([model], runs=2, seconds=1, warmup=0)
    # Nothing could be removed; the next run does.
    assert any(name.endswith("benchmark_model") for name in phone.made())


def test_a_phone_that_is_unplugged_in_a_run(phones: Phones, tool: str, digits: Path) -> None:
    phone = phones(pulled_at="Running benchmark for at least 1")
    with device(binary=tool).connect() as connection, pytest.raises(DeviceLost) as error:
        connection.open(job(digits))
    assert error.value.message == "adb: the connection to it ended"
    assert phone.made() == []  # it was plugged in again, and the folder removed


def test_a_phone_that_does_not_answer(
    phones: Phones, tool: str, digits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from thinflow.device.android import connection as module

    monkeypatch.setattr(module, "_STARTING_SECONDS", 0.0)
    phone = phones(hangs=True)
    with device(binary=tool, patience=1.5).connect() as connection:
        with pytest.raises(DeviceLost, match="did not answer in time") as error:
            connection.open(job(digits))
        assert "--timeout" in error.value.hint
    # What still ran there was ended, and nothing is left.
    assert "benchmark_model" in (phone.folder / "killed.txt").read_text("utf-8")
    assert phone.made() == []


def test_a_tool_that_gives_no_answers(phones: Phones, tool: str, digits: Path) -> None:
    phones(knows_outputs=False)
    with device(binary=tool).connect() as connection:
        with pytest.raises(EngineUnavailable, match="gives no answers back") as error:
            list(connection.answers(job(digits), images(1)))
        assert "ssh" in error.value.hint


def test_a_phone_answers_for_verify_and_evaluate(
    phones: Phones, tool: str, digits: Path, tmp_path: Path
) -> None:
    phone = phones()
    place = thinflow.open_device("adb", binary=tool)
    assert thinflow.verify(digits, runs=1, device=place).worst == 0
    samples = zoo.test_set("digits")
    few = {"image": samples["image"][:3], "labels": samples["labels"][:3]}
    found = thinflow.evaluate(digits, few, device=place)
    assert (found.correct, found.samples) == (thinflow.evaluate(digits, few).correct, 3)
    assert found.device.startswith("adb: Google Pixel 7")
    # Its three samples are sent in one go.
    assert sum(script.count("--output_filepath") == 3 for script in phone.shells()) == 1
    assert phone.made() == []


def test_two_runs_at_once(phones: Phones, tool: str) -> None:
    phones()
    seen: list[str] = []
    with device(binary=tool).connect():
        waiting = device(binary=tool, patience=0.4).connect(lambda done, total, label: seen.append(label))
        with pytest.raises(EngineUnavailable, match="another run is using it") as error, waiting:
            pass
        assert "--timeout" in error.value.hint
    assert seen == ["adb: another run is using it, waiting"]
    entered = threading.Event()
    with device(binary=tool).connect():

        def wait() -> None:
            with device(binary=tool, patience=30).connect():
                entered.set()

        other = threading.Thread(target=wait)
        other.start()
        assert not entered.wait(0.5)
    other.join(30)
    assert entered.is_set()


def test_what_no_phone_can_mean() -> None:
    with pytest.raises(ParameterError, match="no delegate"):
        device(delegate="gpuu")
    with pytest.raises(ParameterError, match="names no CPUs"):
        device(cpus="many")
    with pytest.raises(ParameterError, match="has no setting 'python'"):
        device(python="/usr/bin/python3")


@pytest.mark.slow
def test_a_run_that_is_interrupted_leaves_nothing(phones: Phones, tool: str, digits: Path) -> None:
    phone = phones(hangs=True)
    script = (
        "from thinflow.device.base import Job, Settings\nfrom thinflow.device.finding import find_device\n"
        f"with find_device('adb', Settings(binary={tool!r})).connect() as c:\n"
        f"    print('ready', flush=True)\n    c.open(Job('m', {str(digits)!r}, 1))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    while not (phone.folder / "tools.txt").exists():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(30) != 0
    process.stdout.close()
    assert phone.made() == []
