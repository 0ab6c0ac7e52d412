"""How to reach a Kafka cluster: parameters that source and sink share, and their kafka-python configuration."""

from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, SecretStr, model_validator

from headrace.connectors._parameters import Parameters
from headrace.connectors.kafka._client import Client
from headrace.connectors.kafka._logs import tame

REQUEST_TIMEOUT_SECONDS = 10.0
"""How long a broker may take to answer before the request is retried, in seconds."""
BOOTSTRAP_SECONDS = 5.0
"""How long to look for a first broker that answers, in seconds."""
MAX_BACKOFF_SECONDS = 5.0
"""The longest wait before reconnecting to a broker that was unavailable, in seconds."""

tame()


class KafkaConnection(Parameters):
    """How to reach a Kafka cluster."""

    bootstrap_servers: tuple[str, ...] = Field(
        min_length=1,
        description="Initial brokers, HOST:PORT each; the others are discovered.",
        examples=["127.0.0.1:9092"],
    )
    tls: bool = Field(False, description="Encrypt connections.")
    tls_ca: Path | None = Field(None, description="Certificates to trust, PEM; default: those of the system.")
    tls_certificate: Path | None = Field(None, description="The client certificate chain, PEM.")
    tls_key: Path | None = Field(None, description="The private key of the client certificate, PEM.")
    tls_key_password: SecretStr | None = Field(None, description="The password of the private key.")
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = Field(
        None, description="The SASL mechanism; default: no authentication."
    )
    username: str | None = Field(None, description="The SASL user name.")
    password: SecretStr | None = Field(None, description="The SASL password.")
    client_id: str = Field("headrace", description="The name of this client in the brokers' logs, metrics and quotas.")

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
        login = (self.sasl_mechanism, self.username, self.password)
        if any(login) and not all(login):
            raise ValueError("sasl_mechanism, username and password go together: give all of them, or none")
        return self

    @property
    def servers(self) -> str:
        """The initial brokers, for messages."""
        return ", ".join(self.bootstrap_servers)

    def client_configs(self) -> dict[str, Any]:
        """Returns the configuration of every kafka-python client."""
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
