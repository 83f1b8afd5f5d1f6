"""LiteLLM: the spend logs of its proxy, one row a request, as JSON (``/spend/logs``), JSON Lines, CSV or Parquet.

They tell what a call took and whether it failed. How good an answer was they do not know: the score is 1 for a call that was
answered, unless ``metadata.spend_logs_metadata`` holds numbers, which can be chosen by name.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from riskfront._data.logs.record import Record, as_score, measures_of, positive
from riskfront._data.logs.responses import about_prompt, prompt_text
from riskfront._data.logs.tools.json_files import KINDS, below, rows_of


def files(path: Path) -> list[Path]:
    return below(path, *(f"*{kind}" for kind in KINDS))


def records(path: Path) -> Iterator[Record]:
    for number, row in enumerate(rows_of(path), start=1):
        where = f"'{path}', row {number}"
        metadata = row.get("metadata")
        metadata = metadata if isinstance(metadata, Mapping) else {}
        given = metadata.get("spend_logs_metadata")
        failed = "failure" in (row.get("status"), metadata.get("status"))
        asked, cached = _asked(row), str(row.get("cache_hit")).lower() == "true"
        name = str(row.get("request_id") or number)
        yield Record(
            {"model": str(row.get("model_group") or row.get("model") or "unknown")},
            str(row.get("call_type") or "litellm"),
            name if asked is None else hashlib.sha256(asked.encode()).hexdigest()[:16],
            {"answered": 0.0 if failed else 1.0},
            measures_of(
                # what came from the cache of the proxy took no call
                cost=None if cached else positive(row.get("spend")),
                latency=None if cached else _latency(row),
                tokens=positive(row.get("total_tokens")),
                input_tokens=positive(row.get("prompt_tokens")),
                output_tokens=positive(row.get("completion_tokens")),
            ),
            repeat=name,
            about=about_prompt(asked),
            where=where,
            failed=failed,
            also={
                str(key): as_score(value, str(key), where)
                for key, value in (given.items() if isinstance(given, Mapping) else ())
                if isinstance(value, int | float)
            },
            when=str(row.get("start_time") or ""),
        )


def _asked(row: Mapping[str, Any]) -> str | None:
    """The text of the request, if the proxy was told to store it (store_prompts_in_spend_logs)."""
    messages = row.get("messages")
    if not messages and isinstance(row.get("proxy_server_request"), Mapping):
        messages = row["proxy_server_request"].get("messages")
    if not messages:
        return None
    return prompt_text(messages) or json.dumps(messages, sort_keys=True)


def _latency(row: Mapping[str, Any]) -> float | None:
    """Seconds from start to end."""
    try:
        start, end = (
            datetime.fromisoformat(str(row[name]).replace("Z", "+00:00")) for name in ("start_time", "end_time")
        )
        return (end - start).total_seconds()
    except (KeyError, ValueError, TypeError):
        return None
