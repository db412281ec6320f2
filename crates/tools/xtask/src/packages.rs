//! The published crates: their packages and their public APIs.

use std::path::{Path, PathBuf};

use public_api::PublicApi;
use serde::Deserialize;

use crate::files;
use crate::step::{Command, cargo};

/// The licences beside each crate's manifest.
const LICENSES: [&str; 2] = ["LICENSE-MIT", "LICENSE-APACHE"];

/// A member of the workspace.
#[derive(Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    version: String,
    manifest_path: PathBuf,
    /// The registries it may be published to; `None` for any.
    publish: Option<Vec<String>>,
    description: Option<String>,
    readme: Option<String>,
    keywords: Vec<String>,
    categories: Vec<String>,
    pub(crate) dependencies: Vec<Dependency>,
}

/// What a manifest depends on.
#[derive(Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    kind: Option<String>,
}

impl Dependency {
    /// Whether only tests, examples and benchmarks need it.
    pub(crate) fn is_of_tests(&self) -> bool {
        self.kind.as_deref() == Some("dev")
    }
}

impl Package {
    pub(crate) fn folder(&self) -> &Path {
        let folder = self.manifest_path.parent();
        folder.expect("a manifest lies in a folder")
    }
}

/// The members of the workspace that are published.
fn published() -> Vec<&'static Package> {
    let packages = crate::metadata().packages.iter();
    packages
        .filter(|package| package.publish.is_none())
        .collect()
}

/// Packages each crate without compiling it again, and checks the contents.
pub(crate) fn package() -> Result<(), String> {
    let packages = published();
    let target = crate::target().join("packages");
    packages
        .iter()
        // All at once, so that each finds its dependencies.
        .fold(
            cargo("package --no-verify --allow-dirty --quiet --offline"),
            |command, package| command.args(["--package", &package.name]),
        )
        .arg("--target-dir")
        .arg(&target)
        .run()?;
    for package in &packages {
        let name = format!("{}-{}", package.name, package.version);
        let file = target.join("package").join(format!("{name}.crate"));
        check(package, &name, &file).map_err(|error| format!("{name}: {error}"))?;
        println!("{name}");
    }
    Ok(())
}

/// Checks the metadata that crates.io requires, and the files that the licences require.
fn check(package: &Package, name: &str, file: &Path) -> Result<(), String> {
    for (field, is_there) in [
        ("description", package.description.is_some()),
        ("readme", package.readme.is_some()),
        ("keywords", !package.keywords.is_empty()),
        ("categories", !package.categories.is_empty()),
    ] {
        if !is_there {
            return Err(format!("its manifest has no {field}"));
        }
    }
    let tar = |arguments: &str, path: Option<String>| {
        let tar = Command::new("tar").arg(arguments).arg(file);
        tar.args(path).output()
    };
    let contents = tar("-tzf", None)?;
    for wanted in ["README.md", "src/lib.rs"] {
        let path = format!("{name}/{wanted}");
        if !contents.lines().any(|line| line == path) {
            return Err(format!("its package has no {wanted}:\n{contents}"));
        }
    }
    for license in LICENSES {
        let text = files::read(&crate::root().join(license))?;
        if tar("-xzOf", Some(format!("{name}/{license}")))? != text {
            return Err(format!("its {license} is not that of the workspace"));
        }
    }
    Ok(())
}

/// Checks the licences and sources of all dependencies (deny.toml).
pub(crate) fn deny() -> Result<(), String> {
    cargo("deny --version").output().map_err(
        |_| "this needs cargo-deny: cargo install cargo-deny --locked (minutes to build)",
    )?;
    cargo("deny check licenses bans sources").run()
}

/// Writes the public API of each library crate into its `public-api.txt`.
pub(crate) fn write_api() -> Result<(), String> {
    let mut apis = apis()?.into_iter();
    apis.try_for_each(|(path, api)| files::write(&path, &api))
}

/// Checks each library crate's public API against its `public-api.txt`.
pub(crate) fn check_api() -> Result<(), String> {
    let mut is_changed = false;
    for (path, api) in apis()? {
        let recorded = files::read(&path).unwrap_or_default();
        let only_in = |this: &str, other: &str, sign: char| {
            let other: std::collections::BTreeSet<_> = other.lines().collect();
            let lines = this.lines().filter(|line| !other.contains(line));
            lines
                .map(|line| format!("{sign}{line}\n"))
                .collect::<String>()
        };
        let changes = only_in(&recorded, &api, '-') + &only_in(&api, &recorded, '+');
        if recorded != api {
            is_changed = true;
            eprintln!("{}\n{changes}", path.display());
        }
    }
    match is_changed {
        false => Ok(()),
        true => Err(
            "the public API has changed; if that is meant, `cargo xtask api` records it, \
                     and list the change in CHANGELOG.md"
                .into(),
        ),
    }
}

/// The file and the text of each library crate's public API, one item per line.
fn apis() -> Result<Vec<(PathBuf, String)>, String> {
    let root = crate::root();
    crate::full("doc")
        .arg("--no-deps")
        .env(
            "RUSTDOC",
            root.join("crates/tools/xtask/src/rustdoc-json.sh"),
        )
        .env(
            "RUSTDOCFLAGS",
            "-D warnings -Z unstable-options --output-format json",
        )
        .run()?;
    let pages = crate::target().join("doc");
    write_pages(&pages)?;
    let packages = published().into_iter();
    packages
        .map(|package| {
            let json = format!("{}.json", package.name.replace('-', "_"));
            let api = public_api::Builder::from_rustdoc_json(pages.join(json))
                .omit_blanket_impls(true)
                .omit_auto_trait_impls(true)
                .build()
                .map_err(|error| {
                    format!(
                        "{}: {error}; the crate public-api of crates/tools/xtask/Cargo.toml has to be \
                         the one for the format of this Rust's rustdoc",
                        package.name
                    )
                })?;
            Ok((package.folder().join("public-api.txt"), text(&api)))
        })
        .collect()
}

/// Writes an empty page for each crate whose JSON is in a folder: cargo takes a crate without a
/// page for undocumented.
fn write_pages(folder: &Path) -> Result<(), String> {
    let is_json = |path: &PathBuf| path.extension().is_some_and(|it| it == "json");
    files::list(folder)?.filter(is_json).try_for_each(|path| {
        let page = path.with_extension("");
        files::create(&page)?;
        files::write(&page.join("index.html"), "")
    })
}

fn text(api: &PublicApi) -> String {
    api.items().map(|item| format!("{item}\n")).collect()
}
