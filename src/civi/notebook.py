"""A line in the output of a notebook cell that is redrawn in place; needs nothing but IPython."""

from __future__ import annotations

import threading
import time
from html import escape
from typing import Any

INTERVAL, DELAY = 0.25, 1.0


class NotebookLine:
    """One line of text with an optional progress bar. Updates that follow each other too fast are left out."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._drawn = float("-inf")

    def show(self, text: str, done: int | None = None, total: int | None = None, *, always: bool = False) -> None:
        """Draw the line.

        Args:
            text: what it says.
            done: length of the bar; None for no bar.
            total: full length of the bar.
            always: whether to draw it even if it was drawn less than INTERVAL seconds ago.
        """
        now = time.monotonic()
        if not always and now - self._drawn < INTERVAL:
            return
        self._drawn = now
        bar = "" if done is None else f'<progress value="{done}" max="{total}"></progress> '
        bundle = {"text/plain": text, "text/html": f"<div>{bar}{escape(text)}</div>"}
        if self._handle is None:
            from IPython.display import display  # noqa: PLC0415 only a notebook has it

            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)


class LateLine:
    """A line that appears after DELAY seconds and is emptied at the end, so that short work leaves nothing behind.

    Args:
        text: what it says.
    """

    def __init__(self, text: str) -> None:
        self._text, self._shown = text, False
        self._line, self._lock = NotebookLine(), threading.Lock()
        self._timer = threading.Timer(DELAY, self._appear)
        self._timer.daemon = True
        self._timer.start()

    def change(self, text: str) -> None:
        """Say something else."""
        with self._lock:
            self._text = text
            if self._shown:
                self._line.show(text, always=True)

    def end(self) -> None:
        """Empty the line, or never show it."""
        self._timer.cancel()
        self.change("")

    def _appear(self) -> None:
        with self._lock:
            if self._text:
                self._shown = True
                self._line.show(self._text, always=True)
