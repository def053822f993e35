"""Addresses, settings, and machines by what they say of themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from thinflow.device.base import Device, Settings, State
from thinflow.device.finding import find_device, find_devices, kind, kind_names
from thinflow.device.machines import arm_parts, machine_of
from thinflow.errors import ParameterError


@pytest.mark.parametrize("name", kind_names())
def test_each_kind_says_how_it_is_written(name: str) -> None:
    module = kind(name)
    assert module.ADDRESS.partition(":")[0].partition("[")[0] == name
    assert set(module.KEYS) <= set(vars(Settings()))
    made = find_device({"ssh": "ssh:board"}.get(name, name))
    assert isinstance(made, Device)


def test_addresses_that_are_none() -> None:
    with pytest.raises(ParameterError, match="'lokal' is no device") as caught:
        find_device("lokal")
    assert "'local'" in caught.value.hint
    with pytest.raises(ParameterError, match="'pi@board' is no device") as caught:
        find_device("pi@board")
    assert "ssh:[user@]host[:port]" in caught.value.hint
    with pytest.raises(ParameterError, match="'usb' is no kind of device"):
        kind("usb")
    with pytest.raises(ParameterError, match="'local:here' is no device"):
        find_device("local:here")
    with pytest.raises(ParameterError, match="a int is no device"):
        find_device(3)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="no device is given"):
        find_devices([])


def test_settings_that_a_kind_does_not_know() -> None:
    with pytest.raises(ParameterError, match="kind 'local' has no setting 'folder'"):
        find_device("local", folder="/tmp")
    with pytest.raises(ParameterError, match="none of the devices has a setting 'folder'"):
        find_devices(["local"], folder="/tmp")


def test_each_device_once_in_order() -> None:
    given = find_device("local", name="here")
    found = find_devices(["local", given, "local"], python="python3", keep=True)
    assert [d.name for d in found] == ["local", "here"]
    assert found[0].settings == Settings(python="python3", keep=True)
    assert found[1] is given


PI_5 = """\
processor	: 0
BogoMIPS	: 108.00
Features	: fp asimd evtstrm crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp
CPU implementer	: 0x41
CPU part	: 0xd0b

processor	: 1
CPU implementer	: 0x41
CPU part	: 0xd0b

Model		: Raspberry Pi 5 Model B Rev 1.0
"""


def test_arm_cores_by_their_parts() -> None:
    machine = machine_of(PI_5, 2, "Linux aarch64", "3.11.2")
    assert str(machine) == "2x Cortex-A76, 2 cores, neon dotprod fp16, Linux aarch64"
    assert machine.multiplies_eight_bit
    big = "CPU implementer : 0x41\nCPU part : 0xd05\nCPU implementer : 0x51\nCPU part : 0x804\n"
    assert arm_parts(big) == {"Cortex-A55": 1, "Arm core 0x51/0x804": 1}


def test_other_machines() -> None:
    assert machine_of("model name : X\nflags : avx2 fma\n", 4, "Linux x86_64", "").cpu == "X"
    assert machine_of("", 1, "Linux riscv64", "").cpu == "riscv64"


def test_a_state_in_words() -> None:
    assert str(State("ondemand", 1500.4, 61.6, ("throttled now",))) == (
        "governor ondemand, 1500 MHz, 62 °C, throttled now"
    )
    assert str(State()) == ""


PROFILES = """
[device.board]
address = "ssh:pi@board:2222"
threads = [1, 4]
folder = "~/models"
patience = 60

[device.desk]
address = "local"
threads = 2
"""


def test_devices_of_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "thinflow.toml").write_text(PROFILES)
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "inner")
    board, desk = find_devices(["board", "desk"], keep=True)
    expected = Settings(name="board", threads=(1, 4), folder="~/models", patience=60.0, keep=True)
    assert board.settings == expected
    assert (board.name, str(board.address)) == ("board", "ssh:pi@board:2222")  # type: ignore[attr-defined]
    assert (desk.name, desk.settings.threads) == ("desk", (2,))
    # What is given counts before what the file says.
    assert find_devices(["board"], folder="/tmp")[0].settings.folder == "/tmp"
    with pytest.raises(ParameterError) as caught:
        find_device("bord")
    assert caught.value.hint == "did you mean 'board'?"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[device.x]\nthreads = 1\n", r"\[device.x\] has no address"),
        ("[device.x]\naddress = 'local'\nthreads = 'all'\n", "'threads' is no number of threads"),
        ("[device.x]\naddress = 'local'\npyton = 'p'\n", "has nothing called 'pyton'"),
        ("[device.x]\naddress = 'local'\nbinary = 'b'\n", "kind 'local' has no setting 'binary'"),
        ("[device]\nx = 1\n", "'device.x' is no table"),
        ("[device.x]\naddress = 'usb:1'\n", "'usb' is no kind of device"),
    ],
)
def test_profiles_that_are_none(
    text: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "thinflow.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ParameterError, match=problem) as caught:
        find_device("x")
    assert caught.value.hint
