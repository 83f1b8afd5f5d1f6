"""Examples that several columns name together: sample 7 of one subset is not sample 7 of another."""

from __future__ import annotations

import pandas as pd

from riskfront.errors import InvalidInputError


def with_example_key(frame: pd.DataFrame, example_column: str | None) -> pd.DataFrame:
    """The frame with a column of tuples for a key such as "subset,sample"; unchanged if one column is the key."""
    if example_column is None or example_column in frame.columns or "," not in example_column:
        return frame
    parts = [part.strip() for part in example_column.split(",")]
    for part in parts:
        if part not in frame.columns:
            raise InvalidInputError(
                f"an example must be named by columns of the file; there is no column '{part}' for the key "
                f"'{example_column}'. Columns: {', '.join(map(str, frame.columns))}."
            )
        if frame[part].isna().any():
            raise InvalidInputError(
                f"every row must have a value for '{part}'; row {int(frame[part].isna().argmax())} has none."
            )
    # tuples, not joined texts: ("a,b", "c") and ("a", "b,c") are two examples
    keys = pd.Series(list(zip(*(frame[part] for part in parts), strict=True)), index=frame.index, dtype=object)
    return frame.assign(**{example_column: keys})
