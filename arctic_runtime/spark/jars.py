"""The command `python -m arctic_runtime.spark.jars`: prepares Java, the JARs and the class-data archive of Spark."""

from __future__ import annotations

import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from arctic_runtime.errors import ConfigError
from arctic_runtime.profile import JARS_SETTING, Profile
from arctic_runtime.spark.engine.java import jars
from arctic_runtime.spark.engine.java.jvm import list_class_path
from arctic_runtime.spark.engine.java.process import PROCESS, Spark
from arctic_runtime.spark.engine.session import SparkEnvironment
from arctic_runtime.thresholds import EngineThresholds

_REHEARSAL = (
    "create namespace lake.rehearsal",
    """create table lake.rehearsal.t using iceberg partitioned by (bucket(4, id)) as
        select id, id % 7 as grp, cast(id as string) as name, timestamp_micros(id) as at,
               cast(id as decimal(12, 2)) as amount from range(1000)""",
    "create table lake.rehearsal.u (id bigint not null, grp bigint, name string) using iceberg",
    "insert into lake.rehearsal.u select id, grp, upper(name) from lake.rehearsal.t where id < 10",
    """merge into lake.rehearsal.t using lake.rehearsal.u on t.id = u.id
        when matched and u.id = 3 then delete when matched then update set name = u.name
        when not matched then insert (id, grp, name) values (u.id, u.grp, u.name)""",
    """create view lake.rehearsal.v as select grp, count(*) as n, sum(amount) as total, max(at) as latest
        from lake.rehearsal.t group by grp""",
    """select v.*, row_number() over (partition by n order by total) as place
        from lake.rehearsal.v left join lake.rehearsal.u using (grp)""",
    "select * from lake.rehearsal.t.snapshots",
    "alter table lake.rehearsal.t set tblproperties ('k' = 'v')",
    "show tables in lake.rehearsal",
    "drop view lake.rehearsal.v",
)


def main(arguments: Sequence[str]) -> int:
    """Downloads and prepares everything that Spark needs, so that later starts are fast and need no network.

    `--install-java` in `arguments` installs a Java if none is suitable; all other arguments are groups of further JARs.
    Existing files are kept. Returns the exit code of the process; 2 after an error, which is printed.
    """
    try:
        if "--install-java" in arguments:
            _ensure_java()
        jars.resolve_jar_paths()
        jars.group_paths({JARS_SETTING: ",".join(name for name in arguments if not name.startswith("-"))})
        archive = record_archive()
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    jars.prune_files(archive.parent, "*.jsa", keep=EngineThresholds().kept_archives)
    return 0


def _ensure_java() -> None:
    try:
        jars.find_java()
    except ConfigError:
        jars.install_java()
        jars.find_java()


def record_archive() -> Path:
    """Creates the class-data archive for embedded Sparks, if there is none yet; returns its path.

    It starts a Spark that runs typical statements on a temporary warehouse, and whose JVM records the classes that it
    has loaded. If that fails, there is no archive, and starts are only slower.
    """
    java, classes = jars.find_java(), list_class_path({})
    archive = jars.get_archive_path(java, classes)
    if jars.find_archive(java, classes):
        return archive
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="dbt-arctic-", dir=archive.parent) as scratch:
        recorded = Path(scratch) / archive.name
        option = f"-XX:ArchiveClassesAtExit={shlex.quote(str(recorded))}"
        profile = Profile.for_embedded(
            Path(scratch) / "warehouse", master="local[2]", settings={"spark.driver.extraJavaOptions": option}
        )
        _rehearse_start(SparkEnvironment(profile))
        if recorded.exists():
            recorded.replace(archive)
    return archive


def _rehearse_start(environment: SparkEnvironment) -> None:
    session = environment.new_session()
    for statement in _REHEARSAL:
        session.sql(statement).collect()
    frame = session.table("lake.rehearsal.t").where("id = 7")
    frame.writeTo("lake.rehearsal.t").option("snapshot-property.k", "v").append()
    assert PROCESS.jvm is not None
    running = Spark(session, PROCESS.jvm, PROCESS.log)
    environment.stop_spark()
    running.end_java(environment.profile.thresholds.engine)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
