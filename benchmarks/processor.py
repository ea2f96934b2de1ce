"""Runs a command and prints the processor seconds of it and all that it started, as `python -m benchmarks.processor`.

They are steadier than a clock on a machine that others use. Java outlives the process that started it and is waited for
as well: orphans become children of this process. Linux alone does that.
"""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import sys
from collections.abc import Sequence

_SET_CHILD_SUBREAPER = 36


def main(command: Sequence[str]) -> int:
    """Returns the exit code of `command`; its output goes to the standard error."""
    if ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError("this system does not tell the processor seconds of orphans")
    code = subprocess.run(command, stdout=sys.stderr, check=False).returncode
    try:
        while True:
            os.wait()
    except ChildProcessError:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(used.ru_utime + used.ru_stime)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
