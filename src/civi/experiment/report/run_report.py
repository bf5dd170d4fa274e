"""The report of a run: its content in report.civi, and the page report.html."""

from __future__ import annotations

from pathlib import Path

from civi.errors import DataError
from civi.experiment.report.pictures import pictures
from civi.inference.report.compose import report_page
from civi.inference.report.content import Content
from civi.inference.report.content_file import load_content, save_content
from civi.page import write_page

CONTENT, PAGE = "report.civi", "report.html"
LOAD = """import civi

posterior = civi.load("{folder}/posterior.civi"{target})
print(posterior)"""


def loading(folder: Path, target: str = "") -> str:
    """Python code that loads the posterior of a folder; `target` are further arguments of `civi.load`."""
    return LOAD.format(folder=folder.as_posix(), target=target)


def write_run_report(content: Content, folder: Path) -> Path:
    """Write the content and the page of a run or fit into its folder.

    Args:
        content: what the page shows.
        folder: the folder, whose figures the page shows too.

    Returns:
        The page.
    """
    save_content(content, folder / CONTENT)
    write_page(folder / PAGE, report_page(content, pictures(folder / "figures")))
    return folder / PAGE


def read_content(folder: Path) -> Content:
    """The content of a finished run or fit; DataError if it is missing or damaged."""
    path = folder / CONTENT
    if not path.exists():
        raise DataError(f"{CONTENT} is missing: the run has not ended, or it was made with --no-report")
    return load_content(path)
