"""Small tables on disk for tests of streamed data."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet

from civi.problem.target.streamed import RegressionStream, StreamedRegression
from civi.tables.files import Table
from civi.tables.scan import LabelledTable

ROWS, GROUP = 700, 40


def frame(rows: int = ROWS) -> pd.DataFrame:
    """Two features on different scales and a label that depends on them; sorted, so that the groups differ."""
    rng = np.random.default_rng(0)
    age = np.sort(rng.normal(50, 10, rows))
    dose = rng.normal(0, 1e-3, rows)
    label = np.where(rng.uniform(size=rows) < 1 / (1 + np.exp(-(age - 50) / 10 + 1e3 * dose)), "yes", "no")
    return pd.DataFrame({"age": age, "dose": dose.astype(np.float32), "y": label})


def write(path: Path, table: pd.DataFrame, group: int = GROUP) -> Path:
    """The table as a file in the format of its suffix, in groups of `group` rows."""
    if path.suffix == ".csv":
        table.to_csv(path, index=False)
        return path
    content = pa.Table.from_pandas(table, preserve_index=False)
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(content, path, row_group_size=group)
    else:
        with pa.ipc.new_file(path, content.schema) as file:
            file.write_table(content, max_chunksize=group)
    return path


def regression(path: Path, **options) -> StreamedRegression:
    """The posterior of the regression on the table in this file."""
    table = LabelledTable(Table.open(path), "y", **options)
    return StreamedRegression.of(RegressionStream(table, table.scan()))
