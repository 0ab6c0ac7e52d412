"""A Spark Connect server whose clients, in any language, read and write `format("headrace")` without a registration.

Spark Connect's clients have no driver: it is this process, which monitors the queries of all their sessions. Spark creates a
`headrace.engine.SessionQueries` with each session, which asks for a monitor when the first query starts.
"""

import contextlib
import logging
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from headrace.contract.addresses import is_loopback, joined_address
from headrace.contract.errors import HeadraceError
from headrace.engine.spark.connect_defaults import announce_defaults, write_defaults
from headrace.engine.spark.jvm_classes import CHECKPOINTS, JAR, MANAGER, SESSION_QUERIES, chosen_manager, install
from headrace.engine.spark.listener import QueryListener, monitor_session, monitored_sessions
from headrace.engine.spark.session import create_session, defaults_in
from headrace.engine.spark.submission import has_jvm, settings_before_jvm
from headrace.engine.wire.gateway_options import Defaults
from headrace.machine.owned_folder import own_folder

log = logging.getLogger("headrace.engine")

DEFAULT_LISTEN = "127.0.0.1:15002"
"""The port is Spark's own default."""
PREFIX = "headrace-connect-"
"""How the names of folders begin that contain the defaults of a server, its token among them."""
_LISTENERS = "spark.sql.streaming.streamingQueryListeners"
_CLASS_PATH = "spark.driver.extraClassPath"
_HOST, _PORT = "spark.connect.grpc.binding.address", "spark.connect.grpc.binding.port"
AUTHENTICATION = "spark.connect.authenticate.token"


def session_settings(conf: Mapping[str, str]) -> dict[str, str]:
    """The settings that sessions of clients begin with; they add to the user's."""
    told = {**settings_before_jvm(), **conf}
    listeners = [name.strip() for name in told.get(_LISTENERS, "").split(",") if name.strip()]
    found = {_LISTENERS: ",".join(dict.fromkeys([*listeners, SESSION_QUERIES]))}
    paths = [*filter(None, told.get(_CLASS_PATH, "").split(":")), str(JAR)]
    found[_CLASS_PATH] = ":".join(dict.fromkeys(paths))
    return {**conf, **found, **(chosen_manager(told[MANAGER]) if MANAGER in told else {MANAGER: CHECKPOINTS})}


@dataclass(frozen=True)
class ConnectServer:
    """A server that accepts sessions.

    Attributes:
        address: Where it listens, `host:port`.
        spark: The session in whose JVM it runs.
    """

    address: str
    spark: SparkSession

    @property
    def is_alive(self) -> bool:
        """Whether its JVM runs."""
        gateway = self.spark.sparkContext._gateway
        process = getattr(gateway, "proc", None)
        return process is None or process.poll() is None

    def keep_sessions(self) -> None:
        """Keeps the sessions that have queries, for Spark ends any that has heard nothing from its client for an hour."""
        with_queries = {
            str(session._jsparkSession.sessionUUID())
            for session in monitored_sessions()
            if session._jsparkSession.streams().active()
        }
        if not with_queries:
            return
        service, jvm = _service(self.spark).sessionManager(), _jvm(self.spark)
        for each in jvm.scala.jdk.javaapi.CollectionConverters.asJava(service.listActiveSessions()):
            if each.serverSessionId() in with_queries:
                key = jvm.org.apache.spark.sql.connect.service.SessionKey(each.userId(), each.sessionId())
                found = service.getIsolatedSessionIfPresent(key)
                if found.isDefined():
                    found.get().updateAccessTime()

    def stop(self) -> None:
        """Stops the queries of all sessions, then the server: the gateway learns of what was committed.

        A query that does not stop keeps no other from it.
        """
        for session in monitored_sessions():
            for query in session.streams.active:
                try:
                    query.stop()
                except Exception as error:
                    log.warning("query %s does not stop, and ends with Spark: %s", query.name or query.id, error)
        at_once = _jvm(self.spark).scala.Option.empty()
        _service(self.spark).stop(at_once, at_once)


@contextlib.contextmanager
def connect_server(
    host: str,
    port: int,
    master: str | None,
    conf: Mapping[str, str],
    *,
    options: Mapping[str, Any] | None = None,
    quiet: bool = False,
) -> Iterator[ConnectServer]:
    """Serves Spark Connect within the block, from a session that this process creates.

    Args:
        host: Where to listen; anybody who reaches it can run programs as this user, unless a setting demands a token.
        port: The port; 0 for any free one.
        master: Spark's master URL; None for the one from outside the program, else `local[*]`.
        conf: Further Spark settings.
        options: Fields of `Defaults` that differ from what the environment names: how queries reach a gateway.
        quiet: The same as in `build_session`.

    Raises:
        HeadraceError: Spark cannot be started, or cannot listen there.
        OSError: No folder can be made for temporary files.
    """
    if has_jvm():
        raise HeadraceError("this process already has a Spark session: start a Spark Connect server in a process of its own")
    if not is_loopback(host) and AUTHENTICATION not in {**settings_before_jvm(), **conf}:
        raise HeadraceError(
            f"whoever reaches {joined_address(host, port)} could run programs as this user: set {AUTHENTICATION}, or listen at "
            "127.0.0.1"
        )
    with own_folder(Path(tempfile.gettempdir()), PREFIX) as folder:
        file = announce_defaults(folder)
        settings = {**session_settings(conf), _HOST: host, _PORT: str(port)}
        spark = create_session("headrace connect-server", master, settings, quiet=quiet)
        try:
            install(spark)
            # Spark looks for the source once, with the first client's first query: by then, the file is there.
            defaults = replace(defaults_in(spark), **(options or {}))
            write_defaults(file, defaults)
            server = ConnectServer(_start(spark, defaults, host, port), spark)
            try:
                yield server
            finally:
                if server.is_alive:
                    server.stop()
        finally:
            with contextlib.suppress(Py4JError, OSError):
                spark.stop()


def _start(spark: SparkSession, defaults: Defaults, host: str, port: int) -> str:
    """Starts the server in the session's JVM, and returns its address."""
    from pyspark.java_gateway import ensure_callback_server_started

    gateway = spark.sparkContext._gateway
    assert gateway is not None
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    try:
        _jvm(spark).headrace.engine.SessionQueries.monitor(_Monitors(spark, defaults))
        service = _service(spark)
        service.start(spark.sparkContext._jsc.sc())
    except TypeError:
        raise HeadraceError("this Spark has no Spark Connect: its folder `jars` lacks spark-connect") from None
    except Py4JJavaError as error:
        cause = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        raise HeadraceError(f"Spark Connect cannot listen at {joined_address(host, port)}: {cause.getMessage()}") from None
    return joined_address(host, int(service.localPort()))


def _jvm(spark: SparkSession) -> Any:
    return spark._jvm


def _service(spark: SparkSession) -> Any:
    # Scala's object: as a class, Java finds a part of its methods only.
    return getattr(getattr(_jvm(spark).org.apache.spark.sql.connect.service, "SparkConnectService$"), "MODULE$")


class _Monitors:
    """Implements `SessionQueries.Monitors`: creates what monitors the queries of one session."""

    def __init__(self, spark: SparkSession, defaults: Defaults) -> None:
        self._spark = spark
        self._defaults = defaults

    def of(self, session: Any) -> QueryListener:
        """Returns the monitor of a session."""
        return monitor_session(SparkSession(self._spark.sparkContext, session), self._defaults)

    class Java:
        """The Java interface, for py4j."""

        implements = ("headrace.engine.SessionQueries$Monitors",)
