"""What a page takes for granted: the files that its reader has. Page -> what makes them in a folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


def bert(folder: Path) -> None:
    """An encoder folder and labelled texts, small enough for seconds."""
    from tests.support import tiny_transformers as tiny

    tiny.save_encoder(folder / "bert-folder")
    frame = tiny.make_frame(1400, 1)
    frame["split"] = ["train"] * 900 + ["test"] * 500
    frame.to_parquet(folder / "texts.parquet")


SETUPS: dict[str, Callable[[Path], None]] = {"docs/start/bert.md": bert}
