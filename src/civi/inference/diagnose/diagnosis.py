"""The result of `posterior.diagnose`: all findings, their verdict, and how they are shown."""

from __future__ import annotations

from dataclasses import dataclass, field

from rich.table import Table

from civi.inference.diagnose.trust import Finding, Mode, advice, verdict
from civi.page.elements import tag


@dataclass(frozen=True)
class Diagnosis:
    """All findings and the worst verdict among them. Rich prints it as a table.

    Attributes:
        findings: the result of each check.
        modes: the regions that the pilot found, with their shares of the posterior.
    """

    findings: list[Finding]
    modes: list[Mode] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """good, doubtful or bad."""
        return verdict(self.findings)

    @property
    def advice(self) -> list[str]:
        """What is likely wrong and what to try, most important first; empty if all is good."""
        return advice(self.findings)

    def __rich__(self) -> Table:
        title, caption = f"the fit is {self.verdict}", "\n".join(self.advice) or None
        table = Table(
            "check", "value", "verdict", "what it means", title=title, caption=caption, caption_justify="left"
        )
        for finding in self.findings:
            table.add_row(*finding.cells)
        return table

    def _repr_html_(self) -> str:
        names = tag("tr", [tag("th", name) for name in ("check", "value", "verdict", "what it means")])
        rows = [tag("tr", [tag("td", cell, style="text-align: left") for cell in f.cells]) for f in self.findings]
        title = tag("p", tag("strong", f"the fit is {self.verdict}"))
        return tag("div", title, [tag("p", line) for line in self.advice], tag("table", names, rows))

    def __str__(self) -> str:
        lines = ["{}: {} ({}). {}".format(*finding.cells) for finding in self.findings]
        return "\n".join([f"the fit is {self.verdict}", *self.advice, *lines])
