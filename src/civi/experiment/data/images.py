"""Images of 28 x 28 pixels, one per row: MNIST with two kinds of binarisation, and Fashion-MNIST."""

from __future__ import annotations

import gzip
import math
import struct
import zipfile
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np

from civi.errors import DataError
from civi.experiment.data.files import locate

SIDE = 28
PIXELS = SIDE * SIDE
GZIP = b"\x1f\x8b"
MAGIC = tuple(bytes([0, 0, 8, rank]) for rank in (1, 2, 3, 4))
BITS_FILE = "binarized_mnist_bits.npz"
REPAIR = "replace it with the correct file"


class ImageData(NamedTuple):
    """Images as rows of 784 numbers. The arrays may be read-only.

    Attributes:
        train: training images.
        test: test images.
        grey: whether values are 0 to 255, to be binarised anew in each batch (a pixel x is 1 with probability x / 255).
            Otherwise values are 0 or 1.
        source: where the images come from.
    """

    train: np.ndarray
    test: np.ndarray
    grey: bool
    source: str


def static_mnist() -> ImageData:
    """Larochelle's static binarisation of MNIST: 50,000 training and 10,000 test images, without the validation set."""
    path = locate("binarized-mnist-static", BITS_FILE)
    train, test = _read_bits(path, ("train", "test"))
    return ImageData(train, test, grey=False, source="MNIST, Larochelle's static binarisation")


def grey_mnist() -> ImageData:
    """The original MNIST: 60,000 training and 10,000 test images, to be binarised dynamically."""
    train, test = _read_pair("mnist")
    return ImageData(train, test, grey=True, source="MNIST, grey values")


def fashion_mnist() -> ImageData:
    """Fashion-MNIST: 60,000 training and 10,000 test images; a pixel x is 1 if x / 255 > 0.5."""
    train, test = (_above_half(images) for images in _read_pair("fashion-mnist"))
    return ImageData(train, test, grey=False, source="Fashion-MNIST, x / 255 > 0.5")


def _above_half(images: np.ndarray) -> np.ndarray:
    return (images > 127).astype(np.uint8)


def _read_pair(set_name: str) -> list[np.ndarray]:
    return [_read_images(locate(set_name, f"{part}-images-idx3-ubyte.gz")) for part in ("train", "t10k")]


def _read_images(path: Path) -> np.ndarray:
    images = read_idx(path)
    if images.shape[1:] != (SIDE, SIDE):
        raise DataError(f"{path} has shape {images.shape}, not (images, {SIDE}, {SIDE}): {REPAIR}")
    return images.reshape(-1, PIXELS)


def read_idx(path: Path) -> np.ndarray:
    """Read an idx file of unsigned bytes, compressed by gzip or not, as a read-only array.

    The format is two zero bytes, a byte for the type (8) and a byte for the number of dimensions; then the dimensions
    as big-endian integers of four bytes; then the values in row-major order.
    """
    content = _unpacked(path)
    shape = _shape(path, content)
    start, wanted = 4 + 4 * len(shape), math.prod(shape)
    got = len(content) - start
    if got != wanted:
        raise DataError(
            f"{path} is too {'short' if got < wanted else 'long'}: shape {shape} needs {wanted} bytes of data, "
            f"the file has {got}: {REPAIR}"
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def _shape(path: Path, content: bytes) -> tuple[int, ...]:
    if content[:4] not in MAGIC:
        shown = f"begins with {content[:4].hex()}" if content else "is empty"
        raise DataError(f"{path} {shown}: the magic number of an idx file of bytes is 00000801 to 00000804: {REPAIR}")
    rank = content[3]
    if len(content) < 4 + 4 * rank:
        raise DataError(f"{path} is too short: it ends before its {rank} dimensions are complete: {REPAIR}")
    shape = struct.unpack_from(f">{rank}I", content, 4)
    if 0 in shape:
        raise DataError(f"{path} has no values, its shape is {shape}: {REPAIR}")
    return shape


def _unpacked(path: Path) -> bytes:
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if content.startswith(GZIP) else content
    except FileNotFoundError as error:
        raise DataError(f"there is no file {path}: check the path") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{path} is a damaged gzip file ({error}): {REPAIR}") from error
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error


def _read_bits(path: Path, keys: tuple[str, ...]) -> list[np.ndarray]:
    """Read these arrays of an npz file and unpack their bits along axis 1."""
    packed = _load(path, keys)
    for key in keys:
        if key not in packed:
            raise DataError(f"{path} has no array '{key}': {REPAIR}")
    return [_unpacked_bits(path, key, packed[key]) for key in keys]


def _load(path: Path, keys: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Those of the requested arrays that the npz file contains."""
    try:
        with zipfile.ZipFile(path), np.load(path, allow_pickle=False) as loaded:
            return {key: loaded[key] for key in keys if key in loaded}
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise DataError(f"{path} is not an npz file that can be read ({reason}): {REPAIR}") from error


def _unpacked_bits(path: Path, key: str, packed: np.ndarray) -> np.ndarray:
    width = PIXELS // 8
    if packed.dtype != np.uint8 or packed.ndim != 2 or packed.shape[1] != width or not len(packed):
        raise DataError(
            f"{path}: {key} has type {packed.dtype} and shape {packed.shape}, not uint8 and (images, {width}): {REPAIR}"
        )
    return np.unpackbits(packed, axis=1)
