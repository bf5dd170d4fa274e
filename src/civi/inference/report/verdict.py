"""The first lines of a report: the verdict in one sentence and what to do next, and the table of all checks."""

from __future__ import annotations

from civi.inference.diagnose.trust import advice, verdict
from civi.inference.report.content import Content
from civi.inference.report.glossary import meaning_of
from civi.page import Column, Html, Section, Table, tag
from civi.page.elements import facts

SENTENCES = {
    "good": "The fit is good: every check passed.",
    "doubtful": "The fit is doubtful: use it with care.",
    "bad": "The fit is bad: do not use its draws as they are.",
}
NEXT = "Next: use the draws. Means, intervals and predictions are as accurate as their Monte Carlo errors say."
NOT_JUDGED = "This result is not judged: its checks were not computed."


def lead(content: Content) -> Html:
    """The verdict, what to do next, and the most important numbers."""
    numbers = [] if content.elbo is None else [("ELBO", f"{content.elbo[0]:.4f} ± {content.elbo[1]:.4f}")]
    numbers += [("parameters", str(len(content.names)))] if content.names else []
    numbers += [("seconds in all", f"{sum(content.phases.values()):.1f}")] if content.phases else []
    numbers += [("training", content.message)] if content.message else []
    return tag("div", verdict_box(content), facts(numbers) if numbers else None)


def verdict_box(content: Content) -> Html:
    """The verdict in one sentence and what to do next."""
    headline = tag("p", content.headline) if content.headline else None
    if not content.findings:
        return tag("div", headline or tag("p", tag("strong", NOT_JUDGED)), class_="verdict none")
    level = verdict(content.findings)
    steps = advice(content.findings)
    next_steps = tag("ul", [tag("li", step) for step in steps]) if steps else tag("p", NEXT)
    title = tag("p", tag("strong", SENTENCES[level]))
    return tag(
        "div", title, headline, tag("p", "What to do next:") if steps else None, next_steps, class_=f"verdict {level}"
    )


def checks(content: Content) -> Section | None:
    """All checks with their values and what they mean."""
    if not content.findings:
        return None
    found = content.findings
    values = [f.value if f.checked else None for f in found]
    means = [" ".join(filter(None, (f.sentence, f.remedy))) for f in found]
    rows = [[f.name, value, f.cells[2], mean] for f, value, mean in zip(found, values, means, strict=True)]
    columns = [Column("check", numeric=False), Column("value"), Column("verdict", numeric=False)]
    columns.append(Column("what it means", numeric=False))
    styles = {(i, 2): finding.verdict for i, finding in enumerate(found) if finding.checked}
    table = Table("checks-table", "Checks of the fit", columns, rows, styles=styles, wordy=True)
    return Section("checks", "Checks", [table.element()])


def measures(content: Content) -> Section | None:
    """Results that the task itself measures, such as the distance to reference draws."""
    if not content.measures:
        return None
    rows = [[name, value, meaning_of(name)] for name, value in content.measures.items()]
    columns = [Column("measure", numeric=False), Column("value"), Column("what it is", numeric=False)]
    table = Table("measures-table", "What was measured, with standard errors", columns, rows, wordy=True)
    return Section("measures", "Results", [table.element()])
