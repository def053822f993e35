"""Android: an app in Kotlin with Gradle, on LiteRT's CompiledModel."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar
from xml.sax.saxutils import escape

from thinflow.deploy.contract import PICTURE, SOUND, Contract
from thinflow.deploy.end_types import require_types
from thinflow.deploy.targets import Target, target
from thinflow.deploy.tools import called
from thinflow.errors import EngineUnavailable

AGP, GRADLE, LITERT = "9.1.0", "9.3.1", "2.3.0"
"""Of the Android Gradle plugin, the Gradle that it asks for, and LiteRT in Google's Maven repository."""
_KEYWORDS = frozenset(
    (
        *(
            "as",
            "break",
            "continue",
            "do",
            "else",
            "false",
            "for",
            "fun",
            "if",
            "in",
            "interface",
            "is",
            "null",
        ),
        *("object", "return", "super", "this", "throw", "true", "try", "typealias", "typeof", "val", "var"),
        *("when", "while"),
    )
)
_PURE = {PICTURE: "`kotlin/Picture.kt`", SOUND: "`kotlin/Sound.kt`"}


@target
class Android(Target):
    """An Android app in Kotlin, with Gradle, on LiteRT."""

    name = "android"
    assets = "app/src/main/assets"
    built = ("build", ".gradle", ".idea", "local.properties", "gradlew", "gradlew.bat", "gradle-wrapper.jar")
    has_open_batch = False
    limit: ClassVar[str] = (
        "not built here: in the tests of thinflow such Kotlin is compiled by Kotlin 1.3 and passes its"
        " self-test on a Java machine, beside signatures of Android and LiteRT; with Google's SDK, LiteRT"
        " itself and a device none was ever built or run: `./gradlew connectedAndroidTest` does that"
    )

    def check(self, contract: Contract) -> None:
        """Raises UnsupportedOp where LiteRT's Kotlin cannot hand over what goes in or comes out."""
        require_types(contract, ("float32", "int32", "int8", "uint8"), f"LiteRT {LITERT} for Kotlin")

    def values(self, contract: Contract) -> Mapping[str, str]:
        # A package needs two parts at least, and nobody owns this first one.
        kind = contract.main_input.kind
        return {
            "package": f"com.example.{contract.name}{'_app' if contract.name in _KEYWORDS else ''}",
            "title_xml": _android_text(contract.title),
            "agp": AGP,
            "gradle": GRADLE,
            "litert": LITERT,
            "origin": contract.test.origin,
            "pure": _PURE.get(kind, "`kotlin/Tensor.kt`"),
            "limit": f"{self.limit[:1].upper()}{self.limit[1:]}.",
        }

    def test(self, folder: Path) -> str:
        """Build the app and run its self-test on the device that adb sees."""
        # The wrapper is a binary, which is made on the spot and not shipped.
        gradle = folder / "gradlew" if (folder / "gradlew").exists() else shutil.which("gradle")
        if gradle is None or not (os.environ.get("ANDROID_HOME") or (folder / "local.properties").exists()):
            what = "gradle" if gradle is None else "the Android SDK in ANDROID_HOME"
            raise EngineUnavailable(
                f"the self-test needs {what}, which is not here, and a device that adb sees",
                hint="open the folder in Android Studio, and run SelfTestOnDevice there",
            )
        return called([gradle, "connectedAndroidTest"], folder, "gradle connectedAndroidTest")

    def next(self, folder: str) -> str:
        return f"cd {folder} && gradle wrapper --gradle-version {GRADLE} && ./gradlew connectedAndroidTest"


def _android_text(text: str) -> str:
    """A text as an Android resource has it."""
    # aapt reads quotes and backslashes itself, after the XML parser has read its own.
    escaped = escape(text.replace("\\", "\\\\").replace("'", "\\'").replace('"', '\\"'))
    # At the beginning these would refer to other resources.
    return f"\\{escaped}" if escaped[:1] in ("@", "?") else escaped
