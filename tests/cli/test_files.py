"""Files that users name: what commands read, and what they never replace."""

import bz2
import codecs
import gzip
import json
import lzma
import os
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from assay.cli.data.check import check
from assay.cli.data.convert import convert
from assay.cli.data.records import read_records
from assay.cli.files import output_file
from assay.cli.score.command import score, seekable
from assay.cli.score.jsonl import Fields, parse_row, read_lines
from assay.core.errors import InvalidRequest

ROW = {"request_id": "r", "response": "1", "reference": {"answers": ["1"]}}
LINES = [json.dumps({**ROW, "request_id": f"r{number}"}).encode() for number in range(50)]
TEXT = b"\r\n".join(LINES)
PACKED = gzip.compress(TEXT)


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def ids_scored(path: Path) -> list[str]:
    with seekable(path) as file:
        return [parse_row(line, raw, Fields()).request_id for line, _, raw in read_lines(file)]


@pytest.mark.parametrize(
    "content",
    [
        *(TEXT, codecs.BOM_UTF8 + TEXT, PACKED, gzip.compress(codecs.BOM_UTF8 + TEXT)),
        *(lzma.compress(TEXT), lzma.compress(codecs.BOM_UTF8 + TEXT)),
    ],
)
def test_every_command_reads_a_file_compressed_or_not_with_a_mark_or_without(
    tmp_path: Path, content: bytes
) -> None:
    path = written(tmp_path / "rows.jsonl", content)
    wanted = [f"r{number}" for number in range(50)]
    assert ids_scored(path) == wanted
    assert [read.record["request_id"] for read in read_records(path)] == wanted  # type: ignore[index]


def test_a_document_may_begin_with_a_mark(tmp_path: Path) -> None:
    path = written(tmp_path / "rows.json", codecs.BOM_UTF8 + json.dumps([ROW]).encode())
    assert [read.record for read in read_records(path)] == [ROW]


def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    if (child := os.fork()) == 0:
        path.write_bytes(TEXT)
        os._exit(0)
    assert len(ids_scored(path)) == 50
    assert os.waitpid(child, 0)[1] == 0


DAMAGED = {
    "cut in the middle": PACKED[: len(PACKED) // 2],
    "cut before its checksum": PACKED[:-8],
    "changed": PACKED[:30] + bytes(byte ^ 0xFF for byte in PACKED[30:60]) + PACKED[60:],
    "followed by something else": PACKED + b"more",
    "xz, cut in the middle": lzma.compress(TEXT)[:100],
    "xz, changed": lzma.compress(TEXT)[:40] + bytes(60) + lzma.compress(TEXT)[100:],
}
UNREAD = {
    "zstd": b"\x28\xb5\x2f\xfd" + bytes(20),
    "zip": b"PK\x03\x04" + bytes(20),
    "bzip2": bz2.compress(TEXT),
}


@pytest.mark.parametrize("name", UNREAD)
def test_a_file_that_has_to_be_unpacked_first_is_refused_with_its_kind(
    tmp_path: Path, name: str
) -> None:
    path = written(tmp_path / "rows.jsonl", UNREAD[name])
    for read in (lambda: ids_scored(path), lambda: list(read_records(path))):
        with pytest.raises(InvalidRequest, match=f"compressed with {name}: unpack it first"):
            read()


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    path = written(tmp_path / "rows.jsonl.gz", DAMAGED[name])
    for read in (lambda: ids_scored(path), lambda: list(read_records(path))):
        with pytest.raises(InvalidRequest, match="compressed file is cut off or damaged") as told:
            read()
        assert told.value.field == "file"


def test_an_output_is_a_regular_file_and_none_of_the_inputs(tmp_path: Path) -> None:
    rows = written(tmp_path / "rows.jsonl", TEXT)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(rows)
    (tmp_path / "again").hardlink_to(rows)
    partial = written(tmp_path / "out.partial", TEXT)
    for name in ("pipe", "link", "again", "rows.jsonl", ".", "nowhere/out"):
        with pytest.raises(InvalidRequest, match=r"^out: "):
            output_file(tmp_path / name, inputs=[rows])
    for device in (Path("/dev/null"), Path("/dev/zero"), Path("/dev")):
        with pytest.raises(InvalidRequest, match="not a regular file"):
            output_file(device, inputs=[])
    with pytest.raises(InvalidRequest, match=r"replace the input out\.partial"):
        output_file(tmp_path / "out", inputs=[partial])
    assert output_file(tmp_path / "link", inputs=[]) == rows, "a link is followed, not replaced"


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        (score, ["{}", "--pipeline", "exact", "--out", "{}"]),
        (check, ["{}", "--pipeline", "exact", "--out", "{}"]),
        (convert, ["gsm8k", "{}", "--out", "{}"]),
    ],
)
def test_no_command_replaces_what_it_reads(
    tmp_path: Path, command: object, arguments: list[str]
) -> None:
    rows = written(tmp_path / "rows.jsonl", TEXT)
    app = typer.Typer()
    app.command()(command)  # type: ignore[type-var]
    ended = CliRunner().invoke(app, [one.format(rows) for one in arguments])
    assert isinstance(ended.exception, InvalidRequest)
    assert rows.read_bytes() == TEXT
    assert list(tmp_path.iterdir()) == [rows]
