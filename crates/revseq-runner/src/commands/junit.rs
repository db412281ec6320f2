//! Results as JUnit's XML, which CI servers read.

use std::fmt::Write;

use super::markup::escaped;
use super::results::{Results, Verdict};

/// One suite with a case for each test; a model without one counts as skipped.
pub(super) fn render(results: &Results) -> String {
    let mut cases = String::new();
    let (mut failures, mut skipped, mut seconds) = (0, 0, 0.0);
    for tested in &results.tested {
        let time = tested.time.as_secs_f64();
        seconds += time;
        let inner = match &tested.verdict {
            Verdict::Ok | Verdict::Updated(_) => String::new(),
            Verdict::Failed(why) => {
                failures += 1;
                format!("<failure message=\"{}\"/>", escaped(why))
            }
            Verdict::Skipped(why) => {
                skipped += 1;
                format!("<skipped message=\"{}\"/>", escaped(why))
            }
        };
        let path = escaped(&tested.path);
        // Writing to a string does not fail.
        let _ = writeln!(
            cases,
            "    <testcase classname=\"revseq\" name=\"{path}\" time=\"{time:.3}\">{inner}</testcase>"
        );
    }
    for path in &results.without_snapshot {
        skipped += 1;
        let path = escaped(&path.display().to_string());
        let _ = writeln!(
            cases,
            "    <testcase classname=\"revseq\" name=\"{path}\" time=\"0\">\
             <skipped message=\"it has no snapshot\"/></testcase>"
        );
    }
    let counts = format!(
        "tests=\"{}\" failures=\"{failures}\" skipped=\"{skipped}\" errors=\"0\" time=\"{seconds:.3}\"",
        results.tested.len() + results.without_snapshot.len()
    );
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {counts}>\n  \
         <testsuite name=\"revseq verify\" {counts}>\n{cases}  </testsuite>\n</testsuites>\n"
    )
}
