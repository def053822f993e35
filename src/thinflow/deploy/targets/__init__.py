"""Platforms: each a class in a file of this folder, found by being there.

    @target
    class Linux(Target):
        \"\"\"A C++ program with CMake.\"\"\"

        name = "linux"

The file has the name of the target, with _ for -; its texts lie in `templates/` under that name, see
`filling.py`.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from thinflow.errors import ParameterError, closest

if TYPE_CHECKING:  # completion asks for the names of targets, and numpy would come along
    from thinflow.deploy.contract import Contract


class Target:
    """A platform; its docstring says in a line what is made for it.

    Attributes:
        name: as users write it.
        templates: folders of `templates/` that it takes, the later ones before the earlier; () for its name.
        assets: the folder that gets model.json, the model, its labels and the self-test's files; may have
            %{name} of the contract.
        built: names of files and folders that builds and tests leave behind: they do not keep a folder from
            being made anew.
        has_open_batch: whether its runtime takes a batch of 1 from a model that leaves that open; else the
            model is written anew for a batch of 1.
        limit: how far what is made was never tried, and what tries it; "" if it is built and run.
        has_alpha: whether its apps can be fed pictures with transparency.
        is_c: whether the model is plain C there, see `c_target.py`.
    """

    name: ClassVar[str]
    templates: ClassVar[tuple[str, ...]] = ()
    assets: ClassVar[str] = ""
    built: ClassVar[tuple[str, ...]] = ()
    has_open_batch: ClassVar[bool] = True
    limit: ClassVar[str] = ""
    is_c: ClassVar[bool] = False
    has_alpha: ClassVar[bool] = False

    @property
    def title(self) -> str:
        """What is made for it, in a line."""
        return inspect.cleandoc(type(self).__doc__ or "").partition("\n")[0].rstrip(".")

    def check(self, contract: Contract) -> None:
        """Refuse what cannot run there, with a ThinflowError, before anything is written."""

    def values(self, contract: Contract) -> Mapping[str, str]:
        """What its templates ask for beyond `filling.common_values`."""
        return {}

    def files(self, contract: Contract) -> Mapping[str, str | bytes]:
        """Path below the folder -> content, of files that no template makes."""
        return {}

    def test(self, folder: Path) -> str:
        """Build what lies in a folder and run its self-test; what it printed.

        Raises:
            EngineUnavailable: a tool is not here.
            VerificationError: the answer is another.
        """
        raise NotImplementedError

    def model_file(self, contract: Contract) -> str:
        """Path of the model below the folder."""
        front = f"{self.assets.replace('%{name}', contract.name)}/" if self.assets else ""
        return f"{front}{contract.file}"

    def next(self, folder: str) -> str:
        """The command to try next."""
        return f"thinflow deploy {folder} --test"

    def after_test(self, folder: str, model: str, contract: Mapping[str, Any]) -> str:
        """The command to try once the self-test has passed.

        Args:
            folder: that was made.
            model: path of the model in it.
            contract: the content of its model.json.
        """
        return f"thinflow inspect {folder}/{model}"


T = TypeVar("T", bound=type[Target])
_TARGETS: dict[str, Target] = {}


def target(cls: T) -> T:
    """Decorator that makes a class a target under its name."""
    _TARGETS[cls.name] = cls()
    return cls


def targets() -> list[Target]:
    """All targets, by name."""
    return [find(name) for name in target_names()]


def target_names() -> list[str]:
    """The names of all targets, without importing them."""
    return sorted(module.name.replace("_", "-") for module in pkgutil.iter_modules(__path__))


def find(name: str) -> Target:
    """A target by its name.

    Raises:
        ParameterError: there is none; the hint has the closest.
    """
    known = target_names()
    if name not in known:
        hint = closest(name, known) or f"there are: {', '.join(known)}"
        raise ParameterError(f"there is no target '{name}'", hint=hint)
    importlib.import_module(f"{__name__}.{name.replace('-', '_')}")
    return _TARGETS[name]
