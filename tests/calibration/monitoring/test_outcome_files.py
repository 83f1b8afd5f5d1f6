"""Files that grow: every outcome is read once, none is lost, and what cannot be right is refused."""

import io
import json

import numpy as np
import pytest

import riskfront as rf
from riskfront._calibration.monitoring import outcome_files
from riskfront._calibration.monitoring.outcome_files import OutcomeFile, OutcomeStream, Position


def read(file, **options):
    return [value for columns, _ in file.read(**options) for value in columns["error"].tolist()]


def test_reading_goes_on_where_it_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(outcome_files, "CHUNK", 64)
    path = tmp_path / "outcomes.csv"
    path.write_text("error,text\n" + "".join(f"{i},words\n" for i in range(50)))
    file = OutcomeFile(path)
    assert read(file) == list(range(50))
    assert read(file) == []
    with path.open("a") as more:
        more.write('50,"two\nlines, and ""quotes"""\n51,half of')
    again = OutcomeFile(path, Position.from_dict(json.loads(json.dumps(file.position.to_dict()))))
    assert read(again) == [50]
    with path.open("a") as more:
        more.write(" it\n")
    assert read(again) == [51]
    assert again.position.rows == 52


def test_the_last_line_of_a_complete_file_needs_no_end(tmp_path):
    path = tmp_path / "outcomes.csv"
    path.write_text("error,x\n0,1\n1,1")
    file = OutcomeFile(path)
    assert read(file) == [0]
    assert read(file, complete=True) == [1]
    path.write_text("error,x\n0,1\n1,1\n1,2\n")
    assert read(OutcomeFile(path, file.position)) == [1]
    path.write_text("error,x\n0,1\n1,15\n1,2\n")
    with pytest.raises(rf.InvalidInputError, match="its end was written, and it went on"):
        read(OutcomeFile(path, file.position))


def test_a_file_that_was_replaced_or_renamed_is_refused(tmp_path):
    rng = np.random.default_rng(0)
    path, other = tmp_path / "outcomes.csv", tmp_path / "outcomes.csv.1"
    path.write_text("error\n" + "".join(f"{i}\n" for i in rng.integers(0, 2, 2000)))
    file = OutcomeFile(path)
    assert len(read(file)) == 2000
    other.write_bytes(path.read_bytes() + b"1\n")
    with pytest.raises(rf.InvalidInputError, match="every outcome may count once"):
        OutcomeFile(other, others=[file.position])
    for replaced in ("error\n1\n", "error\n" + "0\n" * 5000):
        path.write_text(replaced)
        with pytest.raises(rf.InvalidInputError, match="outcomes may only be appended"):
            OutcomeFile(path, file.position)


def test_empty_cells_are_missing_outcomes_not_missing_rows(tmp_path):
    for text, rows in (("error\n1\n\n0\n", 3), ("error,x\n1,1\n\n,1\n", 2)):
        path = tmp_path / "outcomes.csv"
        path.write_text(text)
        file = OutcomeFile(path)
        found = read(file)
        assert len(found) == file.position.rows == rows
        assert np.isnan(found[1])


def test_json_lines(tmp_path):
    path = tmp_path / "outcomes.jsonl"
    path.write_text('{"error": 0, "label": "a"}\n\n{"label": "b"}\n{"error": true}\n')
    file = OutcomeFile(path)
    ((columns, position),) = file.read()
    assert columns["error"].tolist() == [0, None, True]
    assert columns["label"].tolist() == ["a", "b", None]
    with path.open("a") as more:
        more.write('{"label": "c"}\n')
    ((columns, position),) = OutcomeFile(path, position).read()
    assert columns["error"].tolist() == [None]  # the name was there before: this outcome is missing
    for wrong in ("[1]\n", "{\n", "error\n"):
        path.write_text(wrong)
        with pytest.raises(rf.InvalidInputError, match="every line must be a JSON object"):
            read(OutcomeFile(path))


@pytest.mark.parametrize("text", ["error,error\n1,1\n", "error,x\n1,2,3\n", "\n1\n"])
def test_tables_that_are_none_are_refused(tmp_path, text):
    path = tmp_path / "outcomes.csv"
    path.write_text(text)
    with pytest.raises(rf.InvalidInputError, match="outcomes must"):
        read(OutcomeFile(path))


def test_standard_input_comes_in_pieces():
    class Slowly(io.BytesIO):
        def read1(self, size):
            return super().read1(7)

    for text in ("error,x\n1,a\n0,b\n1,c", '{"error": 1}\n{"error": 0}\n{"error": 1}'):
        assert read(OutcomeStream(Slowly(text.encode()))) == [1, 0, 1]
    assert read(OutcomeStream(io.BytesIO(b""))) == []
