"""Spark's settings from outside the program: from spark-submit, the environment, and spark-defaults.conf.

Python's `SparkConf()` is empty until there is a JVM. If spark-submit has started one, it has the settings. If this process still
has to start it, this module finds the settings that the start itself depends on.
"""

import os
import re
import shlex
from pathlib import Path

import pyspark
from pyspark import SparkConf, SparkContext

MASTER = "spark.master"
_PROPERTIES_FILE = "--properties-file"
_OPTIONS = {
    "--master": MASTER,
    "--deploy-mode": "spark.submit.deployMode",
    "--driver-java-options": "spark.driver.extraJavaOptions",
}
_PROPERTY = re.compile(r"\s*([^\s=:#!][^\s=:]*)\s*[\s=:]\s*(.*?)\s*")


def spark_home() -> Path:
    """The folder of the Spark installation that this process starts."""
    return Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)


def has_jvm() -> bool:
    """Whether there already is a JVM: this process had a session before, or was started by spark-submit."""
    return SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ


def jvm_settings() -> dict[str, str]:
    """The settings of the active context, or else of the JVM, which is started if there is none."""
    SparkContext._ensure_initialized()
    context = SparkContext._active_spark_context
    return dict((SparkConf() if context is None else context.getConf()).getAll())


def settings_before_jvm() -> dict[str, str]:
    """The settings that a JVM started here will have, apart from the program's.

    PYSPARK_SUBMIT_ARGS takes precedence over spark-defaults.conf, as in spark-submit.
    """
    given = _from_arguments(shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "")))
    file = given.pop(_PROPERTIES_FILE, None)
    settings = {**_from_file(Path(file) if file else _defaults_file()), **given}
    if MASTER not in settings and os.environ.get("MASTER"):
        settings[MASTER] = os.environ["MASTER"]
    return settings


def _from_arguments(words: list[str]) -> dict[str, str]:
    """The settings in arguments of spark-submit, as far as they affect how a session is created."""
    found = {}
    remaining = iter(words)
    for word in remaining:
        option, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if option not in {"--conf", "-c", _PROPERTIES_FILE, *_OPTIONS}:
            continue
        value = value if equals else next(remaining, "")
        if option in ("--conf", "-c"):
            name, _, value = value.partition("=")
            found[name.strip()] = value.strip()
        else:
            found[_OPTIONS.get(option, option)] = value
    return found


def _defaults_file() -> Path:
    return Path(os.environ.get("SPARK_CONF_DIR") or spark_home() / "conf", "spark-defaults.conf")


def _from_file(file: Path) -> dict[str, str]:
    """The settings in a file of Java properties; empty if the file does not exist, which Spark reports if it is an error."""
    if not file.is_file():
        return {}
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    return {match[1]: match[2] for match in map(_PROPERTY.fullmatch, lines) if match is not None}
