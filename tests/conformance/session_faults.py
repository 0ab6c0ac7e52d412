"""Faults that sources and sinks can have alike, by the name of the check that must catch them."""

import argparse
import asyncio

import grpc
import grpc.aio
from tests.conformance.connector import Connector, Ended


class ForgetsItsToken(Connector):
    def metadata(self) -> tuple[tuple[str, str], ...]:
        return ()


class InsistsOnItsVersion(Connector):
    def transient(self, error: grpc.aio.AioRpcError) -> bool:
        return super().transient(error) or error.code() is grpc.StatusCode.FAILED_PRECONDITION


class InsistsOnItsToken(Connector):
    def transient(self, error: grpc.aio.AioRpcError) -> bool:
        return super().transient(error) or error.code() is grpc.StatusCode.UNAUTHENTICATED


class FightsForItsPlace(Connector):
    def transient(self, error: grpc.aio.AioRpcError) -> bool:
        return super().transient(error) or error.code() is grpc.StatusCode.ABORTED


class GivesUpWhereTheGatewayIsSlow(Connector):
    def transient(self, error: grpc.aio.AioRpcError) -> bool:
        return super().transient(error) and error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED


class ReconnectsAtOnce(Connector):
    async def back_off(self, bound: float) -> float:
        await asyncio.sleep(0.02)
        return bound


class KeepsItsReasonToItself(Connector):
    def tell(self, error: grpc.aio.AioRpcError) -> None:
        print("the gateway has refused the session", file=self.log)


class EndsAtUnknownMessages(Connector):
    def unknown(self) -> None:
        raise Ended


class HasANewNameEachTime(Connector):
    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__(options)
        self.instance = f"raw-connector-{self.start_id}"


class IgnoresSigterm(Connector):
    def stop(self) -> None:
        if self.state != "serving":
            super().stop()


class WaitsForWelcome(Connector):
    def stop(self) -> None:
        if self.state != "greeting":
            super().stop()


class WaitsForTheGateway(Connector):
    def stop(self) -> None:
        if self.state != "away":
            super().stop()


SESSION_FAULTS: dict[str, type[Connector]] = {
    "token": ForgetsItsToken,
    "version-refused": InsistsOnItsVersion,
    "refused": InsistsOnItsToken,
    "taken-over": FightsForItsPlace,
    "reconnects": GivesUpWhereTheGatewayIsSlow,
    "backoff": ReconnectsAtOnce,
    "refusal-told": KeepsItsReasonToItself,
    "unknown-message": EndsAtUnknownMessages,
    "instance": HasANewNameEachTime,
    "shutdown": IgnoresSigterm,
    "shutdown-unwelcomed": WaitsForWelcome,
    "shutdown-gateway-away": WaitsForTheGateway,
}
