"""JSON lines of logs: one object a line, whatever signs its texts hold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import riskfront as rf
from riskfront._data.logs.tools.json_files import read_lines


def test_a_line_ends_at_a_newline_and_nowhere_else(tmp_path: Path) -> None:
    """Python's splitlines would cut these texts in two."""
    texts = ["a\u2028b", "c\u0085d", "e\x1ff", "g\r"]
    lines = [json.dumps({"text": text}, ensure_ascii=False) for text in texts]
    (tmp_path / "t.jsonl").write_text("\ufeff" + "\r\n".join(lines) + "\n\n", encoding="utf-8", newline="")
    assert [found["text"] for _, found in read_lines(tmp_path / "t.jsonl")] == texts


def test_what_is_no_json_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    for content, said in (
        (b'{"a": 1}\n{"a"', "line 2: must be one JSON object"),
        (b"\xff\xfe\x00", "must be text in UTF-8"),
    ):
        path.write_bytes(content)
        with pytest.raises(rf.InvalidInputError, match=said):
            list(read_lines(path))
