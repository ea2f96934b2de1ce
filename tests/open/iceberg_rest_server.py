"""Serves an Iceberg catalog by Iceberg's own REST servlet, in Jetty on a port of the loopback.

`iceberg_rest_catalog` starts this program, with the port, the class path and the properties of the catalog behind it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence

import jpype


def serve_catalog(port: int, class_path: Sequence[str], properties: Mapping[str, str]) -> None:
    """Serves a JDBC catalog until the process is ended."""
    jpype.startJVM("-Xmx256m", "-XX:TieredStopAtLevel=1", classpath=list(class_path), convertStrings=True)
    catalog = jpype.JClass("org.apache.iceberg.jdbc.JdbcCatalog")()
    catalog.setConf(jpype.JClass("org.apache.hadoop.conf.Configuration")())
    catalog.initialize("served", jpype.java.util.HashMap(properties))
    adapter = jpype.JClass("org.apache.iceberg.rest.RESTCatalogAdapter")(catalog)
    servlet = jpype.JClass("org.apache.iceberg.rest.RESTCatalogServlet")(adapter)
    handler = jpype.JClass("org.eclipse.jetty.servlet.ServletContextHandler")()
    handler.addServlet(jpype.JClass("org.eclipse.jetty.servlet.ServletHolder")(servlet), "/*")
    server = jpype.JClass("org.eclipse.jetty.server.Server")(jpype.java.net.InetSocketAddress("127.0.0.1", port))
    server.setHandler(handler)
    server.start()
    server.join()


if __name__ == "__main__":
    serve_catalog(int(sys.argv[1]), json.loads(sys.argv[2]), json.loads(sys.argv[3]))
