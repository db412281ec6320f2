//! The units that cargo compiled, with their times, read from the page of `--timings`.

use std::collections::BTreeMap;
use std::fs;
use std::time::SystemTime;

use serde::Deserialize;

/// The number of units to print.
const TOLD: usize = 10;

/// Number of seconds from which on a unit is printed.
const SECONDS: f64 = 5.0;

/// A unit of compilation: a crate, for one purpose.
#[derive(Debug, Deserialize)]
struct Unit {
    name: String,
    /// The package's target; empty for its library.
    target: String,
    /// `todo` for a build, `check`, `doc`, `run-custom-build` or a test's name.
    mode: String,
    /// Duration in seconds.
    duration: f64,
}

/// The units of all steps so far.
#[derive(Debug, Default)]
pub(crate) struct Units(BTreeMap<String, f64>);

impl Units {
    /// Adds the units of the pages that cargo wrote since `start`.
    pub(crate) fn add_since(&mut self, start: SystemTime) {
        let folder = fs::read_dir(crate::target().join("cargo-timings"));
        let pages = folder.into_iter().flatten().flatten().filter(|entry| {
            // Each has a time in its name; the last one has a copy without.
            let is_copy = entry.file_name() == "cargo-timing.html";
            let written = entry.metadata().and_then(|data| data.modified());
            !is_copy && written.is_ok_and(|written| written >= start)
        });
        // The pages are for people; if their data moves one day, the table is empty.
        let units = pages
            .filter_map(|page| read(&fs::read_to_string(page.path()).ok()?))
            .flatten();
        for unit in units {
            let Unit {
                name, target, mode, ..
            } = unit;
            let mode = if mode == "todo" { "" } else { &mode };
            let label = [name.trim(), target.trim(), mode].join(" ");
            *self.0.entry(label).or_default() += unit.duration;
        }
    }

    /// Prints the slowest units.
    pub(crate) fn print(&self) {
        let mut units: Vec<_> = self
            .0
            .iter()
            .filter(|(_, seconds)| **seconds >= SECONDS)
            .collect();
        units.sort_by(|a, b| b.1.total_cmp(a.1));
        if !units.is_empty() {
            eprintln!("\nslowest to compile");
        }
        for (label, seconds) in units.into_iter().take(TOLD) {
            eprintln!(
                "{seconds:>8.1} s  {}",
                label.split_whitespace().collect::<Vec<_>>().join(" ")
            );
        }
    }
}

/// The units of a page.
fn read(page: &str) -> Option<Vec<Unit>> {
    let (_, data) = page.split_once("const UNIT_DATA = ")?;
    let mut data = serde_json::Deserializer::from_str(data).into_iter();
    data.next()?.ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_page_holds_units() {
        let page = r#"<script>
const UNIT_DATA = [
  {"i": 0, "name": "tract-core", "version": "0.23.9", "mode": "todo", "target": "", "duration": 41.5},
  {"i": 1, "name": "x", "version": "1.0.0", "mode": "run-custom-build", "target": " build-script (run)", "duration": 0.5}
];
const CONCURRENCY_DATA = [];"#;
        let units = super::read(page).unwrap();
        assert_eq!(units[0].name, "tract-core");
        assert_eq!(units[1].duration, 0.5);
        assert!(super::read("<html>").is_none());
    }
}
