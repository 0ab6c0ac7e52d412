"""The version that bundled connectors report, which is the version of their distribution."""

from importlib.metadata import version

VERSION = version("headrace-connectors")
