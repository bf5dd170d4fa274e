"""The Penn Treebank as sentences of word numbers, and a unigram model as the baseline.

Word 0 is padding, word 1 the end of a sentence; the words of the training file follow, the most frequent first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from civi.errors import DataError, require, unknown
from civi.experiment.data.files import locate

PADDING, END, UNKNOWN = "<pad>", "</s>", "<unk>"
SPLITS = ("train", "valid", "test")


class TextSplit(NamedTuple):
    """Word numbers (N, L), padded with 0, and how many of a row are words, the end of the sentence among them."""

    words: np.ndarray
    lengths: np.ndarray


class TextData(NamedTuple):
    """The three parts of a text and the word of each number."""

    train: TextSplit
    valid: TextSplit
    test: TextSplit
    vocabulary: tuple[str, ...]
    source: str


def penn_treebank(longest: int = 80) -> TextData:
    """The Penn Treebank, one sentence a line.

    A sentence of more than `longest` words is cut after that many and then ends as any other; `source` says how many
    were (the longest has 82 words). A word of the validation or test part that is not in training is "<unk>".
    """
    require(longest >= 1, f"longest must be at least 1, not {longest}")
    read = [_read(locate("ptb", f"ptb.{split}.txt")) for split in SPLITS]
    vocabulary = _vocabulary(read[0])
    numbers = {word: i for i, word in enumerate(vocabulary)}
    train, valid, test = (_numbered(lines, numbers, longest) for lines in read)
    cut = sum(len(line) > longest for lines in read for line in lines)
    source = "Penn Treebank, Mikolov's version" + (f"; sentences cut at {longest} words: {cut}" if cut else "")
    return TextData(train, valid, test, vocabulary, source)


def _read(path: Path) -> list[list[str]]:
    """The words of each line that has any."""
    try:
        content = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 (byte {error.start}): put the right file in its place") from error
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    lines = [line.split() for line in content.split("\n")]
    lines = [line for line in lines if line]
    if not lines:
        raise DataError(f"{path} has no words: a sentence a line is needed")
    for reserved in (PADDING, END):
        if any(reserved in line for line in lines):
            raise DataError(f"{path} has the word {reserved}, which civi adds itself: remove it")
    return lines


def _vocabulary(lines: list[list[str]]) -> tuple[str, ...]:
    """Padding, the end of a sentence, then words by falling frequency, equal ones by the alphabet."""
    counts = Counter({UNKNOWN: 0})
    for line in lines:
        counts.update(line)
    return (PADDING, END, *sorted(counts, key=lambda word: (-counts[word], word)))


def _numbered(lines: list[list[str]], numbers: dict[str, int], longest: int) -> TextSplit:
    lengths = np.array([min(len(line), longest) + 1 for line in lines], np.int32)
    words = np.full((len(lines), lengths.max()), numbers[PADDING], np.int32)
    rest = numbers[UNKNOWN]
    for row, line, length in zip(words, lines, lengths, strict=True):
        row[:length] = [*(numbers.get(word, rest) for word in line[: length - 1]), numbers[END]]
    return TextSplit(words, lengths)


def buckets(sentences: TextSplit, widths: Sequence[int]) -> list[tuple[int, np.ndarray]]:
    """Rows by the smallest width that holds them, in the order of the file; widths without a row are left out."""
    increasing = len(widths) > 0 and widths[0] > 0 and all(a < b for a, b in pairwise(widths))
    require(increasing, f"widths must increase: {widths}")
    most = int(sentences.lengths.max())
    require(most <= widths[-1], f"the largest width is {widths[-1]}, but a sentence has {most} words: add a width")
    places = np.searchsorted(widths, sentences.lengths)
    return [(widths[i], np.flatnonzero(places == i)) for i in np.unique(places)]


def unigram_perplexity(text: TextData, split: str = "test") -> float:
    """Perplexity per word of p(w) = (n_w + 1) / (n + V), n_w the count of w in training.

    Ends of sentences count as words, padding does not; V is the number of words without padding.
    """
    if split not in SPLITS:
        raise unknown("split", split, SPLITS)
    train, here = (_counts(getattr(text, name), len(text.vocabulary)) for name in ("train", split))
    log_p = np.log(train + 1.0) - np.log(train.sum() + len(train))
    return float(np.exp(-(here @ log_p) / here.sum()))


def _counts(sentences: TextSplit, size: int) -> np.ndarray:
    """How often each word but padding occurs."""
    return np.bincount(sentences.words.ravel(), minlength=size)[1:]


def decode(words_row: np.ndarray, vocabulary: tuple[str, ...]) -> str:
    """The words of a row up to the end of the sentence, without padding."""
    words = [vocabulary[number] for number in words_row.tolist()]
    if END in words:
        words = words[: words.index(END)]
    return " ".join(word for word in words if word != PADDING)
