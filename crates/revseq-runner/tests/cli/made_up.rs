//! Inputs that are made up: integers that a model accepts, and sizes that fit each other.

use prost::Message;
use tract_onnx::pb::{GraphProto, NodeProto};

use crate::common::{FLOAT, Folder, INT64, int, int64s, node, refuses, succeeds, tensor, value};

fn graph(nodes: Vec<NodeProto>) -> GraphProto {
    GraphProto {
        name: "graph".to_owned(),
        node: nodes,
        initializer: vec![
            tensor("w", FLOAT, &[4, 6], &[0; 96]),
            int64s("one", &[1]),
            int64s("rows", &[-1, 2, 3]),
        ],
        input: vec![
            value("x", FLOAT, &["n", "4"]),
            value("lengths", INT64, &["k"]),
        ],
        output: vec![value("y", FLOAT, &["a", "b", "c"])],
        ..GraphProto::default()
    }
}

/// Data of one declared size, `[n, 2, 3]` behind a product.
fn product() -> Vec<NodeProto> {
    vec![
        node("MatMul", &["x", "w"], &["product"]),
        node("Reshape", &["product", "rows"], &["data"]),
    ]
}

#[test]
fn lengths_stay_within_an_axis_that_nothing_declares() {
    let folder = Folder::new();
    let mut reverse = node("ReverseSequence", &["data", "lengths"], &["y"]);
    reverse.attribute = vec![int("time_axis", 1), int("batch_axis", 0)];
    let path = folder.model(graph([product(), vec![reverse]].concat()));
    for seed in 0..4 {
        let fill = format!("random:{seed}");
        succeeds(&[
            "run",
            path.to_str().unwrap(),
            "--fill",
            &fill,
            "-d",
            "n=5",
            "-d",
            "k=5",
        ]);
    }
}

#[test]
fn indices_stay_within_their_axis_where_a_number_is_added() {
    let folder = Folder::new();
    for op in ["Sub", "Add"] {
        let mut gather = node("Gather", &["data", "index"], &["y"]);
        gather.attribute = vec![int("axis", 2)];
        let nodes = vec![node(op, &["lengths", "one"], &["index"]), gather];
        let path = folder.model(graph([product(), nodes].concat()));
        for seed in 0..4 {
            let fill = format!("random:{seed}");
            succeeds(&[
                "run",
                path.to_str().unwrap(),
                "--fill",
                &fill,
                "-d",
                "n=2",
                "-d",
                "k=9",
            ]);
        }
    }
}

/// A model whose two inputs have to have the same number of rows, under two names.
fn sum(folder: &Folder) -> String {
    let graph = GraphProto {
        name: "graph".to_owned(),
        node: vec![node("Concat", &["a", "b"], &["y"])],
        input: vec![
            value("a", FLOAT, &["n", "t"]),
            value("b", FLOAT, &["m", "u"]),
        ],
        output: vec![value("y", FLOAT, &["n", "v"])],
        ..GraphProto::default()
    };
    let mut graph = graph;
    graph.node[0].attribute = vec![int("axis", 1)];
    folder.model(graph).to_str().unwrap().to_owned()
}

#[test]
fn sizes_of_two_names_agree_where_they_have_to() {
    let folder = Folder::new();
    let (model, output) = (sum(&folder), folder.path("out.onnx"));
    let rewrite = ["rewrite", &model, "-o", output.to_str().unwrap(), "--check"];
    let report = succeeds(&rewrite);
    assert!(
        report.contains("check on tract, made-up inputs 1: ok"),
        "{report}"
    );
}

#[test]
fn a_check_takes_inputs_and_fills() {
    let folder = Folder::new();
    let (model, output) = (sum(&folder), folder.path("out.onnx"));
    let rewrite = ["rewrite", &model, "-o", output.to_str().unwrap()];
    let with = |more: &[&str]| -> Vec<String> {
        let all = rewrite.iter().chain(more);
        all.map(|&it| it.to_owned()).collect()
    };
    let why = "--fill: it is for --check, which is not given";
    refuses(&with(&["--fill", "zeros"]), why);
    let given = |name: &str, columns: usize| {
        let bytes = vec![0; 8 * columns];
        let tensor = tensor(name, FLOAT, &[2, columns as i64], &bytes).encode_to_vec();
        let path = folder.write(&format!("{name}.pb"), &tensor);
        format!("{name}={}", path.display())
    };
    let (a, b) = (given("a", 3), given("b", 4));
    let check = ["--check", "--input", &a];
    // The size that the file gives holds for the other input, too.
    let report = succeeds(&with(&[&check[..], &["--fill", "b=ints:0..5"]].concat()));
    assert!(report.contains("made-up inputs 2: ok"), "{report}");
    let both = [&check[..], &["--input", &b, "--overwrite"]].concat();
    let report = succeeds(&with(&both));
    assert!(report.contains("the given inputs: ok"), "{report}");
}
