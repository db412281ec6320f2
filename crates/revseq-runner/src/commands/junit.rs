//! Results as JUnit's XML, which CI servers read.

use std::time::Duration;

use maud::{PreEscaped, html};

use super::results::{Results, Verdict};
use crate::escape::printable;

/// One suite with a case for each test; a model without one counts as skipped.
pub(super) fn render(results: &Results) -> String {
    let skipped = Verdict::Skipped("it has no snapshot".to_owned());
    let without = results.without_snapshot.iter();
    let without = without.map(|path| (path.display().to_string(), Duration::ZERO, &skipped));
    let tested = results.tested.iter();
    let cases: Vec<_> = tested
        .map(|it| (it.path.clone(), it.time, &it.verdict))
        .chain(without)
        .collect();
    let count = |is_counted: fn(&Verdict) -> bool| {
        cases
            .iter()
            .filter(|(.., verdict)| is_counted(verdict))
            .count()
    };
    let failures = count(|verdict| matches!(verdict, Verdict::Failed(_)));
    let skipped = count(|verdict| matches!(verdict, Verdict::Skipped(_)));
    let seconds = |time: Duration| format!("{:.3}", time.as_secs_f64());
    let time = seconds(cases.iter().map(|&(_, time, _)| time).sum());
    let xml = html! {
        (PreEscaped("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"))
        testsuites tests=(cases.len()) failures=(failures) skipped=(skipped) errors="0" time=(time) {
            "\n"
            testsuite name="revseq verify" tests=(cases.len()) failures=(failures)
                skipped=(skipped) errors="0" time=(time)
            {
                @for (path, time, verdict) in &cases {
                    "\n"
                    testcase classname="revseq" name=(printable(path)) time=(seconds(*time)) {
                        @match verdict {
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
