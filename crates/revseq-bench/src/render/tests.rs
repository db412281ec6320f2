//! A fixed report, rendered in each format.

use super::{html, markdown, text};
use crate::timing::Time;
use crate::{Contestant, Machine, Measurement, Moment, Report, Row};

fn measurement(contestant: Contestant, median_ns: f64, ratio: f64) -> Measurement {
    Measurement {
        time: Time {
            contestant,
            median_ns,
            minimum_ns: median_ns * 0.9,
            samples: 9,
        },
        ratio,
        ratio_per_share: (contestant == Contestant::InPlace).then_some(ratio * 2.0),
    }
}

fn fixed() -> Report {
    use Contestant::{InPlace, Memcpy, Onnxruntime, PlainLoop, Serial, StreamingCopy, Threads};
    let row = |name: &str, bytes, measurements| Row {
        name: name.to_owned(),
        bytes,
        reversed_share: 0.5,
        is_call: false,
        kernel: "rows, streamed".to_owned(),
        skipped: None,
        measurements,
    };
    Report {
        machine: Machine {
            processor: "Chip <9> & Co | 3".to_owned(),
            cores: 2,
            system: "linux".to_owned(),
            simd: "avx2".to_owned(),
            threads: 1,
            version: "1.2.3".to_owned(),
            onnxruntime: Some("1.31.1".to_owned()),
            rten: None,
        },
        taken: Some(Moment {
            date: "2026-11-25 13:35 UTC".to_owned(),
            load: Some(0.5),
        }),
        quick: true,
        optimised: true,
        interrupted: false,
        contestants: vec![
            Memcpy,
            StreamingCopy,
            Serial,
            Threads,
            InPlace,
            PlainLoop,
            Onnxruntime,
        ],
        regimes: vec![
            row(
                "time-major 512x64x256 f32 random",
                32 << 20,
                vec![
                    measurement(Memcpy, 4e6, 1.6),
                    measurement(StreamingCopy, 2.5e6, 1.0),
                    measurement(Serial, 2.75e6, 1.1),
                    measurement(Threads, 2e6, 0.8),
                    measurement(InPlace, 1.5e6, 0.6),
                    measurement(PlainLoop, 5e6, 2.0),
                    measurement(Onnxruntime, 1.25e7, 5.0),
                ],
            ),
            row(
                "batch-major 4096x4096 c128 random",
                256 << 20,
                vec![
                    measurement(Memcpy, 2e7, 1.0),
                    measurement(Serial, 2.5e7, 1.25),
                    measurement(Threads, 2.5e7, 1.25),
                    measurement(InPlace, 1e7, 0.5),
                    measurement(PlainLoop, 3e7, 1.5),
                ],
            ),
            Row {
                is_call: true,
                ..row(
                    "ready-plan 4x4 f32 random",
                    64,
                    vec![
                        measurement(Memcpy, 2.25, 1.0),
                        measurement(Serial, 45.0, 20.0),
                        measurement(Threads, 45.0, 20.0),
                        measurement(InPlace, 27.0, 12.0),
                        measurement(PlainLoop, 22.5, 10.0),
                        measurement(Onnxruntime, 2250.0, 1000.0),
                    ],
                )
            },
            Row {
                skipped: Some("it needs 2.2 GiB of memory and 1.5 GiB are available".to_owned()),
                ..row("time-major 1024x256x1024 f32 random", 1 << 30, Vec::new())
            },
        ],
    }
}

#[test]
fn text_is_aligned() {
    insta::assert_snapshot!(text(&fixed(), None));
}

#[test]
fn text_fits_a_narrow_terminal() {
    let longest = |text: &str| text.lines().map(|line| line.chars().count()).max().unwrap();
    let table = longest(&text(&fixed(), None));
    for width in [40, 60, 80, 100, table - 1, table, 200] {
        let text = text(&fixed(), Some(width));
        assert!(longest(&text) <= width, "{width}: {text}");
        assert_eq!(
            text.contains("\nregime  "),
            width >= table,
            "{width}: {text}"
        );
    }
    insta::assert_snapshot!(text(&fixed(), Some(80)));
}

#[test]
fn unreliable_figures_are_marked() {
    let report = |quick, optimised| Report {
        quick,
        optimised,
        ..fixed()
    };
    let text = |report: &Report| text(report, None);
    for form in [&text as &dyn Fn(&Report) -> String, &markdown, &html] {
        let says = |report: &Report, what| form(report).contains(what);
        for is_so in [false, true] {
            assert_eq!(says(&report(is_so, true), "Taken with --quick"), is_so);
            assert_eq!(says(&report(true, !is_so), "not optimised"), is_so);
            let report = Report {
                interrupted: is_so,
                ..fixed()
            };
            assert_eq!(says(&report, "Interrupted"), is_so);
            let mut report = fixed();
            report.taken.as_mut().unwrap().load = Some(if is_so { 1.25 } else { 0.75 });
            let busy = "Other programs were running, a load of 1.25 on 2 cores";
            assert_eq!(says(&report, busy), is_so);
        }
    }
}

#[test]
fn markdown_is_a_table() {
    insta::assert_snapshot!(markdown(&fixed()));
}

#[test]
fn html_is_one_self_contained_page() {
    let page = html(&fixed());
    for outside in ["http", "src=", "<link", "<script", "url(", "@import"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.contains("Chip &lt;9&gt; &amp; Co"));
    // One element a line, so that a change shows where it is.
    let page = page.replace("><", ">\n<");
    let style = (r"(?s)<style>.*</style>", "<style></style>");
    insta::with_settings!({ filters => [style] }, { insta::assert_snapshot!(page) });
}

#[test]
fn json_round_trips() {
    let report = fixed();
    let json = serde_json::to_string_pretty(&report).unwrap();
    assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), report);
    insta::assert_snapshot!(json);
}
