"""Self-contained HTML pages: elements, charts, tables and images in one file that opens from disk.

Nothing here knows what a page is about. Text is escaped where it enters, styles and scripts are embedded, and a content
policy forbids the browser to fetch anything.
"""

from civi.page.charts import Chart, Cloud, Contours, Grid, Joint, Pen, Scale, Series, View
from civi.page.data import embedded, packed
from civi.page.elements import Html, tag
from civi.page.media import image
from civi.page.page import LARGEST, Section, page, write_page
from civi.page.tables import Column, Table

__all__ = [
    "LARGEST",
    "Chart",
    "Cloud",
    "Column",
    "Contours",
    "Grid",
    "Html",
    "Joint",
    "Pen",
    "Scale",
    "Section",
    "Series",
    "Table",
    "View",
    "embedded",
    "image",
    "packed",
    "page",
    "tag",
    "write_page",
]
