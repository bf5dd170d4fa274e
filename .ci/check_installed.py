"""Check what an installed wheel says about itself; `.ci/package` runs it in the environment of the wheel."""

import importlib.resources
import importlib.util
from importlib.metadata import distribution

import civi

found = distribution("civi")
metadata, files = found.metadata, [str(path) for path in found.files or []]
classifiers = metadata.get_all("Classifier") or []

assert found.version == civi.__version__, "the version of the wheel is not that of the code"
assert metadata["License-Expression"] == "MIT AND CC-BY-4.0"
for ending in ("licenses/LICENSE", "shipped/ATTRIBUTION.md", "shipped/nodal/nodal.csv", "civi/py.typed"):
    assert any(name.endswith(ending) for name in files), f"{ending} is missing in the wheel"
assert "Typing :: Typed" in classifiers
assert importlib.resources.files("civi").joinpath("py.typed").is_file()
for name in ("arviz", "funsor", "pytest"):
    assert importlib.util.find_spec(name) is None, f"{name} is optional, but the wheel has brought it"
print(f"civi {found.version} is complete: {len(files)} files")
