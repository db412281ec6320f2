//! The folders of `crates/`, which are the architecture.

use std::path::Path;

use crate::packages::Package;

/// Each folder, and those whose crates its crates may depend on, apart from its own.
const FOLDERS: [(&str, &[&str]); 6] = [
    ("operator", &[]),
    ("onnx", &[]),
    ("layers", &["onnx"]),
    ("onnxruntime", &["operator", "onnx", "layers"]),
    ("tract", &["operator", "onnx", "layers"]),
    (
        "tools",
        &["operator", "onnx", "layers", "onnxruntime", "tract"],
    ),
];

/// Checks that no crate depends on one of a folder that its own must not know. What only tests need may be
/// anywhere.
pub(crate) fn check() -> Result<(), String> {
    let packages = &crate::metadata().packages;
    let wrong: Vec<String> = packages
        .iter()
        .flat_map(|package| wrong_edges(package, packages))
        .collect();
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(wrong.join("\n")),
    }
}

fn wrong_edges(package: &Package, all: &[Package]) -> Vec<String> {
    let Some(folder) = folder(package) else {
        return vec![];
    };
    let known = FOLDERS.iter().find(|(name, _)| *name == folder);
    let Some((_, below)) = known else {
        return vec![format!(
            "{} is in crates/{folder}, which is none of the folders of {}",
            package.name,
            file!()
        )];
    };
    let dependencies = package.dependencies.iter().filter(|it| !it.is_of_tests());
    let crates = dependencies.filter_map(|it| all.iter().find(|other| other.name == it.name));
    let wrong = crates.filter(|other| {
        let other = self::folder(other);
        other.is_none_or(|other| other != folder && !below.contains(&other))
    });
    let wrong = wrong.map(|other| {
        format!(
            "{} of crates/{folder} depends on {}; crates/{folder}/README.md says what it may depend on",
            package.name, other.name
        )
    });
    wrong.collect()
}

/// The folder of `crates/` that a package is in.
fn folder(package: &Package) -> Option<&str> {
    let path = package.folder().strip_prefix(crate::root()).ok()?;
    let folder = path.strip_prefix("crates").ok()?.parent();
    folder.and_then(Path::to_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(path: &str, dependency: &str, kind: &str) -> Package {
        let package = serde_json::json!({
            "name": path.rsplit('/').next(),
            "version": "0.1.0",
            "manifest_path": crate::root().join(path).join("Cargo.toml"),
            "keywords": [],
            "categories": [],
            "dependencies": [{"name": dependency, "kind": kind}],
        });
        serde_json::from_value(package).unwrap()
    }

    #[test]
    fn an_edge_that_goes_up_is_an_error() {
        let all = [
            package("crates/onnx/model", "", ""),
            package("crates/layers/cells", "model", "normal"),
            package("crates/onnx/rewriter", "cells", "normal"),
            package("crates/onnx/checker", "cells", "dev"),
            package("crates/onnx/prober", "fixtures", "normal"),
            package("tests/fixtures", "", ""),
            package("crates/odd/thing", "", ""),
        ];
        let wrong: Vec<String> = all.iter().flat_map(|it| wrong_edges(it, &all)).collect();
        let up = "crates/onnx/README.md says what it may depend on";
        let expected = [
            format!("rewriter of crates/onnx depends on cells; {up}"),
            format!("prober of crates/onnx depends on fixtures; {up}"),
            format!(
                "thing is in crates/odd, which is none of the folders of {}",
                file!()
            ),
        ];
        assert_eq!(wrong, expected);
    }

    #[test]
    fn each_folder_says_what_it_is() {
        for (folder, _) in FOLDERS {
            let page = crate::root().join("crates").join(folder).join("README.md");
            assert!(page.is_file(), "{}", page.display());
        }
    }
}
