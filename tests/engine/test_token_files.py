"""Queries whose token is in a file: which file counts, and what a refusal means after the token was replaced."""

import pickle
from concurrent import futures
from pathlib import Path

import grpc
import pytest

from headrace.contract.token_files import TokenFile
from headrace.engine import OptionError
from headrace.engine._errors import GatewayAway, NotAllowed
from headrace.engine.source.options import parse
from headrace.engine.wire.connection import Connection, to_error
from headrace.engine.wire.gateway_options import Defaults
from headrace.protocol.v1 import engine_pb2 as pb

ORDERS = {"stream": "orders/*"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    replace(file, "first")
    return file


def replace(file: Path, token: str) -> None:
    new = file.with_suffix(".new")
    new.write_text(token)
    new.chmod(0o600)
    new.replace(file)


def sent(connection: Connection) -> str:
    ((_, value),) = connection.metadata
    return value


def test_the_file_of_the_option_precedes_that_of_the_environment_and_both_their_tokens(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    replace(other, "other")
    defaults = Defaults(token="variable", token_file=TokenFile(other))
    for given, expected in (
        ({"tokenFile": str(file)}, "first"),
        ({"token": "option"}, "option"),
        ({}, "other"),
    ):
        assert sent(Connection.of(parse({**ORDERS, **given}, defaults))) == f"Bearer {expected}"
    assert sent(Connection.of(parse(ORDERS, Defaults(token="variable")))) == "Bearer variable"
    with pytest.raises(OptionError, match="token and tokenFile exclude each other"):
        parse({**ORDERS, "token": "x", "tokenFile": str(file)}, defaults)
    with pytest.raises(OptionError, match=r"option tokenFile: .*: there is no such file"):
        parse({**ORDERS, "tokenFile": str(tmp_path / "absent")}, defaults)


def test_a_call_sends_the_token_that_the_file_has_then_and_executors_without_it_the_last_one(file: Path) -> None:
    connection = Connection.of(parse({**ORDERS, "tokenFile": str(file)}, Defaults()))
    replace(file, "second")
    assert sent(connection) == "Bearer second"
    elsewhere = pickle.loads(pickle.dumps(connection))
    assert elsewhere == connection
    file.unlink()
    assert sent(elsewhere) == "Bearer second"
    assert "second" not in repr(connection)


def test_a_refusal_is_an_absence_only_after_the_token_was_replaced(file: Path) -> None:
    """A call that began with the earlier token ends when that is revoked, and is made again."""

    class Refuses(grpc.GenericRpcHandler):
        def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
            def refuse(request: bytes, context: grpc.ServicerContext) -> bytes:
                context.abort(grpc.StatusCode.UNAUTHENTICATED, "not known")
                raise AssertionError

            return grpc.unary_unary_rpc_method_handler(refuse)

    server = grpc.server(futures.ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers((Refuses(),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        connection = Connection(f"127.0.0.1:{port}", token_file=TokenFile(file))

        def refused() -> Exception:
            with pytest.raises(grpc.RpcError) as error:
                connection.stub().Renew(pb.RenewRequest(), timeout=60, metadata=connection.metadata)
            return to_error(error.value, connection)

        assert type(refused()) is NotAllowed
        replace(file, "second")
        assert type(refused()) is GatewayAway
    finally:
        connection.channel().close()
        server.stop(None).wait()
