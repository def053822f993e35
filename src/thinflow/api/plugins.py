"""Loads files of transforms, and of functions for layers, that somebody else wrote."""

from __future__ import annotations

import importlib.util
import os
import sys
import zlib
from pathlib import Path

from thinflow.errors import ParameterError, ThinflowError, TransformError
from thinflow.rewrite import rule
from thinflow.transforms import ALIASES, names
from thinflow.transforms.pipelines import order_names


def load_plugin(path: str | os.PathLike[str]) -> list[str]:
    """Run a Python file and register the transforms in it; their names. Loading a file again renews them.

    The file is code and may do anything: load only what you trust.

    Args:
        path: the file.

    Raises:
        ParameterError: there is no such file, or a name in it belongs to another transform.
        TransformError: the file cannot be run; names the line.
    """
    file = Path(path)
    if not file.is_file():
        raise ParameterError(f"there is no plug-in {file}", hint="--plugin takes a Python file")
    # By the path: files of the same name are different plug-ins, and the same file again is the same one.
    module_name = f"thinflow_plugin_{zlib.crc32(str(file.resolve()).encode()):08x}"
    before = dict(rule._registry)
    rule._registry.clear()  # so that a name that is taken can be told from one that is renewed
    try:
        _run(file, module_name)
        found = dict(rule._registry)
    finally:
        rule._registry.clear()
        rule._registry.update(before)
    # A plug-in's imports may have registered transforms of thinflow itself.
    made = {name: cls for name, cls in found.items() if not cls.__module__.startswith("thinflow.")}
    for name, cls in made.items():
        other = before.get(name)
        # `names()` lists those that come with thinflow, of which most are not imported yet.
        if name in {*names(), *ALIASES, *order_names()} or (other and other.__module__ != cls.__module__):
            raise ParameterError(f"there is a transform '{name}' already", str(file), "choose another name")
    if not made:
        raise ParameterError(
            f"{file} registers no transform",
            hint='decorate a class with @transform("name") or a function with @register("name")',
        )
    rule._registry.update(found)
    return sorted(made)


def load_layer(text: str) -> str:
    """Run a Python file, and let a function of it say what a Keras layer computes; the layer's name.

    The file is code and may do anything: load only what you trust.

    Args:
        text: `NAME=FILE.py:FUNCTION`, with the name of a Lambda layer or of a custom class.

    Raises:
        ParameterError: it is not of that form, or there is no such file or function.
        TransformError: the file cannot be run; names the line.
    """
    from thinflow.keras.registry import give

    name, equals, place = text.partition("=")
    path, colon, function = place.rpartition(":")
    if not (name and equals and path and colon and function):
        raise ParameterError(f"--lambda {text}: not of the form", hint="write --lambda NAME=FILE.py:FUNCTION")
    file = Path(path)
    if not file.is_file():
        raise ParameterError(
            f"there is no file {file}", hint="--lambda takes a Python file and a function in it"
        )
    module_name = f"thinflow_plugin_{zlib.crc32(str(file.resolve()).encode()):08x}"
    if module_name not in sys.modules:
        _run(file, module_name)
    if not hasattr(sys.modules[module_name], function):
        raise ParameterError(
            f"there is no function '{function}'", str(file), "name one that the file defines"
        )
    give(name, getattr(sys.modules[module_name], function))
    return name


def _run(file: Path, module_name: str) -> None:
    spec = importlib.util.spec_from_file_location(module_name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except ThinflowError as error:
        raise error.at(str(file)) from error
    except SyntaxError as error:
        raise TransformError(
            f"the plug-in is no Python: {error.msg}", f"{file}, line {error.lineno}", "mend the line"
        ) from error
    # A script that ends by `sys.exit` is no reason to end the caller.
    except (Exception, SystemExit) as error:
        raise TransformError(
            f"the plug-in failed: {type(error).__name__}: {error}",
            f"{file}, line {_line_in(file, error)}",
            "a plug-in must be importable",
        ) from error


def _line_in(file: Path, error: BaseException) -> int:
    """The last line of the file that the error came through."""
    line, trace = 0, error.__traceback__
    while trace is not None:
        # Errors may come out of libraries: the line to mend is the last one in the user's file.
        if trace.tb_frame.f_code.co_filename == str(file):
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
