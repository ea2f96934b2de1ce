"""The entry of the command `arctic`: shows the list of commands itself, and loads the code of a command that is called.

The list takes some hundredths of a second; the code of all commands takes more than half a second to load.
"""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from dbt.adapters.arctic.__version__ import version

COMMANDS: Mapping[str, str] = {
    "status": "show versions, changes not merged yet, files, consumers and their lag",
    "explain": "show what the next run will do, and why",
    "history": "show the versions of a table, and how its columns changed",
    "lookup": "find one row by its key, without a scan",
    "changes": "show the change rows between two versions",
    "why": "show the changes of one row, and those of upstream rows that made them, back to the source",
    "sql": "answer a query over tables, versions and changes, in a second and without Spark",
    "verify": "recompute and compare tables with their queries and their histories",
    "diff": "compare rows and columns with those of another environment, or of an earlier version",
    "preview": "show which models an edit touches, also below, and what they will cost, before anything is run",
    "run": "refresh arctic models as soon as what they read has changed",
    "ingest": "ingest change data of databases, Kafka or files into arctic tables, as the project's sources say",
    "serve": "keep a project's warehouse fresh: ingest, refresh models, do upkeep, and show it in a browser",
    "spark": "start, stop or show the Spark that stays between commands",
    "compact": "put small files together and take deleted rows out of files",
    "split": "split buckets that have outgrown their limit, and merge small ones",
    "expire": "remove old snapshots, and old rows of landing tables, that nobody needs",
    "savepoint": "give a version a name, which keeps it from expiry",
    "restore": "go back to an earlier version, as a new change",
    "resume": "let models run again that wait for the query of a cut since a restore to it",
    "restate": "compute the rows that a predicate selects anew, and publish what differs",
    "resync": "have a table of an ingested database loaded anew, and publish what differs",
    "overwrite": "replace all rows by a full extract, as of a place in the order of events; later events still apply",
    "clones": "show the clones of tables, their age and what they keep, and which tables are clones themselves",
    "promote": "take over what clones have computed, for models whose query is now that of their clone",
    "reset": "drop everything that a model has made, so that its next run is its first",
    "forget": "erase rows of a table and of all that is made of it, also from their history",
    "adopt": "take over tables of other writers as they are, and write the patch that makes their models arctic",
    "audit": "name the rows that incremental models got wrong, and why; writes nothing",
    "mcp": "answer an agent over standard input and output: what tables show, how they came about, what runs would do",
    "apply": "carry out a plan that an agent has proposed, or list such plans",
    "schema": "print the JSON schema of a target, of models or of sources, by which editors check YAML",
    "completion": "print the script by which a shell completes commands, options and names of models",
}
"""The description of each command by its name, in the order of the help."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command, by default from the arguments of this process; returns its exit code, as shells set it."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if not given or given[0] not in COMMANDS:
        parser, commands = create_parser()
        for name, description in COMMANDS.items():
            commands.add_parser(name, help=description)
        if given and not given[0].startswith("-"):
            close = difflib.get_close_matches(given[0], COMMANDS, n=1)
            suggestion = f" (did you mean {close[0]}?)" if close else ""
            parser.error(f"there is no command {given[0]}{suggestion}; --help lists them")
        parser.parse_args(given)  # Ends the process: it shows the help, or names what is wrong.
    if given[0] == "completion" and given[1:] in (["models"], ["sources"]):
        # The script of a shell asks at each Tab.
        from dbt.adapters.arctic.project.cache.known_names import list_known_names

        print("".join(f"{name}\n" for name in list_known_names(Path(), given[1])), end="")
        return 0
    try:
        from dbt.adapters.arctic import cli

        code = cli.main(given)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # What reads the output, such as `head`, has ended. Python would flush it once more, and fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except KeyboardInterrupt:
        print(f"arctic {given[0]}: interrupted; run it again, what it has committed stays", file=sys.stderr)
        return 130


class CommandParser(argparse.ArgumentParser):
    """The parser of a command, whose help ends with examples."""

    examples: Sequence[str] = ()

    def format_help(self) -> str:
        lines = ["", "examples:", *(f"  {line}" for line in self.examples)] if self.examples else []
        return super().format_help() + "".join(f"{line}\n" for line in lines)


def create_parser() -> tuple[argparse.ArgumentParser, argparse._SubParsersAction[CommandParser]]:
    """Creates the parser of `arctic` without commands; returns it and the group to which commands are added."""
    parser = argparse.ArgumentParser(
        prog="arctic",
        description="Looks at, checks and maintains the tables that dbt builds.",
        epilog="`arctic COMMAND --help` shows the arguments of a command, and examples.",
    )
    parser.add_argument("--version", action="version", version=f"dbt-arctic {version}")
    commands = parser.add_subparsers(
        title="commands", dest="command", required=True, metavar="COMMAND", parser_class=CommandParser
    )
    return parser, commands


if __name__ == "__main__":
    sys.exit(main())
