"""`python -m thinflow` is `thinflow`."""

from __future__ import annotations

import sys

from thinflow.cli import main

if __name__ == "__main__":
    sys.exit(main())
