"""How to reach a Kafka cluster: parameters that source and sink share, and what kafka-python makes of them."""

from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, SecretStr, model_validator

from headrace.connectors._parameters import Parameters
from headrace.connectors.kafka._client import Client
from headrace.connectors.kafka._logs import tame

REQUEST_TIMEOUT_SECONDS = 10.0
"""How long a broker may take for an answer before it is asked again."""
BOOTSTRAP_SECONDS = 5.0
"""How long to look for a first broker that answers."""
MAX_BACKOFF_SECONDS = 5.0
"""How long to wait at most before a broker that was away is looked for again."""

tame()


class KafkaConnection(Parameters):
    """How to reach a Kafka cluster."""

    bootstrap_servers: tuple[str, ...] = Field(
        min_length=1,
        description="Brokers to begin with, HOST:PORT each; they tell of the others.",
        examples=["127.0.0.1:9092"],
    )
    tls: bool = Field(False, description="Encrypt connections.")
    tls_ca: Path | None = Field(None, description="Certificates to trust, PEM; those of the system where not given.")
    tls_certificate: Path | None = Field(None, description="This client's own certificate chain, PEM.")
    tls_key: Path | None = Field(None, description="The private key that belongs to it, PEM.")
    tls_key_password: SecretStr | None = Field(None, description="What the private key is encrypted with.")
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = Field(
        None, description="How to log in; without it there is no login."
    )
    username: str | None = Field(None, description="Who logs in.")
    password: SecretStr | None = Field(None, description="Their password.")
    client_id: str = Field("headrace", description="What the brokers' logs, metrics and quotas call this client.")

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        """Refuses what would be silently left out."""
        for server in self.bootstrap_servers:
            host, _, port = server.rpartition(":")
            if not host or not port.isdecimal():
                raise ValueError(f"bootstrap_servers: {server!r} is not HOST:PORT")
        if not self.tls and (self.tls_ca or self.tls_certificate or self.tls_key):
            raise ValueError("tls_ca, tls_certificate and tls_key mean nothing without tls = true")
        if self.tls_key and not self.tls_certificate:
            raise ValueError("tls_key needs tls_certificate")
        login = (self.sasl_mechanism, self.username, self.password)
        if any(login) and not all(login):
            raise ValueError("sasl_mechanism, username and password are given together or not at all")
        return self

    @property
    def servers(self) -> str:
        """The brokers to begin with, for people."""
        return ", ".join(self.bootstrap_servers)

    def client_configs(self) -> dict[str, Any]:
        """What every client of kafka-python is told."""
        configs: dict[str, Any] = {
            "kafka_client": Client,
            "bootstrap_servers": list(self.bootstrap_servers),
            "client_id": self.client_id,
            "security_protocol": ("SASL_" if self.sasl_mechanism else "") + ("SSL" if self.tls else "PLAINTEXT"),
            "bootstrap_timeout_ms": int(BOOTSTRAP_SECONDS * 1000),
            "request_timeout_ms": int(REQUEST_TIMEOUT_SECONDS * 1000),
            "reconnect_backoff_max_ms": int(MAX_BACKOFF_SECONDS * 1000),
        }
        if self.tls_ca:
            configs["ssl_cafile"] = str(self.tls_ca)
        if self.tls_certificate:
            configs["ssl_certfile"] = str(self.tls_certificate)
        if self.tls_key:
            configs["ssl_keyfile"] = str(self.tls_key)
        if self.tls_key_password:
            configs["ssl_password"] = self.tls_key_password.get_secret_value()
        if self.sasl_mechanism and self.password:
            configs["sasl_mechanism"] = self.sasl_mechanism
            configs["sasl_plain_username"] = self.username
            configs["sasl_plain_password"] = self.password.get_secret_value()
        return configs
