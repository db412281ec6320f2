//! Results as JUnit's XML, which CI servers read.

use std::time::Duration;

use maud::{PreEscaped, html};

use super::results::{Results, Verdict};
use crate::escape::printable;

/// One suite with a case for each test. Models without one are properties, and count nowhere, as in JSON.
pub(super) fn render(results: &Results) -> String {
    let cases = &results.tested;
    let count = |is_counted: fn(&Verdict) -> bool| {
        let counted = cases.iter().filter(|it| is_counted(&it.verdict));
        counted.count()
    };
    let failures = count(|verdict| matches!(verdict, Verdict::Failed(_)));
    let skipped = count(|verdict| matches!(verdict, Verdict::Skipped(_)));
    let seconds = |time: Duration| format!("{:.3}", time.as_secs_f64());
    let time = seconds(cases.iter().map(|it| it.time.0).sum());
    let xml = html! {
        (PreEscaped("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"))
        testsuites tests=(cases.len()) failures=(failures) skipped=(skipped) errors="0" time=(time) {
            "\n"
            testsuite name="revseq verify" tests=(cases.len()) failures=(failures)
                skipped=(skipped) errors="0" time=(time)
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
                            Verdict::Ok | Verdict::Updated(_) => {},
                            Verdict::Failed(why) => failure message=(printable(why)) {},
                            Verdict::Skipped(why) => skipped message=(printable(why)) {},
                        }
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
