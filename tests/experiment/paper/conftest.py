"""Small simulated tables in one folder, under the names that the commands look for."""

from pathlib import Path

import pytest

from tests.support import experiment_tables


@pytest.fixture(scope="session")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    return experiment_tables.store(folder, "ag_news.paper.cls", "qqp.paper.pooled", "mnli.paper.cls", exits=5)
