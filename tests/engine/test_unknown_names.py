"""A gateway whose name no server of names knows for a while: a query finds it again soon."""

from collections.abc import Callable

import grpc
import pytest
from tests.deploy.test_link import served, until
from tests.deploy.test_unknown_names import UNKNOWN, Names, names

from headrace.engine.wire.connection import Connection, to_error
from headrace.protocol.v1 import admin_pb2 as pb
from headrace.protocol.v1.admin_pb2_grpc import AdminServiceStub

__all__ = ["names"]


def test_a_query_calls_once_the_name_is_known(names: Callable[[str], Names], monkeypatch: pytest.MonkeyPatch) -> None:
    with served() as gateway:
        name = names(gateway.address)
        connection = Connection(UNKNOWN)
        monkeypatch.setattr(Connection, "_dial", lambda _: name.dial())

        def call() -> bool:
            try:
                AdminServiceStub(connection.channel()).GetStatus(pb.GetStatusRequest(), timeout=60)
            except grpc.RpcError as error:
                to_error(error, connection)
                return False
            return True

        assert not call()
        name.is_known = True
        until(call)
