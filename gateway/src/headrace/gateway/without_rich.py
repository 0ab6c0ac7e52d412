"""Loads structlog without Rich, which takes a sixth of the gateway's start.

structlog would only format tracebacks with it, and the gateway logs plain ones.
"""

import importlib
import sys


def _load() -> None:
    if "rich" in sys.modules or "structlog" in sys.modules:
        return
    # An import of it fails from here on, as if it were not installed.
    sys.modules["rich"] = None  # type: ignore[assignment]
    try:
        importlib.import_module("structlog")
    finally:
        del sys.modules["rich"]


_load()
