"""Files with valid checksums but a wrong content: `civi.load` refuses each in one line, without reading bombs."""

import hashlib
import io
import json
import zipfile

import numpy as np
import pytest

import civi
from civi.errors import DataError
from exact_posterior import X, Y, exact, line


@pytest.fixture(scope="module")
def members(tmp_path_factory):
    """The members of a valid file."""
    path = tmp_path_factory.mktemp("forged") / "fit.civi"
    exact(line, X, Y).save(path)
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def forge(path, members, compression=zipfile.ZIP_STORED):
    """Write the members with checksums that match them."""
    rest = {name: data for name, data in members.items() if name != "format.json"}
    sums = {name: hashlib.sha256(data).hexdigest() for name, data in rest.items()}
    header = json.loads(members["format.json"]) | {"sha256": sums}
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in {"format.json": json.dumps(header).encode(), **rest}.items():
            archive.writestr(name, data)
    return path


def refusal(path) -> str:
    with pytest.raises(DataError) as refused:
        civi.load(path)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def npy(array) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def test_a_forged_file_with_the_same_content_is_accepted(members, tmp_path):
    assert civi.load(forge(tmp_path / "same", members)).dim == 2


def deep(depth: int) -> object:
    value: object = 0
    for _ in range(depth):
        value = {"list": [value]}
    return value


CURVE = {"kind": "RunCurve", "fields": dict.fromkeys(("step", "seconds", "neg_elbo", "sd"), 1)}


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("parts", "converged"), "yes", "converged is not true, false or null"),
        (("parts", "r_hat"), "low", "r_hat is not a number"),
        (("parts", "message"), 3, "message is not a text"),
        (("parts", "phases"), {"dict": {"pilot": -1}}, "phases does not hold numbers of seconds"),
        (("parts", "phases"), 3, "phases does not hold numbers of seconds"),
        (("parts", "runs"), {"list": [3]}, "runs are not learning curves"),
        (("parts", "runs"), {"list": [CURVE]}, "a learning curve has a wrong shape"),
        (("parts", "runs"), None, "runs are not learning curves"),
        (("parts", "seconds"), -1, "seconds is not a number of seconds"),
        (("parts", "seconds"), float("nan"), "seconds is not a number of seconds"),
        (("parts", "dim"), 3, "the family has draws of shape (2,), not (3,)"),
        (("parts", "dim"), True, "the dimension is not a whole number from 1 on"),
        (("parts", "dim"), 10**12, "the dimension is not a whole number from 1 on"),
        (("parts", "family"), None, "family is not a semi-implicit family"),
        (("parts", "family", "fields", "noise", "fields", "dim"), 10**12, "the dimension of the noise"),
        (("parts", "family", "fields", "noise", "fields", "scale"), "x", "cannot be read: "),
        (("parts", "history"), {"dict": {"a": 1}}, "history has a column that is not a list of numbers"),
        (("parts", "history"), deep(20), "history is not a table"),
        (("parts", "history"), deep(40), "it is nested more than 30 levels deep"),
        (("parts", "guesses"), {"array": "absent", "jax": False}, "the array 'absent' is missing"),
        (("parts", "frame", "kind"), "Path", "it contains a Path, which this version of civi does not know"),
        (("parts", "frame", "kind"), ["Frame"], "which this version of civi does not know"),
        (("parts", "frame", "fields"), [], "it contains a list where a dict is expected"),
        (("parts", "more"), 1, "cannot be read: "),
        (("parts",), [], "its parts are not an object"),
        (("kind",), "other", "it holds an unknown kind of posterior, 'other'"),
        (("kind",), {}, "it holds an unknown kind of posterior"),
        (("space",), [1], "cannot be read: "),
        ((), "text", "it does not contain an object"),
        ((), {}, "kind, parts, space is missing"),
    ],
)
def test_content_of_a_wrong_type_or_shape_is_refused(members, tmp_path, path, value, message):
    content = json.loads(members["content.json"])
    place = content
    for name in path[:-1]:
        place = place[name]
    if path:
        place[path[-1]] = value
    changed = json.dumps(content if path else value).encode()
    assert message in refusal(forge(tmp_path / "forged", {**members, "content.json": changed}))


HUGE = b"\x93NUMPY\x01\x00v\x00" + b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }".ljust(117)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (npy(np.full(2, np.nan, np.float32)), "frame has numbers that are not finite"),
        (npy(np.ones(3, np.float32)), "cannot be read: "),
        (npy(np.ones((2, 2), np.float32)), "cannot be read: "),
        (npy(np.ones(2, int)), "cannot be read: "),
        (npy(np.array(["a", "b"])), "is not an array of numbers"),
        (npy(np.array([b"a", b"b"])), "is not an array of numbers"),
        (HUGE + b"\n", "is not as large as its shape"),
        (npy(np.ones(2, np.float32))[:-1], "is not as large as its shape"),
        (b"\x93NUMPY\x01\x00v\x00" + b"(" * 117 + b"\n", "is damaged: "),
        (b"", "is damaged: "),
    ],
)
def test_arrays_that_do_not_fit_are_refused(members, tmp_path, data, message):
    assert message in refusal(forge(tmp_path / "forged", {**members, "arrays/frame.location.npy": data}))


@pytest.mark.parametrize("text", [b"[" * 100_000, b'{"a":' * 100_000, b"{", b"\xff", b"1" * 5000, b"[]"])
@pytest.mark.parametrize("member", ["content.json", "format.json"])
def test_json_that_cannot_be_parsed_is_refused(members, tmp_path, text, member):
    forge(tmp_path / "forged", {**members, **({member: text} if member == "content.json" else {})})
    if member == "format.json":
        with zipfile.ZipFile(tmp_path / "forged", "w") as archive:
            archive.writestr("format.json", text)
    refusal(tmp_path / "forged")


def test_a_bomb_is_refused_before_it_is_read(members, tmp_path, monkeypatch):
    """100 MB of zeros in 100 kB. No member may be read."""
    forge(tmp_path / "bomb", {**members, "arrays/bomb.npy": bytes(100_000_000)}, zipfile.ZIP_DEFLATED)
    monkeypatch.setattr(zipfile.ZipFile, "read", lambda *_: pytest.fail("the bomb was read"))
    assert "a member is compressed or encrypted, which civi never writes" in refusal(tmp_path / "bomb")


def test_members_that_overlap_are_refused(members, tmp_path):
    """Two entries of the directory that use the same bytes declare more than the file has."""
    data = forge(tmp_path / "forged", {**members, "arrays/more.npy": npy(np.ones(10_000))}).read_bytes()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entry = archive.getinfo("arrays/more.npy")
    with zipfile.ZipFile(tmp_path / "forged", "w") as archive:
        archive.writestr("arrays/more.npy", npy(np.ones(10_000)))
        for i in range(50):
            twin = zipfile.ZipInfo(f"arrays/{i}.npy")
            twin.file_size = twin.compress_size = entry.file_size
            twin.CRC, twin.header_offset = entry.CRC, 0
            archive.filelist.append(twin)
            archive.NameToInfo[twin.filename] = twin
    assert "its members are larger than the file" in refusal(tmp_path / "forged")
