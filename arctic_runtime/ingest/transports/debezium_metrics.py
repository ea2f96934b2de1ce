"""Debezium's metrics about single events, which cost it more than a fourth of its time, and which nobody reads here.

For each event Debezium writes the key and the place in the log into a text, the newest of which is a metric, and
measures the lag. Its counts of events cost nothing, and stay.
"""

from __future__ import annotations

import logging
from typing import Any

import jpype

from arctic_runtime.ingest.transports.jvm import java

LOG = logging.getLogger(__name__)

_PROVIDER = "io.debezium.pipeline.source.spi.EventMetadataProvider"
_METRICS = ("snapshotMetrics", "streamingMetrics")
_METERS = ("commonEventMeter", "streamingMeter")


def leave_out_events(engine: Any) -> None:
    """Has the metrics of an engine, whose tasks have started, say nothing about single events.

    Debezium has no setting for that, so fields are changed that it shows nobody. A version of Debezium without them
    keeps these metrics, and is slower.
    """
    try:
        silent = _silent_provider()
        for task in private(engine, "tasks"):
            coordinator = private(task.connectTask(), "coordinator")
            for metrics in (private(coordinator, name) for name in _METRICS):
                for meter in (private(metrics, name) for name in _METERS if _field(metrics, name) is not None):
                    _known_field(meter, "metadataProvider").set(meter, silent)
    except jpype.JException as error:
        LOG.debug("Debezium's metrics of single events stay: %s", error)


def private(of: Any, name: str) -> Any:
    """The value of a field that a Java object shows nobody; raises Java's NoSuchFieldException where it has none."""
    return _known_field(of, name).get(of)


def _known_field(of: Any, name: str) -> Any:
    found = _field(of, name)
    if found is None:
        raise java("java.lang.NoSuchFieldException")(f"{of.getClass().getName()}.{name}")
    return found


def _field(of: Any, name: str) -> Any:
    """A field of an object's class or of one above it; None where there is none."""
    kind = of.getClass()
    while kind is not None:
        for field in kind.getDeclaredFields():
            if str(field.getName()) == name:
                field.setAccessible(True)
                return field
        kind = kind.getSuperclass()
    return None


def _silent_provider() -> Any:
    """A provider of what metrics tell about an event, which has nothing to tell. No code in Python runs for events."""
    handles, kinds = java("java.lang.invoke.MethodHandles"), java("java.lang.invoke.MethodType")
    anything, method = java("java.lang.Object").class_, java("java.lang.reflect.Method").class_
    nothing = handles.constant(anything, None)
    arguments = kinds.methodType(anything, anything, method, java("java.lang.Object[]").class_).parameterArray()
    handler = java("java.lang.reflect.InvocationHandler")
    answer = java("java.lang.invoke.MethodHandleProxies").asInterfaceInstance(
        handler, handles.dropArguments(nothing, 0, arguments)
    )
    provider = java(_PROVIDER).class_
    return java("java.lang.reflect.Proxy").newProxyInstance(provider.getClassLoader(), [provider], answer)
