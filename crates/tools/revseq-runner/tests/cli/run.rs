//! `revseq run`.

use std::path::Path;
use std::process::Command;

use prost::Message;
use tract_onnx::pb::GraphProto;

use crate::common::{
    FLOAT, Folder, INT64, graph, has, int, int64s, models, node, prints, refuses, reverse_graph,
    revseq, succeeds, tensor, value,
};

/// The first example of the README, with figures that may differ in the last digits.
#[test]
fn the_readme_s_example_prints_its_outputs() {
    let readme = std::fs::read_to_string(models().join("../README.md")).unwrap();
    let (_, example) = readme.split_once("```console\n$ cargo run -- ").unwrap();
    let (example, _) = example.split_once("\n```").unwrap();
    let (command, expected) = example.split_once('\n').unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_revseq"))
        .args(command.split(' '))
        .current_dir(models().join(".."))
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let words = |text: &str| -> Vec<String> {
        let words = text
            .split([' ', '\n', ',', '[', ']'])
            .filter(|word| !word.is_empty());
        words.map(str::to_owned).collect()
    };
    let (printed, expected) = (words(&printed), words(expected));
    assert_eq!(printed.len(), expected.len(), "{printed:?}");
    for (found, expected) in std::iter::zip(printed, expected) {
        match (found.parse::<f64>(), expected.parse::<f64>()) {
            (Ok(found), Ok(expected)) => assert!((found - expected).abs() < 1e-5, "{found}"),
            _ => assert_eq!(found, expected),
        }
    }
}

#[test]
fn made_up_inputs_are_the_same_for_the_same_seed() {
    let folder = Folder::new();
    let model = folder.model(reverse_graph());
    let run = |fill: &str| succeeds(&["run", &model, "--fill", fill]);
    for fill in ["iota", "zeros", "random", "random:7"] {
        assert_eq!(run(fill), run(fill), "{fill}");
    }
    assert_eq!(run("random"), run("random:0"));
    assert_ne!(run("random:7"), run("random:8"));
    // Lengths are 0, 1, 2, 3: the first two rows of five stay, then 2 and 3 steps turn.
    let output = run("iota");
    assert!(
        output.starts_with("y: float[4,5,3]\n  [[[ 0.0,  1.0,  2.0],\n"),
        "{output}"
    );
    has(
        &output,
        "   [[33.0, 34.0, 35.0],\n    [30.0, 31.0, 32.0],\n    [36.0",
    );
    has(
        &output,
        "   [[51.0, 52.0, 53.0],\n    [48.0, 49.0, 50.0],\n    [45.0",
    );
}

#[test]
fn made_up_lengths_are_in_range() {
    // The batch is longer than the sequence: counting on would run over.
    let folder = Folder::new();
    let mut graph = reverse_graph();
    graph.input = vec![
        value("x", FLOAT, &["b", "2", "3"]),
        value("lens", INT64, &["b"]),
    ];
    let model = folder.model(graph);
    for fill in ["iota", "random:3"] {
        succeeds(&format!("run {} --fill {fill} --dim b=50", model));
    }
}

#[test]
fn json_has_all_values() {
    let folder = Folder::new();
    let model = folder.model(reverse_graph());
    let output = succeeds(&format!(
        "run {} --fill iota --format json --repeat 3",
        model
    ));
    let json: serde_json::Value = serde_json::from_str(&output).unwrap();
    let y = &json["outputs"][0];
    assert_eq!(y["name"], "y");
    assert_eq!(y["type"], "float");
    assert_eq!(y["shape"], serde_json::json!([4, 5, 3]));
    assert_eq!(y["values"].as_array().unwrap().len(), 60);
    assert_eq!(y["values"][30], 33.0);
    assert_eq!(json["timing"]["runs"], 3);
}

#[test]
fn json_of_numbers_that_json_lacks() {
    let output = succeeds(&format!(
        "run {} --format json",
        models().join("types/nan_float32").display()
    ));
    let json: serde_json::Value = serde_json::from_str(&output).unwrap();
    let values = json["outputs"][0]["values"].as_array().unwrap();
    assert!(values.iter().any(|value| value == "nan"), "{output}");
}

#[test]
fn repeating_prints_times_after_the_outputs() {
    let folder = Folder::new();
    let model = folder.model(reverse_graph());
    let arguments = ["run", &model, "--fill", "iota"];
    let once = revseq(&arguments);
    let repeated = revseq(&[&arguments[..], &["--repeat", "5"]].concat());
    let times = repeated.stdout.strip_prefix(&once.stdout);
    let times = times.unwrap_or_else(|| panic!("{repeated:?}"));
    assert_eq!(once.stderr, "");
    assert!(times.starts_with("5 runs: median "), "{times}");
    has(times, ", min ");
    has(times, ", max ");
    assert_eq!(
        repeated.stderr.contains("--release"),
        cfg!(debug_assertions),
        "{repeated:?}"
    );
}

#[test]
fn a_folder_s_first_data_set_is_the_default() {
    let folder = models().join("shapes/symbolic_batch_time");
    let path = folder.to_str().unwrap();
    let output = succeeds(&["run", path]);
    let input = |index| {
        folder
            .join(format!("test_data_set_0/input_{index}.pb"))
            .display()
            .to_string()
    };
    let model = folder.join("model.onnx");
    let given = succeeds(&format!(
        "run {} -i x={} -i sequence_lens={}",
        model.display(),
        input(0),
        input(1)
    ));
    assert_eq!(output, given);
    refuses(
        &["run", model.to_str().unwrap()],
        "the inputs are x: float[T,N,2], sequence_lens: int64[N]",
    );
}

#[test]
fn an_initializer_is_an_input_s_default() {
    let folder = Folder::new();
    let mut graph = reverse_graph();
    graph.initializer = vec![int64s("lens", &[5, 5, 5, 5])];
    let model: &str = &folder.model(graph);
    prints(&["run", model, "--fill", "iota"], "[[[12.0, 13.0, 14.0],");
    let none = folder.write("lens.pb", &int64s("lens", &[0, 0, 0, 0]).encode_to_vec());
    prints(
        &format!("run {model} --fill iota -i lens={}", none),
        "[[[ 0.0,  1.0,  2.0],",
    );
}

#[test]
fn large_outputs_are_shortened() {
    let folder = Folder::new();
    let mut graph = reverse_graph();
    graph.node = vec![node("Neg", &["x"], &["y"])];
    graph.input = vec![value("x", FLOAT, &["100", "100"])];
    graph.output = vec![value("y", FLOAT, &["100", "100"])];
    let model = folder.model(graph);
    let output = succeeds(&["run", &model, "--fill", "iota"]);
    assert_eq!(output.lines().count(), 8, "{output}");
    has(&output, "\n   ...,\n");
    assert!(
        output.ends_with("-9997.0, -9998.0, -9999.0]]\n"),
        "{output}"
    );
}

#[test]
fn outputs_that_cannot_be_written() {
    let folder = Folder::new();
    let model = folder.model(reverse_graph());
    let path = folder.path("none/y.npy");
    let output = format!("y={}", path);
    refuses(
        &format!("run {} --fill iota -o {output}", model),
        "cannot write",
    );
}

#[test]
fn names_of_inputs_and_outputs_may_have_equals_signs() {
    let folder = Folder::new();
    let mut graph = reverse_graph();
    graph.node[0] = node("Sub", &["a=b c", "a"], &["y=z"]);
    graph.input = ["a", "a=b c"]
        .map(|name| value(name, FLOAT, &["2"]))
        .to_vec();
    graph.output = vec![value("y=z", FLOAT, &["2"])];
    let model = folder.model(graph);
    let path = |name: &str| folder.path(name);
    let [ones, threes, output] = ["1=1.pb", "3.pb", "y.npy"].map(path);
    for (file, number) in [(&ones, 1.0), (&threes, 3.0)] {
        let numbers = [number; 2].map(f32::to_le_bytes).concat();
        let numbers = tensor("", FLOAT, &[2], &numbers).encode_to_vec();
        std::fs::write(file, numbers).unwrap();
    }
    let inputs = [format!("a={ones}"), format!("a=b c={threes}")];
    let run = ["run", &model, "-i", &inputs[0], "-i", &inputs[1]];
    assert!(succeeds(&run).contains("[2.0, 2.0]"));
    let named = format!("y=z={output}");
    succeeds(&[&run[..], &["-o", &named]].concat());
    assert!(std::path::Path::new(&output).exists());
    // A name that the model lacks is the part before the first one.
    let unknown = format!("b=c={ones}");
    refuses(&["run", &model, "-i", &unknown], "there is no input \"b\"");
}

#[test]
fn nodes_that_share_a_name_run() {
    let folder = Folder::new();
    let mut graph = reverse_graph();
    graph.node.push(node("Neg", &["y"], &["z"]));
    graph.node.push(node("Neg", &["z"], &["w"]));
    graph.output = vec![value("w", FLOAT, &["4", "5", "3"])];
    for node in &mut graph.node {
        node.name = "x".to_owned();
    }
    prints(
        &format!("run {} --fill iota", folder.model(graph)),
        "[[33.0, 34.0, 35.0],",
    );
}

#[cfg(unix)]
#[test]
fn a_reader_that_leaves_is_no_error() {
    use std::process::{Command, Stdio};
    let model = models().join("exported/mxnet_sequence_reverse_encoder");
    for arguments in [&["run"][..], &["inspect"], &["inspect", "--format", "json"]] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_revseq"))
            .args(arguments)
            .arg(&model)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(output.stderr.is_empty(), "{output:?}");
    }
}

#[test]
fn a_profile_has_the_times_of_operators() {
    let folder = Folder::new();
    let model = folder.model(reverse_graph());
    let arguments = ["run", &model, "--fill", "iota", "--profile"];
    let run = revseq(&arguments);
    assert_eq!(run.code, Some(0), "{run:?}");
    has(&run.stdout, "\n1 profiled run: median ");
    has(&run.stdout, "\noperator ");
    has(&run.stdout, "\nReverseSequence ");
    let json = succeeds(&[&arguments[..], &["--repeat", "3", "--format", "json"]].concat());
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["profile"]["runs"], 3);
    let nodes = json["profile"]["nodes"].as_array().unwrap();
    let ours = nodes
        .iter()
        .find(|node| node["operator"] == "ReverseSequence");
    let ours = ours.unwrap();
    assert_eq!(ours["calls"], 3);
    let median = ours["median_seconds"].as_f64().unwrap();
    assert!(median > 0.0 && median <= json["profile"]["median_seconds"].as_f64().unwrap());
    assert!(json["timing"]["p99_seconds"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_profile_has_the_nodes_of_branches() {
    let folder = Folder::new();
    let model = folder.text(
        "x:f32[2] is_taken:bool[] -> y:f32[2]
         y = If<then_branch=@then;else_branch=@else>(is_taken)
         @then: -> kept:f32[2]
         kept = Tanh(x)
         @else: -> other:f32[2]
         other = Exp(x)",
    );
    let run = format!("run {model} --fill zeros --profile --format json");
    let json: serde_json::Value = serde_json::from_str(&succeeds(&run)).unwrap();
    let nodes = json["profile"]["nodes"].as_array().unwrap();
    let find = |operator: &str| nodes.iter().find(|node| node["operator"] == operator);
    let seconds = |node: &serde_json::Value, key: &str| node[key].as_f64().unwrap();
    let (inner, outer) = (find("Exp").unwrap(), find("If").unwrap());
    let whole = seconds(outer, "median_seconds_with_inner");
    assert!(seconds(outer, "median_seconds") < whole, "{json}");
    assert!(seconds(inner, "median_seconds") < whole, "{json}");
    assert!(find("Tanh").is_none(), "{json}");
}

#[test]
fn lengths_out_of_range_are_rejected_or_clamped() {
    let folder = Folder::new();
    let model = folder.model(reverse_graph());
    folder.write("lens.pb", &int64s("lens", &[9, -1, 5, 2]).encode_to_vec());
    let lens = format!("lens={}", folder.path("lens.pb"));
    let run = |lengths: &[&str]| {
        let arguments = ["run", &model, "--fill", "iota", "-i", &lens];
        revseq(&[&arguments[..], lengths].concat())
    };
    for rejected in [run(&[]), run(&["--lengths", "reject"])] {
        assert_eq!(rejected.code, Some(2), "{rejected:?}");
    }
    let clamped = run(&["--lengths", "clamp"]);
    assert_eq!(clamped.code, Some(0), "{clamped:?}");
    assert!(
        clamped
            .stdout
            .starts_with("y: float[4,5,3]\n  [[[12.0, 13.0, 14.0],\n"),
        "{clamped:?}"
    );
}

/// The models of ONNX 1.23's own tests of Loop, and of functions that expand to one, whose values are
/// sequences, optionals or bfloat16; the others are in `models/loops`.
#[test]
fn loops_on_sequences_optionals_and_bfloat16_are_refused_by_name() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/data/onnx_loops");
    let mut count = 0;
    for file in folder.read_dir().unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let lacks = match name {
            "test_loop13_seq" => &[
                "SequenceInsert (node",
                "input \"seq_empty\", which is not a tensor",
            ][..],
            "test_loop16_seq_none" => &[
                "OptionalGetElement (node",
                "OptionalHasElement",
                "SequenceConstruct",
            ],
            "test_range_bfloat16_type_positive_delta_expanded" => &["bfloat16"],
            name if name.starts_with("test_sequence_map_") => &[
                "SequenceAt (node",
                "SequenceEmpty",
                "SequenceInsert",
                "SequenceLength",
                "input \"",
            ],
            name => panic!("{name} is not expected"),
        };
        let path = path.to_str().unwrap();
        for lacks in lacks {
            refuses(&["run", path], lacks);
        }
        refuses(&["run", path], &format!("tract has no {}", lacks[0]));
        count += 1;
    }
    assert_eq!(count, 9);
}

/// A model of one Gather of 20 rows, by a chain of operators on its input.
fn gather(chain: &[&str], input: &str) -> GraphProto {
    let (mut nodes, mut last) = (String::new(), "ids".to_owned());
    for (index, operator) in chain.iter().enumerate() {
        let to = if *operator == "Cast" { "<to=7>" } else { "" };
        nodes += &format!("v{index} = {operator}{to}({last})\n");
        last = format!("v{index}");
    }
    graph(&format!(
        "ids:{input}[50] -> rows:f32[50,2]
         table:f32[20,2] = 0.0
         {nodes}
         rows = Gather(table, {last})"
    ))
}

#[test]
fn made_up_indices_are_within_the_axis_they_index() {
    const INT32: i32 = 6;
    let folder = Folder::new();
    for (chain, input) in [
        (&[][..], "i64"),
        (&["Cast"], "i32"),
        (&["Cast", "Identity"], "i32"),
        (&["Identity", "Transpose"], "i64"),
    ] {
        let path: &str = &folder.model(gather(chain, input));
        for fill in [
            "random",
            "random:3",
            "iota",
            "ids=ints:0..20",
            "ids=ints:-20..0:5",
        ] {
            succeeds(&["run", path, "--fill", fill]);
        }
    }
    // Lengths, behind a Cast.
    let mut graph = reverse_graph();
    graph.input[1] = value("lens32", INT32, &["4"]);
    let mut cast = node("Cast", &["lens32"], &["lens"]);
    cast.attribute = vec![int("to", INT64.into())];
    graph.node.insert(0, cast);
    let path: &str = &folder.model(graph);
    for seed in 0..5 {
        let fill = format!("random:{seed}");
        succeeds(&["run", path, "--fill", &fill]);
    }
    refuses(
        &["run", path, "--fill", "nope=zeros"],
        "--fill: there is no input \"nope\"",
    );
    refuses(
        &["run", path, "--fill", "lens32=ints:0..3"],
        "input \"x\" is missing",
    );
    succeeds(&["run", path, "--fill", "lens32=ints:5..6", "--fill", "iota"]);
    refuses(
        &format!("run {path} --fill random --fill lens32=ints:6..7"),
        "sequence length 6 at index 0 is out of range",
    );
}

#[test]
fn a_run_of_seconds_has_a_throughput_and_a_trace() {
    let folder = Folder::new();
    let model = folder.model(reverse_graph());
    let trace = folder.path("trace.json");
    let run = [
        "run",
        &model,
        "--fill",
        "iota",
        "--seconds",
        "0.2",
        "--warmup",
        "1",
    ];
    refuses(
        &["run", &model, "--fill", "iota", "--warmup", "1"],
        "--warmup is for timed runs: add --repeat or --seconds",
    );
    let start = std::time::Instant::now();
    let timed = revseq(&run);
    assert!(start.elapsed().as_secs_f64() >= 0.2);
    assert_eq!(timed.code, Some(0), "{timed:?}");
    for part in [
        " runs: median ",
        ", mean ",
        ", standard deviation ",
        " runs per second; loaded in ",
    ] {
        assert!(timed.stdout.contains(part), "{part}: {timed:?}");
    }
    let profile = [
        &run[..],
        &["--profile", "--trace", &trace, "--format", "json"],
    ]
    .concat();
    let json: serde_json::Value = serde_json::from_str(&succeeds(&profile)).unwrap();
    let timing = &json["timing"];
    let number = |key: &str| {
        timing[key]
            .as_f64()
            .unwrap_or_else(|| panic!("{key}: {timing}"))
    };
    let (runs, mean) = (number("runs"), number("mean_seconds"));
    assert!(runs >= 1.0 && runs * mean <= 0.25 + mean, "{timing}");
    let throughput = number("runs_per_second") * mean;
    assert!((0.99..1.01).contains(&throughput), "{timing}");
    assert!(number("standard_deviation_seconds") >= 0.0);
    assert!(json["load_seconds"].as_f64().unwrap() > 0.0);
    let events: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&trace).unwrap()).unwrap();
    let events = events.as_array().unwrap();
    let ours = events
        .iter()
        .filter(|event| event["args"]["op_name"] == "ReverseSequence");
    let ours: Vec<_> = ours.collect();
    // A profile of many runs ends after some seconds.
    let profiled = ours.len() as f64;
    assert!((1.0..=runs).contains(&profiled), "{profiled} of {runs}");
    for pair in ours.windows(2) {
        let [ts, dur] = ["ts", "dur"].map(|key| pair[0][key].as_f64().unwrap());
        assert_eq!(pair[0]["ph"], "X");
        assert!(ts + dur <= pair[1]["ts"].as_f64().unwrap() + 0.01);
    }
    refuses(&profile, "the file exists; --overwrite replaces it");
    for wrong in [
        &["--seconds", "0"][..],
        &["--seconds", "x"],
        &["--seconds", "1", "--repeat", "2"],
    ] {
        assert_eq!(
            revseq(&[&run[..4], wrong].concat()).code,
            Some(2),
            "{wrong:?}"
        );
    }
}

/// Runs `revseq` with bytes on standard input.
fn piped(arguments: &[&str], input: &[u8]) -> std::process::Output {
    use std::io::Write;
    use std::process::{Command, Stdio};

    let mut child = Command::new(env!("CARGO_BIN_EXE_revseq"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // One that is refused by its first bytes is not read to its end.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

#[test]
fn a_model_comes_from_standard_input() {
    let folder = Folder::new();
    let path = folder.model(reverse_graph());
    let bytes = std::fs::read(&path).unwrap();
    for arguments in [
        &["run", "MODEL", "--fill", "iota"][..],
        &["inspect", "MODEL", "--format", "json"],
        &[
            "rewrite",
            "MODEL",
            "-o",
            "-",
            "--portable",
            "--check",
            "--backend",
            "tract",
        ],
    ] {
        let lines_of = |model: &str| -> Vec<String> {
            let arguments = arguments.iter();
            arguments.map(|it| it.replace("MODEL", model)).collect()
        };
        let of_file = std::process::Command::new(env!("CARGO_BIN_EXE_revseq"))
            .args(lines_of(&path))
            .output()
            .unwrap();
        let arguments = lines_of("-");
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = piped(&arguments, &bytes);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        if arguments[0] == "inspect" {
            let json = |bytes: &[u8]| -> serde_json::Value {
                let mut json: serde_json::Value = serde_json::from_slice(bytes).unwrap();
                json["model"] = "-".into();
                json
            };
            assert_eq!(json(&output.stdout), json(&of_file.stdout));
        } else {
            assert_eq!(output.stdout, of_file.stdout);
        }
    }
    let garbage = piped(&["inspect", "-"], b"<!DOCTYPE html>");
    let stderr = String::from_utf8(garbage.stderr).unwrap();
    assert_eq!(
        stderr,
        "error: cannot read standard input: it is not an ONNX model: it is an HTML page\n"
    );
    let recorded = piped(&["snapshot", "-"], &bytes);
    assert_eq!(recorded.status.code(), Some(2), "{recorded:?}");
}
