"""Builds wheels into target/wheels: `ep` is onnxruntime-ep-revseq, `cli` is revseq-cli.

    python crates/xtask/wheels/build.py ep cli

Needs cargo, and a network for the pinned tools of requirements.txt, which go into an
environment of their own under target/. What is built is linked against an old glibc, so
that it runs wherever ONNX Runtime's own wheel does.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
#: The folder that cargo builds into.
TARGET = pathlib.Path(json.loads(subprocess.run(
    ["cargo", "metadata", "--format-version=1", "--no-deps"], cwd=ROOT, check=True, stdout=subprocess.PIPE,
).stdout)["target_directory"])  # fmt: skip
TOOLS = TARGET / "wheel-tools"
TRIPLE = "x86_64-unknown-linux-gnu"
#: The oldest glibc that Rust's standard library runs on.
GLIBC = "2.17"
#: Each wheel's package, its features, and the folder of its project.
WHEELS = {
    "ep": ("revseq-ep", "", "crates/revseq-ep/python"),
    "cli": ("revseq-runner", "full", "crates/revseq-runner/python"),
}
#: Where each shell looks for completions, below a prefix.
COMPLETIONS = {
    "bash": "share/bash-completion/completions/revseq",
    "fish": "share/fish/vendor_completions.d/revseq.fish",
    "zsh": "share/zsh/site-functions/_revseq",
}


def run(*command, **kwargs):
    print("+", *command, flush=True)
    return subprocess.run(command, check=True, text=True, **kwargs)


def output(*command, **kwargs) -> str:
    return run(*command, stdout=subprocess.PIPE, **kwargs).stdout


def enter_tools() -> None:
    """Goes on in the environment of the pinned tools; installs them if they are not there."""
    if pathlib.Path(sys.prefix) == TOOLS:
        return
    pins = (HERE / "requirements.txt").read_text()
    stamp = TOOLS / "pins.txt"
    if not stamp.is_file() or stamp.read_text() != pins:
        venv.create(TOOLS, with_pip=True, clear=True)
        run(TOOLS / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
            "-r", HERE / "requirements.txt")  # fmt: skip
        stamp.write_text(pins)
    path = os.pathsep.join([str(TOOLS / "bin"), os.environ.get("PATH", "")])
    done = subprocess.run([TOOLS / "bin/python", __file__, *sys.argv[1:]], env={**os.environ, "PATH": path})
    sys.exit(done.returncode)


def platform(wheel: pathlib.Path) -> str:
    """The platform tag that auditwheel says the wheel is consistent with."""
    return json.loads(output("auditwheel", "show", "--json", wheel))["overall_tag"]


def compiled(package: str, features: str) -> pathlib.Path:
    """The folder of what cargo built."""
    run("cargo", "zigbuild", "--release", "--locked", "--package", package, "--features", features,
        "--target", f"{TRIPLE}.{GLIBC}", cwd=ROOT)  # fmt: skip
    return TARGET / TRIPLE / "release"


def contents(wheel: str, release: pathlib.Path, folder: pathlib.Path) -> dict:
    """What of the build goes where in the wheel, as Hatch's build data."""
    if wheel == "ep":
        library = release / "librevseq_ep.so"
        return {"force_include": {str(library): "onnxruntime_ep_revseq/librevseq_ep.so"}}
    revseq, share = release / "revseq", folder / "share"
    for shell, path in COMPLETIONS.items():
        (folder / path).parent.mkdir(parents=True)
        (folder / path).write_text(output(revseq, "completions", shell))
    pages = share / "man/man1"
    pages.mkdir(parents=True)
    run(revseq, "man", pages)
    files = {str(file): str(file.relative_to(folder)) for file in share.rglob("*") if file.is_file()}
    return {"shared_scripts": {str(revseq): "revseq"}, "shared_data": files}


def describe(package: str, features: str, project: pathlib.Path, folder: pathlib.Path) -> dict:
    """Writes what is linked in beside the project's licences; gives its bill of materials."""
    import linked

    crates = linked.crates(ROOT, package, features, TRIPLE)
    standard = {"MIT": (ROOT / "LICENSE-MIT").read_text().split("\n\n", 2)[2],
                "Apache-2.0": (ROOT / "LICENSE-APACHE").read_text()}  # fmt: skip
    (project / "THIRD-PARTY-NOTICES.txt").write_text(linked.notices(crates, standard))
    sysroot = pathlib.Path(output("rustc", "--print", "sysroot").strip())
    shutil.copy(sysroot / "share/doc/rust/COPYRIGHT-library.html", project)
    locked = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    checksums = {(it["name"], it["version"]): it["checksum"] for it in locked if "checksum" in it}
    bom = folder / f"{package}.cyclonedx.json"
    bom.write_text(linked.bill_of_materials(crates, checksums))
    return {"sbom_files": [str(bom)]}


def build(wheel: str) -> None:
    package, features, path = WHEELS[wheel]
    project = ROOT / path
    release = compiled(package, features)
    wheels = TARGET / "wheels"
    wheels.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        data = contents(wheel, release, folder) | describe(package, features, project, folder)
        out = folder / "out"
        run("python", "-m", "build", "--wheel", "--no-isolation", "--outdir", out, project,
            env={**os.environ, "REVSEQ_WHEEL": json.dumps(data)})  # fmt: skip
        (built,) = out.glob("*.whl")
        tag = platform(built)
        if not tag.startswith("manylinux_"):
            sys.exit(f"auditwheel finds {built.name} consistent with {tag} only, expected a manylinux tag")
        run("wheel", "tags", "--remove", "--platform-tag", tag, built)
        (tagged,) = out.glob("*.whl")
        if not tagged.name.endswith(f"-py3-none-{platform(tagged)}.whl"):
            sys.exit(f"auditwheel disagrees with the tag of {tagged.name}")
        for old in wheels.glob(tagged.name.split("-")[0] + "-*.whl"):
            old.unlink()
        shutil.copy2(tagged, wheels)
    print(wheels / tagged.name)


def main() -> None:
    wanted = sys.argv[1:]
    if not wanted or not set(wanted) <= set(WHEELS):
        sys.exit(f"usage: build.py WHEEL..., each one of {', '.join(WHEELS)}")
    enter_tools()
    for wheel in wanted:
        build(wheel)


if __name__ == "__main__":
    main()
