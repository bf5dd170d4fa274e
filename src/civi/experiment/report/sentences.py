"""Sentences that an autoencoder of text decodes, as the file sentences.json and as a section of a report."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from civi.files import write_json
from civi.page import Column, Html, Section, Table, tag

FILE, EMPTY = "sentences.json", "(no words)"


@dataclass(frozen=True)
class Sentences:
    """Decoded sentences.

    Attributes:
        reconstructions: for each test sentence, the sentence itself and those decoded from draws of its posterior.
        interpolations: for each pair of test sentences, the first one, the sentences decoded from points on the line
            between their latents, and the second one.
        prior: sentences decoded from draws of the prior.
    """

    reconstructions: list[list[str]]
    interpolations: list[list[str]]
    prior: list[str]


def write_sentences(sentences: Sentences, folder: Path) -> Path:
    """Write sentences.json into the folder of the figures."""
    write_json(folder / FILE, asdict(sentences))
    return folder / FILE


def sentence_sections(folder: Path) -> list[Section]:
    """A section with the sentences of this folder; none if sentences.json is missing or damaged."""
    found = _read(folder / FILE)
    if found is None:
        return []
    shown = [_reconstructions(found), *_interpolations(found), *_prior(found)]
    return [Section("sentences", "Sentences", shown)]


def _read(path: Path) -> Sentences | None:
    try:
        return Sentences(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _reconstructions(found: Sentences) -> Html:
    draws = max((len(row) for row in found.reconstructions), default=1) - 1
    columns = [Column("test sentence", numeric=False)]
    columns += [Column(f"decoded draw {i + 1}", numeric=False) for i in range(draws)]
    caption = (
        "Reconstructions: test sentences, and the most likely words (other than <unk>) for draws of their posteriors"
    )
    rows = [[line or EMPTY for line in row] for row in found.reconstructions]
    return Table("reconstructions", caption, columns, rows).element()


def _interpolations(found: Sentences) -> list[Any]:
    """A list per pair; the two test sentences are emphasised."""
    if not found.interpolations:
        return []
    lists = [
        tag("ol", tag("li", tag("em", first)), _items(between), tag("li", tag("em", last)))
        for first, *between, last in found.interpolations
    ]
    text = (
        "Two test sentences in italics, and between them the most likely words (other than <unk>) for points on the "
        "line between their latents."
    )
    return [tag("h3", "Interpolations"), tag("p", text), *lists]


def _prior(found: Sentences) -> list[Any]:
    if not found.prior:
        return []
    return [tag("h3", "Draws from the prior"), tag("ul", _items(found.prior))]


def _items(lines: list[str]) -> list[Html]:
    return [tag("li", line or EMPTY) for line in lines]
