"""The entry of the command `arctic`: shows the list of commands itself, and loads the code of a command that is called.

The list takes some hundredths of a second; the code of all commands takes more than half a second to load.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence

COMMANDS: Mapping[str, str] = {
    "verify": "recompute and compare tables with their queries and their histories",
    "status": "versions, changes not merged yet, files, consumers and their lag",
    "explain": "what the next run will do, and why",
    "history": "the versions of a table, and how its columns changed",
    "changes": "change rows between two versions",
    "lookup": "one row by its key",
    "why": "the changes of one row, and the changes of upstream rows that made them, back to the source",
    "clones": "show the clones of tables, their age and what they keep, and which tables are clones themselves",
    "diff": "rows and columns that differ from those of another environment, or of an earlier version",
    "preview": "what an edit touches and all below it, and what that will cost, before anything is run",
    "promote": "take over what clones have computed, for models whose query is now that of their clone",
    "split": "cut nodes that outgrew their limit in two, and put small ones together",
    "expire": "let old snapshots, and rows of landing tables, go that nobody needs",
    "restore": "go back to an earlier version, as a new change",
    "resume": "run models again that wait for the query of a cut since a restore to it",
    "restate": "compute the rows that a predicate selects anew, and publish what differs",
    "savepoint": "give a version a name, which keeps it from expiry",
    "reset": "drop everything that a model has made, so that its next run is its first",
    "resync": "have a table of an ingested database loaded anew, and publish what differs",
    "overwrite": "say what all rows are as of a place in the order of events; later events still hold",
    "forget": "erase rows of a table and of all that is made of it, also from their history",
    "compact": "put small files together and take deleted rows out of files",
    "sql": "answer a query over tables, versions and changes, in a second and without Spark",
    "audit": "name the rows that incremental models got wrong, and why; writes nothing",
    "adopt": "take over tables of other writers as they are, and write the patch that makes their models arctic",
    "ingest": "change data from databases, Kafka or files into arctic tables, as the project's sources say",
    "run": "refresh arctic models as soon as what they read has changed",
    "serve": "keep a project's warehouse fresh: ingest, refresh models, do upkeep, and show it in a browser",
    "mcp": "answer an agent over standard input and output: what tables show, how they came about, what runs would do",
    "apply": "carry out a plan that an agent has proposed, or list such plans",
    "schema": "print the JSON schema of a target, of models or of sources, by which editors check YAML",
    "spark": "the Spark of your own that stays between commands",
}
"""The description of each command by its name, in the order of the help."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command, by default from the arguments of this process; returns its exit code, as shells set it."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if not given or given[0] not in COMMANDS:
        parser, commands = create_parser()
        for name, description in COMMANDS.items():
            commands.add_parser(name, help=description)
        parser.parse_args(given)  # Ends the process: it shows the help, or names what is wrong.
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


def create_parser() -> tuple[argparse.ArgumentParser, argparse._SubParsersAction[argparse.ArgumentParser]]:
    """Creates the parser of `arctic` without commands; returns it and the group to which commands are added."""
    parser = argparse.ArgumentParser(
        prog="arctic", description="Looks at, checks and maintains the tables that dbt builds."
    )
    return parser, parser.add_subparsers(dest="command", required=True, metavar="COMMAND")


if __name__ == "__main__":
    sys.exit(main())
