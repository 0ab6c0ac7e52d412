"""How to reach a gateway: the settings that options, keys of configuration files, variables and Spark's options are made of."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting.

    Attributes:
        name: Its name, such as `token_file`: the key of a configuration file, except that `gateway` is a table's `address`.
        description: Its meaning, as the help of commands and the schema of configuration files show it.
    """

    name: str
    description: str

    @property
    def variable(self) -> str:
        """The environment variable of its default."""
        return f"HEADRACE_{self.name.upper()}"

    @property
    def option(self) -> str:
        """The option of commands."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def spark_option(self) -> str:
        """The option of Spark's source and sink."""
        first, *others = self.name.split("_")
        return first + "".join(word.capitalize() for word in others)


GATEWAY = Setting("gateway", "The gateway to call, HOST:PORT.")
TOKEN = Setting("token", "Token to authenticate with.")
TOKEN_FILE = Setting("token_file", "A file that contains the token, such as /dev/fd/3; read again when it has changed.")
TLS = Setting("tls", "Use TLS; implied by the files below.")
TLS_CA = Setting("tls_ca", "PEM: the authority to trust, instead of the authorities of this machine.")
TLS_CERT = Setting("tls_cert", "PEM: the client certificate.")
TLS_KEY = Setting("tls_key", "PEM: its key.")
SETTINGS = (GATEWAY, TOKEN, TOKEN_FILE, TLS, TLS_CA, TLS_CERT, TLS_KEY)
