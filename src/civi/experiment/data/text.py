"""The Penn Treebank as sentences of word indices, and the perplexity of a unigram model as a baseline.

Index 0 is padding and 1 is the end of a sentence. The words of the training file follow, the most frequent first.
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
    """The sentences of one split.

    Attributes:
        words: word indices (N, L), padded with 0.
        lengths: number of words of each sentence, including the end of the sentence.
    """

    words: np.ndarray
    lengths: np.ndarray


class TextData(NamedTuple):
    """The three splits of a text, and the vocabulary: the word of each index."""

    train: TextSplit
    valid: TextSplit
    test: TextSplit
    vocabulary: tuple[str, ...]
    source: str


def penn_treebank(longest: int = 80) -> TextData:
    """Load the Penn Treebank, one sentence per line.

    Words that do not occur in the training split become "<unk>". The longest sentence has 82 words.

    Args:
        longest: sentences with more words are truncated, as `source` reports.
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
    """The words of each line; empty lines are skipped."""
    try:
        content = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 (byte {error.start}): replace it with the correct file") from error
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    lines = [line.split() for line in content.split("\n")]
    lines = [line for line in lines if line]
    if not lines:
        raise DataError(f"{path} has no words: it must have one sentence per line")
    for reserved in (PADDING, END):
        if any(reserved in line for line in lines):
            raise DataError(f"{path} has the word {reserved}, which civi adds itself: remove it")
    return lines


def _vocabulary(lines: list[list[str]]) -> tuple[str, ...]:
    """Padding and the end of a sentence, then words by decreasing frequency; ties are in alphabetical order."""
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
    """Group sentences by the smallest width that fits them.

    Args:
        sentences: the sentences.
        widths: increasing widths; the last one must fit the longest sentence.

    Returns:
        Pairs of a width and its rows in file order; widths without rows are omitted.
    """
    increasing = len(widths) > 0 and widths[0] > 0 and all(a < b for a, b in pairwise(widths))
    require(increasing, f"widths must increase: {widths}")
    most = int(sentences.lengths.max())
    require(most <= widths[-1], f"the largest width is {widths[-1]}, but a sentence has {most} words: add a width")
    places = np.searchsorted(widths, sentences.lengths)
    return [(widths[i], np.flatnonzero(places == i)) for i in np.unique(places)]


def unigram_perplexity(text: TextData, split: str = "test") -> float:
    """Perplexity per word of the unigram model p(w) = (n_w + 1) / (n + V).

    n_w is the count of w in the training split, n is their sum and V is the size of the vocabulary. Ends of sentences
    count as words, padding does not.
    """
    if split not in SPLITS:
        raise unknown("split", split, SPLITS)
    train, here = (_counts(getattr(text, name), len(text.vocabulary)) for name in ("train", split))
    log_p = np.log(train + 1.0) - np.log(train.sum() + len(train))
    return float(np.exp(-(here @ log_p) / here.sum()))


def _counts(sentences: TextSplit, size: int) -> np.ndarray:
    """The count of each word except padding."""
    return np.bincount(sentences.words.ravel(), minlength=size)[1:]


def decode(words_row: np.ndarray, vocabulary: tuple[str, ...]) -> str:
    """The words of a row up to the end of the sentence, without padding."""
    words = [vocabulary[number] for number in words_row.tolist()]
    if END in words:
        words = words[: words.index(END)]
    return " ".join(word for word in words if word != PADDING)
