"""Sphinx extension: formulas as MathML, which browsers draw without a script and without fonts of their own."""

from __future__ import annotations

from typing import Any

from docutils.nodes import SkipNode
from latex2mathml.converter import convert


def mathml(formula: str, display: str) -> str:
    """A formula in MathML. The converter leaves out the spaces of log, and takes sim for a letter.

    Args:
        formula: the formula in LaTeX.
        display: inline or block.
    """
    made = convert(formula.replace(r"\log", r"\,\log\,"), display=display)
    return made.replace("<mi>&#x0007E;</mi>", "<mo>&#x0223C;</mo>")


def visit_inline(translator: Any, node: Any) -> None:
    """Write a formula within a line."""
    translator.body.append(mathml(node.astext(), "inline"))
    raise SkipNode


def visit_block(translator: Any, node: Any) -> None:
    """Write a formula on a line of its own, which scrolls where it is wider than the page."""
    translator.body.append(f'<div class="formula" tabindex="0">{mathml(node.astext(), "block")}</div>')
    raise SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
