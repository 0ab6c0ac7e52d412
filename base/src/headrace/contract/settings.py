"""Settings: options of commands, and keys of configuration files. Those of the gateway, of applications and of Spark programs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto


class Form(Enum):
    """How a setting is written as an option."""

    VALUE = auto()
    """With its value."""
    FLAG = auto()
    """Alone, if it is on."""
    SWITCH = auto()
    """As `--name` or `--no-name`; not at all if it is unset."""
    SEVERAL = auto()
    """Once for each of its values."""
    PAIRS = auto()
    """Once for each of its values, as NAME=VALUE."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting.

    Attributes:
        name: Its name, such as `token_file`: the key of a table, and the name of the option unless `flag` is another one.
        meaning: Its meaning.
        default: What holds if it is unset, for people; empty if that is plain.
        form: How it is written as an option.
        flag: The option if it does not have the name; empty otherwise.
    """

    name: str
    meaning: str
    default: str = ""
    form: Form = Form.VALUE
    flag: str = ""

    @property
    def option(self) -> str:
        """The option."""
        return self.flag or f"--{self.name.replace('_', '-')}"

    @property
    def help(self) -> str:
        """Its text in the help of a command."""
        repeats = " Repeatable." if self.form in (Form.SEVERAL, Form.PAIRS) else ""
        return self.meaning + repeats + (f"  [default: {self.default}]" if self.default else "")

    @property
    def description(self) -> str:
        """Its text in the schema of a configuration file."""
        return self.meaning + (f" Default: {self.default}." if self.default else "")

    @property
    def variable(self) -> str:
        """The environment variable of its default, if it has one."""
        return f"HEADRACE_{self.name.upper()}"

    @property
    def spark_option(self) -> str:
        """The option of Spark's source and sink, if there is one."""
        first, *others = self.name.split("_")
        return first + "".join(word.capitalize() for word in others)

    def words(self, value: object) -> list[str]:
        """Returns the option with a value, in words of a command line; none if the setting is unset."""
        if value is None or value is False:
            return [f"--no-{self.option[2:]}"] if value is False and self.form is Form.SWITCH else []
        if value is True:
            return [self.option]
        if isinstance(value, Mapping):
            return [word for name, one in value.items() for word in (self.option, f"{name}={one}")]
        return [word for one in (value if isinstance(value, list) else [value]) for word in (self.option, str(one))]


def _by_name(*settings: Setting) -> Mapping[str, Setting]:
    return {setting.name: setting for setting in settings}


GATEWAY = Setting("gateway", "The gateway to call, HOST:PORT.")
TOKEN = Setting("token", "Token to authenticate with.")
TOKEN_FILE = Setting("token_file", "A file that contains the token, such as /dev/fd/3; read again when it has changed.")
TLS = Setting("tls", "Use TLS; implied by the files below.")
TLS_CA = Setting("tls_ca", "PEM: the authority to trust, instead of the authorities of this machine.")
TLS_CERT = Setting("tls_cert", "PEM: the client certificate.")
TLS_KEY = Setting("tls_key", "PEM: its key.")
OF_CONNECTION = _by_name(GATEWAY, TOKEN, TOKEN_FILE, TLS, TLS_CA, TLS_CERT, TLS_KEY)
"""How to reach a gateway. The key of the gateway itself is `address`, in a table `gateway`."""

OF_GATEWAY = _by_name(
    Setting("config", "A TOML file; the options override it."),
    Setting("listen", "Where to listen, HOST:PORT; port 0 picks a free one.", "127.0.0.1:7433"),
    Setting("insecure", "Allow listening without TLS where others can reach it.", form=Form.FLAG),
    Setting("tls_cert", "PEM: the gateway's certificate."),
    Setting("tls_key", "PEM: its key."),
    Setting("tls_client_ca", "PEM: require client certificates signed by this authority."),
    Setting("buffer_bytes", "Buffer for frames of all sessions.", "128MiB"),
    Setting("max_frame_bytes", "The largest frame accepted.", "4032KiB"),
    Setting("max_sessions", "Maximum number of concurrent sessions.", "2000"),
    Setting("drain_timeout_seconds", "Time to drain messages in flight when stopping.", "10s"),
    Setting("http_listen", "Where to serve HTTP; off for nowhere.", "auto"),
    Setting("log_format", "auto, json or console.", "auto"),
    Setting("log_level", "debug, info, warning or error.", "info"),
)
"""The settings of `headrace gateway`, and the keys of the table `[gateway]`."""

_MASTER = Setting("master", "Spark master URL.", "spark-submit's, else local[*]")
_AVAILABLE_NOW = Setting("available_now", "Process what exists now, then exit.", form=Form.FLAG)
_CONF = Setting("conf", "A Spark setting, such as spark.executor.memory=4g.", form=Form.PAIRS)
VARIABLES = Setting("variables", "Variables that the program itself reads from its environment.", form=Form.SEVERAL)
"""A key of the tables of applications and of Spark programs, which is no option of a command."""

OF_RUN = _by_name(
    Setting("checkpoint", "Where positions and states are kept.", "checkpoints/NAME"),
    Setting("shared_checkpoint", "The checkpoint is on a file system that all cluster nodes mount.", form=Form.FLAG),
    _MASTER,
    Setting("parallelism", "Number of buckets of keys of a new checkpoint."),
    _AVAILABLE_NOW,
    Setting(
        "real_time",
        "Process messages as they arrive, in the driver: at-least-once sinks show results within milliseconds.",
        form=Form.FLAG,
    ),
    Setting("real_time_workers", "Processes that run the steps behind key_by in real-time mode, with the driver.", "1"),
    Setting("trigger_interval", "Interval between micro-batches: 500ms, 5s, 1m. It delays acknowledgements.", "none"),
    Setting("worker_memory", "Memory for states in each Python worker.", "1gb"),
    Setting("finish", "Close all windows once all streams end.", "only in a bounded run", Form.SWITCH),
    Setting("history", "Files of past messages, to read first: [STREAMS=]PATH.", form=Form.SEVERAL),
    Setting(
        "history_columns",
        "A field of past messages and its column: event_time=at:ms, value=*.",
        form=Form.PAIRS,
        flag="--history-column",
    ),
    Setting("until", "The event time at which streams follow the history.", "the end of the history"),
    Setting("then_live", "Continue with the streams after the history.", form=Form.FLAG),
    Setting("drop_states", "Drop the states of a removed step.", form=Form.SEVERAL),
    Setting("migrate_states", "Keep the states of a changed step.", form=Form.SEVERAL),
    Setting("verbose", "Also show Spark's log.", form=Form.FLAG),
    Setting(
        "options",
        "An option of the source or sink, such as maxMessagesPerTrigger=100000.",
        form=Form.PAIRS,
        flag="--option",
    ),
    _CONF,
)
"""The settings of `headrace run`, and the keys of the tables `[pipeline]` and `[application.NAME]`."""

OF_QUERY = _by_name(
    Setting("program", "The program, a Python file."),
    Setting("args", "Its arguments.", form=Form.SEVERAL),
    Setting("pipelines", "The pipelines that it runs, as its option `pipeline` names them.", form=Form.SEVERAL),
    Setting("reads", "The patterns of the streams that it reads, for health while it starts.", form=Form.SEVERAL),
    _MASTER,
    _AVAILABLE_NOW,
    _CONF,
    VARIABLES,
)
"""The keys of the table `[query.NAME]`, a Spark program of the user."""


def clash(
    *,
    available_now: bool,
    trigger_interval: object,
    real_time: bool,
    real_time_workers: int | None,
    history: bool = False,
    until: object = None,
    then_live: bool = False,
    written: Callable[[Setting], str] = lambda setting: setting.name,
) -> str | None:
    """Returns why settings of a run cannot be combined, with each as it is written; None if they can."""
    now, interval, mode, workers = (
        written(OF_RUN[name]) for name in ("available_now", "trigger_interval", "real_time", "real_time_workers")
    )
    if available_now and trigger_interval is not None:
        return f"{now} and {interval} cannot be combined: a bounded run starts each micro-batch immediately"
    if available_now and real_time:
        return f"{now} and {mode} cannot be combined: a bounded run ends when it has read everything"
    own = [written(OF_RUN[name]) for name, given in (("until", until), ("then_live", then_live)) if given]
    if own and not history:
        return f"{own[0]} is for a run with a history: add {written(OF_RUN['history'])}"
    if history and real_time:
        return f"{written(OF_RUN['history'])} and {mode} cannot be combined: tasks read the history"
    if (real_time_workers or 1) > 1 and not real_time:
        return f"{workers} is for real-time mode: add {mode}"
    return None
