"""A Kafka of one node that tests start in a temporary folder on free ports of the loopback, and stop."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from confluent_kafka import IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec

from arctic_runtime.errors import ConfigError
from arctic_runtime.spark.engine.java.jars import Jar, find_java, get_cache_directory, run_resolution
from arctic_runtime.spark.engine.java.jvm import find_spark_home
from tests.ingest.servers import Missing, free_port, private_folder, start_server, wait_until

BROKER = Jar("org.apache.kafka", "kafka_2.13", "4.4.0", "", 0)
USER, PASSWORD = "reader", 'se"cr\\et'
"""Of the second address, which wants a name and a password."""

_SECONDS = 30
_JAVA = ("-Xmx384m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")

Message = tuple[bytes | str | None, bytes | str | None]
"""Key and value."""


class KafkaServer:
    """A broker that is its own controller. `address` is open to all, `guarded` wants USER and PASSWORD."""

    def __init__(self) -> None:
        self.folder = private_folder("arctic-kafka-", None)
        self._java = str(find_java().executable)
        self._classes = f"{broker_jars()}/*:{find_spark_home()}/jars/*"
        ports = [free_port() for _ in range(3)]
        self.address, self.guarded, controller = (f"127.0.0.1:{port}" for port in ports)
        self._settings = self.folder / "server.properties"
        self._settings.write_text("".join(f"{key}={value}\n" for key, value in self._properties(controller)))
        self._run("kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qk", "-c", str(self._settings))
        self._server: subprocess.Popen[bytes] | None = None
        self._admin = AdminClient({"bootstrap.servers": self.address, "log_level": 0})
        self.start()

    def _properties(self, controller: str) -> Iterable[tuple[str, str]]:
        quoted = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
        # Once for the login module, and once for the file of properties.
        login = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{quoted}";'
        addresses = f"PLAINTEXT://{self.address},SASL_PLAINTEXT://{self.guarded}"
        yield from {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{controller}",
            "listeners": f"{addresses},CONTROLLER://{controller}",
            "advertised.listeners": addresses,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": login.replace("\\", "\\\\"),
            "log.dirs": str(self.folder / "data"),
            "auto.create.topics.enable": "false",
            "log.retention.check.interval.ms": "200",
            "log.initial.task.delay.ms": "200",
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
        }.items()

    def start(self) -> None:
        command = [self._java, *_JAVA, "-cp", self._classes, "kafka.Kafka", str(self._settings)]
        self._server = start_server(command, self.folder, None)
        wait_until(self._answers, self._server, self.folder)

    def stop(self) -> None:
        if self._server is not None:
            self._server.kill()
            self._server.wait(_SECONDS)
            self._server = None

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def create(self, topic: str, partitions: int = 1, **settings: str) -> None:
        """Creates a topic, which clients know then; underscores in the names of settings stand for dots."""
        config = {key.replace("_", "."): value for key, value in settings.items()}
        self._done(self._admin.create_topics([NewTopic(topic, partitions, 1, config=config)]))
        self._wait_for(topic, partitions)

    def drop(self, topic: str) -> None:
        self._done(self._admin.delete_topics([topic]))

    def widen(self, topic: str, partitions: int) -> None:
        self._done(self._admin.create_partitions([NewPartitions(topic, partitions)]))
        self._wait_for(topic, partitions)

    def _wait_for(self, topic: str, partitions: int) -> None:
        """Waits until each partition has a leader that answers: a broker tells of partitions before it leads them."""
        until = time.monotonic() + _SECONDS
        while not self._tells_offsets(topic, partitions):
            assert time.monotonic() < until, f"topic {topic} is not there"
            time.sleep(0.02)

    def _tells_offsets(self, topic: str, partitions: int) -> bool:
        known = self._admin.list_topics(topic, _SECONDS).topics[topic].partitions
        try:
            self._done(
                self._admin.list_offsets({TopicPartition(topic, number): OffsetSpec.latest() for number in known})
            )
        except KafkaException:
            return False
        return len(known) == partitions

    def drop_before(self, topic: str, partition: int, offset: int) -> None:
        """Deletes events, as retention does."""
        self._done(self._admin.delete_records([TopicPartition(topic, partition, offset)]))

    def send(self, topic: str, messages: Sequence[Message], partition: int = 0, transaction: str | None = None) -> None:
        """Sends messages; in a transaction that is committed, or given up where its name ends with `!`."""
        settings = {"bootstrap.servers": self.address, "linger.ms": 1, "message.max.bytes": 2**26}
        producer = Producer(settings | ({"transactional.id": transaction} if transaction else {}))
        if transaction:
            producer.init_transactions(_SECONDS)
            producer.begin_transaction()
        for key, value in messages:
            producer.produce(topic, key=key, value=value, partition=partition)
            producer.poll(0)
        if transaction is None:
            assert producer.flush(_SECONDS) == 0
        elif transaction.endswith("!"):
            producer.flush(_SECONDS)
            producer.abort_transaction(_SECONDS)
        else:
            producer.commit_transaction(_SECONDS)
        # The broker answers before readers of committed messages see the end.
        end = time.monotonic() + _SECONDS
        while transaction and self._has_open_transaction(topic, partition):
            assert time.monotonic() < end

    def _has_open_transaction(self, topic: str, partition: int) -> bool:
        asked = {TopicPartition(topic, partition): OffsetSpec.latest()}
        ends = [
            answer.result(_SECONDS).offset
            for isolation in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
            for answer in self._admin.list_offsets(asked, isolation_level=isolation).values()
        ]
        return ends[0] != ends[1]

    def _answers(self) -> bool:
        try:
            return bool(self._admin.list_topics(timeout=1).brokers)
        except KafkaException:
            return False

    def _done(self, futures: Mapping[object, object]) -> None:
        for future in futures.values():
            future.result(_SECONDS)  # type: ignore[attr-defined]

    def _run(self, *command: str) -> None:
        done = subprocess.run(
            [self._java, *_JAVA, "-cp", self._classes, *command],
            capture_output=True,
            text=True,
            cwd=self.folder,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout}{done.stderr}"


def broker_jars() -> Path:
    """The folder with the broker's JARs, resolved once and kept beside those of Spark."""
    kept = get_cache_directory() / f"test-{BROKER.artifact}-{BROKER.version}"
    if kept.exists():
        return kept
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent, prefix="resolving-") as scratch:
        try:
            said = run_resolution(Path(scratch), (BROKER,))
        except ConfigError as error:
            raise Missing(str(error)) from error
        path = Path(scratch) / "jars"
        if not (path / BROKER.file_name).exists():
            raise Missing(f"{BROKER.coordinates} can't be resolved:\n{said}")
        path.chmod(0o755)
        try:
            path.replace(kept)
        except OSError:  # Another process of the tests was faster.
            assert (kept / BROKER.file_name).exists()
    return kept
