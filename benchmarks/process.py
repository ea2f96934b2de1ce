"""What the operating system tells of the Java process that runs Spark here. Linux alone tells it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Process:
    """A process that this one has started."""

    folder: Path

    @classmethod
    def java(cls, parent: int | None = None) -> Process:
        """The newest child of a process, by default of this one, that runs Java; RuntimeError if there is none."""
        tasks = Path(f"/proc/{os.getpid() if parent is None else parent}/task").iterdir()
        children = sorted(int(child) for task in tasks for child in (task / "children").read_text().split())
        folders = [Path(f"/proc/{child}") for child in reversed(children)]
        for folder in folders:
            if (folder / "comm").read_text().strip() == "java":
                return cls(folder)
        raise RuntimeError("The process has no child that runs Java. Start Spark first.")

    @property
    def bytes_read(self) -> int:
        """What it has read of files and pipes so far, whether from a disk or from memory that the system keeps."""
        return self._value("io", "rchar")

    @property
    def resident_bytes(self) -> int:
        """The memory that it holds now, its heap and all else, without pages of files."""
        return 1024 * (self._value("status", "RssAnon") + self._value("status", "RssShmem"))

    @property
    def peak_bytes(self) -> int:
        """The most memory that it held at any time, its heap and all else."""
        return self._value("status", "VmHWM") * 1024

    @property
    def processor_seconds(self) -> float:
        """The time that it has had on processors so far."""
        fields = (self.folder / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _value(self, file: str, key: str) -> int:
        lines = (self.folder / file).read_text().splitlines()
        return int(next(line for line in lines if line.startswith(f"{key}:")).split()[1])
