"""coremltools, imported when it is asked for, and quietly."""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

from thinflow.errors import EngineUnavailable

NOT_RUN = "Core ML itself runs only on a Mac, so it was not run here"
_EXTRA = "pip install 'thinflow[coreml]'"


@functools.cache
def coremltools() -> Any:
    """The package. The first call takes seconds.

    Raises:
        EngineUnavailable: it is not installed, or cannot be imported.
    """
    if find_spec("coremltools") is None:
        raise EngineUnavailable("coremltools is not installed, which writes Core ML's packages", hint=_EXTRA)
    with quiet():
        try:
            import coremltools as package
        # Its libraries may have been built for another Python or processor.
        except (ImportError, OSError, RuntimeError) as error:
            raise EngineUnavailable(
                f"coremltools cannot be imported: {str(error).splitlines()[0] if str(error) else error!r}",
                hint=f"install it anew: {_EXTRA}",
            ) from error
    return package


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keeps off the terminal what it says there.

    On Linux it has no Core ML to load and says so for each class; each conversion draws bars; and it warns of
    versions of frameworks that are not used.
    """
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with _bars_without_thread(), warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


@contextlib.contextmanager
def _bars_without_thread() -> Iterator[None]:
    """Keeps tqdm from the thread that watches its bars: it never ends, and who has threads cannot fork."""
    try:
        from tqdm import tqdm
    except ImportError:  # coremltools, which needs it, is missing as well
        yield
        return
    before, tqdm.monitor_interval = tqdm.monitor_interval, 0
    try:
        yield
    finally:
        tqdm.monitor_interval = before
