"""HTML elements. Text is escaped when it becomes a child or an attribute, so that no name can break a page."""

from __future__ import annotations

from html import escape
from typing import Any

VOID = ("img", "input", "meta", "br", "hr")


class Html(str):
    """Text that is HTML already and is not escaped again."""

    __slots__ = ()


def html(child: Any) -> Html:
    """A child of an element: HTML as it is, None as nothing, a list joined, and anything else as escaped text."""
    if child is None:
        return Html("")
    if isinstance(child, list | tuple):
        return Html("".join(html(part) for part in child))
    return child if isinstance(child, Html) else Html(escape(printable(str(child))))


def tag(name: str, /, *children: Any, **attributes: Any) -> Html:
    """An element.

    Args:
        name: its name, such as p.
        *children: elements, text (which is escaped), lists of both, or None.
        **attributes: an underscore at the end is removed and others become hyphens, as in `class_` and `aria_label`.
            True gives an attribute without a value; None and False leave it out.
    """
    pairs = ((key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items())
    shown = "".join(_attribute(key, value) for key, value in pairs if value is not None and value is not False)
    if name in VOID:
        return Html(f"<{name}{shown}>")
    return Html(f"<{name}{shown}>{html(children)}</{name}>")


def _attribute(key: str, value: Any) -> str:
    return f" {key}" if value is True else f' {key}="{escape(printable(str(value)))}"'


def printable(text: str) -> str:
    """The text with control characters and lone surrogates, which HTML does not allow, replaced by the sign U+FFFD."""
    return "".join(c if (c >= " " and not "\ud800" <= c <= "\udfff") or c in "\n\t" else "\ufffd" for c in text)


def facts(pairs: list[tuple[str, Any]]) -> Html:
    """A list of names and their values."""
    return tag("dl", [tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs], class_="facts")


def code(text: str) -> Html:
    """A block of program text, which scrolls sideways if its lines are long."""
    return tag("pre", tag("code", text), tabindex="0", role="region", aria_label="code")


def details(summary: str, *children: Any, opened: bool = False) -> Html:
    """Content that is folded away behind its summary."""
    return tag("details", tag("summary", summary), *children, open=opened)
