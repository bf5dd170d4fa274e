"""Text from tiny files: word indices and the unigram baseline against calculations by hand, and invalid files."""

import hashlib
import math
from dataclasses import replace

import numpy as np
import pytest

from civi.errors import DataError, SettingError
from civi.experiment.data import SETS
from civi.experiment.data.text import TextData, TextSplit, buckets, decode, penn_treebank, unigram_perplexity

TRAIN = " the cat sat \n\n the dog sat on the <unk> \n   \n a dog \n"
VALID = " the zebra sat \n"
TEST = " a cat \n on the dog\n"
VOCABULARY = ("<pad>", "</s>", "the", "dog", "sat", "<unk>", "a", "cat", "on")


@pytest.fixture
def put(tmp_path, monkeypatch):
    """Use these three files as the Penn Treebank."""
    monkeypatch.setenv("CIVI_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("CIVI_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "ptb").mkdir()

    def register(train=TRAIN, valid=VALID, test=TEST) -> None:
        changed = []
        for file, content in zip(SETS["ptb"].files, (train, valid, test), strict=True):
            written = content.encode() if isinstance(content, str) else content
            (tmp_path / file.path).write_bytes(written)
            changed.append(replace(file, sha256=hashlib.sha256(written).hexdigest()))
        monkeypatch.setitem(SETS, "ptb", replace(SETS["ptb"], files=tuple(changed)))

    return register


@pytest.fixture
def text(put) -> TextData:
    put()
    return penn_treebank()


def test_words_are_numbered_by_frequency_then_alphabet(text):
    assert text.vocabulary == VOCABULARY
    assert text.source == "Penn Treebank, Mikolov's version"
    assert text.train.words.dtype == text.train.lengths.dtype == np.int32
    assert text.train.words.tolist() == [[2, 7, 4, 1, 0, 0, 0], [2, 3, 4, 8, 2, 5, 1], [6, 3, 1, 0, 0, 0, 0]]
    assert text.train.lengths.tolist() == [4, 7, 3]
    assert text.test.words.tolist() == [[6, 7, 1, 0], [8, 2, 3, 1]]
    assert text.test.lengths.tolist() == [3, 4]


def test_a_word_that_training_lacks_is_unknown(text, put):
    assert text.valid.words.tolist() == [[2, 5, 4, 1]]
    put(train="b a a\n", valid="c\n", test="a b\n")
    without = penn_treebank()
    assert without.vocabulary == ("<pad>", "</s>", "a", "b", "<unk>")
    assert without.valid.words.tolist() == [[4, 1]]
    assert without.test.words.tolist() == [[2, 3, 1]]


def test_long_sentences_are_cut_and_still_end(put):
    put()
    text = penn_treebank(longest=3)
    assert text.train.words.tolist() == [[2, 7, 4, 1], [2, 3, 4, 1], [6, 3, 1, 0]]
    assert text.train.lengths.tolist() == [4, 4, 3]
    assert text.vocabulary == VOCABULARY
    assert text.source.endswith("; sentences cut at 3 words: 1")
    with pytest.raises(SettingError, match="longest must be at least 1, not 0"):
        penn_treebank(longest=0)


def test_line_ends_and_a_byte_order_mark_are_no_matter(text, put):
    put("\ufeff" + TRAIN.replace("\n", "\r\n"))
    again = penn_treebank()
    assert again.vocabulary == text.vocabulary
    assert np.array_equal(again.train.words, text.train.words)


def of_lengths(lengths) -> TextSplit:
    return TextSplit(np.zeros((len(lengths), max(lengths)), np.int32), np.array(lengths, np.int32))


def test_every_row_is_in_the_narrowest_bucket_that_holds_it():
    got = [(width, rows.tolist()) for width, rows in buckets(of_lengths([3, 10, 11, 2, 30]), (10, 20, 25, 30))]
    assert got == [(10, [0, 1, 3]), (20, [2]), (30, [4])]
    lengths = np.random.default_rng(0).integers(1, 83, 500)
    found = buckets(of_lengths(lengths.tolist()), (10, 20, 30, 40, 60, 82))
    assert sorted(np.concatenate([rows for _, rows in found]).tolist()) == list(range(500))
    for below, (width, rows) in zip((0, 10, 20, 30, 40, 60), found, strict=True):
        assert (lengths[rows] <= width).all()
        assert (lengths[rows] > below).all()


def test_widths_that_do_not_fit_are_refused():
    with pytest.raises(SettingError, match="the largest width is 20, but a sentence has 21 words: add a width"):
        buckets(of_lengths([3, 21]), (10, 20))
    for widths in ((), (20, 10), (10, 10), (0, 30)):
        with pytest.raises(SettingError, match="widths must increase"):
            buckets(of_lengths([3, 21]), widths)


def test_the_unigram_model_by_hand(text):
    counts = {"</s>": 3, "the": 3, "dog": 2, "sat": 2, "<unk>": 1, "a": 1, "cat": 1, "on": 1}
    p = {word: (count + 1) / (14 + 8) for word, count in counts.items()}
    assert sum(p.values()) == pytest.approx(1)
    for split, words in (("test", "a cat </s> on the dog </s>"), ("valid", "the <unk> sat </s>")):
        spoken = words.split()
        expected = math.exp(-sum(math.log(p[word]) for word in spoken) / len(spoken))
        assert unigram_perplexity(text, split) == pytest.approx(expected, rel=1e-12)
    with pytest.raises(SettingError, match="unknown split 'tset': did you mean 'test'"):
        unigram_perplexity(text, "tset")


def test_decoding_undoes_numbering_and_stops_at_the_end(text):
    assert [decode(row, text.vocabulary) for row in text.train.words] == [
        "the cat sat",
        "the dog sat on the <unk>",
        "a dog",
    ]
    assert decode(np.array([2, 3, 1, 4, 1]), text.vocabulary) == "the dog"
    assert decode(np.array([2, 0, 3]), text.vocabulary) == "the dog"
    assert decode(np.array([1, 2]), text.vocabulary) == ""


@pytest.mark.parametrize("part", ["train", "valid", "test"])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "FILE has no words: it must have one sentence per line"),
        (" \n\t\n", "FILE has no words: it must have one sentence per line"),
        (b"caf\xe9 au lait\n", "FILE is not UTF-8 (byte 3): replace it with the correct file"),
        ("the dog </s>\n", "FILE has the word </s>, which civi adds itself: remove it"),
        ("the <pad> dog\n", "FILE has the word <pad>, which civi adds itself: remove it"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_line(put, tmp_path, part, content, message):
    put(**{part: content})
    with pytest.raises(DataError) as error:
        penn_treebank()
    assert str(error.value).replace(str(tmp_path / "ptb" / f"ptb.{part}.txt"), "FILE") == message


def test_a_missing_file_says_how_to_get_it(put, tmp_path):
    put()
    (tmp_path / "ptb" / "ptb.valid.txt").unlink()
    with pytest.raises(DataError, match=r"ptb/ptb\.valid\.txt was not found: fetch it with `civi data fetch ptb`"):
        penn_treebank()
