"""Both wheels in an environment of their own, as on a machine without Rust.

Their paths are in REVSEQ_CLI_WHEEL and REVSEQ_EP_WHEEL.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import venv
import zipfile

import onnxruntime
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[4]
#: A ReverseSequence that ONNX Runtime's own kernel refuses.
MODEL = ROOT / "models/graphs/between_neg"


def wheel(name):
    path = os.environ.get(name)
    assert path, f"set {name} to the path of the wheel"
    return pathlib.Path(path).resolve(strict=True)


WHEELS = [wheel("REVSEQ_CLI_WHEEL"), wheel("REVSEQ_EP_WHEEL")]


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    """The folder of an environment that has the two wheels and nothing else."""
    folder = tmp_path_factory.mktemp("clean")
    venv.create(folder)
    # Without an index: whatever else they needed could not come from anywhere.
    pip = [sys.executable, "-m", "pip", "--python", folder / "bin/python"]
    subprocess.run([*pip, "install", "--quiet", "--no-index", *WHEELS], check=True)
    return folder


def revseq(clean, *arguments, **env):
    """The command's output, in the activated environment, without Rust."""
    path = f"{clean / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin"
    assert shutil.which("cargo", path=path) is None
    env = {"PATH": path, "VIRTUAL_ENV": str(clean), "HOME": str(clean), **env}
    done = subprocess.run(
        ["revseq", *arguments], capture_output=True, text=True, timeout=300, env=env, cwd=clean
    )
    assert done.returncode == 0, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_a_model_runs_on_tract(clean):
    assert "y: float[5,4]" in revseq(clean, "run", str(MODEL))
    printed = json.loads(revseq(clean, "verify", str(MODEL), "--format", "json"))
    assert (printed["passed"], printed["failed"], printed["skipped"]) == (1, 0, 0)


def test_the_provider_is_found_by_itself(clean):
    packages = str(pathlib.Path(onnxruntime.__file__).parents[1])
    arguments = ["run", str(MODEL), "--backend", "ort", "--format", "json"]
    printed = json.loads(revseq(clean, *arguments, PYTHONPATH=packages))
    assert [node["provider"] for node in printed["nodes"]] == ["RevSeqExecutionProvider"]


def test_all_commands_are_in_it(clean):
    revseq(clean, "rewrite", str(MODEL), "-o", "portable.onnx", "--portable", "--check")
    assert (clean / "portable.onnx").is_file()
    revseq(clean, "bench", "--help")


def test_completions_and_manual_pages(clean):
    share = clean / "share"
    assert "revseq" in (share / "bash-completion/completions/revseq").read_text()
    assert "#compdef revseq" in (share / "zsh/site-functions/_revseq").read_text()
    assert "complete -c revseq" in (share / "fish/vendor_completions.d/revseq.fish").read_text()
    pages = {page.name for page in (share / "man/man1").iterdir()}
    assert {"revseq.1", "revseq-run.1", "revseq-verify.1"} <= pages
    assert ".TH revseq-run 1" in (share / "man/man1/revseq-run.1").read_text()


@pytest.mark.parametrize(
    ("wheel", "crates"),
    [(WHEELS[0], ("tract-onnx", "ort", "rayon")), (WHEELS[1], ("smallvec", "thiserror"))],
    ids=["cli", "ep"],
)
def test_linked_crates_are_named(wheel, crates):
    with zipfile.ZipFile(wheel) as archive:
        def read(end):
            (name,) = (name for name in archive.namelist() if name.endswith(end))
            return archive.read(name).decode()

        assert "-py3-none-" in wheel.name
        metadata = read(".dist-info/METADATA")
        notices = read(".dist-info/licenses/THIRD-PARTY-NOTICES.txt")
        bom = json.loads(read(".cyclonedx.json"))
        assert "Author: the revseq maintainers" in metadata
        assert "License-File: COPYRIGHT-library.html" in metadata
        assert any("/sboms/" in name for name in archive.namelist())
    assert bom["bomFormat"] == "CycloneDX"
    components = {component["name"] for component in bom["components"]}
    for crate in crates:
        assert f"\n{crate} " in notices
        assert crate in components
    # Neither the tests nor the macros of Rust are in a binary.
    assert not components & {"insta", "proptest", "syn", "clap_derive"}
