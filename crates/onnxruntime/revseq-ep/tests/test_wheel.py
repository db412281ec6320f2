"""The wheel, installed as a user installs it: its path is in REVSEQ_EP_WHEEL."""

import os
import pathlib
import subprocess
import sys
import venv
import zipfile

import pytest

import harness
from packaging.tags import sys_tags
from packaging.utils import parse_wheel_filename

EXAMPLES = harness.ROOT / "crates/onnxruntime/revseq-ep/examples"


@pytest.fixture(scope="module")
def wheel():
    path = os.environ.get("REVSEQ_EP_WHEEL")
    assert path, "set REVSEQ_EP_WHEEL to the path of the wheel"
    return pathlib.Path(path).resolve(strict=True)


@pytest.fixture(scope="module")
def clean(wheel, tmp_path_factory):
    """The interpreter of an environment that has the wheel and nothing else."""
    folder = tmp_path_factory.mktemp("clean")
    venv.create(folder)
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    # Without an index: whatever else it needed could not come from anywhere.
    pip = [sys.executable, "-m", "pip", "--python", python]
    subprocess.run([*pip, "install", "--quiet", "--no-index", wheel], check=True)
    return python


def output(*command, **env):
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, env={**os.environ, **env}
    )
    assert done.returncode == 0, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_contents_of_the_wheel(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    package = sorted(name for name in names if name.startswith("onnxruntime_ep_revseq/"))
    library = pathlib.Path(harness.library()).name
    files = sorted(["__init__.py", "_bench.py", "_library.py", "_report.py", "_rewrite.py", library, "py.typed", "worker.py"])
    assert package == [f"onnxruntime_ep_revseq/{name}" for name in files]
    assert any(name.endswith("licenses/LICENSE-MIT") for name in names)
    assert any(name.endswith("licenses/LICENSE-APACHE") for name in names)
    assert any(name.endswith("licenses/THIRD-PARTY-NOTICES.txt") for name in names)
    assert any(name.endswith("sboms/revseq-ep.cyclonedx.json") for name in names)
    _, _, _, tags = parse_wheel_filename(wheel.name)
    assert all(tag.interpreter == "py3" and tag.abi == "none" for tag in tags)
    assert tags & set(sys_tags())


def test_a_clean_environment(clean):
    script = """
import importlib.metadata, os, sys
import onnxruntime_ep_revseq as ep
assert ep.get_ep_names() == ["RevSeqExecutionProvider"] and ep.get_ep_name() == ep.get_ep_names()[0]
path = ep.get_library_path()
assert os.path.isabs(path) and os.path.isfile(path) and path.startswith(sys.prefix), path
requires = importlib.metadata.requires("onnxruntime-ep-revseq")
assert requires == ["onnxruntime>=1.24; extra == 'ort'"], requires
assert ep.__version__ == importlib.metadata.version("onnxruntime-ep-revseq")
assert "onnxruntime" not in sys.modules
print("well")
"""
    assert output(clean, "-c", script) == "well\n"


def installed(clean):
    """The folder of the clean environment that has the package."""
    code = "import onnxruntime_ep_revseq as ep; print(ep.__path__[0])"
    return pathlib.Path(output(clean, "-c", code).strip()).parent


def test_the_python_example(clean):
    printed = output(sys.executable, EXAMPLES / "python.py", PYTHONPATH=str(installed(clean)))
    assert f"{harness.EP:28} ReverseSequence ''" in printed
    assert "[[[2.0, 1.0, 0.0, 3.0]], [[7.0, 6.0, 5.0, 4.0]]]" in printed
