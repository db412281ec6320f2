//! The passes that are for single runtimes, and the table of runtimes.

use std::collections::BTreeSet;
use std::path::Path;

use super::super::{fast, of_runtime, pass};
use super::recurrent_loop::{START, STATES, with_bodies};
use super::{ANY, check, leaves, rows, takes};
use crate::passes::tract;
use crate::{Error, ModelProto, Options, PASSES, RUNTIMES, rewrite_messages};

#[test]
fn other_axes() {
    let standard = "standard operators around Gather";
    check(
        "other-axes",
        &rows(&format!(
            "y = ReverseSequence<batch_axis=2;time_axis=1>(x, lens) => any | {standard}
             y = ReverseSequence<batch_axis=-2;time_axis=-3>(x, lens) => any | {standard}
             y = revseq.ReverseSubsequences<axis=1>(x, lens) => any | {standard}
             y = ReverseSequence(x, lens) => !
             y = ReverseSequence<batch_axis=0;time_axis=1>(x, lens) => !"
        )),
    );
}

#[test]
fn scan_loop() {
    let scan = "last, y = Scan<body=@scanned;num_scan_inputs=1>(begin, x)";
    let backwards =
        "last, y = Scan<body=@scanned;num_scan_inputs=1;scan_output_directions=[1]>(begin, x)";
    let across = "last, y = Scan<body=@scanned;num_scan_inputs=1;scan_output_axes=[-2]>(begin, x)";
    let beyond = "last, y = Scan<body=@scanned;num_scan_inputs=1;scan_output_axes=[9]>(begin, x)";
    let start = "Shape Gather Concat Expand Shape Gather Loop";
    check(
        "scan-loop",
        &[
            with_bodies(takes("a Loop", start, &[STATES, scan])),
            with_bodies(takes(
                "a Loop",
                "Shape Gather Concat Expand Shape Gather Loop Slice",
                &[STATES, backwards],
            )),
            with_bodies(takes(
                "a Loop",
                "Shape Gather Concat Expand Shape Gather Loop Transpose",
                &[STATES, across],
            )),
            with_bodies(leaves("beyond its rank", &[STATES, beyond])),
        ],
    );
}

#[test]
fn forward() {
    let what = "RNN, forward, over the reversed input";
    let mut rows = rows(&format!(
        "y = RNN<hidden_size=2;direction=reverse>(x, w, r) => Slice RNN Slice | {what}
             # Only the final state is read.
             _, y = RNN<hidden_size=2;direction=reverse>(x, w, r) => Slice RNN | {what}
             y = RNN<hidden_size=2;direction=reverse;layout=1>(x, w, r)
             => Slice RNN Slice | {what}
             y = RNN<hidden_size=2;direction=reverse>(x, w, r, _, own) => ! lengths of its own
             y = RNN<hidden_size=2>(x, w, r) => !
             y = RNN<hidden_size=2;direction=bidirectional>(x, w, r) => !"
    ));
    rows.extend([
        // It does not run beside the pass that undoes it.
        takes(
            what,
            "Slice RNN Slice",
            &["y = RNN<hidden_size=2;direction=reverse>(x, w, r)"],
        )
        .options(Options {
            passes: pass("forward").passes,
            ..fast()
        }),
    ]);
    check("forward", &rows);
}

/// A loop that is a layer stays for a runtime that lacks this kind.
#[test]
fn no_layer_is_written_that_the_runtime_lacks() {
    let nodes = [
        START,
        "any = ReduceMax<axes=[2];keepdims=1>(x)",
        "mask = Cast<to=9>(any)",
        "done = Expand(nought, states)",
        "counted, last, ended, y = Loop<body=@masked>(time, always, start, begin, done)",
    ];
    let for_fast = |name: &str| Options {
        runtime: Some(name.to_owned()),
        ..fast()
    };
    check(
        "recurrent-loop",
        &[
            with_bodies(takes("RNN, forward", ANY, &nodes)).options(for_fast("openvino")),
            with_bodies(leaves("rten lacks RNN", &nodes)).options(for_fast("rten")),
            with_bodies(takes("RNN, forward", ANY, &nodes))
                .with("Tanh", "Relu")
                .options(for_fast("openvino")),
            with_bodies(leaves("other activations than Relu, Sigmoid", &nodes))
                .with("Tanh", "Softsign")
                .options(for_fast("openvino")),
            with_bodies(leaves("other activations than the default", &nodes))
                .with("Tanh", "Softsign")
                .options(for_fast("plain-tract")),
        ],
    );
    let for_web = Options {
        runtime: Some("onnxruntime-web".to_owned()),
        ..pass("sequence-lens")
    };
    // Nor is one that is of this kind already: without its lengths, tract would no longer refuse it.
    let own = "y = RNN<hidden_size=2>(x, w, r, _, own)";
    check(
        "sequence-lens",
        &[
            takes("without sequence_lens", ANY, &[own]).options(of_runtime("plain-tract")),
            leaves(
                "plain-tract lacks layers with other activations",
                &["y = RNN<hidden_size=2;activations=[Relu]>(x, w, r, _, own)"],
            )
            .options(of_runtime("plain-tract")),
            leaves(
                "plain-tract lacks LSTM with input_forget",
                &["y = LSTM<hidden_size=2;input_forget=1>(x, w4, r4, _, own)"],
            )
            .options(of_runtime("plain-tract")),
            leaves(
                "plain-tract lacks layers with a clip",
                &["y = RNN<hidden_size=2;clip=3>(x, w, r, _, own)"],
            )
            .options(of_runtime("plain-tract")),
            leaves(
                "onnxruntime-web lacks GRU with other activations",
                &["y = GRU<hidden_size=2;activations=[HardSigmoid,Tanh]>(x, w3, r3, _, own)"],
            )
            .options(for_web.clone()),
            takes(
                "without sequence_lens",
                ANY,
                &["y = GRU<hidden_size=2;activations=[Sigmoid,Relu]>(x, w3, r3, _, own)"],
            )
            .options(for_web),
        ],
    );
}

/// All that the table names exists, and the documentation has all that the table names.
#[test]
fn the_table_of_runtimes_is_the_documented_one() {
    let known: BTreeSet<&str> = PASSES.iter().map(|pass| pass.name).collect();
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/rewriting.md");
    let docs = std::fs::read_to_string(docs).expect("the documentation");
    assert!(RUNTIMES.is_sorted_by_key(|runtime| runtime.name));
    for runtime in RUNTIMES {
        for name in runtime.passes {
            assert!(known.contains(name) || tract::is_one(name), "{name}");
            assert!(docs.contains(&format!("| `{name}` |")), "{name}");
        }
        let passes = runtime.passes.iter().map(|name| format!("`{name}`"));
        let passes = passes.collect::<Vec<_>>().join(", ");
        let listed = match runtime.name {
            // All of a table of their own.
            "tract" => "those below",
            _ => &passes,
        };
        let row = format!("| `{}` | {listed} | {} |", runtime.name, runtime.why);
        assert!(docs.contains(&row), "expected in docs/rewriting.md:\n{row}");
    }
}

#[test]
fn unknown_runtimes_are_an_error() {
    let mut model = ModelProto::default();
    let error = rewrite_messages(&mut model, &of_runtime("tensorrt")).unwrap_err();
    assert!(matches!(error, Error::UnknownRuntime { .. }));
    assert_eq!(
        error.to_string(),
        "there is no runtime \"tensorrt\" to rewrite for; there are onnxruntime-web, openvino, \
         plain-tract, rten, tract"
    );
}
