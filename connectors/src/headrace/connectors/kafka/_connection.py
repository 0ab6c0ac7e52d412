"""How to reach a Kafka cluster: parameters that source and sink share, and their kafka-python configuration."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, SecretStr, model_validator

from headrace.connectors._parameters import SystemParameters
from headrace.connectors.kafka.client import Client
from headrace.connectors.kafka.oauth import FileTokens, RequestedTokens, requested_tokens
from headrace.connectors.kafka.properties import check_librdkafka, of_client, parsed
from headrace.connectors.kafka.token_endpoint import ClientCredentials

REQUEST_TIMEOUT_S = 10.0
"""How long a broker may take to answer before the request is retried, in seconds."""
BOOTSTRAP_S = 5.0
"""How long to look for a first broker that answers, in seconds."""
MAX_BACKOFF_S = 5.0
"""The longest wait before reconnecting to a broker that was unavailable, in seconds."""

_WITHOUT_USER = ("OAUTHBEARER", "AWS_MSK_IAM")


class KafkaConnection(SystemParameters):
    """How to reach a Kafka cluster."""

    bootstrap_servers: tuple[str, ...] = Field(
        min_length=1,
        description="Initial brokers, HOST:PORT; others are discovered.",
        examples=["127.0.0.1:9092"],
    )
    tls: bool = Field(False, description="Encrypt connections.")
    tls_ca: Path | None = Field(None, description="Trusted certificates, PEM; default: the system's.")
    tls_certificate: Path | None = Field(None, description="The client certificate chain, PEM.")
    tls_key: Path | None = Field(None, description="Its private key, PEM.")
    tls_key_password: SecretStr | None = Field(None, description="The password of the private key.")
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM"] | None = Field(
        None, description="The SASL mechanism; default: no authentication."
    )
    username: str | None = Field(None, description="The user name, for PLAIN and SCRAM.")
    password: SecretStr | None = Field(None, description="The password, for PLAIN and SCRAM.")
    oauth_token_url: str | None = Field(
        None,
        description="For OAUTHBEARER: the URL that issues tokens.",
    )
    oauth_client_id: str | None = Field(None, description="The client id at the endpoint.")
    oauth_client_secret: SecretStr | None = Field(None, description="The client secret at the endpoint.")
    oauth_scope: str | None = Field(None, description="The scope to request.")
    oauth_ca: Path | None = Field(None, description="Trusted certificates of the endpoint, PEM; default: the system's.")
    oauth_token_file: Path | None = Field(None, description="Instead of oauth_token_url: a file with the token.")
    client_properties: dict[str, str] = Field(
        {},
        description="Further settings, by the client library's names.",
    )
    client: Literal["kafka-python", "librdkafka"] = Field(
        "kafka-python", description="The client library; librdkafka needs the extra kafka-librdkafka."
    )
    client_id: str = Field("headrace", description="The client's name in logs, metrics and quotas.")

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        """Rejects combinations that would silently be ignored."""
        for server in self.bootstrap_servers:
            host, _, port = server.rpartition(":")
            if not host or not port.isdecimal():
                raise ValueError(f"bootstrap_servers: {server!r} is not HOST:PORT")
        if not self.tls and (self.tls_ca or self.tls_certificate or self.tls_key):
            raise ValueError("tls_ca, tls_certificate and tls_key require tls = true")
        if self.tls_key and not self.tls_certificate:
            raise ValueError("tls_key needs tls_certificate")
        self._check_login()
        (check_librdkafka if self.client == "librdkafka" else parsed)(self.client_properties)
        return self

    def _check_login(self) -> None:
        """Rejects parameters of a login that are not for its mechanism, or are missing for it."""
        user = (self.username, self.password)
        endpoint = (self.oauth_token_url, self.oauth_client_id, self.oauth_client_secret)
        oauth = (*endpoint, self.oauth_scope, self.oauth_ca, self.oauth_token_file)
        if self.sasl_mechanism in _WITHOUT_USER:
            if any(user):
                raise ValueError(f"{self.sasl_mechanism} uses neither username nor password: remove them")
        elif any((self.sasl_mechanism, *user)) and not all((self.sasl_mechanism, *user)):
            raise ValueError("sasl_mechanism, username and password go together: give all of them, or none")
        if self.sasl_mechanism != "OAUTHBEARER":
            if any(oauth):
                raise ValueError("the parameters oauth_... require sasl_mechanism = OAUTHBEARER")
        elif bool(self.oauth_token_file) == any((*endpoint, self.oauth_scope, self.oauth_ca)) or (
            any(endpoint) and not all(endpoint)
        ):
            raise ValueError(
                "OAUTHBEARER needs either oauth_token_file, or oauth_token_url, oauth_client_id and oauth_client_secret"
            )
        if self.oauth_token_url and not self.oauth_token_url.startswith(("https://", "http://")):
            raise ValueError("oauth_token_url: write it as https://HOST/PATH")
        if self.sasl_mechanism == "AWS_MSK_IAM":
            if self.client == "librdkafka":
                raise ValueError("AWS_MSK_IAM needs client = kafka-python")
            if not self.tls:
                raise ValueError("AWS_MSK_IAM requires tls = true")
            if find_spec("botocore") is None:
                raise ValueError("AWS_MSK_IAM needs a package: pip install 'headrace-connectors[kafka-msk]'")

    @property
    def servers(self) -> str:
        """The initial brokers, for messages."""
        return ", ".join(self.bootstrap_servers)

    @property
    def protocol(self) -> str:
        """Kafka's name for how connections are secured."""
        return ("SASL_" if self.sasl_mechanism else "") + ("SSL" if self.tls else "PLAINTEXT")

    def client_configs(self, client: type) -> dict[str, Any]:
        """Returns the configuration of a kafka-python client of a kind."""
        configs: dict[str, Any] = {
            "kafka_client": Client,
            "bootstrap_servers": list(self.bootstrap_servers),
            "client_id": self.client_id,
            "security_protocol": self.protocol,
            "bootstrap_timeout_ms": int(BOOTSTRAP_S * 1000),
            "request_timeout_ms": int(REQUEST_TIMEOUT_S * 1000),
            "reconnect_backoff_max_ms": int(MAX_BACKOFF_S * 1000),
            **({} if self.client == "librdkafka" else of_client(client, parsed(self.client_properties))),
        }
        if self.tls_ca:
            configs["ssl_cafile"] = str(self.tls_ca)
        if self.tls_certificate:
            configs["ssl_certfile"] = str(self.tls_certificate)
        if self.tls_key:
            configs["ssl_keyfile"] = str(self.tls_key)
        if self.tls_key_password:
            configs["ssl_password"] = self.tls_key_password.get_secret_value()
        if self.sasl_mechanism:
            configs["sasl_mechanism"] = self.sasl_mechanism
        if (tokens := self.tokens()) is not None:
            configs["sasl_oauth_token_provider"] = tokens
        if self.password:
            configs["sasl_plain_username"] = self.username
            configs["sasl_plain_password"] = self.password.get_secret_value()
        return configs

    def tokens(self) -> FileTokens | RequestedTokens | None:
        """Returns what provides the tokens of OAUTHBEARER; None with another mechanism."""
        if self.sasl_mechanism != "OAUTHBEARER":
            return None
        if self.oauth_token_file is not None:
            return FileTokens(self.oauth_token_file)
        secret = self.oauth_client_secret.get_secret_value() if self.oauth_client_secret else ""
        return requested_tokens(
            ClientCredentials(self.oauth_token_url or "", self.oauth_client_id or "", secret, self.oauth_scope, self.oauth_ca)
        )
