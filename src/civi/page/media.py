"""Images that are embedded in a page."""

from __future__ import annotations

import base64

from civi.page.elements import Html, tag


def image(png: bytes, title: str, description: str) -> Html:
    """A figure with a PNG image.

    Args:
        png: the content of the file.
        title: title of the figure.
        description: what is seen, for readers who do not see it.
    """
    source = f"data:image/png;base64,{base64.b64encode(png).decode()}"
    picture = tag("img", src=source, alt=description)
    return tag("figure", tag("figcaption", tag("h3", title)), picture, class_="picture")
