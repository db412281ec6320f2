"""The notices and the software bill of materials of the crates linked into a binary."""

import json
import pathlib
import subprocess
import sys

from cyclonedx.factory.license import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL

#: How the files that hold a licence or a notice begin.
NAMES = ("LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE")


def crates(root: pathlib.Path, package: str, features: str, target: str) -> list[dict]:
    """The `cargo metadata` of each crate that is linked into a package, itself first."""
    chosen = ["--locked", "--features", features] if features else ["--locked"]
    tree = cargo(root, "tree", *chosen, "--package", package, "--target", target,
                 "--edges", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}")  # fmt: skip
    # As in `name v1.2.3 (/path)`.
    linked = dict.fromkeys(tuple(line.split()[:2]) for line in tree.splitlines())
    known = json.loads(cargo(root, "metadata", "--locked", "--format-version", "1"))["packages"]
    found = {(crate["name"], "v" + crate["version"]): crate for crate in known}
    return [found[key] for key in linked]


def cargo(root: pathlib.Path, *arguments) -> str:
    done = subprocess.run(["cargo", *arguments], cwd=root, check=True, text=True, stdout=subprocess.PIPE)
    return done.stdout


def notices(linked: list[dict], standard_texts: dict[str, str]) -> str:
    """The licence and notice files of the crates of others, each text once.

    A crate that has no such file gets the standard text of its licence.
    """
    holders: dict[str, list[str]] = {}
    for crate in linked:
        if crate["source"] is None:
            continue
        folder = pathlib.Path(crate["manifest_path"]).parent
        files = [file for file in sorted(folder.iterdir())
                 if file.is_file() and file.name.upper().startswith(NAMES)]  # fmt: skip
        texts = [file.read_text("utf-8", "replace") for file in files]
        if not texts:
            allowed = [name for name in standard_texts if name in (crate["license"] or "")]
            if not allowed:
                sys.exit(f"{crate['name']}: no licence file, and no text of {crate['license']!r}")
            texts = [f"By {', '.join(crate['authors']) or 'the authors of ' + crate['name']}\n\n"
                     + standard_texts[allowed[0]]]  # fmt: skip
        for text in texts:
            who = f"{crate['name']} {crate['version']} ({crate['license']})"
            holders.setdefault(text.strip().replace("\r\n", "\n"), []).append(who)
    rule = "=" * 80
    parts = ["Crates of others that are linked into this binary, below each the text of its licence.\n"
             "The parts of Rust's standard library are listed in COPYRIGHT-library.html."]  # fmt: skip
    parts += [f"{rule}\n" + "\n".join(who) + f"\n{rule}\n\n{text}" for text, who in holders.items()]
    return "\n\n".join(parts) + "\n"


def bill_of_materials(linked: list[dict], checksums: dict[tuple[str, str], str]) -> str:
    """The same crates as CycloneDX JSON."""
    licenses = LicenseFactory()

    def component(crate, kind=ComponentType.LIBRARY):
        name, version = crate["name"], crate["version"]
        checksum = checksums.get((name, version))
        purl = PackageURL("cargo", None, name, version)
        return Component(
            type=kind,
            name=name,
            version=version,
            bom_ref=str(purl),
            purl=purl if crate["source"] else None,
            # Some crates still write `MIT/Apache-2.0`.
            licenses=[licenses.make_from_string(crate["license"].replace("/", " OR "))],
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=checksum)] if checksum else [],
        )

    itself, *others = linked
    bom = Bom(components=map(component, others))
    bom.metadata.component = component(itself, ComponentType.APPLICATION)
    bom.register_dependency(bom.metadata.component, bom.components)
    return make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=1)
