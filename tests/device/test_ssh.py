"""Devices that are reached by ssh: a real sshd on this machine, and what may go wrong on the way."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.device.models import dense, dense_file, job
from tests.device.sshd import Sshd, missing, serving
from thinflow.device.base import DeviceLost
from thinflow.device.finding import find_device
from thinflow.device.ssh_client import COMMAND, explained, read_address
from thinflow.errors import EngineUnavailable, ParameterError

pytest.importorskip("ai_edge_litert")
WHY_NOT = missing()
needs_sshd = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with serving(tmp_path_factory.mktemp("sshd")) as found:
        yield found


@pytest.fixture
def board(server: Sshd, monkeypatch: pytest.MonkeyPatch) -> Sshd:
    monkeypatch.setenv(COMMAND, server.command)
    shutil.rmtree(server.there, ignore_errors=True)
    return server


def refused(address: str, **settings: object) -> EngineUnavailable:
    """The error of a device that cannot be used, which has to name it and the next step."""
    with pytest.raises(EngineUnavailable) as caught, find_device(address, **settings).connect():
        pass
    assert caught.value.where == address
    assert caught.value.hint
    assert "\n" not in caught.value.message
    return caught.value


# --- what goes well -----------------------------------------------------------------------------------------


@needs_sshd
def test_answers_over_ssh(board: Sshd, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    feeds = [rng.standard_normal((1, 16)).astype(np.float32) for _ in range(70)]
    with find_device(board.address, python=sys.executable).connect() as there:
        found = list(there.answers(job(dense_file(tmp_path)), ([feed] for feed in feeds)))
        assert there.facts.machine.cores >= 1
        # As nobody else may read it while it is there.
        (file,) = board.home.glob("run-*/*.tflite")
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    session = thinflow.Session(dense(), engine="reference")
    for feed, (answer,) in zip(feeds, found, strict=True):
        np.testing.assert_allclose(answer, session.run(["y"], {"x": feed})[0], rtol=1e-5, atol=1e-5)
    assert board.files() == []


@needs_sshd
def test_what_is_kept_is_not_sent_again(board: Sshd, tmp_path: Path) -> None:
    one = job(dense_file(tmp_path))
    told: list[str] = []
    for _ in range(2):
        device = find_device(board.address, python=sys.executable, keep=True)
        with device.connect(lambda done, total, label: told.append(label)) as there:
            there.open(one)
    assert len([label for label in told if "sending" in label]) == 1
    assert len(board.files()) == 1
    # A run that keeps nothing uses it, too, and leaves it.
    with find_device(board.address, python=sys.executable).connect(told_to(told)) as there:
        there.open(one)
    assert len([label for label in told if "sending" in label]) == 1
    assert len(board.files()) == 1


def told_to(told: list[str]):  # type: ignore[no-untyped-def]
    return lambda done, total, label: told.append(label)


@needs_sshd
def test_a_benchmark_of_several_devices(board: Sshd, tmp_path: Path) -> None:
    files = [dense_file(tmp_path, f"{n}.tflite", n) for n in (16, 400)]
    report = thinflow.benchmark(
        files,
        device=[thinflow.open_device(board.address, name="board", python=sys.executable), "local"],
        threads=[1, 2],
        runs=8,
        memory=False,
    )
    rows = [(r.device, r.threads, r.subject) for r in report.rows]
    assert rows == [(d, t, s) for d in ("board", "local") for t in (1, 2) for s in ("16", "400")]
    assert all(len(r.samples_ns) == 8 for r in report.rows)
    ratio = report.ratio("16", "400", threads=1)
    assert ratio.outcome == "slower"
    assert "on board, 1 thread (ratio" in str(ratio) or "on board, 1 thread" in str(ratio)
    assert any("400 on local, 1 thread" in line and "400 on board" in line for line in report.sentences())
    assert [d.name for d in report.devices] == ["board", "local"]
    assert report.data()["devices"][0]["facts"]["machine"] == report.machine.data()


MAKER = """\
# Making one takes seconds: a second one is a copy of the first.
import pathlib, shutil, subprocess, sys
folder = pathlib.Path(__file__).parents[1]
if (folder / "broken").exists():
    sys.exit("no ensurepip here")
if not (folder / "first").exists():
    subprocess.run([sys.executable, "-I", "-m", "venv", folder / "first"], check=True)
shutil.copytree(folder / "first", sys.argv[1], symlinks=True)
"""


@pytest.fixture(scope="module")
def maker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For PYTHONPATH: a `venv` that is quick. A file `broken` in the folder keeps it from making any."""
    folder = tmp_path_factory.mktemp("maker")
    (folder / "venv").mkdir()
    (folder / "venv" / "__init__.py").touch()
    (folder / "venv" / "__main__.py").write_text(MAKER)
    return folder


@needs_sshd
@pytest.mark.slow
def test_an_environment_is_made_once(
    board: Sshd,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    maker: Path,
) -> None:
    """From a folder of wheels, which lead to the packages of this interpreter."""
    wheels = tmp_path / "wheels"
    for name, where in packages().items():
        wheel(wheels, name, where)
    index = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels), "PYTHONPATH": str(maker)}
    with serving(tmp_path_factory.mktemp("fresh"), index) as fresh:
        monkeypatch.setenv(COMMAND, fresh.command)
        fresh.home.mkdir(parents=True)
        (fresh.home / "venv-0.part").mkdir()
        told: list[str] = []
        for _ in range(2):
            with find_device(fresh.address).connect(told_to(told)) as there:
                there.open(job(dense_file(tmp_path)))
        assert len([label for label in told if "making an environment" in label]) == 1
        assert any("installing ai-edge-litert==" in label for label in told)
        (made,) = fresh.home.glob("venv-*")
        assert (made / "ready").exists()
        # The system's Python was renewed: what was installed is not found any more.
        for found in made.rglob("*_here.pth"):
            found.unlink()
        for found in [*made.rglob("ai_edge_litert-*"), *made.rglob("numpy-*")]:
            shutil.rmtree(found)
        for _ in range(2):
            with find_device(fresh.address).connect(told_to(told)) as there:
                there.open(job(dense_file(tmp_path)))
        assert len([label for label in told if "making an environment" in label]) == 2
        # And one that cannot be renewed is told of, and gone.
        for found in fresh.home.rglob("*_here.pth"):
            found.unlink()
        for found in [*fresh.home.rglob("ai_edge_litert-*"), *fresh.home.rglob("numpy-*")]:
            shutil.rmtree(found)
        (maker / "broken").touch()
        error = refused(fresh.address)
        (maker / "broken").unlink()
        assert error.problem == "its Python makes no environments: no ensurepip here"
        assert "apt install python3-venv" in error.hint
        assert not list(fresh.home.glob("venv-*"))


def packages() -> dict[str, Path]:
    import ai_edge_litert

    return {"ai-edge-litert": Path(ai_edge_litert.__file__).parents[1], "numpy": Path(np.__file__).parents[1]}


def wheel(folder: Path, name: str, leads_to: Path) -> None:
    """A wheel that holds nothing but a path to where a package is."""
    import zipfile
    from importlib.metadata import version

    plain = name.replace("-", "_")
    info = f"{plain}-{version(name)}.dist-info"
    files = {
        f"{plain}_here.pth": f"{leads_to}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version(name)}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / f"{plain}-{version(name)}-py3-none-any.whl", "w") as file:
        for path, text in {**files, f"{info}/RECORD": record}.items():
            file.writestr(path, text)


# --- what goes wrong ----------------------------------------------------------------------------------------


@needs_sshd
def test_a_host_key_that_changed(board: Sshd, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    other = (board.folder / "user.pub").read_text().split()
    (tmp_path / "known").write_text(f"[127.0.0.1]:{board.port} {other[0]} {other[1]}\n")
    monkeypatch.setenv(COMMAND, f"{board.command} -o UserKnownHostsFile={tmp_path / 'known'}")
    error = refused(board.address)
    assert "its host key is not the one that is known" in error.problem
    assert f"ssh-keygen -R '[127.0.0.1]:{board.port}'" in error.hint
    (tmp_path / "known").write_text("")
    error = refused(board.address)
    assert "its host key is not known here" in error.problem
    assert f"ssh -p {board.port}" in error.hint


@needs_sshd
def test_a_wrong_key(board: Sshd, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "stranger"], check=True)
    monkeypatch.setenv(COMMAND, f"{board.command} -i {tmp_path / 'stranger'} -o IdentitiesOnly=yes")
    client = (board.folder / "client").read_text()
    (tmp_path / "client").write_text(
        re.sub(r"IdentityFile \S+", f"IdentityFile {tmp_path / 'stranger'}", client)
    )
    monkeypatch.setenv(COMMAND, f"ssh -F {tmp_path / 'client'}")
    error = refused(board.address)
    assert "does not let you in" in error.problem
    assert "ssh-copy-id" in error.hint


@needs_sshd
def test_nobody_is_there(board: Sshd) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    error = refused(f"ssh:127.0.0.1:{port}")
    assert error.problem == "it answers, but not to ssh"
    error = refused("ssh:no-such-host.invalid")
    assert error.problem == "no host of that name is known"


@needs_sshd
def test_no_python_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "sh").symlink_to("/bin/sh")
    with serving(tmp_path / "sshd", {"PATH": str(tools)}) as bare:
        monkeypatch.setenv(COMMAND, bare.command)
        error = refused(bare.address)
        assert error.problem == "there is no Python on it"
        assert "apt install python3-venv" in error.hint
        error = refused(bare.address, python="/opt/python")
        assert error.problem == "there is no /opt/python on it"
        assert not bare.home.exists()


@needs_sshd
def test_a_wrong_architecture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("setarch") is None:
        pytest.skip("setarch, which plays another processor, is not installed")
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "python3").write_text(f'#!/bin/sh\nexec setarch i686 {sys.executable} "$@"\n')
    (tools / "python3").chmod(0o755)
    with serving(tmp_path / "sshd", {"PATH": f"{tools}:{os.environ['PATH']}"}) as odd:
        monkeypatch.setenv(COMMAND, odd.command)
        error = refused(odd.address)
        assert "there is no LiteRT for its processor, i686" in error.problem
        assert "64-bit" in error.hint
        assert [f.name for f in odd.home.iterdir()] == ["outfit.lock"]


@needs_sshd
@pytest.mark.slow
def test_no_network_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, maker: Path) -> None:
    nowhere = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_CONFIG_FILE": "/dev/null"}
    nowhere["PYTHONPATH"] = str(maker)
    with serving(tmp_path / "sshd", nowhere) as lonely:
        monkeypatch.setenv(COMMAND, lonely.command)
        error = refused(lonely.address)
        assert error.problem == "pip reaches no package index from there"
        assert "connect it to the network" in error.hint
        assert not list(lonely.home.glob("venv-*"))


@needs_sshd
def test_a_python_without_litert(board: Sshd, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "empty"], check=True)
    error = refused(board.address, python=str(tmp_path / "empty" / "bin" / "python"))
    assert error.problem == "its Python has no ai-edge-litert and no numpy"


@needs_sshd
def test_a_full_disk(board: Sshd, tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk: writing fails in the same place."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nulimit -f 100\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    large, small = dense_file(tmp_path, "large.tflite", 600), dense_file(tmp_path, "small.tflite")
    with find_device(board.address, python=str(python)).connect() as there:
        with pytest.raises(EngineUnavailable, match="no space left on the device") as caught:
            there.open(job(large, 600))
        assert not isinstance(caught.value, DeviceLost)
        assert "make room" in caught.value.hint
        assert not list(board.home.rglob("*.part"))
        there.open(job(small))
    report = thinflow.benchmark(
        [large, small],
        device=thinflow.open_device(board.address, python=str(python)),
        runs=6,
        memory=False,
    )
    assert [r.subject for r in report.rows] == ["small"]
    assert "no space left" in report.skipped[0].why
    assert board.files() == []


class Cutting:
    """A way to a port that ends after so many bytes."""

    def __init__(self, port: int, limit: int) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._target, self._limit = port, limit
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        ours, _ = self._listening.accept()
        with ours, socket.create_connection(("127.0.0.1", self._target)) as theirs:
            back = threading.Thread(target=self._copy, args=(theirs, ours, 1 << 40))
            back.start()
            self._copy(ours, theirs, self._limit)
            for end in (ours, theirs):
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue
            back.join()

    @staticmethod
    def _copy(source: socket.socket, target: socket.socket, limit: int) -> None:
        try:
            while data := source.recv(65536):
                limit -= len(data)
                if limit < 0:
                    return
                target.sendall(data)
        except OSError:
            return

    def end(self) -> None:
        self._listening.close()
        self._thread.join(20)


@needs_sshd
def test_a_transfer_cut_in_the_middle(board: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    large = dense_file(tmp_path, "large.tflite", 1200)
    way = Cutting(board.port, 2_000_000)
    monkeypatch.setenv(COMMAND, f"{board.command} -o HostKeyAlias=[127.0.0.1]:{board.port}")
    try:
        with (
            pytest.raises(DeviceLost, match="ended in the middle") as caught,
            find_device(f"ssh:127.0.0.1:{way.port}", python=sys.executable).connect() as there,
        ):
            there.open(job(large, 1200))
        assert "run it again" in caught.value.hint
    finally:
        way.end()
    end = time.monotonic() + 10
    while time.monotonic() < end and list(board.home.glob("run-*")):
        time.sleep(0.05)
    assert board.files() == []
    assert not list(board.home.glob("run-*"))


@needs_sshd
def test_a_device_that_is_lost_keeps_what_it_told(
    board: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runner there is killed in the middle of a measurement."""
    stretches = []

    def progress(done: int, total: int, label: str) -> None:
        stretches.append(label)
        if stretches.count(label) == 2 and label == "on board":
            threading.Timer(0.1, kill_runner, [board]).start()

    report = thinflow.benchmark(
        dense_file(tmp_path),
        device=[thinflow.open_device(board.address, name="board", python=sys.executable), "local"],
        soak=2.5,
        memory=False,
        progress=progress,
    )
    assert [r.device for r in report.rows] == ["board", "local"]
    assert report.devices[0].failure
    assert not report.devices[1].failure
    assert any("these are its runs up to then" in line for line in report.caveats())
    # The next run sweeps what it left.
    with find_device(board.address, python=sys.executable).connect():
        assert len(list(board.home.glob("run-*"))) == 1
    assert not list(board.home.glob("run-*"))


def kill_runner(board: Sshd) -> None:
    (found,) = board.home.glob("run-*")
    os.kill(int(found.name.removeprefix("run-")), signal.SIGKILL)


CLIENT = """\
import sys, time
from thinflow.device.finding import find_device
with find_device(sys.argv[1], python=sys.executable).connect() as there:
    print("there", flush=True)
    time.sleep(60)
"""


@needs_sshd
def test_killed_in_the_middle_nothing_stays(board: Sshd) -> None:
    """This side is killed: the runner there notices, and puts its things away."""
    child = subprocess.Popen([sys.executable, "-c", CLIENT, board.address], stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"there\n"
    assert list(board.home.glob("run-*"))
    child.kill()
    child.communicate()
    end = time.monotonic() + 10
    while time.monotonic() < end and list(board.home.glob("run-*")):
        time.sleep(0.05)
    assert not list(board.home.glob("run-*"))


@needs_sshd
def test_two_runs_at_once(board: Sshd) -> None:
    with find_device(board.address, python=sys.executable).connect():
        error = refused(board.address, python=sys.executable, patience=0.5)
    assert error.problem == "another run is using it"
    assert "--timeout" in error.hint


@needs_sshd
def test_a_login_that_prints(board: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    greeting = 'echo Welcome; echo; eval "$SSH_ORIGINAL_COMMAND"'
    with serving(tmp_path / "sshd", ForceCommand=greeting) as chatty:
        monkeypatch.setenv(COMMAND, chatty.command)
        with find_device(chatty.address, python=sys.executable).connect() as there:
            assert there.facts.machine.cores >= 1


def test_no_ssh_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(COMMAND, "/nowhere/ssh")
    error = refused("ssh:board")
    assert error.problem == "'/nowhere/ssh' does not start: No such file or directory"


def test_ssh_itself_says_what_is_wrong() -> None:
    pi = read_address("pi@board")
    unreachable = "ssh: connect to host board port 22: No route to host\r\n"
    assert explained(unreachable, 255, pi, False)[0] == "it cannot be reached"
    assert explained("Connection to board port 22 timed out\n", 255, pi, False)[0] == "it cannot be reached"
    assert explained("odd\nkex_exchange: reset\n", 255, pi, False) == (
        "ssh did not get there: kex_exchange: reset",
        "see whether you get there by hand: ssh pi@board",
    )
    assert explained("", 9, pi, False)[0] == "its Python is older than 3.9"
    assert explained("", 255, pi, True)[0] == "the connection ended in the middle"
    chatter = "INFO: Created TensorFlow Lite XNNPACK delegate for CPU.\nW0000 00:00 gpu.cc:1] none\n"
    assert explained(chatter, 255, pi, True)[0] == "the connection ended in the middle"


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("board", "board"),
        ("pi@board:2222", "-p 2222 pi@board"),
        ("[fe80::1%eth0]:22", "-p 22 fe80::1%eth0"),
        ("::1", "::1"),
    ],
)
def test_addresses(text: str, typed: str) -> None:
    assert read_address(text).typed == typed
    assert read_address(str(read_address(text)).removeprefix("ssh:")) == read_address(text)


@pytest.mark.parametrize(
    "text", ["", "-oProxyCommand=x", "pi@", "@board", "a:b", "a:0", "a:99999", "[::1", "a b"]
)
def test_addresses_that_are_none(text: str) -> None:
    with pytest.raises(ParameterError, match="is no address"):
        read_address(text)
