"""Java classes for tests, which fail in the threads of Debezium's engine: they are compiled while the tests run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache

from arctic_runtime.ingest.transports.debezium.jvm import load_java_class

_THROW = (
    'String kind = System.getProperty("arctic.fail"); '
    "if (kind != null) { Class c = Class.forName(kind); "
    "throw (Throwable) c.getConstructor(new Class[] {String.class}).newInstance("
    'new Object[] {System.getProperty("arctic.text")}); }'
)

"""Java code that throws what the system properties say, and nothing without them; see `failing`."""

_CONVERTERS = "io.debezium.spi.converter"
_TRANSFORMS = "org.apache.kafka.connect.transforms"
_RECORD = "org.apache.kafka.connect.connector.ConnectRecord"

PLACES: Mapping[str, Mapping[str, str]] = {
    "reader": {"converters": "failing", "failing.type": f"{_CONVERTERS}.FailingConverter"},
    "converter": {"transforms": "failing", "transforms.failing.type": f"{_TRANSFORMS}.Failing"},
}
"""Properties of Debezium by which the thread that reads the log, or those that convert its events, fail."""


@cache
def define_failing_classes() -> None:
    """Defines the classes of PLACES in Java, once in a process."""
    _define(
        f"{_CONVERTERS}.FailingValue", f"{_CONVERTERS}.CustomConverter$Converter",
        f"public Object convert(Object value) {{ {_THROW} return value; }}",
    )  # fmt: skip
    _define(
        f"{_CONVERTERS}.FailingConverter", f"{_CONVERTERS}.CustomConverter",
        "public void configure(java.util.Properties properties) {}",
        f"public void converterFor(io.debezium.spi.converter.ConvertedField field, {_CONVERTERS}.CustomConverter$"
        "ConverterRegistration registration) { if (field.name().equals(\"checked\")) registration.register("
        f"org.apache.kafka.connect.data.SchemaBuilder.int32().optional(), new {_CONVERTERS}.FailingValue()); }}",
    )  # fmt: skip
    _define(
        f"{_TRANSFORMS}.Failing", f"{_TRANSFORMS}.Transformation",
        f"public {_RECORD} apply({_RECORD} record) {{ {_THROW} return record; }}",
        "public org.apache.kafka.common.config.ConfigDef config() "
        "{ return new org.apache.kafka.common.config.ConfigDef(); }",
        "public void configure(java.util.Map settings) {}",
        "public void close() {}",
    )  # fmt: skip


@contextmanager
def failing(kind: str, text: str) -> Iterator[None]:
    """Makes the classes throw a Java exception of the class `kind` with a text."""
    system = load_java_class("java.lang.System")
    system.setProperty("arctic.text", text)
    system.setProperty("arctic.fail", kind)
    try:
        yield
    finally:
        system.clearProperty("arctic.fail")


def _define(name: str, interface: str, *methods: str) -> None:
    loader = load_java_class("java.lang.ClassLoader").getSystemClassLoader()
    pool = _build_pool()
    made = pool.makeClass(name)
    made.addInterface(pool.get(interface))
    for method in methods:
        made.addMethod(load_java_class("javassist.CtNewMethod").make(method, made))
    handles = load_java_class("java.lang.invoke.MethodHandles")
    neighbour = load_java_class("java.lang.Class").forName(interface, False, loader)
    handles.privateLookupIn(neighbour, handles.lookup()).defineClass(made.toBytecode())


@cache
def _build_pool() -> object:
    pool = load_java_class("javassist.ClassPool")(False)
    loader = load_java_class("java.lang.ClassLoader").getSystemClassLoader()
    pool.appendClassPath(load_java_class("javassist.LoaderClassPath")(loader))
    return pool
