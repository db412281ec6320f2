"""Builds wheels of a platform, or of all, into target/wheels/PLATFORM, and checks them.

    python crates/tools/xtask/wheels/build.py [ep] [cli]

With `--dev`, what is compiled is not optimised, and the provider has the failures that its tests inject; the
wheels go into target/dev-wheels/PLATFORM, with what they were made of.
`ep` is onnxruntime-ep-revseq, `cli` is revseq-cli; both, unless one is named. Needs cargo, the target (`rustup target add`), and a
network for the pinned tools of requirements.txt, which go into an environment of their own under target/.
zig, one of them, links for any platform, and for an old glibc, so that what is built runs wherever ONNX
Runtime's own wheel does.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv

from platforms import EXPORTS, PLATFORMS, Platform, native

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[3]
#: The folder that cargo builds into.
TARGET = pathlib.Path(json.loads(subprocess.run(
    ["cargo", "metadata", "--format-version=1", "--no-deps"], cwd=ROOT, check=True, stdout=subprocess.PIPE,
).stdout)["target_directory"])  # fmt: skip
TOOLS = TARGET / "wheel-tools"
BIN = TOOLS / ("Scripts" if os.name == "nt" else "bin")
#: Each wheel's package, and the folder of its project.
WHEELS = {
    "ep": ("revseq-ep", "crates/onnxruntime/revseq-ep/python"),
    "cli": ("revseq-runner", "crates/tools/revseq-runner/python"),
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
        run(BIN / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
            "-r", HERE / "requirements.txt")  # fmt: skip
        stamp.write_text(pins)
    path = os.pathsep.join([str(BIN), os.environ.get("PATH", "")])
    done = subprocess.run([BIN / "python", __file__, *sys.argv[1:]], env={**os.environ, "PATH": path})
    sys.exit(done.returncode)


def compiled(profile: str, package: str, features: str, platform: Platform) -> pathlib.Path:
    """The library or the program that cargo builds."""
    is_library = package == "revseq-ep"
    name = platform.library.format("revseq_ep") if is_library else platform.program.format("revseq")
    linking = []
    if is_library and platform.system == "windows":
        # cargo-zigbuild drops the list that Rust hands to the linker.
        exports = TOOLS / "exports.def"
        exports.write_text("EXPORTS\n" + "".join(f"    {export}\n" for export in EXPORTS))
        linking = ["-C", f"link-arg={exports}"]
    elif is_library and platform.system == "darwin":
        # It would be a path of this machine.
        linking = ["-C", f"link-arg=-Wl,-install_name,@rpath/{name}"]
    run("cargo-zigbuild", "rustc", "--profile", profile, "--locked", "--package", package, "--lib" if is_library else "--bins",
        "--features", features, "--target", platform.zig_target, "--", *linking,
        cwd=ROOT, env={**os.environ, **platform.environment})  # fmt: skip
    return TARGET / platform.triple / {"dev": "debug"}.get(profile, profile) / name


def contents(wheel: str, built: pathlib.Path, runnable: pathlib.Path, folder: pathlib.Path) -> dict:
    """The wheel's files and their places, as Hatch's build data."""
    if wheel == "ep":
        return {"force_include": {str(built): f"onnxruntime_ep_revseq/{built.name}"}}
    share = folder / "share"
    for shell, path in COMPLETIONS.items():
        (folder / path).parent.mkdir(parents=True)
        (folder / path).write_text(output(runnable, "completions", shell))
    pages = share / "man/man1"
    pages.mkdir(parents=True)
    run(runnable, "man", pages)
    files = {str(file): str(file.relative_to(folder)) for file in share.rglob("*") if file.is_file()}
    return {"shared_scripts": {str(built): built.name}, "shared_data": files}


def describe(package: str, features: str, platform: Platform, project: pathlib.Path, folder: pathlib.Path) -> dict:
    """Writes notices of linked crates beside the project's licences; returns the bill of materials."""
    import linked

    crates = linked.crates(ROOT, package, features, platform.triple)
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


def build(profile: str, wheel: str, name: str, platform: Platform) -> None:
    import check

    package, path = WHEELS[wheel]
    features = "full" if wheel == "cli" else "fault-injection" if profile == "dev" else ""
    project = ROOT / path
    built = runnable = compiled(profile, package, features, platform)
    if wheel == "cli" and not native(platform):
        # Completions and manual pages are the same everywhere, but for one's own platform to print.
        host = next(filter(native, PLATFORMS.values()))
        runnable = compiled(profile, package, features, host)
    wheels = TARGET / ("wheels" if profile == "release" else "dev-wheels") / name
    wheels.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        data = contents(wheel, built, runnable, folder) | describe(package, features, platform, project, folder)
        data["tag"] = f"py3-none-{platform.tag}"
        out = folder / "out"
        run("python", "-m", "build", "--wheel", "--no-isolation", "--outdir", out, project,
            env={**os.environ, "REVSEQ_WHEEL": json.dumps(data)})  # fmt: skip
        (made,) = out.glob("*.whl")
        check.check(made, platform, built.name)
        for old in wheels.glob(made.name.split("-")[0] + "-*.whl"):
            old.unlink()
        shutil.copy2(made, wheels)
    if profile == "dev":
        shutil.copy2(built, wheels)
    print(wheels / made.name)


def main() -> None:
    parser = argparse.ArgumentParser(prog="cargo xtask wheel", description="Build wheels into target/wheels/PLATFORM.")
    parser.add_argument("wheels", nargs="*", metavar="ep|cli", help="the provider or the command; by default both")
    parser.add_argument("--platform", choices=PLATFORMS, help="by default this machine's")
    parser.add_argument("--all-platforms", action="store_true")
    parser.add_argument("--dev", action="store_true", help="unoptimised, with the failures that tests inject")
    arguments = parser.parse_args()
    wanted = arguments.wheels or list(WHEELS)
    if unknown := set(wanted) - set(WHEELS):
        parser.error(f"there is no wheel {min(unknown)!r}, there are {' and '.join(WHEELS)}")
    profile = "dev" if arguments.dev else "release"
    name = arguments.platform or next((name for name, it in PLATFORMS.items() if native(it)), None)
    if name is None:
        parser.error(f"there are no wheels of this machine's platform, but with --platform of {', '.join(PLATFORMS)}")
    chosen = PLATFORMS if arguments.all_platforms else {name: PLATFORMS[name]}
    missing = [it.triple for it in chosen.values() if not is_installed(it)]
    if missing:
        sys.exit(f"Rust's standard library is missing for them; rustup target add {' '.join(missing)}")
    enter_tools()
    for name, platform in chosen.items():
        for wheel in wanted:
            if wheel == "ep" or platform.has_command:
                build(profile, wheel, name, platform)
            elif len(chosen) == 1:
                sys.exit(f"there is no wheel of the command for {name}")


def is_installed(platform: Platform) -> bool:
    folder = subprocess.run(["rustc", "--print", "target-libdir", "--target", platform.triple],
                            check=True, text=True, stdout=subprocess.PIPE).stdout  # fmt: skip
    return pathlib.Path(folder.strip()).is_dir()


if __name__ == "__main__":
    main()
