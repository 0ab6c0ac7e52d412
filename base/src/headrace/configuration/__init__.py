"""Configuration files: TOML with variables, validated by pydantic models. Each problem is reported with file, line and key."""

from headrace.configuration.env_files import read_env_file
from headrace.configuration.errors import ConfigurationError, Problem
from headrace.configuration.file import ConfigurationFile, Flag, Key
from headrace.configuration.lines import key_lines
from headrace.configuration.validation import Duration, Size, takes_duration, takes_size, validated
from headrace.contract.names import nearest

__all__ = [
    "ConfigurationError",
    "ConfigurationFile",
    "Duration",
    "Flag",
    "Key",
    "Problem",
    "Size",
    "key_lines",
    "nearest",
    "read_env_file",
    "takes_duration",
    "takes_size",
    "validated",
]
