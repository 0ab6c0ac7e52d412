"""Iceberg tables of a REST catalog: each micro-batch is in the table once, whatever the catalog answers, or does not."""

import contextlib
import http.client
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import Table
from scripts.brokers import Catalog
from tests.engine.lakes import QUERY, SCHEMA, showing, staged
from tests.engine.test_iceberg_lakes import expire

from headrace.engine import LakeError, OlderCheckpoint, compact_lake, iceberg_catalogs
from headrace.engine.checkpoint.lake_batches import LakeBatch
from headrace.engine.history.tables import of_iceberg
from headrace.engine.lakes.compaction import Compaction
from headrace.engine.lakes.iceberg_lake import IcebergLake
from headrace.engine.lakes.places import place_of
from headrace.engine.lakes.tables import naming
from headrace.pipelines import Pipeline
from headrace.pipelines.runtime import Lake

Answer = Callable[[], tuple[int, bytes] | None]
"""Returns a status and a document; None for a connection that ends without them."""
HTML = b"<html>Sign in</html>"


@dataclass
class Proxy:
    """A server between a catalog and its callers. Commits to tables go through `commit`, which may pass them on."""

    url: str
    commit: Callable[[Answer], tuple[int, bytes] | None] = field(default=lambda forward: forward())
    answer: Callable[[Answer], tuple[int, bytes] | None] = field(default=lambda forward: forward())
    """The other requests."""
    request: str = ""
    """The method and the path of the last one."""
    authorization: str = ""
    commits: int = 0


@pytest.fixture
def proxy(catalog: Catalog) -> Iterator[Proxy]:
    class Handler(BaseHTTPRequestHandler):
        def _handle(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            is_commit = self.command == "POST" and "/tables/" in self.path
            found.commits += is_commit
            found.request = f"{self.command} {self.path}"
            found.authorization = self.headers.get("Authorization", "")

            def forward() -> tuple[int, bytes]:
                server = http.client.HTTPConnection(urlsplit(catalog.url).netloc)
                headers = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "accept-encoding")}
                server.request(self.command, self.path, body, headers)
                reply = server.getresponse()
                return reply.status, reply.read()

            answer = (found.commit if is_commit else found.answer)(forward)
            self.close_connection = True
            if answer is not None:
                with contextlib.suppress(ConnectionError):  # a caller that waits no longer
                    self.send_response(answer[0])
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(answer[1])))
                    self.end_headers()
                    self.wfile.write(answer[1] if self.command != "HEAD" else b"")

        do_GET = do_POST = do_HEAD = do_DELETE = _handle

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: the test looks at the table."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found = Proxy(f"http://127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()


def lake_at(path: Path, url: str, namespace: str, **more: Any) -> Lake:
    app = Pipeline("lake")
    options = more.pop("options", {"type": "rest", "uri": url})
    schema = more.pop("schema", SCHEMA)
    app.source("n/*", decode=int).lake(
        path, schema=schema, format="iceberg", table=f"test.{namespace}.numbers", options=options, **more
    )
    return app.graph.lake_steps[0]


@pytest.fixture
def namespace() -> str:
    return f"n{uuid.uuid4().hex}"


@pytest.fixture
def lake(tmp_path: Path, catalog: Catalog, namespace: str) -> Lake:
    return lake_at(tmp_path / "table", catalog.url, namespace)


def table_of(lake: Lake, catalog: Catalog) -> Table:
    return RestCatalog("test", uri=catalog.url).load_table(lake.table.partition(".")[2])


def numbers_in(lake: Lake, catalog: Catalog) -> list[int]:
    return sorted(table_of(lake, catalog).scan().to_arrow().column("n").to_pylist())


def test_a_micro_batch_is_in_a_table_of_a_rest_catalog_once_beside_another_writer(
    lake: Lake, catalog: Catalog, tmp_path: Path
) -> None:
    table, other = IcebergLake(place_of(lake)), IcebergLake(place_of(lake))
    table.prepare(SCHEMA)
    other.prepare(SCHEMA)
    (first,) = staged(lake, 3, 1, [1, 2])
    table_of(lake, catalog).append(pa.table({"n": [10]}, schema=SCHEMA))
    assert [each.show(first) for each in (table, other)] == [True, False]
    table_of(lake, catalog).append(pa.table({"n": [11]}, schema=SCHEMA))
    expire(table_of(lake, catalog))
    assert (table.last_visible(QUERY), other.show(first)) == (3, False)
    (second,) = staged(lake, 4, 1, [4])
    assert other.show(second)
    assert numbers_in(lake, catalog) == [1, 2, 4, 10, 11]
    with pytest.raises(OlderCheckpoint, match="micro-batch 4"):
        showing([lake], tmp_path).resume(QUERY, 4, (), 2)


def test_columns_are_added_and_partitions_and_compaction_work(catalog: Catalog, tmp_path: Path, namespace: str) -> None:
    narrow = lake_at(
        tmp_path / "t", catalog.url, namespace, schema=pa.schema([*SCHEMA, ("half", pa.string())]), partition_by=["half"]
    )
    wide = pa.schema([*SCHEMA, ("half", pa.string()), ("more", pa.string())])
    IcebergLake(place_of(narrow)).prepare(narrow.columns.schema, ["half"])
    table = IcebergLake(place_of(narrow))
    for batch in range(3):
        (written,) = staged(narrow, batch, 1, [batch])
        assert table.show(written)
    table.prepare(wide, ["half"])
    assert table_of(narrow, catalog).schema().column_names == ["n", "half", "more"]
    assert compact_lake(f"iceberg:{narrow.table}", file_bytes=1 << 20, options=narrow.options) == Compaction(3, 1)
    assert numbers_in(narrow, catalog) == [0, 1, 2]


def made_and_lost(forward: Answer) -> None:
    forward()


def not_made_and_lost(forward: Answer) -> None:
    return None


def of(status: int, body: bytes = b"", *, is_made: bool = False) -> Callable[[Answer], tuple[int, bytes]]:
    def answer(forward: Answer) -> tuple[int, bytes]:
        if is_made:
            forward()
        return status, body

    return answer


FAULTS = {
    "made, and the answer lost": made_and_lost,
    "the request lost": not_made_and_lost,
    **{f"{status}, not made": of(status) for status in (401, 403, 429, 500, 502, 503, 504)},
    **{f"{status}, but made": of(status, is_made=True) for status in (500, 502, 503, 504)},
    "made, and a page": of(200, HTML, is_made=True),
    "a page": of(200, HTML),
    "a page that moved": of(404, HTML),
}


def error_of(table: IcebergLake, batch: LakeBatch) -> LakeError | None:
    """Why a micro-batch cannot be shown, as a driver logs it."""
    try:
        with naming(f"lake {batch.path}", ""):
            table.show(batch)
    except LakeError as error:
        return error
    return None


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_rows_are_there_once_after_a_commit_of_which_no_good_answer_comes(
    proxy: Proxy, catalog: Catalog, tmp_path: Path, namespace: str, fault: Any
) -> None:
    lake = lake_at(tmp_path / "table", proxy.url, namespace)
    IcebergLake(place_of(lake)).prepare(SCHEMA)
    (before,) = staged(lake, 0, 1, [1])
    (written,) = staged(lake, 1, 1, [2, 3])
    table = IcebergLake(place_of(lake))
    assert table.show(before)
    faults = iter([fault, fault])
    proxy.commits, proxy.commit = 0, lambda forward: next(faults, lambda forward: forward())(forward)
    errors = list[LakeError]()
    while (error := error_of(table, written)) is not None:
        errors.append(error)
    assert all(f"lake {lake.path}" in str(error) for error in errors)
    assert proxy.commits <= 3
    assert numbers_in(lake, catalog) == [1, 2, 3]
    assert not table.show(written)


@pytest.mark.parametrize("status", [500, 503])
def test_a_catalog_that_never_tells_is_named_and_asked_a_few_times_only(
    proxy: Proxy, catalog: Catalog, tmp_path: Path, namespace: str, status: int
) -> None:
    lake = lake_at(tmp_path / "table", proxy.url, namespace)
    table = IcebergLake(place_of(lake))
    table.prepare(SCHEMA)
    (written,) = staged(lake, 0, 1, [1])
    proxy.commits, proxy.commit = 0, of(status, b'{"error": {"message": "busy", "type": "Busy", "code": 500}}')
    with pytest.raises(LakeError, match=r"micro-batch 0 .*busy"):
        table.show(written)
    assert proxy.commits <= 3


def test_a_catalog_that_does_not_answer_is_named_after_a_while(
    proxy: Proxy, tmp_path: Path, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(iceberg_catalogs, "TIMEOUT_S", 0.2)
    ended = threading.Event()
    proxy.answer = lambda forward: of(200, HTML)(forward) if ended.wait() else None
    lake = lake_at(tmp_path / "table", proxy.url, namespace)
    with_token = {**lake.options, "credential": "user:secret", "oauth2-server-uri": f"{proxy.url}/v1/oauth/tokens"}
    try:
        for options in lake.options, with_token:
            one = lake_at(tmp_path / "table", proxy.url, namespace, options=options)
            with pytest.raises(LakeError, match=r"lake .*cannot be read: .*[Tt]ime"):
                showing([one], tmp_path).resume(QUERY, 0, (), 1)
    finally:
        ended.set()


@pytest.mark.parametrize(("status", "text"), [(401, "Unauthorized"), (403, "Forbidden"), (503, "Unavailable"), (200, "")])
def test_an_error_of_a_catalog_names_the_table_at_the_start(
    proxy: Proxy, tmp_path: Path, namespace: str, status: int, text: str
) -> None:
    proxy.answer = of(status, HTML if status == 200 else b"")
    with pytest.raises(LakeError, match=rf"lake {tmp_path}/table: its catalog cannot be read: .*{text}"):
        IcebergLake(place_of(lake_at(tmp_path / "table", proxy.url, namespace))).last_visible(QUERY)


@dataclass
class Tokens:
    """The answers of a catalog that gives tokens: only the newest opens it."""

    proxy: Proxy
    expired: int
    """The status of its answer to any other token."""
    given: int = 0
    is_revoked: bool = False

    def answer(self, forward: Answer) -> tuple[int, bytes] | None:
        if self.proxy.request == "POST /v1/oauth/tokens":
            self.given += 1
            self.is_revoked = False
            return 200, f'{{"access_token": "t{self.given}", "token_type": "bearer", "expires_in": 3600}}'.encode()
        if self.is_revoked or self.proxy.authorization != f"Bearer t{self.given}":
            return self.expired, b'{"error": {"message": "the token has expired", "type": "Expired", "code": 401}}'
        return forward()


@pytest.mark.parametrize("expired", [401, 419])
def test_a_token_that_expires_while_a_query_runs_is_replaced_by_a_new_one(
    proxy: Proxy, catalog: Catalog, tmp_path: Path, namespace: str, expired: int
) -> None:
    tokens = Tokens(proxy, expired)
    proxy.commit = proxy.answer = tokens.answer
    options = {"type": "rest", "uri": proxy.url, "credential": "user:secret", "oauth2-server-uri": f"{proxy.url}/v1/oauth/tokens"}
    lake = lake_at(tmp_path / "table", proxy.url, namespace, options=options)
    table = IcebergLake(place_of(lake))
    table.prepare(SCHEMA)
    for batch in range(3):
        tokens.is_revoked = True
        (written,) = staged(lake, batch, 1, [batch])
        assert table.show(written)
    assert numbers_in(lake, catalog) == [0, 1, 2]
    assert tokens.given >= 4


@pytest.mark.parametrize("properties", [{"token": "secret-a"}, {"credential": "user:secret-b"}, {}])
def test_a_catalog_that_refuses_a_token_is_named_without_the_secret(
    proxy: Proxy, tmp_path: Path, namespace: str, properties: dict[str, str]
) -> None:
    proxy.commit = proxy.answer = of(401, b'{"error": {"message": "who are you?", "type": "NotAuthorized", "code": 401}}')
    options = {"type": "rest", "uri": proxy.url, "oauth2-server-uri": f"{proxy.url}/v1/oauth/tokens", **properties}
    lake = lake_at(tmp_path / "table", proxy.url, namespace, options=options)
    with pytest.raises(LakeError, match=rf"lake {tmp_path}/table: its catalog cannot be read: .*(401|who are you)") as refused:
        IcebergLake(place_of(lake)).last_visible(QUERY)
    assert "secret" not in str(refused.value) + repr(lake)


def test_a_namespace_that_exists_need_not_be_made(proxy: Proxy, catalog: Catalog, tmp_path: Path, namespace: str) -> None:
    """Who may create tables may often create no namespaces."""
    proxy.answer = lambda forward: of(403)(forward) if proxy.request == "POST /v1/namespaces" else forward()
    lake = lake_at(tmp_path / "table", proxy.url, namespace)
    with pytest.raises(LakeError, match="ForbiddenError"):
        IcebergLake(place_of(lake)).prepare(SCHEMA)
    RestCatalog("test", uri=catalog.url).create_namespace(namespace)
    IcebergLake(place_of(lake)).prepare(SCHEMA)
    assert numbers_in(lake, catalog) == []


def test_a_catalog_is_found_in_the_environment_and_in_the_file_of_pyiceberg(
    lake: Lake, catalog: Catalog, tmp_path: Path, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = IcebergLake(place_of(lake))
    table.prepare(SCHEMA)
    (written,) = staged(lake, 0, 1, [1])
    assert table.show(written)
    (tmp_path / ".pyiceberg.yaml").write_text(f"catalog:\n  test:\n    type: rest\n    uri: {catalog.url}\n")
    for variables in (
        {"PYICEBERG_CATALOG__TEST__URI": catalog.url},
        {"PYICEBERG_CATALOG__TEST__URI": catalog.url, "PYICEBERG_CATALOG__TEST__TYPE": "REST"},
        {"PYICEBERG_HOME": str(tmp_path)},
    ):
        with monkeypatch.context() as patched:
            for name, value in variables.items():
                patched.setenv(name, value)
            found = lake_at(tmp_path / "table", catalog.url, namespace, options={})
            assert IcebergLake(place_of(found)).last_visible(QUERY) == 0
            assert len(list(of_iceberg(f"iceberg:{lake.table}"))) == 1


def test_two_drivers_append_a_micro_batch_once(proxy: Proxy, catalog: Catalog, tmp_path: Path, namespace: str) -> None:
    """The commit of one arrives while the other one's waits, after both have read the table."""
    lake = lake_at(tmp_path / "table", proxy.url, namespace)
    table, other = IcebergLake(place_of(lake)), IcebergLake(place_of(lake_at(tmp_path / "table", catalog.url, namespace)))
    table.prepare(SCHEMA)
    (written,) = staged(lake, 0, 1, [1])
    done = list[bool]()

    def after_the_other(forward: Answer) -> tuple[int, bytes] | None:
        if not done:
            done.append(other.show(written))
        return forward()

    proxy.commit = after_the_other
    assert (table.show(written), done, numbers_in(lake, catalog)) == (False, [True], [1])


def test_a_kill_between_any_two_requests_leaves_a_table_that_the_next_start_completes(
    proxy: Proxy, catalog: Catalog, tmp_path: Path, namespace: str
) -> None:
    """A driver that dies is one of whose requests the last one is answered to nobody, and after which none follows."""
    for survives in range(40):
        lake = lake_at(tmp_path / str(survives), proxy.url, f"{namespace}_{survives}")
        left = [survives]

        def kill_at(forward: Answer, left: list[int] = left) -> tuple[int, bytes] | None:
            left[0] -= 1
            if left[0] == 0:
                forward()
            return forward() if left[0] > 0 else None

        proxy.commit = proxy.answer = kill_at
        written: LakeBatch | None = None
        with contextlib.suppress(LakeError, OSError):
            table = IcebergLake(place_of(lake))
            table.prepare(SCHEMA)
            (written,) = staged(lake, 0, 1, [1, 2])
            table.show(written)
        proxy.commit = proxy.answer = lambda forward: forward()
        restarted = IcebergLake(place_of(lake))
        restarted.prepare(SCHEMA)
        if written is None:
            (written,) = staged(lake, 0, 2, [1, 2])
        restarted.show(written)
        assert numbers_in(lake, catalog) == [1, 2]
        if left[0] > 0:
            break
    else:
        pytest.fail("each run was killed")
