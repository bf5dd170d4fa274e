"""Images from tiny files in the published formats, and every kind of invalid file."""

import gzip
import hashlib
from dataclasses import replace

import numpy as np
import pytest

from civi.errors import DataError
from civi.experiment.data import SETS
from civi.experiment.data.images import fashion_mnist, grey_mnist, read_idx, static_mnist

IMAGES = {"train": "train-images-idx3-ubyte.gz", "test": "t10k-images-idx3-ubyte.gz"}
BITS = "binarized_mnist_bits.npz"


def idx(array, magic=b"\x00\x00\x08") -> bytes:
    """The bytes of an idx file, written by hand."""
    dimensions = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return magic + bytes([array.ndim]) + dimensions + bytes(array.ravel().tolist())


def grey(number: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(256, size=(number, 28, 28)).astype(np.uint8)


@pytest.fixture
def put(tmp_path, monkeypatch):
    """Put files of a data set into a temporary data folder, and accept them whatever their checksums are."""
    monkeypatch.setenv("CIVI_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("CIVI_CACHE_DIR", str(tmp_path / "cache"))

    def register(set_name: str, contents: dict[str, bytes]) -> None:
        folder = tmp_path / "data" / set_name
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            (folder / name).write_bytes(content)
        sums = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
        known = SETS[set_name]
        changed = tuple(replace(file, sha256=sums.get(file.name, file.sha256)) for file in known.files)
        monkeypatch.setitem(SETS, set_name, replace(known, files=changed))

    return register


@pytest.fixture
def npz(tmp_path):
    """The bytes of an npz file with these arrays."""

    def content(**arrays) -> bytes:
        np.savez_compressed(tmp_path / "made.npz", **arrays)
        return (tmp_path / "made.npz").read_bytes()

    return content


def refused(call, *arguments) -> str:
    """The error message; it is one line."""
    with pytest.raises(DataError) as error:
        call(*arguments)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("pack", [gzip.compress, bytes])
def test_an_idx_file_is_read_with_its_shape_compressed_or_not(tmp_path, pack):
    array = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    (tmp_path / "some.idx").write_bytes(pack(idx(array)))
    got = read_idx(tmp_path / "some.idx")
    assert got.dtype == np.uint8
    assert np.array_equal(got, array)
    wide = np.arange(300).astype(np.uint8)  # 300 needs the third byte of a big-endian dimension
    (tmp_path / "wide.idx").write_bytes(pack(idx(wide)))
    assert np.array_equal(read_idx(tmp_path / "wide.idx"), wide)


WHOLE = idx(grey(2))
PACKED = gzip.compress(WHOLE, mtime=0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "FILE is empty: the magic number of an idx file of bytes is 00000801 to 00000804"),
        (b"\x00\x00\x08", "FILE begins with 000008: the magic number"),
        (idx(grey(1), b"\x00\x00\x0d"), "FILE begins with 00000d03: the magic number"),
        (gzip.compress(b"PK\x03\x04 not images", mtime=0), "FILE begins with 504b0304: the magic number"),
        (b"\x00\x00\x08\xff" + bytes(2000), "FILE begins with 000008ff: the magic number"),
        (WHOLE[:9], "FILE is too short: it ends before its 3 dimensions are complete"),
        (WHOLE[:-1], "FILE is too short: shape (2, 28, 28) needs 1568 bytes of data, the file has 1567"),
        (WHOLE + b"\x00", "FILE is too long: shape (2, 28, 28) needs 1568 bytes of data, the file has 1569"),
        (gzip.compress(WHOLE[:-1], mtime=0), "FILE is too short: shape (2, 28, 28)"),
        (idx(grey(0)), "FILE has no values, its shape is (0, 28, 28)"),
        (PACKED[:-20], "FILE is a damaged gzip file ("),
        (PACKED[:5], "FILE is a damaged gzip file ("),
        (PACKED[:200] + bytes([PACKED[200] ^ 255]) + PACKED[201:], "FILE is a damaged gzip file ("),
    ],
)
def test_an_idx_file_that_cannot_be_used_is_one_line(tmp_path, content, message):
    path = tmp_path / "images.gz"
    path.write_bytes(content)
    text = refused(read_idx, path)
    assert text.replace(str(path), "FILE").startswith(message)
    assert text.endswith(": replace it with the correct file")


def test_a_path_without_a_file_is_an_error(tmp_path):
    assert refused(read_idx, tmp_path / "absent") == f"there is no file {tmp_path / 'absent'}: check the path"
    assert refused(read_idx, tmp_path).startswith(f"cannot read {tmp_path}: ")


def test_grey_mnist_keeps_its_values_one_image_a_row(put):
    train, test = grey(5), grey(3, seed=1)
    put(
        "mnist",
        {IMAGES["train"]: gzip.compress(idx(train), mtime=0), IMAGES["test"]: gzip.compress(idx(test), mtime=0)},
    )
    data = grey_mnist()
    assert data.grey
    assert np.array_equal(data.train, train.reshape(5, 784))
    assert np.array_equal(data.test, test.reshape(3, 784))


def test_fashion_is_cut_at_one_half(put):
    train, test = grey(2), grey(2, seed=1)
    train[0, 0, :4], test[1, 27, -4:] = (0, 127, 128, 255), (128, 127, 255, 0)
    put(
        "fashion-mnist",
        {IMAGES["train"]: gzip.compress(idx(train), mtime=0), IMAGES["test"]: gzip.compress(idx(test), mtime=0)},
    )
    data = fashion_mnist()
    assert not data.grey
    assert data.train.dtype == data.test.dtype == np.uint8
    assert data.train[0, :4].tolist() == [0, 0, 1, 1]
    assert data.test[1, -4:].tolist() == [1, 0, 1, 0]
    assert np.array_equal(data.train, train.reshape(2, 784) / 255 > 0.5)


def test_static_mnist_unpacks_the_bits_of_training_and_test(put, npz):
    rng = np.random.default_rng(0)
    bits = {name: rng.integers(2, size=(rows, 784)).astype(np.uint8) for name, rows in (("train", 6), ("test", 4))}
    weights = 2 ** np.arange(7, -1, -1)  # the first of eight bits is the most significant
    packed = {name: (array.reshape(-1, 98, 8) @ weights).astype(np.uint8) for name, array in bits.items()}
    put("binarized-mnist-static", {BITS: npz(**packed, valid=packed["test"][:1])})
    data = static_mnist()
    assert not data.grey
    assert data.train.dtype == np.uint8
    assert np.array_equal(data.train, bits["train"])
    assert np.array_equal(data.test, bits["test"])


def test_a_static_file_that_cannot_be_used_is_one_line(put, npz):
    good = np.zeros((2, 98), np.uint8)
    whole = npz(train=good, test=good)
    cases = {
        "has no array 'test'": npz(train=good, tset=good),
        "train has type uint8 and shape (2, 784), not uint8 and (images, 98)": npz(
            train=np.repeat(good, 8, 1), test=good
        ),
        "test has type float64 and shape (2, 98)": npz(train=good, test=good.astype(float)),
        "train has type uint8 and shape (0, 98)": npz(train=good[:0], test=good),
        "is not an npz file that can be read (Object arrays": npz(train=np.array([{}]), test=good),
        "is not an npz file that can be read (File is not a zip file)": whole[:-30],
        "is not an npz file that can be read (": whole[:60] + bytes(20) + whole[80:],
        "is not an npz file that can be read (File is": b"",
    }
    for message, content in cases.items():
        put("binarized-mnist-static", {BITS: content})
        text = refused(static_mnist)
        assert message in text
        assert f"{BITS}" in text
        assert text.endswith(": replace it with the correct file")


def test_a_missing_file_another_file_and_other_sizes_are_named(put, tmp_path):
    put("mnist", {IMAGES["train"]: gzip.compress(idx(grey(1)), mtime=0)})
    assert "t10k-images-idx3-ubyte.gz was not found: fetch it with `civi data fetch mnist`" in refused(grey_mnist)
    put("mnist", {IMAGES["test"]: gzip.compress(idx(grey(1)[:, :27]), mtime=0)})
    put("mnist", {IMAGES["train"]: gzip.compress(idx(grey(1)), mtime=0)})
    (tmp_path / "data" / "mnist" / IMAGES["train"]).write_bytes(PACKED)
    assert f"{IMAGES['train']} is damaged or a different file: its sha256 is " in refused(grey_mnist)
    put("mnist", {IMAGES["train"]: PACKED})
    assert f"{IMAGES['test']} has shape (1, 27, 28), not (images, 28, 28)" in refused(grey_mnist)
