"""The report of a run: its content in report.civi, and the page report.html."""

from __future__ import annotations

from pathlib import Path

from civi.errors import DataError
from civi.experiment.report.pictures import pictures
from civi.experiment.report.sentences import sentence_sections
from civi.inference.report.compose import report_page
from civi.inference.report.content import Content
from civi.inference.report.content_file import load_content, save_content
from civi.page import write_page

CONTENT, PAGE = "report.civi", "report.html"
LOAD = """import civi

posterior = civi.load("{folder}/posterior.civi")
print(posterior)"""
LOAD_FIT = """import runpy{imports}

import civi

model = runpy.run_path("{file}")["{name}"]{read}
posterior = civi.load("{folder}/posterior.civi", model{given})
print(posterior)"""
READ_JSON = """
with open("{data}") as file:
    members = json.load(file).items()
data = {{name: np.asarray(value) if isinstance(value, list) else value for name, value in members}}"""
READ_CSV = """
data = {{name: column.to_numpy() for name, column in pandas.read_csv("{data}").items()}}"""


def loading(folder: Path) -> str:
    """Python code that loads the posterior of a run."""
    return LOAD.format(folder=folder.as_posix())


def loading_fit(folder: Path, model: str, data: str | None) -> str:
    """Python code that loads the posterior of `civi fit` with its model and data.

    Args:
        folder: the folder of the fit.
        model: the model as FILE.py:NAME.
        data: the JSON or CSV file of the data; None without data.
    """
    file, _, name = model.rpartition(":")
    if data is None:
        imports, read, given = "", "", ""
    else:
        is_csv = data.lower().endswith(".csv")
        imports = "\n\nimport pandas" if is_csv else "\nimport json\n\nimport numpy as np"
        read, given = (READ_CSV if is_csv else READ_JSON).format(data=Path(data).as_posix()), ", **data"
    fields = {"file": Path(file).as_posix(), "name": name, "folder": folder.as_posix()}
    return LOAD_FIT.format(imports=imports, read=read, given=given, **fields)


def write_run_report(content: Content, folder: Path) -> Path:
    """Write the content and the page of a run or fit into its folder.

    Args:
        content: what the page shows.
        folder: the folder, whose figures the page shows too.

    Returns:
        The page.
    """
    save_content(content, folder / CONTENT)
    figures = folder / "figures"
    write_page(folder / PAGE, report_page(content, [*sentence_sections(figures), *pictures(figures)]))
    return folder / PAGE


def read_content(folder: Path) -> Content:
    """The content of a finished run or fit; DataError if it is missing or damaged."""
    path = folder / CONTENT
    if not path.exists():
        raise DataError(f"{CONTENT} is missing: the run has not ended, or it was made with --no-report")
    return load_content(path)
