"""What a driver reports as the reason why its run makes no progress."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.engine.lost_executor import Status
from tests.gateway.processes import gateway_process

from headrace.connectors import FileSink, FileSource, SinkFormat
from headrace.engine import start
from headrace.engine.spark._run_faults import cause_of
from headrace.pipelines import Pipeline

ROOT = Path(__file__).parents[2]


def price(line: str) -> str:
    if line == "bad":
        raise ValueError("no price in 'bad'")
    return line


def priced() -> Pipeline:
    app = Pipeline("priced")
    app.source("n/*", decode=str).map(price).sink("out")
    return app
