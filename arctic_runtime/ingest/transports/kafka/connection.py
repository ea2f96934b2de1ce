"""Connection settings of Kafka, as options of Spark's source and of the client that requests offsets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from arctic_runtime.errors import ConfigError

Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]

_MODULES: Mapping[Mechanism, str] = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


@dataclass(frozen=True)
class KafkaConnection:
    """The servers of a Kafka cluster, and the settings to connect to them.

    Raises ConfigError if the settings contradict each other. On a cluster the files have to be on each machine.
    """

    servers: str
    """Addresses as `host:port`, separated by commas."""

    user: str | None = None
    """Name that is sent with the password; None to send neither."""

    password: str | None = field(default=None, repr=False)
    mechanism: Mechanism = "PLAIN"
    """SASL mechanism by which name and password are sent."""

    tls: bool = False
    """Whether the connection is encrypted."""

    ca_file: str | None = None
    """File with the trusted certificates in PEM; None for those of the system."""

    certificate_file: str | None = None
    """File with this client's certificate and its key in PEM; None for no certificate."""

    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Settings with the same names in Java's client and in librdkafka."""

    def __post_init__(self) -> None:
        if (self.user is None) != (self.password is None):
            raise ConfigError("Kafka wants `user` and `password` together, and one of them is missing")
        if not self.tls and (self.ca_file or self.certificate_file):
            raise ConfigError("`ca_file` and `certificate_file` need `tls: true`")

    @property
    def protocol(self) -> str:
        return f"{'SASL_' if self.user else ''}{'SSL' if self.tls else 'PLAINTEXT'}"

    def build_spark_options(self) -> dict[str, str]:
        """Returns the connection settings as options of Spark's Kafka source."""
        options = {**self.properties, "bootstrap.servers": self.servers, "security.protocol": self.protocol}
        if self.user is not None and self.password is not None:
            user, password = _quote_value(self.user), _quote_value(self.password)
            login = f"{_MODULES[self.mechanism]} required username={user} password={password};"
            options |= {"sasl.mechanism": self.mechanism, "sasl.jaas.config": login}
        if self.ca_file:
            options |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": self.ca_file}
        if self.certificate_file:
            options |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": self.certificate_file}
        return {f"kafka.{key}": value for key, value in options.items()}

    def build_client_options(self) -> dict[str, str]:
        """Returns the connection settings as configuration of confluent-kafka's clients."""
        options = {**self.properties, "bootstrap.servers": self.servers, "security.protocol": self.protocol}
        if self.user is not None and self.password is not None:
            options |= {"sasl.mechanism": self.mechanism, "sasl.username": self.user, "sasl.password": self.password}
        if self.ca_file:
            options |= {"ssl.ca.location": self.ca_file}
        if self.certificate_file:
            options |= {"ssl.certificate.location": self.certificate_file, "ssl.key.location": self.certificate_file}
        return options


def _quote_value(value: str) -> str:
    """Quotes a value for a JAAS configuration."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
