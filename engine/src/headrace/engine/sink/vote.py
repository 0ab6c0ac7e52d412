"""Requests a sink's vote for a transaction, and waits for it."""

from collections.abc import Callable, Sequence

import grpc

from headrace.engine._errors import GatewayAway, SinkAway
from headrace.engine.sink.options import SinkOptions
from headrace.engine.sink.sink_calls import VoteGivenUp, sink_error, sink_retry
from headrace.engine.wire.connection import Connection
from headrace.protocol.v1 import engine_pb2 as pb
from headrace.protocol.v1 import sink_pb2

LOOKS_EVERY_S = 0.2
"""How often somebody who waits for a vote looks whether the query was stopped, in seconds."""


def vote(
    options: SinkOptions,
    connection: Connection,
    transaction: sink_pb2.Transaction,
    parts: Sequence[tuple[sink_pb2.Part, str]],
    run_number: int,
    is_over: Callable[[], bool] = lambda: False,
) -> None:
    """Waits for the sink's vote for a transaction.

    Args:
        options: The options of the sink.
        connection: The gateway.
        transaction: The transaction of the batch.
        parts: The parts of the transaction, each with the instance that has staged it.
        run_number: The number of the run that asks.
        is_over: Whether nobody waits for the vote; asked while it waits.

    Raises:
        VoteGivenUp: Nobody waits for the vote.
        HeadraceError: The sink votes against it, has lost a part, or did not answer until the timeout.
    """
    retry = sink_retry(options, transaction)
    request = pb.VoteRequest(
        sink=options.sink,
        transaction=transaction,
        parts=[part for part, _ in parts],
        instances=[instance for _, instance in parts],
        run_number=run_number,
    )
    while True:
        try:
            _answered(
                connection.stub().Vote.future(request, timeout=options.gateway_timeout_s, metadata=connection.metadata), is_over
            )
        except grpc.RpcError as error:
            meaning = sink_error(error, connection, options.sink, transaction.batch)
            if isinstance(meaning, SinkAway):
                raise SinkAway(
                    f"sink {options.sink} has not answered for {options.gateway_timeout_s:g} s. Is its connector running? "
                    "The option gatewayTimeout sets how long to wait"
                ) from None
            if not isinstance(meaning, GatewayAway):
                raise meaning from None
            if is_over():
                raise VoteGivenUp from None
            retry.wait(meaning)
        else:
            retry.reset()
            return


def _answered(call: "grpc.Future[pb.VoteResponse]", is_over: Callable[[], bool]) -> None:
    """Waits for the answer to a call, or cancels it.

    Raises:
        grpc.RpcError: The call has failed.
        VoteGivenUp: Nobody waits for the answer.
    """
    while True:
        try:
            call.result(timeout=LOOKS_EVERY_S)
        except grpc.FutureTimeoutError:
            if is_over():
                call.cancel()
                raise VoteGivenUp from None
        else:
            return
