"""A process that calls gRPC can be forked, as PySpark does to start Spark's JVM."""

import asyncio
import os
import subprocess
import sys

import grpc
import pytest
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from headrace.contract import VARIABLE, leave_forks_alone

ENTRIES = (
    "headrace.cli",
    "headrace.cli.spark_program",
    "headrace.connectors_cli.run",
    "headrace.conformance",
    "headrace.deploy.supervisor",
    "headrace.doctor.gateway",
    "headrace.engine",
    "headrace.engine.wire.connection",
    "headrace.gateway.server",
    "headrace.gateway_cli.status",
    "headrace.pipelines.runtime",
    "headrace.protocol.v1.source_pb2_grpc",
    "headrace.sdk",
)
"""Modules that our programs, or users' programs, import first."""
LOOKS = """
import importlib, os, sys
from importlib.abc import MetaPathFinder

class Look(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "grpc":
            sys.stdout.write(os.environ.get("VARIABLE", "unset"))
            sys.stdout.flush()
            os._exit(0)

sys.meta_path.insert(0, Look())
importlib.import_module(sys.argv[1])
import grpc
""".replace("VARIABLE", VARIABLE)
"""Prints the variable as gRPC finds it once the module, or the program after it, imports gRPC."""


async def test_a_fork_beside_running_calls_lives() -> None:
    server = grpc.aio.server()
    health_pb2_grpc.add_HealthServicer_to_server(health.aio.HealthServicer(), server)
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()

    async def call() -> None:
        async with grpc.aio.insecure_channel(address) as channel:
            while True:
                await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())

    def fork() -> int:
        return subprocess.run(["true"], preexec_fn=lambda: None, check=False).returncode

    calls = [asyncio.create_task(call()) for _ in range(4)]
    try:
        assert [await asyncio.to_thread(fork) for _ in range(60)] == [0] * 60
    finally:
        for one in calls:
            one.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        await server.stop(None)


@pytest.mark.parametrize("module", ENTRIES)
def test_grpc_leaves_forks_alone_whatever_a_program_imports_first(module: str) -> None:
    environ = {name: value for name, value in os.environ.items() if name != VARIABLE}
    looked = subprocess.run([sys.executable, "-c", LOOKS, module], env=environ, capture_output=True, text=True, check=False)
    assert looked.stdout == "0", looked.stderr


def test_what_a_user_has_decided_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    leave_forks_alone()
    assert VARIABLE not in os.environ, "gRPC has been imported"
    monkeypatch.delitem(sys.modules, "grpc")
    monkeypatch.setenv(VARIABLE, "1")
    leave_forks_alone()
    assert os.environ[VARIABLE] == "1"
    monkeypatch.delenv(VARIABLE)
    leave_forks_alone()
    assert os.environ[VARIABLE] == "0"
