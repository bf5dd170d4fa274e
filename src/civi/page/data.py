"""Data for the scripts of a page: JSON that cannot end its own element, and arrays of numbers in few bytes."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np

from civi.page.elements import Html

LEVELS = 65_534
MISSING = 65_535


def embedded(content: Any, class_: str = "data") -> Html:
    """A script element with JSON. `<`, `>` and `&` are escaped, so no text in it can end the element.

    Args:
        content: JSON values; numbers must be finite.
        class_: class of the element.
    """
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Html(f'<script type="application/json" class="{class_}">{text}</script>')


def packed(values: Any) -> dict[str, Any]:
    """An array as 16-bit integers in base64 with its shape and range; a step is the range / 65534.

    Numbers that are not finite become gaps. Half a step is the largest error, far less than a pixel.

    Args:
        values: numbers of any shape.
    """
    array = np.asarray(values, np.float64)
    finite = array[np.isfinite(array)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    span = high - low
    if not np.isfinite(span):
        low, high = low / 2, high / 2
        array, span = array / 2, high - low
    with np.errstate(invalid="ignore", over="ignore"):
        scaled = np.rint((array - low) / span * LEVELS) if span > 0 else np.zeros(array.shape)
    whole = np.where(np.isfinite(array), scaled, MISSING).astype("<u2")
    text = base64.b64encode(whole.tobytes()).decode()
    return {"shape": list(array.shape), "low": low, "high": high, "base64": text}


def unpacked(content: dict[str, Any]) -> np.ndarray:
    """The inverse of `packed`, up to half a step."""
    whole = np.frombuffer(base64.b64decode(content["base64"]), "<u2").astype(np.float64)
    values = content["low"] + whole / LEVELS * (content["high"] - content["low"])
    return np.where(whole == MISSING, np.nan, values).reshape(content["shape"])
