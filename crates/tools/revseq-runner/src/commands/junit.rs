//! Results as JUnit's XML, which CI servers read.

use std::time::Duration;

use maud::{PreEscaped, html};

use super::results::{Counts, INTERRUPTED, Results, Verdict};
use crate::escape::printable;

/// One suite with a case for each test, and after Ctrl-C an error for those that were not run. Models without
/// one are properties, and count nowhere, as in JSON.
pub(super) fn render(results: &Results) -> String {
    let cases = &results.tested;
    let Counts {
        failed, skipped, ..
    } = results.counts();
    let errors = usize::from(results.interrupted);
    let tests = cases.len() + errors;
    let seconds = |time: Duration| format!("{:.3}", time.as_secs_f64());
    let time = seconds(cases.iter().map(|it| it.time.0).sum());
    let xml = html! {
        (PreEscaped("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"))
        testsuites tests=(tests) failures=(failed) skipped=(skipped) errors=(errors) time=(time) {
            "\n"
            testsuite name="revseq verify" tests=(tests) failures=(failed) skipped=(skipped)
                errors=(errors) time=(time)
            {
                @if !results.without_snapshot.is_empty() {
                    "\n"
                    properties {
                        @for path in &results.without_snapshot {
                            property name="without_snapshot" value=(printable(&path.display().to_string())) {}
                        }
                    }
                }
                @for case in cases {
                    "\n"
                    testcase classname="revseq" name=(printable(&case.path)) time=(seconds(case.time.0)) {
                        @match &case.verdict {
                            Verdict::Ok { .. } | Verdict::Updated { .. } => {},
                            Verdict::Failed { reason } => failure message=(printable(reason)) {},
                            Verdict::Skipped { reason } => skipped message=(printable(reason)) {},
                        }
                    }
                }
                @if results.interrupted {
                    "\n"
                    testcase classname="revseq" name="all tests" {
                        error message=(INTERRUPTED) {}
                    }
                }
                "\n"
            }
            "\n"
        }
        "\n"
    };
    xml.into_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_that_were_not_run_are_an_error() {
        let mut results = Results::default();
        let [all, interrupted] = [false, true].map(|interrupted| {
            results.interrupted = interrupted;
            render(&results)
        });
        assert!(
            all.contains("tests=\"0\"") && all.contains("errors=\"0\""),
            "{all}"
        );
        let counts = "tests=\"1\" failures=\"0\" skipped=\"0\" errors=\"1\"";
        assert_eq!(interrupted.matches(counts).count(), 2, "{interrupted}");
        assert!(
            interrupted.contains("<error message=\"interrupted: not all tests were run\">"),
            "{interrupted}"
        );
    }
}
