"""Checksums of files on a local disk: written as Hadoop writes them, and compared with every byte that is read."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from arctic_runtime.catalog.storage.checked_files import CheckedFileIO
from arctic_runtime.catalog.storage.checksums import ChecksumError, read_checksums

SIZES = (0, 1, 511, 512, 513, 5000)


def write(path: Path, content: bytes, parts: int = 1) -> CheckedFileIO:
    """Writes a file in so many parts."""
    files = CheckedFileIO({})
    step = len(content) // parts + 1
    with files.new_output(str(path)).create() as stream:
        for begin in range(0, len(content), step):
            stream.write(content[begin : begin + step])
    return files


def read(files: CheckedFileIO, path: Path) -> bytes:
    with files.new_input(str(path)).open() as stream:
        content: bytes = stream.read()
    return content


def test_checksums_have_the_format_of_hadoop(tmp_path: Path) -> None:
    """A magic text, the bytes of a chunk, and the CRC-32 of each chunk: Spark reads these, and would refuse others."""
    write(tmp_path / "x", b"arctic\n" * 100)
    assert (tmp_path / ".x.crc").read_bytes().hex() == "63726300" + "00000200" + "94173651" + "61d35d21"


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("parts", [1, 7])
def test_what_was_written_is_read_in_any_pieces(tmp_path: Path, size: int, parts: int) -> None:
    chance = random.Random(size)
    content = chance.randbytes(size)
    files = write(tmp_path / "x", content, parts)
    assert read(files, tmp_path / "x") == content
    assert len(read_checksums(tmp_path / "x")[1]) == -(-size // 512)  # type: ignore[index]
    with files.new_input(f"file://{tmp_path}/x").open() as stream:
        for _ in range(50):
            start, length = chance.randrange(size + 1), chance.randrange(size + 600)
            stream.seek(start)
            assert stream.read(length) == content[start : start + length]
            assert stream.tell() == min(size, start + length)
        stream.seek(-min(size, 8), 2)
        assert stream.read() == content[size - min(size, 8) :]


@pytest.mark.parametrize("seed", range(20))
def test_a_flipped_bit_or_another_length_is_noticed(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    content = chance.randbytes(chance.randrange(2, 3000))
    files = write(tmp_path / "x", content)
    place = chance.randrange(len(content))
    flipped = content[:place] + bytes([content[place] ^ 1 << chance.randrange(8)]) + content[place + 1 :]
    for damaged in (flipped, content[:place], b"", content + b"x"):
        (tmp_path / "x").write_bytes(damaged)
        with pytest.raises(ChecksumError, match=str(tmp_path / "x")):
            read(files, tmp_path / "x")


def test_only_the_chunks_that_are_read_are_checked(tmp_path: Path) -> None:
    files = write(tmp_path / "x", bytes(2000))
    (tmp_path / "x").write_bytes(bytes(1999) + b"x")
    with files.new_input(str(tmp_path / "x")).open() as stream:
        assert stream.read(1536) == bytes(1536)
        with pytest.raises(ChecksumError, match="bytes 1536 to 2047"):
            stream.read(1)


def test_a_file_without_checksums_is_read_as_it_is(tmp_path: Path) -> None:
    files = write(tmp_path / "x", b"written")
    for sums in (None, b"", b"no checksums"):
        (tmp_path / ".x.crc").unlink(missing_ok=True)
        if sums is not None:
            (tmp_path / ".x.crc").write_bytes(sums)
        (tmp_path / "x").write_bytes(b"changed")
        assert read(files, tmp_path / "x") == b"changed"


def test_a_file_that_is_deleted_or_replaced_leaves_no_checksums_behind(tmp_path: Path) -> None:
    files = write(tmp_path / "x", b"before")
    with files.new_output(str(tmp_path / "x")).create(overwrite=True) as stream:
        stream.write(b"after, and longer")
    assert read(files, tmp_path / "x") == b"after, and longer"
    files.delete(str(tmp_path / "x"))
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FileNotFoundError):
        files.delete(str(tmp_path / "x"))
