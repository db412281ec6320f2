"""The platforms that wheels are built for: those that ONNX Runtime's own wheels are for."""

import dataclasses
import re
import subprocess


@dataclasses.dataclass(frozen=True)
class Platform:
    #: Rust's target, and the compiler's name for it.
    triple: str
    #: The files of a library and of a program, with their crate's name for the `{}`.
    library: str
    program: str
    #: Of the wheel. It has the oldest glibc or macOS.
    tag: str
    #: Whether there is a wheel of the command.
    has_command: bool = True

    @property
    def oldest(self) -> tuple[int, ...]:
        """The oldest glibc or macOS; empty on Windows."""
        return tuple(int(number) for number in re.findall(r"_(\d+)(?=_)", self.tag))

    @property
    def system(self) -> str:
        return self.triple.split("-")[2]

    @property
    def zig_target(self) -> str:
        """The target as cargo-zigbuild takes it, with the oldest glibc."""
        return f"{self.triple}.{dotted(self.oldest)}" if self.system == "linux" else self.triple

    @property
    def environment(self) -> dict[str, str]:
        return {"MACOSX_DEPLOYMENT_TARGET": dotted(self.oldest)} if self.system == "darwin" else {}


#: The exports of the provider's library.
EXPORTS = ("CreateEpFactories", "RegisterCustomOps", "ReleaseEpFactory", "RevSeqFree", "RevSeqRewrite",
           "RevSeqSessionReport")

#: By Rust's names of the system and the processor. glibc 2.17 and macOS 11 are the oldest that Rust's
#: standard library runs on. ONNX Runtime has no wheel for Intel Macs.
PLATFORMS = {
    "linux-x86_64": Platform("x86_64-unknown-linux-gnu", "lib{}.so", "{}", "manylinux_2_17_x86_64"),
    "linux-aarch64": Platform("aarch64-unknown-linux-gnu", "lib{}.so", "{}", "manylinux_2_17_aarch64"),
    "windows-x86_64": Platform("x86_64-pc-windows-gnu", "{}.dll", "{}.exe", "win_amd64"),
    "windows-aarch64": Platform("aarch64-pc-windows-gnullvm", "{}.dll", "{}.exe", "win_arm64", has_command=False),
    "macos-aarch64": Platform("aarch64-apple-darwin", "lib{}.dylib", "{}", "macosx_11_0_arm64"),
}  # fmt: skip


def dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def native(platform: Platform) -> bool:
    """Whether this machine runs programs of the platform, built by either compiler."""
    version = subprocess.run(["rustc", "-vV"], check=True, text=True, stdout=subprocess.PIPE).stdout
    host = re.search(r"host: (.*)", version)[1]
    return host.split("-")[0:3:2] == platform.triple.split("-")[0:3:2]
