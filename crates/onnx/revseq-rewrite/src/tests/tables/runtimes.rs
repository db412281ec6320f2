//! The passes that are for single runtimes, and the table of runtimes.

use std::collections::BTreeSet;
use std::path::Path;

use super::super::of_runtime;
use super::recurrent_loop::{MASK, MASKED, START, STATES, with_bodies};
use super::{changed, check, rows};
use crate::passes::tract;
use crate::{Error, Exactness, ModelProto, PASSES, RUNTIMES, rewrite_messages};

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
    let rows = changed(
        &with_bodies(&[STATES, scan]),
        "=> Shape Gather Concat Expand Shape Gather Loop | a Loop
         num_scan_inputs=1 -> num_scan_inputs=1;scan_output_directions=[1]
         => Shape Gather Concat Expand Shape Gather Loop Slice | a Loop
         num_scan_inputs=1 -> num_scan_inputs=1;scan_output_axes=[-2]
         => Shape Gather Concat Expand Shape Gather Loop Transpose | a Loop
         num_scan_inputs=1 -> num_scan_inputs=1;scan_output_axes=[9] => ! beyond its rank",
    );
    check("scan-loop", &rows);
}

#[test]
fn forward() {
    let what = "RNN, forward, over the reversed input";
    let rows = rows(&format!(
        "y = RNN<hidden_size=2;direction=reverse>(x, w, r) => Slice RNN Slice | {what}
             # Only the final state is read.
             _, y = RNN<hidden_size=2;direction=reverse>(x, w, r) => Slice RNN | {what}
             y = RNN<hidden_size=2;direction=reverse;layout=1>(x, w, r)
             => Slice RNN Slice | {what}
             y = RNN<hidden_size=2;direction=reverse>(x, w, r, _, own) => ! lengths of its own
             y = RNN<hidden_size=2>(x, w, r) => !
             y = RNN<hidden_size=2;direction=bidirectional>(x, w, r) => !
             # It does not run beside the pass that undoes it.
             [options fast pass:forward]
             y = RNN<hidden_size=2;direction=reverse>(x, w, r) => Slice RNN Slice | {what}"
    ));
    check("forward", &rows);
}

/// A loop that is a layer stays for a runtime that lacks this kind.
#[test]
fn no_layer_is_written_that_the_runtime_lacks() {
    let rows = changed(
        &with_bodies(&[START, MASK, MASKED]),
        "[options fast for:openvino] => any | RNN, forward
         [options fast for:rten] => ! rten lacks RNN
         [options fast for:openvino] Tanh -> Relu => any | RNN, forward
         [options fast for:openvino] Tanh -> Softsign => ! other activations than Relu, Sigmoid
         [options fast for:plain-tract] Tanh -> Softsign => ! other activations than the default",
    );
    check("recurrent-loop", &rows);
    // Nor is one that is of this kind already: without its lengths, tract would no longer refuse it.
    let rows = super::rows(
        "[options for:plain-tract]
         y = RNN<hidden_size=2>(x, w, r, _, own) => any | without sequence_lens
         [options for:plain-tract]
         y = RNN<hidden_size=2;activations=[Relu]>(x, w, r, _, own)
         => ! plain-tract lacks layers with other activations
         [options for:plain-tract]
         y = LSTM<hidden_size=2;input_forget=1>(x, w4, r4, _, own)
         => ! plain-tract lacks LSTM with input_forget
         [options for:plain-tract]
         y = RNN<hidden_size=2;clip=3>(x, w, r, _, own) => ! plain-tract lacks layers with a clip
         [options for:onnxruntime-web pass:sequence-lens]
         y = GRU<hidden_size=2;activations=[HardSigmoid,Tanh]>(x, w3, r3, _, own)
         => ! onnxruntime-web lacks GRU with other activations
         [options for:onnxruntime-web pass:sequence-lens]
         y = GRU<hidden_size=2;activations=[Sigmoid,Relu]>(x, w3, r3, _, own)
         => any | without sequence_lens",
    );
    check("sequence-lens", &rows);
}

/// Each pass has its row in the documentation, in the order in which they run.
#[test]
fn the_passes_are_the_documented_ones() {
    let docs = documentation();
    let rows = |heading: &str, columns: &[usize]| -> Vec<String> {
        let (_, section) = docs.split_once(heading).expect("the heading");
        let rows = section.lines().skip_while(|line| !line.starts_with("|---"));
        let rows = rows.skip(1).take_while(|line| line.starts_with('|'));
        let row = |row: &str| {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            let cells = columns.iter().map(|&column| cells[column]);
            cells.collect::<Vec<_>>().join(" | ")
        };
        rows.map(row).collect()
    };
    let yes = |is: bool| if is { "yes" } else { "" };
    // Those of tract's that may be asked for by name have their row among tract's.
    let others = PASSES.iter();
    let others = others.filter(|pass| pass.fast || !tract::is_one(pass.name));
    let others = others.map(|pass| {
        let equal = match pass.exactness {
            Exactness::Exact => "bit for bit",
            Exactness::Rounding => "up to rounding",
        };
        let (portable, fast) = (yes(pass.portable), yes(pass.fast));
        format!("`{}` | {equal} | {portable} | {fast}", pass.name)
    });
    let others: Vec<String> = others.collect();
    assert_eq!(rows("\n## Passes\n", &[1, 4, 5, 6]), others);
    let of_tract = tract::NAMES.map(|name| format!("`{name}`"));
    assert_eq!(rows("\n## `--for tract`\n", &[1]), of_tract);
}

fn documentation() -> String {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/rewriting.md");
    std::fs::read_to_string(docs).expect("the documentation")
}

/// All that the table names exists, and the documentation has all that the table names.
#[test]
fn the_table_of_runtimes_is_the_documented_one() {
    let known: BTreeSet<&str> = PASSES.iter().map(|pass| pass.name).collect();
    let docs = documentation();
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
