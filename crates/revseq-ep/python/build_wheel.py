"""Builds the wheel onnxruntime-ep-revseq into target/wheels.

    python crates/revseq-ep/python/build_wheel.py

Needs cargo, and a network for the pinned tools of requirements-build.txt, which
go into an environment of their own under target/. The library is linked against
an old glibc, so that the wheel runs wherever ONNX Runtime's own does.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import venv

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
TARGET = ROOT / "target"
TOOLS = TARGET / "wheel-tools"
TRIPLE = "x86_64-unknown-linux-gnu"
#: The oldest glibc that Rust's standard library runs on.
GLIBC = "2.17"


def run(*command, **kwargs):
    print("+", *command, flush=True)
    return subprocess.run(command, check=True, text=True, **kwargs)


def tools() -> dict[str, str]:
    """The environment in which the pinned tools are found; installs them if they are not."""
    pins = (HERE / "requirements-build.txt").read_text()
    stamp = TOOLS / "pins.txt"
    if not stamp.is_file() or stamp.read_text() != pins:
        venv.create(TOOLS, with_pip=True, clear=True)
        run(TOOLS / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
            "-r", HERE / "requirements-build.txt")  # fmt: skip
        stamp.write_text(pins)
    path = os.pathsep.join([str(TOOLS / "bin"), os.environ.get("PATH", "")])
    return {**os.environ, "PATH": path}


def platform(wheel: pathlib.Path, env: dict[str, str]) -> str:
    """The platform tag that auditwheel says the wheel is consistent with."""
    shown = run("auditwheel", "show", "--json", wheel, env=env, stdout=subprocess.PIPE)
    return json.loads(shown.stdout)["overall_tag"]


def main() -> None:
    env = tools()
    run("cargo", "zigbuild", "--release", "--locked", "--package", "revseq-ep",
        "--target", f"{TRIPLE}.{GLIBC}", cwd=ROOT, env=env)  # fmt: skip
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", TARGET))
    library = ROOT / target / TRIPLE / "release/librevseq_ep.so"
    wheels = TARGET / "wheels"
    wheels.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        run("python", "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, HERE,
            env={**env, "REVSEQ_EP_LIBRARY": str(library)})  # fmt: skip
        (built,) = pathlib.Path(folder).glob("*.whl")
        tag = platform(built, env)
        if not tag.startswith("manylinux_"):
            sys.exit(f"auditwheel finds {built.name} consistent with {tag} only, expected a manylinux tag")
        run("wheel", "tags", "--remove", "--platform-tag", tag, built, env=env)
        (tagged,) = pathlib.Path(folder).glob("*.whl")
        if not tagged.name.endswith(f"-py3-none-{platform(tagged, env)}.whl"):
            sys.exit(f"auditwheel disagrees with the tag of {tagged.name}")
        shutil.copy2(tagged, wheels)
    print(wheels / tagged.name)


if __name__ == "__main__":
    main()
