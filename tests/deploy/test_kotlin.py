"""The Kotlin of Android apps is compiled, and its self-test run on a Java machine. Of Android and LiteRT
there are the signatures that the app calls, in tests/deploy/kotlin; JSON is Android's own. The model answers
what it answered in Python, if it is fed the same.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.deploy.app_models import detector, numbers, sound
from thinflow.deploy.sample import png_bytes
from thinflow.ir.types import FLOAT, TensorSpec
from thinflow.quantize.sample_files import sample_of
from thinflow.zoo import digits

SCALING = thinflow.Scaling(mean=3.0, std=16.0, resize=11, crop="center")
_STUBS = Path(__file__).parent / "kotlin"
_JAVA = Path("/usr/share/java")
_JARS = [_JAVA / name for name in ("json-android.jar", "kotlin-stdlib.jar", "kotlin-stdlib-jdk7.jar")]


@pytest.fixture(scope="module", autouse=True)
def tools() -> None:
    if not all(map(shutil.which, ("kotlinc", "java"))) or not all(jar.exists() for jar in _JARS):
        pytest.skip("no Kotlin is here (Debian: apt-get install kotlin libandroid-json-org-java)")


def classpath(*more: Path) -> str:
    return ":".join(map(str, [*_JARS, *more]))


@dataclass(frozen=True)
class Apps:
    """Apps of models of all kinds, and one jar with all of them: each has a package of its own, and the
    compiler takes its time mostly to begin.
    """

    made: dict[str, thinflow.Deployment]
    jar: Path


@pytest.fixture(scope="module")
def apps(tmp_path_factory: pytest.TempPathFactory) -> Apps:
    folder = tmp_path_factory.mktemp("kotlin")
    thinflow.save(digits.build(0), folder / "digits.pb")
    for content in (sound, numbers, detector):
        (folder / f"{content.__name__}.tflite").write_bytes(content())
    made, sources = {}, [*_STUBS.glob("*.kt")]
    for path in sorted(folder.iterdir()):
        one = thinflow.deploy(
            path, folder / path.stem, "android", scaling=SCALING if path.stem == "digits" else None
        )
        main = folder / f"main_{path.stem}" / "Main.kt"
        main.parent.mkdir()
        main.write_text((_STUBS / "Main.kt.in").read_text().replace("PACKAGE", f"com.example.{one.name}"))
        # All of the app's Kotlin but what runs on devices.
        sources += [main, *Path(one.path, "app/src/main/kotlin").glob("*.kt")]
        made[path.stem] = one
    jar = folder / "apps.jar"
    command = ["kotlinc", "-nowarn", "-cp", classpath(), "-d", str(jar), *map(str, sources)]
    # A compiler that runs for seconds is not worth being compiled well itself.
    env = {**os.environ, "JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=env)
    assert done.returncode == 0, done.stderr
    return Apps(made, jar)


def run(made: thinflow.Deployment, jar: Path, *files: Path) -> subprocess.CompletedProcess[str]:
    assets = Path(made.path, "app/src/main/assets")
    command = [
        "java",
        "-cp",
        classpath(jar),
        f"com.example.{made.name}.MainKt",
        str(assets),
        *map(str, files),
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.slow
def test_pictures_are_prepared_and_classified(apps: Apps, tmp_path: Path) -> None:
    made, jar = apps.made["digits"], apps.jar
    pixels = np.random.default_rng(2).integers(0, 256, (17, 40, 1), np.uint8)
    file = tmp_path / "picture.png"
    file.write_bytes(png_bytes(pixels))
    done = run(made, jar, file)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("ok: the sample is prepared as it was: 0 of 64 numbers differ\nok: output")
    assert f"answer: {made.answer}\n" in done.stdout
    wanted = sample_of(file.read_bytes(), ".png", {"x": TensorSpec(FLOAT, (1, 8, 8, 1))}, SCALING, "it")["x"]
    found = np.loadtxt(f"{file}.prepared", dtype=np.float32)
    assert np.abs(found - wanted.ravel()).max() <= 1.001 / 16
    # An answer that changed is seen.
    output = Path(made.path, "app/src/main/assets/selftest/input_0.bin")
    output.write_bytes((np.frombuffer(output.read_bytes(), np.float32) + np.float32(0.2)).tobytes())
    assert run(made, jar).returncode != 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sound", "numbers", "detector"])
def test_other_models(apps: Apps, name: str) -> None:
    made = apps.made[name]
    done = run(made, apps.jar)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"answer: {made.answer}" in done.stdout
