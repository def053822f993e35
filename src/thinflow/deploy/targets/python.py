"""Python: a package that installs with pip."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from thinflow.deploy.contract import PICTURE, SOUND, Contract
from thinflow.deploy.targets import Target, target
from thinflow.deploy.tools import called, python


@target
class Python(Target):
    """A Python package with functions, a command and a self-test, on LiteRT."""

    name = "python"
    assets = "src/%{name}/assets"
    has_alpha = True
    built = ("__pycache__", "build", "dist", ".venv", ".pytest_cache")

    def values(self, contract: Contract) -> Mapping[str, str]:
        packages = ["numpy>=1.23", "ai-edge-litert>=1.0"]
        packages += ["pillow>=9.2"] if contract.main_input.kind == PICTURE else []
        examples = {PICTURE: "picture.jpg", SOUND: "sound.wav"}
        takes = {PICTURE: "pictures", SOUND: "WAV files of 16 bits"}
        kind = contract.main_input.kind
        return {
            "python_dependencies": ", ".join(f'"{package}"' for package in packages),
            "python_example": examples.get(kind, "numbers.npz"),
            "python_takes": takes.get(kind, ".npy or .npz files"),
        }

    def test(self, folder: Path) -> str:
        """In this Python, as the package lies there: nothing is installed."""
        (package,) = [p.parent.name for p in (folder / "src").glob("*/model.py")]
        env = {"PYTHONPATH": str(folder / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
        return called(
            [python(), "-m", package, "--test"], folder, f"PYTHONPATH=src python -m {package} --test", env=env
        )
