"""The texts of statuses: they arrive whatever their length, with their code and their reason."""

import ast
from pathlib import Path

import grpc
import grpc.aio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.wire import DEADLINE_S, serve

import headrace.gateway
from headrace.gateway.core.base.errors import ChangeRefused
from headrace.gateway.statuses import MAX_TEXT_BYTES, cut
from headrace.protocol.v1 import admin_pb2 as pb
from headrace.protocol.v1.admin_pb2_grpc import AdminServiceStub


@given(st.text(max_size=20), st.integers(0, 4_000), st.text(max_size=20))
def test_a_text_keeps_its_beginning_and_its_end_and_fits(begin: str, repeats: int, end: str) -> None:
    text = begin + "é" * repeats + end
    found = cut(text)
    assert len(found.encode(errors="replace")) <= MAX_TEXT_BYTES
    if len(text.encode(errors="replace")) <= MAX_TEXT_BYTES:
        assert found == text
    else:
        assert found.startswith(begin.encode(errors="replace").decode() + "é")
        assert found.endswith("é" + end.encode(errors="replace").decode())


@pytest.mark.parametrize("letter", ["x", "é", "\x01", "\U0001f600"])
async def test_the_longest_error_arrives(letter: str) -> None:
    def refuse() -> list[str]:
        raise ChangeRefused("the configuration is invalid: " + letter * 50_000 + "; correct it")

    async with serve() as (gateway, address), grpc.aio.insecure_channel(address) as channel:
        gateway.reload = refuse
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await AdminServiceStub(channel).Reload(pb.ReloadRequest(), timeout=DEADLINE_S)
    error = failed.value
    assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
    details = error.details() or ""
    assert details.startswith("the configuration is invalid: ")
    assert details.endswith("; correct it")


def test_every_call_ends_by_the_one_function_that_cuts_its_text() -> None:
    root = Path(headrace.gateway.__path__[0])
    for path in root.rglob("*.py"):
        calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)]
        aborts = [node.lineno for node in calls if node.attr == "abort" and ast.unparse(node.value) == "context"]
        assert not aborts or path.name == "statuses.py", f"{path}:{aborts}"
