"""The section of a report about where it comes from: seconds, versions, settings, data, and how to load it again."""

from __future__ import annotations

from typing import Any

from civi.inference.report.content import Content
from civi.page import Column, Section, Table, tag
from civi.page.elements import code, details, facts


def provenance(content: Content) -> Section:
    """Seconds by phase, versions, settings, fingerprints of the data, and the code that loads the posterior."""
    parts: list[Any] = []
    if content.phases:
        total = sum(content.phases.values())
        rows = [
            [name, seconds, f"{seconds / total:.0%}" if total else None] for name, seconds in content.phases.items()
        ]
        columns = [Column("phase", numeric=False), Column("seconds"), Column("share")]
        parts.append(Table("phases-table", f"Seconds by phase, {total:.1f} in all", columns, rows).element())
    if content.code:
        parts += [tag("p", "Load it again:"), code(content.code)]
    if content.fingerprints:
        parts += [tag("h3", "Data"), facts(list(content.fingerprints.items()))]
    if content.versions:
        parts += [tag("h3", "Versions"), facts(list(content.versions.items()))]
    if content.settings:
        rows = [[name, _text(value)] for name, value in content.settings.items()]
        columns = [Column("setting", numeric=False), Column("value", numeric=False)]
        table = Table("settings-table", "Settings", columns, rows, search=len(rows) > 8)
        parts.append(details(f"Settings ({len(rows)})", table.element()))
    return Section("provenance", "How it was made", parts)


def _text(value: Any) -> str:
    return "none" if value is None else str(value)
