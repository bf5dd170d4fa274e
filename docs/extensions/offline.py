"""Sphinx extension: the build fails if a page would load anything from the network."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

NETWORK = r"(?:https?:)?//[^\"'\s)>]+"
LOADED = re.compile(
    rf"<(?:script|img|iframe|source|video|audio|embed|object)\b[^>]*?\s(?:src|data)=[\"']?({NETWORK})"
    rf"|<link\b(?=[^>]*rel=[\"']?(?:stylesheet|preload|modulepreload|icon))[^>]*?\shref=[\"']?({NETWORK})"
    rf"|url\([\"']?({NETWORK})|@import\s+[\"']({NETWORK})",
    re.IGNORECASE,
)


def loaded_from_network(text: str) -> list[str]:
    """Addresses from which a page or a style sheet would load scripts, styles, fonts or images."""
    return [next(filter(None, found.groups())) for found in LOADED.finditer(text)]


def check_site(folder: Path) -> list[str]:
    """All such addresses of a built site, each with its file."""
    files = [file for file in sorted(folder.rglob("*")) if file.suffix in (".html", ".css")]
    return [f"{file.relative_to(folder)}: {one}" for file in files for one in loaded_from_network(file.read_text())]


def check_build(app: Any, error: Exception | None) -> None:
    """Raise an error after a build whose pages load something from the network."""
    from sphinx.errors import SphinxError  # noqa: PLC0415 tests use this module without Sphinx

    if error is None and app.builder.name == "html" and (found := check_site(Path(app.outdir))):
        raise SphinxError("these pages load something from the network:\n" + "\n".join(found))


def setup(app: Any) -> dict[str, bool]:
    """Register the check."""
    app.connect("build-finished", check_build)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
