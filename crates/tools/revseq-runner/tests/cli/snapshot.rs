//! `revseq snapshot`, and `revseq verify` on its snapshots.

use prost::Message;
use tract_onnx::pb::TensorProto;

use crate::common::{
    FLOAT, Folder, exists, fails, graph, has, model, node, prints, refuses, reverse_graph, revseq,
    succeeds, tensor,
};

/// A model NAME.onnx in a folder, and its path.
fn encoder(folder: &Folder) -> String {
    folder.write("encoder.onnx", &model(reverse_graph()).encode_to_vec());
    folder.path("encoder.onnx")
}

#[test]
fn snapshots_are_recorded_verified_and_updated() {
    let folder = Folder::new();
    let path = encoder(&folder);
    refuses(&["verify", &path], "`revseq snapshot` records one");
    let all = folder.path("");
    let all = &all.trim_end_matches('/');
    let said = succeeds(&["snapshot", all]);
    assert!(
        said.ends_with("encoder.snapshots/test_data_set_0: recorded on tract\n"),
        "{said}"
    );
    refuses(
        &["snapshot", &path],
        "it has a data set already; `revseq verify --update`",
    );
    refuses(
        &["snapshot", all],
        "there is no model without a data set in or below it",
    );
    succeeds(&["snapshot", &path, "--add", "--fill", "iota"]);
    assert_eq!(
        succeeds(&["verify", all]),
        format!("{path}: ok\n1 passed, 0 failed, 0 skipped\n")
    );

    // The model changes: both data sets say where and how much.
    let mut changed = reverse_graph();
    changed.node.push(node("Neg", &["y"], &["z"]));
    changed.output[0].name = "y".to_owned();
    changed.node[0].output = vec!["before".to_owned()];
    changed.node[1].input = vec!["before".to_owned()];
    changed.node[1].output = vec!["y".to_owned()];
    folder.write("encoder.onnx", &model(changed).encode_to_vec());
    let run = revseq(&["verify", all]);
    assert_eq!(run.code, Some(1), "{run:?}");
    has(
        &run.stdout,
        "FAILED: test_data_set_0: output y[0, 0, 0]: expected ",
    );
    has(
        &run.stdout,
        "; test_data_set_1: output y[0, 0, 0]: expected 0.0, got -0.0",
    );
    let junit = revseq(&["verify", all, "--format", "junit", "-o", "-"]);
    assert_eq!(junit.code, Some(1), "{junit:?}");
    has(
        &junit.stdout,
        "<testsuites tests=\"1\" failures=\"1\" skipped=\"0\"",
    );
    has(
        &junit.stdout,
        "<failure message=\"test_data_set_0: output y[0, 0, 0]",
    );
    let accepted = succeeds(&["verify", all, "--update"]);
    assert!(
        accepted.contains(": updated: test_data_set_0: output y")
            && accepted.ends_with("0 passed, 1 updated, 0 failed, 0 skipped\n"),
        "{accepted}"
    );
    assert!(succeeds(&["verify", &path]).contains(": ok\n"));
    let left: Vec<String> = std::fs::read_dir(folder.path("encoder.snapshots/test_data_set_0"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains("partial"))
        .collect();
    assert_eq!(left, [""; 0]);
}

/// Makes a data set one of an older version, without a text that shows its outputs.
fn forget_text(folder: &Folder, set: &str) {
    let record = format!("{set}/snapshot.json");
    let text = std::fs::read(folder.path(&record)).unwrap();
    let mut json: serde_json::Value = serde_json::from_slice(&text).unwrap();
    json.as_object_mut().unwrap().remove("shown").unwrap();
    folder.write(&record, json.to_string().as_bytes());
}

#[test]
fn tolerances_are_recorded_by_output() {
    let folder = Folder::new();
    let path = encoder(&folder);
    refuses(
        &["snapshot", &path, "--atol", "nope=1"],
        "there is no output \"nope\"",
    );
    succeeds(&["snapshot", &path, "--fill", "iota", "--atol", "y=0.5"]);
    let set = "encoder.snapshots/test_data_set_0";
    let change = |by: f32| {
        // The first data set's expected output, with its first element changed.
        let file = folder.path(&format!("{set}/output_0.pb"));
        let bytes = std::fs::read(&file).unwrap();
        let mut tensor = tract_onnx::pb::TensorProto::decode(bytes.as_slice()).unwrap();
        tensor.raw_data[..4].copy_from_slice(&by.to_le_bytes());
        std::fs::write(&file, tensor.encode_to_vec()).unwrap();
    };
    forget_text(&folder, set);
    change(0.25);
    succeeds(&["verify", &path]);
    // Tolerances on the command line override the recorded ones.
    assert_eq!(revseq(&["verify", &path, "--atol", "0.1"]).code, Some(1));
    change(0.75);
    assert_eq!(revseq(&["verify", &path]).code, Some(1));
    folder.write(
        &format!("{set}/snapshot.json"),
        br#"{"tolerances": {"y": {"rtol": -1}}}"#,
    );
    let run = revseq(&["verify", &path]);
    has(
        &run.stdout,
        "snapshot.json: output \"y\" has no rtol of 0 or more",
    );
}

#[test]
fn runs_are_saved_as_data_sets_and_archives() {
    let folder = Folder::new();
    let path = encoder(&folder);
    let data = folder.path("data");
    let archive = folder.path("out.npz");
    let run = revseq(&format!(
        "run {path} --fill iota --output {} --save-test-data {}",
        archive, data
    ));
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(
        run.stdout
            .starts_with(&format!("1 output -> {}\n", archive)),
        "{run:?}"
    );
    assert!(exists(&format!("{data}/test_data_set_0/input_1.pb")));
    // The arrays of an archive are fed by name; a note says that there is no input `y`.
    refuses(
        &["run", &path, "--input", &archive],
        "out.npz: it has y; the inputs are x: float[4,5,3]",
    );
    refuses(
        &["run", &path, "--input", &path],
        "the name ends neither in .pb (TensorProto) nor in .npy",
    );
    folder.write("broken.npz", b"PK");
    refuses(
        &format!("run {path} --input {}", folder.path("broken.npz")),
        "it is not an .npz file",
    );
}

/// A model whose outputs are each an operator of the first input, all of one size.
fn of(inputs: &[&str], outputs: &[(&str, &str)], size: &str) -> Vec<u8> {
    let first = inputs[0];
    let declared = |name: &str| format!("{name}:f32[{size}]");
    let inputs: Vec<String> = inputs.iter().map(|it| declared(it)).collect();
    let names: Vec<String> = outputs.iter().map(|it| declared(it.1)).collect();
    let nodes = outputs
        .iter()
        .map(|(operator, it)| format!("{it} = {operator}({first})"));
    let nodes: Vec<String> = nodes.collect();
    let (inputs, outputs) = (inputs.join(" "), names.join(" "));
    let graph = graph(&format!("{inputs} -> {outputs}\n{}", nodes.join("\n")));
    model(graph).encode_to_vec()
}

/// Changes of the interface fail, even with equal values, and `--update` accepts them.
#[test]
fn another_interface_is_a_difference() {
    for (change, changed, why) in [
        (
            "an input has another name",
            of(&["x2"], &[("Neg", "y")], "3"),
            "input_0.pb: the model has none named \"x\"; it has x2",
        ),
        (
            "an output has another name",
            of(&["x"], &[("Neg", "z")], "3"),
            "output_0.pb: the model has none named \"y\"; it has z",
        ),
        (
            "there is another output",
            of(&["x"], &[("Neg", "y"), ("Abs", "z")], "3"),
            "it has no data for output \"z\"",
        ),
        (
            "there is another input",
            of(&["x", "extra"], &[("Neg", "y")], "3"),
            "it has no data for input \"extra\"",
        ),
        (
            "sizes differ",
            of(&["x"], &[("Neg", "y")], "4"),
            "input \"x\" is float[3]: expected float[4]",
        ),
    ] {
        let folder = Folder::new();
        let path: &str = &folder.write("m.onnx", &of(&["x"], &[("Neg", "y")], "3"));
        succeeds(&["snapshot", path, "--atol", "y=0.5"]);
        folder.write("m.onnx", &changed);
        let run = revseq(&["verify", path]);
        assert_eq!(run.code, Some(1), "{change}: {run:?}");
        assert!(run.stdout.contains(why), "{change}: {run:?}");
        let updated = succeeds(&["verify", path, "--update"]);
        assert!(
            updated.contains(": updated: test_data_set_0: recorded anew: "),
            "{change}: {updated}"
        );
        assert!(succeeds(&["verify", path]).contains(": ok\n"), "{change}");
        let record = folder.path("m.snapshots/test_data_set_0/snapshot.json");
        let record = std::fs::read_to_string(record).unwrap();
        let keeps_y = change != "an output has another name";
        assert_eq!(
            record.contains("\"atol\": 0.5"),
            keeps_y,
            "{change}: {record}"
        );
    }
    // An output that is gone.
    let folder = Folder::new();
    let path: &str = &folder.write("m.onnx", &of(&["x"], &[("Neg", "y"), ("Abs", "z")], "3"));
    succeeds(&["snapshot", path]);
    folder.write("m.onnx", &of(&["x"], &[("Neg", "y")], "3"));
    let run = revseq(&["verify", path]);
    has(&run.stdout, "the model has none named \"z\"; it has y");
    succeeds(&["verify", path, "--update"]);
    assert!(!exists(
        &folder.path("m.snapshots/test_data_set_0/output_1.pb")
    ));
    succeeds(&["verify", path]);
    // Inputs that fit are kept.
    succeeds(&["snapshot", path, "--add", "--fill", "iota"]);
    folder.write("m.onnx", &of(&["renamed"], &[("Neg", "y")], "3"));
    succeeds(&["verify", path, "--update"]);
    let input = folder.path("m.snapshots/test_data_set_1/input_0.pb");
    let input = TensorProto::decode(std::fs::read(input).unwrap().as_slice()).unwrap();
    let iota: Vec<u8> = [0.0_f32, 1.0, 2.0]
        .into_iter()
        .flat_map(f32::to_le_bytes)
        .collect();
    assert_eq!((input.name.as_str(), input.raw_data), ("renamed", iota));
}

/// Two models, of which only the second has a size T, an input `ids` and an output `longer`.
fn two_models(folder: &Folder) -> [String; 2] {
    let of = |input: &str, size: &str, output: &str| {
        let values = format!("{input}:f32[N,{size}] -> {output}:f32[N,{size}]");
        graph(&format!("{values}\n {output} = Neg({input})"))
    };
    folder.write("a.onnx", &model(of("x", "3", "y")).encode_to_vec());
    folder.write("b.onnx", &model(of("ids", "T", "longer")).encode_to_vec());
    ["a.onnx", "b.onnx"].map(|name| folder.path(name))
}

#[test]
fn arguments_for_several_models_are_for_those_that_have_the_name() {
    let folder = Folder::new();
    let [a, b] = two_models(&folder);
    let sizes = ["--dim", "N=2", "--dim", "T=4", "--fill", "ids=zeros"];
    let both = [&["snapshot", &a, &b, "--rtol", "longer=1"], &sizes[..]].concat();
    let unknown = [&both[..], &["--dim", "U=1"]].concat();
    refuses(&unknown, "--dim U: none of the models has that name");
    refuses(
        &[&both[..], &["--fill", "z=iota"]].concat(),
        "--fill z: none of the models has that name",
    );
    let alone = [&["snapshot", &a], &sizes[..]].concat();
    refuses(&alone, "--dim T: there is no symbolic size of that name");
    assert_eq!(succeeds(&both).lines().count(), 2);

    // The same of tolerances, of whichever model is tested.
    let folder = folder.path("");
    let verified = succeeds(&["verify", &folder, "--atol", "longer=1"]);
    assert!(
        verified.ends_with("2 passed, 0 failed, 0 skipped\n"),
        "{verified}"
    );
    fails(
        &["verify", &folder, "--atol", "lnger=1"],
        "all tests: FAILED: no model has an output \"lnger\" to set a tolerance for\n",
    );
}

#[test]
fn a_model_that_does_not_run_leaves_the_others_of_its_folder() {
    let folder = Folder::new();
    let [_, b] = two_models(&folder);
    let mut broken = reverse_graph();
    broken.node[0] = node("Nonsense", &["x"], &["y"]);
    folder.write("a.onnx", &model(broken).encode_to_vec());
    let all = folder.path("");
    let run = revseq(&["snapshot", &all]);
    assert_eq!(run.code, Some(2), "{run:?}");
    assert_eq!(run.stdout.lines().count(), 1, "{run:?}");
    has(&run.stderr, "error: 1 of 2 models were not recorded: ");
    has(&run.stderr, "tract has no Nonsense");
    assert!(succeeds(&["verify", &b]).contains(": ok\n"));
}

#[test]
fn a_model_is_tested_once() {
    let folder = Folder::new();
    let path = encoder(&folder);
    succeeds(&["snapshot", &path]);
    folder.write("other.onnx", &model(reverse_graph()).encode_to_vec());
    let all = folder.path("");
    let again = folder.path("./") + "././";
    prints(
        &["verify", &all, &again, &path],
        "\n1 passed, 0 failed, 0 skipped\n1 model without a snapshot: ",
    );
    // A link to a model has another name, and data sets of its own.
    #[cfg(unix)]
    {
        let link = folder.path("link.onnx");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        succeeds(&["snapshot", &link]);
        assert!(succeeds(&["verify", &all]).contains("\n2 passed, "));
    }
}

#[test]
fn nothing_tested_is_a_failure() {
    let fails = |arguments: &[&str], why: &str| {
        let run = revseq(arguments);
        assert_eq!(run.code, Some(1), "{arguments:?}: {run:?}");
        assert!(run.stdout.contains(why), "{arguments:?}: {run:?}");
    };
    // The backend that recorded it now refuses the model.
    let folder = Folder::new();
    let path: &str = &folder.write("m.onnx", &of(&["x"], &[("Neg", "y")], "3"));
    folder.write("other.onnx", &of(&["x"], &[("Neg", "y")], "3"));
    let other: &str = &folder.path("other.onnx");
    succeeds(&["snapshot", path, other]);
    folder.write("m.onnx", &of(&["x"], &[("Nonsense", "y")], "3"));
    fails(
        &["verify", path, other],
        "m.onnx: FAILED: tract has no Nonsense (node \"y_node\"); ONNX has no Nonsense, either; test_data_set_0 was recorded on tract\n",
    );
    let skipped = succeeds(&["verify", path, other, "--allow-skips"]);
    assert!(
        skipped.ends_with("1 passed, 0 failed, 1 skipped\n"),
        "{skipped}"
    );
    // Recorded elsewhere, it may be skipped, unless nothing else is tested.
    let record = "m.snapshots/test_data_set_0/snapshot.json";
    folder.write(record, br#"{"recorded_on": "ONNX Runtime 1.31.1"}"#);
    succeeds(&["verify", path, other]);
    fails(
        &["verify", path],
        "all tests: FAILED: every test was skipped; --allow-skips accepts that\n",
    );
    let junit = revseq(&["verify", path, "--format", "junit"]);
    has(&junit.stdout, "tests=\"2\" failures=\"1\" skipped=\"1\"");
    succeeds(&["verify", path, "--allow-skips"]);
    // Models without a snapshot, and snapshots without a model.
    std::fs::remove_file(folder.path(record)).unwrap();
    std::fs::rename(path, folder.path("renamed.onnx")).unwrap();
    folder.write("broken.onnx", b"no model");
    let all = folder.path("");
    let all = &all.trim_end_matches('/');
    let orphan = format!(
        "{all}/m.snapshots: FAILED: it is a snapshot of {path}, which is missing\n\
         1 passed, 1 failed, 0 skipped\n\
         2 models without a snapshot: {all}/broken.onnx, {all}/renamed.onnx\n"
    );
    fails(&["verify", all], &orphan);
    std::fs::remove_dir_all(folder.path("m.snapshots")).unwrap();
    succeeds(&["verify", all]);
    fails(
        &["verify", all, "--require-snapshots"],
        "renamed.onnx: FAILED: it has no snapshot; `revseq snapshot` records one\n",
    );
    let json = succeeds(&["verify", all, "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["without_snapshot"][0], format!("{all}/broken.onnx"));
    assert_eq!(json["interrupted"], false);
    for number in 0..9 {
        folder.write(&format!("other{number}.onnx"), b"no model");
    }
    let said = succeeds(&["verify", all]);
    has(&said, "\n11 models without a snapshot: ");
    assert!(said.ends_with("other6.onnx and 3 more\n"), "{said}");
}

/// Outputs that change places fail although their values agree, and `--update` accepts them.
#[test]
fn outputs_that_change_places_are_a_difference() {
    let of = |outputs: &[(&str, &str)]| of(&["x"], outputs, "3");
    let recorded = of(&[("Abs", "y"), ("Relu", "z"), ("Neg", "w")]);
    for (changed, why) in [
        (
            of(&[("Relu", "y"), ("Abs", "z"), ("Neg", "w")]),
            ": FAILED: test_data_set_0: output y is computed as output z was; test_data_set_0: output \
             z is computed as output y was\n",
        ),
        (
            of(&[("Relu", "z"), ("Abs", "y"), ("Neg", "w")]),
            ": FAILED: test_data_set_0: the outputs are in the order z, y, w, recorded as y, z, w\n",
        ),
    ] {
        let folder = Folder::new();
        let path: &str = &folder.write("m.onnx", &recorded);
        // Of numbers that are not negative, Abs and Relu are the same.
        succeeds(&["snapshot", path, "--fill", "iota", "--atol", "y=0.5"]);
        succeeds(&["verify", path]);
        folder.write("m.onnx", &changed);
        fails(&["verify", path], why);
        prints(&["verify", path, "--update"], ": updated: ");
        succeeds(&["verify", path]);
        let record = "m.snapshots/test_data_set_0/snapshot.json";
        let text = std::fs::read_to_string(folder.path(record)).unwrap();
        has(&text, "\"atol\": 0.5");
        // One without outputs, of an older version, and none at all.
        let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
        json.as_object_mut().unwrap().remove("outputs").unwrap();
        folder.write("m.onnx", &recorded);
        folder.write(record, json.to_string().as_bytes());
        succeeds(&["verify", path]);
        std::fs::remove_file(folder.path(record)).unwrap();
        fails(&["verify", path], "snapshot.json is missing");
        succeeds(&["verify", path, "--update"]);
        succeeds(&["verify", path]);
    }
}

/// What a diff shows of data that it does not.
#[test]
fn a_text_shows_the_outputs_of_a_snapshot() {
    let folder = Folder::new();
    let path = encoder(&folder);
    succeeds(&["snapshot", &path, "--fill", "iota"]);
    let shown = "encoder.snapshots/test_data_set_0/snapshot.txt";
    let text = || std::fs::read_to_string(folder.path(shown)).unwrap();
    let before = text();
    assert!(
        before.starts_with("y: float[4,5,3] crc32 ")
            && before.ends_with(
                "  0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, and 48 more\n"
            ),
        "{before}"
    );
    let mut changed = reverse_graph();
    changed.node.push(node("Neg", &["before"], &["y"]));
    changed.node[0].output = vec!["before".to_owned()];
    folder.write("encoder.onnx", &model(changed).encode_to_vec());
    assert_eq!(revseq(&["verify", &path]).code, Some(1));
    assert_eq!(text(), before);
    succeeds(&["verify", &path, "--update"]);
    let after = text();
    assert_ne!(after, before);
    has(&after, "-1");
    // As Git writes it on Windows.
    folder.write(shown, after.replace('\n', "\r\n").as_bytes());
    succeeds(&["verify", &path]);
    for wrong in [Some(before), None] {
        match wrong {
            Some(wrong) => drop(folder.write(shown, wrong.as_bytes())),
            None => std::fs::remove_file(folder.path(shown)).unwrap(),
        }
        fails(&["verify", &path], "snapshot.txt");
        succeeds(&["verify", &path, "--update"]);
        assert_eq!(text(), after);
    }
}

#[test]
fn data_that_git_keeps_elsewhere_is_called_so() {
    let folder = Folder::new();
    let path = encoder(&folder);
    succeeds(&["snapshot", &path]);
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n";
    for file in ["snapshot.json", "snapshot.txt", "input_0.pb", "output_0.pb"] {
        let file = format!("encoder.snapshots/test_data_set_0/{file}");
        let before = std::fs::read(folder.path(&file)).unwrap();
        folder.write(&file, pointer);
        fails(&["verify", &path], "`git lfs pull` gets the file");
        folder.write(&file, &before);
    }
    let array = folder.write("x.npy", pointer);
    let input = format!("x={}", array);
    refuses(
        &["run", &path, "--input", &input],
        "`git lfs pull` gets the file",
    );
}

/// Other nodes that compute the same, and other computations, are told by values alone.
#[test]
fn outputs_that_are_computed_otherwise_keep_their_places() {
    let folder = Folder::new();
    let path: &str = &folder.write("m.onnx", &of(&["x"], &[("Abs", "y"), ("Relu", "z")], "3"));
    succeeds(&["snapshot", path, "--fill", "iota"]);
    for outputs in [
        [("Identity", "y"), ("Relu", "z")],
        [("Relu", "y"), ("Relu", "z")],
    ] {
        folder.write("m.onnx", &of(&["x"], &outputs, "3"));
        succeeds(&["verify", path]);
    }
    // A record that someone else wrote.
    for (record, why) in [
        ("{\"outputs\": 1}", "its outputs are not a list"),
        ("{\"outputs\": [1]}", "an output has no name"),
        (
            "{\"outputs\": [{\"name\": \"y\", \"origin\": \"x\"}]}",
            "output \"y\" has no origin",
        ),
    ] {
        folder.write(
            "m.snapshots/test_data_set_0/snapshot.json",
            record.as_bytes(),
        );
        fails(&["verify", path], why);
    }
}

#[test]
fn the_command_warns_of_nan_on_tract() {
    let folder = Folder::new();
    let model = of(&["x"], &[("Relu", "y"), ("Neg", "z")], "3");
    let path: &str = &folder.write("m.onnx", &model);
    let floats = |name: &str, values: [f32; 3]| {
        let bytes: Vec<u8> = values.iter().flat_map(|it| it.to_le_bytes()).collect();
        tensor(name, FLOAT, &[3], &bytes).encode_to_vec()
    };
    folder.write("x.pb", &floats("x", [1.0, f32::NAN, 3.0]));
    let x = format!("x={}", folder.path("x.pb"));
    let warning = |what: &str| {
        format!(
            "{path}: {what} holds NaN, which some operators turn into an ordinary number on tract\n"
        )
    };
    let said = |arguments: &[&str]| revseq(arguments).stderr;
    assert_eq!(said(&["run", path, "--input", &x]), warning("input \"x\""));
    assert_eq!(said(&["run", path, "--input", &x, "-q"]), "");
    assert_eq!(said(&["run", path, "--fill", "iota"]), "");
    assert_eq!(
        said(&["snapshot", path, "--input", &x]),
        warning("input \"x\"")
    );
    assert_eq!(said(&["verify", path]), warning("input \"x\""));
    // 0 / 0, and an expected NaN that tract does not return.
    folder.write("n.onnx", &model_of_zero_by_zero());
    let other = folder.path("n.onnx");
    let said_of_output = said(&["run", &other, "--fill", "zeros"]);
    has(&said_of_output, "n.onnx: output \"y\" holds NaN, ");
    let set = "m.snapshots/test_data_set_0";
    forget_text(&folder, set);
    folder.write(&format!("{set}/input_0.pb"), &floats("x", [1.0; 3]));
    folder.write(&format!("{set}/output_0.pb"), &floats("y", [f32::NAN; 3]));
    assert_eq!(said(&["verify", path]), warning("expected output \"y\""));
}

fn model_of_zero_by_zero() -> Vec<u8> {
    let graph = graph("x:f32[3] -> y:f32[3]\n y = Div(x, x)");
    model(graph).encode_to_vec()
}
