"""The process of the tests can be forked while calls of gRPC run in it, as PySpark does to start Spark's JVM."""

import asyncio
import subprocess

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc


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
