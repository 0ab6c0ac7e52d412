"""Classes that a program defines itself reach Spark's workers, though msgspec keeps in them what cannot be sent."""

import subprocess
import sys
from pathlib import Path

import pytest

# What msgspec has read or written in this process, such as when a Pipeline checks its formats, stays in its class.
PROGRAM = """
import sys
from dataclasses import dataclass
from enum import Enum
from typing import Generic, NamedTuple, TypedDict, TypeVar

import msgspec
from pyspark import cloudpickle

from headrace.engine.applications.shipping.ship import send_program_classes


class Side(Enum):
    BUY = "buy"


class Pair(NamedTuple):
    first: int
    side: Side


class Told(TypedDict):
    pair: Pair


@dataclass
class Order:
    told: Told


T = TypeVar("T")


@dataclass
class Some(Generic[T]):
    value: T


class Row(msgspec.Struct):
    value: int


send_program_classes()
send_program_classes()
order = Order({"pair": Pair(1, Side.BUY)})
for kind in (Side, Pair, Told, Order, Some[int]):
    msgspec.json.Decoder(kind)
with open(sys.argv[1], "wb") as file:
    file.write(cloudpickle.dumps([(Order, order), (Some, Some(2))]))
try:
    cloudpickle.dumps(Row)
except Exception as error:
    print(error)
"""
WORKER = """
import pickle, sys
import msgspec

for kind, value in pickle.load(open(sys.argv[1], "rb")):
    print(msgspec.json.encode(value).decode(), msgspec.json.decode(msgspec.json.encode(value), type=kind) == value)
"""


@pytest.fixture
def sent(tmp_path: Path) -> Path:
    return tmp_path / "sent"


def test_a_worker_reads_and_writes_values_of_classes_of_the_program(tmp_path: Path, sent: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    refused = subprocess.run([sys.executable, program, sent], check=True, capture_output=True, text=True, timeout=120).stdout
    assert refused.startswith(
        "Row is a Struct of the program itself, and Spark's workers cannot import it; define it in a module"
    )
    worker = subprocess.run([sys.executable, "-c", WORKER, sent], check=True, capture_output=True, text=True, timeout=120)
    assert worker.stdout.splitlines() == ['{"told":{"pair":[1,"buy"]}} True', '{"value":2} True']
