"""Switches off Debezium's metrics of single events, which take more than a fourth of its time and are not used.

For each event, Debezium formats the key and the log position as a text, the newest of which is a metric, and measures
the lag. Debezium's counts of events cost nothing, and stay on.
"""

from __future__ import annotations

import logging
from typing import Any

import jpype

from arctic_runtime.ingest.transports.debezium.jvm import load_java_class

LOG = logging.getLogger(__name__)

_PROVIDER = "io.debezium.pipeline.source.spi.EventMetadataProvider"
_METRICS = ("snapshotMetrics", "streamingMetrics")
_METERS = ("commonEventMeter", "streamingMeter")


def disable_event_metrics(engine: Any) -> None:
    """Switches off the metrics of single events of an engine whose tasks have started.

    Debezium has no setting for that, so private fields are changed. If a version of Debezium does not have these
    fields, its metrics stay on, and reading is slower.
    """
    try:
        silent = _build_silent_provider()
        for task in read_private_field(engine, "tasks"):
            coordinator = read_private_field(task.connectTask(), "coordinator")
            for metrics in (read_private_field(coordinator, name) for name in _METRICS):
                for meter in (
                    read_private_field(metrics, name) for name in _METERS if _find_field(metrics, name) is not None
                ):
                    _require_field(meter, "metadataProvider").set(meter, silent)
    except jpype.JException as error:
        LOG.debug("Debezium's metrics of single events stay: %s", error)


def read_private_field(java_object: Any, name: str) -> Any:
    """Returns the value of a private field of a Java object; raises Java's NoSuchFieldException if it has none."""
    return _require_field(java_object, name).get(java_object)


def _require_field(java_object: Any, name: str) -> Any:
    java_field = _find_field(java_object, name)
    if java_field is None:
        raise load_java_class("java.lang.NoSuchFieldException")(f"{java_object.getClass().getName()}.{name}")
    return java_field


def _find_field(java_object: Any, name: str) -> Any:
    """Returns a field of an object's Java class or of its superclasses, made accessible; None if there is none."""
    kind = java_object.getClass()
    while kind is not None:
        for field in kind.getDeclaredFields():
            if str(field.getName()) == name:
                field.setAccessible(True)
                return field
        kind = kind.getSuperclass()
    return None


def _build_silent_provider() -> Any:
    """Builds a Java provider of event metadata that returns null for every event, so that nothing is measured."""
    handles, kinds = load_java_class("java.lang.invoke.MethodHandles"), load_java_class("java.lang.invoke.MethodType")
    anything, method = load_java_class("java.lang.Object").class_, load_java_class("java.lang.reflect.Method").class_
    nothing = handles.constant(anything, None)
    arguments = kinds.methodType(
        anything, anything, method, load_java_class("java.lang.Object[]").class_
    ).parameterArray()
    handler = load_java_class("java.lang.reflect.InvocationHandler")
    answer = load_java_class("java.lang.invoke.MethodHandleProxies").asInterfaceInstance(
        handler, handles.dropArguments(nothing, 0, arguments)
    )
    provider = load_java_class(_PROVIDER).class_
    return load_java_class("java.lang.reflect.Proxy").newProxyInstance(provider.getClassLoader(), [provider], answer)
