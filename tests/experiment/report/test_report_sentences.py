"""Sentences of a run in its report."""

import pytest

from civi.experiment.report.sentences import FILE, Sentences, sentence_sections, write_sentences
from page_reader import PageReader, rows_of

FOUND = Sentences(
    [["the <unk> rose N", "the company", "a & b"], ["no", "", "no"]],
    [["a first", "one between", "another", "a last"]],
    ["from <b>nowhere"],
)


def page_of(folder):
    (section,) = sentence_sections(folder)
    return str(section.element())


def test_reconstructions_stand_beside_their_sentences(tmp_path):
    write_sentences(FOUND, tmp_path)
    assert rows_of(page_of(tmp_path), "reconstructions") == [FOUND.reconstructions[0], ["no", "(no words)", "no"]]


def test_interpolations_go_from_one_sentence_to_the_other(tmp_path):
    write_sentences(FOUND, tmp_path)
    page = PageReader(page_of(tmp_path))
    items = [text for _, text in page.all("li")]
    assert items == [*FOUND.interpolations[0], *FOUND.prior]
    assert [text for _, text in page.all("em")] == ["a first", "a last"]
    assert not page.all("b")


@pytest.mark.parametrize("content", [None, "", "{", "[]", '{"prior": []}'])
def test_a_missing_or_damaged_file_gives_no_section(content, tmp_path):
    if content is not None:
        (tmp_path / FILE).write_text(content)
    assert sentence_sections(tmp_path) == []
