"""Checks a wheel's file: the systems that its tag names, and its contents."""

import io
import json
import re
import subprocess
import sys
import zipfile

import lief
from platforms import EXPORTS, Platform, dotted

#: The formats' codes of each processor.
PROCESSORS = {"x86_64": ("X86_64", "AMD64"), "aarch64": ("AARCH64", "ARM64")}
#: The libraries of each system that a binary may need; those of Linux are auditwheel's to say.
SYSTEM_LIBRARIES = {
    "windows": re.compile(
        r"(?i)(api-ms-win-[a-z0-9-]+|advapi32|bcrypt|bcryptprimitives|gdi32|kernel32|kernelbase|msvcrt|ntdll|ole32"
        r"|oleaut32|opengl32|rpcrt4|setupapi|shell32|user32|userenv|ws2_32|d3d12|dxgi|d3dcompiler_47|dcomp|combase)\.dll"
    ),
    "darwin": re.compile(r"/usr/lib/(libSystem\.B|libcharset\.1|libiconv\.2)\.dylib"),
}


def check(wheel, platform: Platform, binary: str) -> None:
    """Ends the program unless the wheel holds the binary, built for the platform, and is well formed."""
    problems = []

    def expect(what, found, wanted):
        if found != wanted:
            problems.append(f"{what}: {found}, expected {wanted}")

    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        # Completions for bash have the program's name, too.
        ends = (f"onnxruntime_ep_revseq/{binary}", f".data/scripts/{binary}")
        (place,) = (name for name in names if name.endswith(ends))
        data = archive.read(place)
    expect("tag", wheel.stem.split("-", 2)[2], f"py3-none-{platform.tag}")
    others = [name for name in names if name.endswith((".so", ".dll", ".dylib", ".exe")) and name != place]
    expect("other binaries", others, [])
    for end in ("licenses/LICENSE-MIT", "licenses/LICENSE-APACHE", "licenses/THIRD-PARTY-NOTICES.txt",
                "licenses/COPYRIGHT-library.html", ".cyclonedx.json"):  # fmt: skip
        expect(f"files …{end}", sum(name.endswith(end) for name in names), 1)

    parsed = lief.parse(io.BytesIO(data))
    processors = PROCESSORS[platform.triple.split("-")[0]]
    if machine(parsed) not in processors:
        problems.append(f"it is for the processor {machine(parsed)}, expected {processors[0]}")
    libraries = [library for library in needed(parsed) if library != f"@rpath/{binary}"]
    if binary == platform.library.format("revseq_ep"):
        exported = {function.name for function in parsed.exported_functions}
        if platform.system == "darwin":
            # zig's linker ignores the list that Rust hands it: there are more.
            exported &= {f"_{name}" for name in EXPORTS} | set(EXPORTS)
            exported = {name.removeprefix("_") for name in exported}
        expect("exports", sorted(exported), sorted(EXPORTS))
    if allowed := SYSTEM_LIBRARIES.get(platform.system):
        expect("libraries of no system", [it for it in libraries if not allowed.fullmatch(it)], [])
    if platform.system == "darwin":
        # The processor runs nothing that has none; an ad-hoc one will do.
        expect("code signature", parsed.has_code_signature, True)
    oldest = oldest_system(parsed)
    if oldest > platform.oldest:
        problems.append(f"it needs version {dotted(oldest)} of the system, expected {dotted(platform.oldest)}")
    if platform.system == "linux" and sys.platform == "linux":
        shown = subprocess.run(["auditwheel", "show", "--json", wheel], check=True, text=True, stdout=subprocess.PIPE)
        expect("auditwheel's tag", json.loads(shown.stdout)["overall_tag"], platform.tag)
    if problems:
        sys.exit(f"{wheel.name}: " + "; ".join(problems))
    subprocess.run(["twine", "check", "--strict", wheel], check=True)
    needs = f"version {dotted(oldest)} of the system" if oldest else "any version of the system"
    print(f"{wheel.name}: {place}, {machine(parsed)}, {needs}, needs {', '.join(libraries)}", flush=True)


def needed(binary) -> list[str]:
    """The libraries that it loads; on macOS, its own name, too."""
    return [getattr(library, "name", library) for library in binary.libraries]


def machine(binary) -> str:
    header = binary.header
    found = header.cpu_type if isinstance(binary, lief.MachO.Binary) else getattr(
        header, "machine_type", None) or header.machine  # fmt: skip
    return found.name


def oldest_system(binary) -> tuple[int, ...]:
    """The oldest glibc or macOS that it runs on; empty on Windows."""
    if isinstance(binary, lief.MachO.Binary):
        version = binary.build_version.minos
        return tuple(version[:2])
    if isinstance(binary, lief.ELF.Binary):
        names = [aux.name for need in binary.symbols_version_requirement for aux in need.get_auxiliary_symbols()]
        found = [re.fullmatch(r"GLIBC_([\d.]+)", name) for name in names]
        return max(tuple(map(int, version[1].split("."))) for version in found if version)
    return ()
