"""The versions of Spark that Headrace supports, each of which the tests have tried."""

import re

import pyspark

from headrace.contract.errors import HeadraceError

SUPPORTED = ("4.2", "4.3")
"""Spark 4.2 is the first that gives a source in Python the offset and the limit to plan from."""


def require_supported(version: str = pyspark.__version__) -> None:
    """Checks the version of PySpark.

    Args:
        version: The version, such as `4.3.0`.

    Raises:
        HeadraceError: It is none of the supported versions.
    """
    numbers = re.match(r"\d+\.\d+", version)
    if numbers is not None and numbers[0] in SUPPORTED:
        return
    raise HeadraceError(
        f"Spark {version} is not supported, only {' and '.join(SUPPORTED)}: install one of them, "
        f"for example pip install 'pyspark~={SUPPORTED[-1]}.0', and choose a cluster with the same version"
    )
