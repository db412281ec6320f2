//! Models and files that lie: each is refused in one line, with exit code 2,
//! before it costs anything.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::{
    FLOAT, Folder, INT64, graph, graph_attribute, has, int, int64s, model, models, node, outside,
    prints, refuses, reverse_graph, revseq, succeeds, tensor, value,
};
use crate::ort::onnxruntime;
use prost::Message;
use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::tensor_proto::DataLocation;
use tract_onnx::pb::{AttributeProto, GraphProto, ModelProto, StringStringEntryProto, TensorProto};

/// Time that is far longer than any refusal takes, even on a busy machine.
const LONG: Duration = Duration::from_secs(120);

/// Runs a model with made-up inputs, which has to be refused.
fn check(graph: GraphProto, why: &str) {
    let folder = Folder::new();
    let path = folder.model(graph);
    let start = Instant::now();
    refuses(&["run", &path, "--fill", "iota"], why);
    assert!(start.elapsed() < LONG, "{why}: {:?}", start.elapsed());
}

/// Runs the reversing graph with a change, which has to be refused.
fn broken(why: &str, change: impl FnOnce(&mut GraphProto)) {
    check(changed(change), why);
}

/// The reversing graph with a change.
fn changed(change: impl FnOnce(&mut GraphProto)) -> GraphProto {
    let mut graph = reverse_graph();
    change(&mut graph);
    graph
}

#[test]
fn files_that_are_not_models() {
    let folder = Folder::new();
    let whole = std::fs::read(models().join("shapes/default_axes/model.onnx")).unwrap();
    let garbage: Vec<u8> = (0..4096_u32)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    for (name, bytes) in [
        ("empty", &[][..]),
        ("truncated", &whole[..whole.len() / 2]),
        ("garbage", &garbage),
        ("text", b"this is no model"),
        // A graph that is said to be 2^63 bytes long.
        (
            "length",
            &[0x3a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
        ),
    ] {
        let path = folder.write(name, bytes);
        for command in ["run", "inspect"] {
            refuses(&[command, &path], &format!("cannot read {}", path));
        }
    }
    // Every truncation of a model is refused, or, at a message's end, still a model.
    for length in 0..whole.len() {
        let path = folder.write("cut", &whole[..length]);
        let run = revseq(&["inspect", &path]);
        assert!(matches!(run.code, Some(0 | 2)), "{length}: {run:?}");
        if length % 7 != 0 {
            continue;
        }
        let run = revseq(&["run", &path, "--fill", "iota"]);
        assert!(matches!(run.code, Some(0 | 2)), "{length}: {run:?}");
    }
}

#[test]
fn folders_pipes_and_missing_files() {
    let folder = Folder::new();
    let path = folder.path("missing.onnx");
    refuses(&["run", &path], "cannot read");
    refuses(&["run", &folder.path("")], "a folder without a model.onnx");
    refuses(&["verify", "-"], "standard input has no data sets");
    #[cfg(unix)]
    {
        refuses(
            &["run", "/dev/zero"],
            "cannot read /dev/zero: it is not a regular file: pipe a model into -",
        );
        let pipe = folder.path("pipe");
        let made = std::process::Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap();
        assert!(made.success());
        refuses(&["inspect", &pipe], "it is not a regular file");
    }
}

#[test]
fn messages_that_grow_in_memory() {
    let folder = Folder::new();
    // 2 MiB of empty attributes, over a kilobyte each when decoded.
    let attributes: Vec<u8> = [0x2a, 0x00].repeat(1 << 20);
    let nested = |field: u8, inner: &[u8]| {
        let mut message = vec![field << 3 | 2];
        prost::encoding::encode_varint(inner.len() as u64, &mut message);
        message.extend_from_slice(inner);
        message
    };
    let bytes = nested(7, &nested(1, &attributes));
    let path = folder.write("model.onnx", &bytes);
    refuses(&["inspect", &path], "decoding its ");
}

#[test]
fn deep_nesting() {
    let folder = Folder::new();
    let mut graph = reverse_graph();
    for _ in 0..200 {
        let mut branch = node("If", &["c"], &["y"]);
        branch.attribute = vec![graph_attribute("then_branch", graph)];
        graph = GraphProto {
            node: vec![branch],
            ..GraphProto::default()
        };
    }
    let path = folder.model(graph);
    refuses(&["inspect", &path], "it is not an ONNX model");
}

/// Tools that merge models list a version several times.
#[test]
fn an_operator_set_may_be_imported_twice_in_one_version() {
    let folder = Folder::new();
    let mut merged = model(reverse_graph());
    merged.opset_import.push(merged.opset_import[0].clone());
    let path = folder.write("merged.onnx", &merged.encode_to_vec());
    prints(&["inspect", &path], "\nruns on tract\n");
    merged.opset_import[3].version = 16;
    let path = folder.write("merged.onnx", &merged.encode_to_vec());
    refuses(
        &["inspect", &path],
        "it imports the operator set \"\" in the versions 17 and 16",
    );
}

#[test]
fn undefined_and_duplicate_names() {
    broken("no node produces its output \"z\"", |graph| {
        graph.output[0].name = "z".into()
    });
    broken("its graph has no outputs", |graph| graph.output.clear());
    broken("\"y\" is defined twice", |graph| {
        graph.output.push(graph.output[0].clone())
    });
    broken("\"x\" is defined twice", |graph| {
        graph.input.push(graph.input[0].clone())
    });
    broken("input \"none\" does not exist", |graph| {
        graph.node[0].input[1] = "none".into()
    });
    broken("\"y\" is defined twice", |graph| {
        graph.node.push(graph.node[0].clone())
    });
    broken("it has no operator", |graph| graph.node[0].op_type.clear());
    broken("\"a\" is defined twice", |graph| {
        graph.initializer = vec![int64s("a", &[1]), int64s("a", &[2])]
    });
    broken("\"time_axis\" is defined twice", |graph| {
        graph.node[0].attribute.push(int("time_axis", 1))
    });
    let mut branch = node("If", &["lens"], &["w"]);
    let inner = GraphProto {
        output: vec![value("x", FLOAT, &[])],
        ..GraphProto::default()
    };
    branch.attribute = vec![graph_attribute("then_branch", inner)];
    broken("no node produces its output \"x\"", |graph| {
        graph.node.push(branch)
    });
}

#[test]
fn cycles() {
    broken("its input depends on its own output", |graph| {
        graph.node[0].input[0] = "y".into()
    });
    broken("its input depends on its own output", |graph| {
        graph.node[0].input[0] = "b".into();
        graph.node.push(node("Neg", &["y"], &["b"]));
    });
}

#[test]
fn invalid_sizes() {
    broken("its dimension 1 has size -5", |graph| {
        graph.input[0] = value("x", FLOAT, &["4", "-5", "3"])
    });
    broken("more than memory can address", |graph| {
        graph.input[0] = value("x", FLOAT, &["9223372036854775807", "4", "3"])
    });
    broken("more than the limit of 4 GiB for --fill", |graph| {
        graph.input[0] = value("x", FLOAT, &["4", "1000000000000", "3"])
    });
    broken("input \"x\" has no type", |graph| {
        graph.input[0].r#type = None
    });
}

#[test]
fn more_dimensions_than_are_taken() {
    let why = "it has 100000 dimensions, at most 64 are supported";
    let sizes = vec!["1"; 100_000];
    broken(why, |graph| graph.input[0] = value("x", FLOAT, &sizes));
    let deep = tensor("x", FLOAT, &[1; 100_000], &[0; 4]);
    broken(why, |graph| graph.initializer = vec![deep.clone()]);
    let folder = Folder::new();
    let path = folder.model(reverse_graph());
    let file = folder.write("deep.pb", &deep.encode_to_vec());
    let input = format!("x={}", file);
    refuses(&["run", &path, "--input", &input], why);
}

#[test]
fn texts_wider_than_any_column() {
    let folder = Folder::new();
    let wide = "w".repeat(70_000);
    let path = folder.model(changed(|graph| {
        graph.node.push(node(&wide, &["y"], &["z"]))
    }));
    let shown = succeeds(&["inspect", &path]);
    assert!(shown.contains(&format!("{wide}  1\n")), "{}", shown.len());

    let path = folder.text("x:string[2] -> y:string[2]\n y = Identity(x)");
    let mut x = tensor("x", 8, &[2], &[]);
    x.string_data = vec![wide.clone().into_bytes(), b"n".to_vec()];
    let file = folder.write("x.pb", &x.encode_to_vec());
    let input = format!("x={}", file);
    let shown = succeeds(&["run", &path, "--input", &input]);
    assert!(shown.contains(&wide), "{}", shown.len());
}

#[test]
fn tensors_whose_data_do_not_match_their_shape() {
    let with = |lens: TensorProto| {
        changed(|graph| {
            graph.input.pop();
            graph.initializer = vec![lens];
        })
    };
    let bytes = [1_u8; 16];
    for (code, sizes, data, why) in [
        (
            INT64,
            &[4][..],
            &bytes[..],
            "has 16 bytes in raw_data, expected 32",
        ),
        (INT64, &[-4], &bytes, "are not all valid"),
        (INT64, &[4], &[], "has 0 values in int64_data, expected 4"),
        (INT64, &[1 << 40], &bytes, "expected 8796093022208"),
        (INT64, &[1 << 62, 8], &bytes, "more than memory can address"),
        (0, &[4], &bytes, "it has no element type"),
        (8, &[4], &bytes, "it has raw_data, but string elements"),
        (9, &[16], &[2; 16], "expected 0 or 1 for a bool"),
        (99, &[4], &bytes, "tract has no type 99"),
    ] {
        check(with(tensor("lens", code, sizes, data)), why);
    }
    let mut both = int64s("lens", &[1, 2, 3, 4]);
    both.int64_data = vec![1, 2, 3, 4];
    check(with(both), "both raw_data and int64_data");
    let mut wrong_field = tensor("lens", INT64, &[4], &[]);
    wrong_field.int32_data = vec![1, 2, 3, 4];
    check(
        with(wrong_field),
        "it has int32_data, but int64 elements are in int64_data",
    );
    let mut range = tensor("lens", 2, &[1], &[]);
    range.int32_data = vec![300];
    check(with(range), "value 0 is 300, out of range for uint8");
    let mut text = tensor("lens", 8, &[1], &[]);
    text.string_data = vec![vec![0xff, 0xfe]];
    check(with(text), "string 0 is not UTF-8");
}

fn external(location: &str, length: Option<&str>) -> GraphProto {
    let entry = |key: &str, value: &str| StringStringEntryProto {
        key: key.to_owned(),
        value: value.to_owned(),
    };
    let mut lens = tensor("lens", INT64, &[4], &[]);
    lens.data_location = Some(DataLocation::External as i32);
    lens.external_data = vec![entry("location", location)];
    lens.external_data
        .extend(length.map(|length| entry("length", length)));
    changed(|graph| {
        graph.input.pop();
        graph.initializer = vec![lens];
    })
}

#[test]
fn external_data() {
    let folder = Folder::new();
    let bytes: Vec<u8> = [5_i64, 4, 3, 2]
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    folder.write("outside.bin", &bytes);
    folder.write("model/inside.bin", &bytes);
    folder.write("model/short.bin", &bytes[..20]);
    let run = |location: &str, length| {
        let path = folder.write(
            "model/model.onnx",
            &model(external(location, length)).encode_to_vec(),
        );
        revseq(&["run", &path, "--fill", "iota"])
    };
    let escapes = |location: &str, why: &str| {
        let run = run(location, None);
        assert_eq!(run.code, Some(2), "{location}: {run:?}");
        assert!(run.stderr.contains(why), "{location}: {run:?}");
    };
    let inside = run("inside.bin", None);
    assert_eq!(inside.code, Some(0), "{inside:?}");
    assert_eq!(run("./inside.bin", Some("32")).code, Some(0));
    let below = "which is not a path below the model's folder";
    escapes("../outside.bin", below);
    escapes("a/../../outside.bin", below);
    escapes("/etc/passwd", below);
    escapes("C:\\outside.bin", below);
    escapes("", below);
    escapes("none.bin", "its data in \"none.bin\"");
    escapes("short.bin", "too short");
    escapes(".", "it is not a regular file");
    for length in ["-1", "18446744073709551616", "x"] {
        let run = run("inside.bin", Some(length));
        assert_eq!(run.code, Some(2), "{run:?}");
        has(&run.stderr, "not a number");
    }
    assert!(
        run("inside.bin", Some("8"))
            .stderr
            .contains("its external data is 8 bytes long, expected 32")
    );
    assert!(
        run("inside.bin", Some("18446744073709551615"))
            .stderr
            .contains("its external data is ")
    );
    #[cfg(unix)]
    {
        use std::os::unix::fs::symlink;
        symlink("../outside.bin", folder.path("model/link.bin")).unwrap();
        symlink("..", folder.path("model/up")).unwrap();
        symlink("/dev/zero", folder.path("model/zero.bin")).unwrap();
        escapes("link.bin", "a link leads out of the model's folder");
        escapes("up/outside.bin", "a link leads out of the model's folder");
        escapes("zero.bin", "a link leads out of the model's folder");
    }
}

/// The folders are those of a cache where the files of all revisions lie in one folder.
#[cfg(unix)]
#[test]
fn data_may_lie_where_a_link_to_the_model_leads() {
    use std::os::unix::fs::symlink;
    let folder = Folder::new();
    let mut graph = reverse_graph();
    graph
        .initializer
        .push(outside("c", FLOAT, &[2], "model.onnx_data"));
    folder.write("blobs/0a", &model(graph).encode_to_vec());
    folder.write("blobs/0b", &[0; 8]);
    folder.write("elsewhere", &[0; 8]);
    std::fs::create_dir_all(folder.path("snapshots/1")).unwrap();
    let linked = folder.path("snapshots/1/model.onnx");
    symlink("../../blobs/0a", &linked).unwrap();
    let data = folder.path("snapshots/1/model.onnx_data");
    symlink("../../blobs/0b", &data).unwrap();
    let path = &linked;
    succeeds(&["run", path, "--fill", "zeros"]);
    std::fs::remove_file(&data).unwrap();
    symlink("../../elsewhere", &data).unwrap();
    refuses(
        &["run", path, "--fill", "zeros"],
        "a link leads out of the model's folder",
    );
}

#[test]
fn a_small_file_read_over_and_over() {
    let folder = Folder::new();
    folder.write("data.bin", &[0; 32]);
    let mut graph = external("data.bin", None);
    for copy in 0..20 {
        let mut tensor = graph.initializer[0].clone();
        tensor.name = format!("copy_{copy}");
        graph.initializer.push(tensor);
    }
    let path = folder.model(graph);
    refuses(
        &["run", &path, "--fill", "iota"],
        "add up to several times its size",
    );
}

#[test]
fn operators_that_promise_terabytes() {
    let one = |node, initializer, output: &str| GraphProto {
        name: "graph".to_owned(),
        node: vec![node],
        initializer,
        input: vec![value("x", FLOAT, &["4"])],
        output: vec![value(output, FLOAT, &[])],
        ..GraphProto::default()
    };
    let check = |graph: GraphProto, why: &str| {
        let folder = Folder::new();
        let path = folder.model(graph.clone());
        #[cfg(target_os = "linux")]
        {
            let (_, peak) = crate::common::peak(&["run", &path, "--fill", "iota"]);
            assert!(peak < 256 << 20, "{why}: {peak} bytes");
        }
        check(graph, why);
    };
    let wide = &[1_i64 << 40, 4];
    let huge = &[1_i64 << 20, 1 << 10, 4];
    let too_much = "more than the 4 GiB that are allowed";
    let scalar = |name, value: i64| tensor(name, INT64, &[], &value.to_le_bytes());
    for (operator, inputs, sizes) in [
        ("ConstantOfShape", &["s"][..], &huge[..]),
        ("ConstantOfShape", &["s"], &wide[..]),
        ("Expand", &["x", "s"], &huge[..]),
        ("Expand", &["x", "s"], &wide[..]),
        ("Tile", &["x", "s"], &[1 << 30]),
        ("Tile", &["x", "s"], &[1 << 40]),
        ("Resize", &["x", "", "", "s"], &[(1 << 40) + 4]),
    ] {
        let graph = one(
            node(operator, inputs, &["y"]),
            vec![int64s("s", sizes)],
            "y",
        );
        check(graph, too_much);
    }
    for end in [1 << 30, 1 << 42] {
        let graph = one(
            node("Range", &["a", "b", "c"], &["y"]),
            vec![scalar("a", 0), scalar("b", end), scalar("c", 1)],
            "y",
        );
        check(graph, too_much);
    }
    // Doubling is a small model's way to a large tensor.
    let mut graph = one(node("Concat", &["x", "x"], &["y0"]), vec![], "y40");
    graph.node[0].attribute = vec![int("axis", 0)];
    for step in 0..40 {
        let (from, to) = (format!("y{step}"), format!("y{}", step + 1));
        let mut double = node("Concat", &[&from, &from], &[&to]);
        double.attribute = vec![int("axis", 0)];
        graph.node.push(double);
    }
    check(graph, too_much);
}

#[test]
fn operators_and_types_that_tract_lacks() {
    broken("tract has no Nonsense", |graph| {
        graph.node[0].op_type = "Nonsense".into()
    });
    broken("tract has no elsewhere::ReverseSequence", |graph| {
        graph.node[0].domain = "elsewhere".into()
    });
    broken("tract has no ReverseSubsequences", |graph| {
        graph.node[0].op_type = "ReverseSubsequences".into()
    });
    // What tract would leave out in silence.
    let text = |name: &str, value: &str| AttributeProto {
        name: name.to_owned(),
        r#type: AttributeType::String as i32,
        s: value.as_bytes().to_vec(),
        ..AttributeProto::default()
    };
    let list = |name: &str, values: &[i64]| AttributeProto {
        ints: values.to_vec(),
        r#type: AttributeType::Ints as i32,
        ..text(name, "")
    };
    for (operator, attributes, message) in [
        (
            "SpaceToDepth",
            vec![text("mode", "CRD")],
            "tract has no SpaceToDepth with mode CRD",
        ),
        (
            "GridSample",
            vec![text("mode", "bicubic"), text("padding_mode", "border")],
            "tract has no GridSample with mode bicubic and padding_mode border",
        ),
        (
            "ConvTranspose",
            vec![list("output_shape", &[8, 10])],
            "tract has no ConvTranspose with output_shape and an input of unknown size",
        ),
        (
            "DFT",
            vec![int("inverse", 1), int("onesided", 1)],
            "tract has no DFT with a length",
        ),
        (
            "ai.onnx.ml.TreeEnsembleClassifier",
            vec![
                list("classlabels_int64s", &[0, 1]),
                list("class_ids", &[0, 0]),
            ],
            "tract has no TreeEnsembleClassifier with scores of one of two classes",
        ),
    ] {
        let lacking = changed(|graph| {
            let (domain, operator) = operator.rsplit_once('.').unwrap_or(("", operator));
            graph.node[0].op_type = operator.into();
            graph.node[0].domain = domain.into();
            graph.node[0].attribute = attributes;
        });
        check(lacking, message);
    }
    broken("tract has no bfloat16", |graph| {
        graph.input[0] = value("x", 16, &["4", "5", "3"])
    });
    broken("tract has no float8e4m3fn", |graph| {
        graph.input[0] = value("x", 17, &["4"])
    });
}

#[test]
fn invalid_reversals() {
    broken("attribute time_axis is 7", |graph| {
        graph.node[0].attribute = vec![int("time_axis", 7)]
    });
    broken("are the same dimension", |graph| {
        graph.node[0].attribute = vec![int("time_axis", 1)]
    });
    broken(
        "the lengths have size 3 in dimension 0, expected 4",
        |graph| graph.input[1] = value("lens", INT64, &["3"]),
    );
    broken("sequence lengths of type F32, expected I64", |graph| {
        graph.input[1] = value("lens", FLOAT, &["4"])
    });
    broken("1 inputs, expected 2", |graph| {
        graph.node[0].input.truncate(1)
    });
}

#[test]
fn invalid_transposes() {
    for perm in [&[0, 0, 2][..], &[1, 2, 3], &[-1, 0, 1], &[0, 1 << 62]] {
        let mut transpose = node("Transpose", &["x"], &["t"]);
        transpose.attribute = vec![AttributeProto {
            name: "perm".to_owned(),
            r#type: AttributeType::Ints as i32,
            ints: perm.to_vec(),
            ..AttributeProto::default()
        }];
        let graph = changed(|graph| {
            graph.node[0].input[0] = "t".to_owned();
            graph.node.insert(0, transpose);
        });
        let rank = perm.len();
        check(
            graph,
            &format!("perm is {perm:?}, expected each of 0 to {} once", rank - 1),
        );
    }
}

#[test]
fn a_scan_of_too_many_steps() {
    let folder = Folder::new();
    let bytes = std::fs::read(models().join("graphs/scan_body/model.onnx")).unwrap();
    for scanned in [-1, 3, 1 << 60] {
        let mut model = ModelProto::decode(bytes.as_slice()).unwrap();
        let scan = &mut model.graph.as_mut().unwrap().node[0];
        let attribute = scan
            .attribute
            .iter_mut()
            .find(|found| found.name == "num_scan_inputs");
        attribute.unwrap().i = scanned;
        let path = folder.write("model.onnx", &model.encode_to_vec());
        let why = format!("num_scan_inputs is {scanned}, but its body has 2 inputs");
        refuses(&["run", &path, "--fill", "iota"], &why);
    }
}

#[test]
fn a_body_that_takes_other_inputs_than_its_node_gives() {
    let folder = Folder::new();
    let text = |body: &str, inputs: &str| {
        folder.text(&format!(
            "n:i64[] x:f32[2] -> y:f32[2]
             y = Loop<body=@body>({inputs})
             @body: step:i64[] c:bool[] s:f32[2] -> goes_on:bool[] next:f32[2]
             {body}
             goes_on = Identity(c)
             next = Add(s, s)"
        ))
    };
    for (body, inputs, why) in [
        (
            "s:f32[2] = 0.0",
            "n, _, x",
            "it has 3 inputs, but its body has 2 besides \"s\", which is an initializer, too",
        ),
        ("", "n, _, x, x", "it has 4 inputs, but its body has 3"),
    ] {
        refuses(&["run", &text(body, inputs), "--fill", "iota"], why);
    }
    succeeds(&["run", &text("", "n, _, x"), "--fill", "iota"]);
}

/// `x` negated `trip` times, or without end. The value of each step is a scan output if
/// `is_scanned`.
fn negations(trip: Option<i64>, is_scanned: bool) -> GraphProto {
    // A body may output a value twice.
    let (outputs, more) = match is_scanned {
        true => ("y, ys", "t:f32[4]"),
        false => ("y", ""),
    };
    let (name, trip) = match trip {
        Some(trip) => ("trip", format!("trip = [{trip}]")),
        None => ("_", String::new()),
    };
    graph(&format!(
        "x:f32[4] -> y:f32[4]
         {trip}
         {outputs} = Loop<body=@body>({name}, _, x)
         @body: i:i64[] go:bool[] s:f32[4] -> goes:bool[] t:f32[4] {more}
         t = Neg(s)
         goes = Identity(go)"
    ))
}

/// A run is ended by each backend that is there.
#[test]
fn runs_that_take_longer_than_they_may() {
    let folder = Folder::new();
    let path: &str = &folder.model(negations(None, false));
    let library = onnxruntime("runs_that_take_longer_than_they_may");
    let on_ort = |library| vec!["-b", "ort-plain", "--ort-lib", library];
    for backend in [Some(vec![]), library.as_deref().map(on_ort)] {
        let Some(backend) = backend else { continue };
        let start = Instant::now();
        let late = "the run took longer than the 50ms that are allowed";
        let arguments = ["run", path, "--fill", "iota", "--timeout", "0.05"];
        refuses(&[&arguments[..], &backend].concat(), late);
        assert!(start.elapsed() < LONG, "{:?}", start.elapsed());
        let model = models().join("lengths/graph_input");
        let arguments = ["run", model.to_str().unwrap(), "--timeout", "60"];
        succeeds(&[&arguments[..], &backend].concat());
    }
}

#[test]
fn loops_that_do_not_end() {
    check(
        negations(None, false),
        "node \"y_node\" (Loop): it does not end within 1048576 steps, which are all that are allowed",
    );
    check(
        negations(Some(1 << 40), true),
        "makes a tensor of sizes [1099511627776, 4], more than the 4 GiB",
    );
}

#[test]
fn loops_that_are_nested_deeply() {
    let mut graph = negations(Some(2), false);
    for _ in 0..20 {
        let mut outer = negations(Some(2), false);
        let mut inner = graph.node.remove(0);
        inner.input[2] = "s".to_owned();
        inner.output = vec!["t".to_owned()];
        let body = outer.node[0].attribute[0].g.as_mut();
        body.expect("a loop has a body").node[0] = inner;
        graph = outer;
    }
    check(
        graph,
        "graphs within one another, more than the 8 that are supported",
    );
}

#[test]
fn inputs_that_contradict_the_model() {
    let folder = Folder::new();
    let model: &str = &folder.model(changed(|graph| {
        graph.input[0] = value("x", FLOAT, &["4", "t", "3"])
    }));
    let lens = folder.write("lens.pb", &int64s("other", &[1, 2, 0, 3]).encode_to_vec());
    let given = format!("lens={}", lens);
    let run = |more: &[&str], why: &str| {
        let mut arguments = vec!["run", model];
        arguments.extend_from_slice(more);
        refuses(&arguments, why);
    };
    let inputs = "the inputs are x: float[4,t,3], lens: int64[4]";
    run(&[], inputs);
    run(&[], "--input NAME=FILE");
    run(&["-i", &given], "input \"x\" is missing");
    run(
        &["-i", &given, "-i", &given, "--fill", "iota"],
        "\"lens\" is given twice",
    );
    run(&["-i", "z=z.npy"], "there is no input \"z\"");
    run(&["-i", "z=z.npy"], inputs);
    run(&["-o", "z=z.npy"], "the outputs are y");
    run(
        &["-o", "y=y.txt"],
        "neither in .pb (TensorProto) nor in .npy",
    );
    run(&["--fill", "iota", "--dim", "u=3"], "the model has t");
    run(
        &["--fill", "iota", "--dim", "t=3", "--dim", "t=4"],
        "it is given twice",
    );
    run(
        &["--fill", "iota", "--dim", "t=4611686018427387904"],
        "more than the limit of 4 GiB",
    );
    let x = |dims: &[i64], elem_type, size: usize| {
        let path = folder.write(
            "x.pb",
            &tensor("x", elem_type, dims, &vec![0; size]).encode_to_vec(),
        );
        format!("x={}", path)
    };
    run(
        &["-i", &given, "-i", &x(&[4, 5], FLOAT, 80)],
        "is float[4,5]: expected float[4,t,3]",
    );
    run(
        &["-i", &given, "-i", &x(&[4, 5, 2], FLOAT, 160)],
        "expected float[4,t,3]",
    );
    run(
        &["-i", &given, "-i", &x(&[4, 5, 3], INT64, 480)],
        "is int64[4,5,3]",
    );
    run(
        &["-i", &given, "-i", &x(&[4, 5, 3], FLOAT, 240), "-d", "t=6"],
        "expected float[4,6,3]",
    );
    run(
        &["-i", &given, "-i", &x(&[4, 2, 3], FLOAT, 96)],
        "sequence length 3 at index 3 is out of range: expected 0 to 2",
    );
    let fine = ["run", model, "-i", &given, "-i", &x(&[4, 5, 3], FLOAT, 240)];
    assert!(succeeds(&fine).starts_with("y: float[4,5,3]\n"));
}

#[test]
fn a_long_chain_of_nodes() {
    let folder = Folder::new();
    let nodes = (0..2000).map(|step| format!("v{} = Neg(v{step})\n", step + 1));
    let nodes: String = nodes.collect();
    let path = folder.text(&format!("v0:f32[4] -> v2000:f32[4]\n{nodes}"));
    prints(&["run", &path, "--fill", "iota"], "[0.0, 1.0, 2.0, 3.0]");
}

#[test]
fn usage_errors_are_exit_code_2() {
    for arguments in [
        &["run"][..],
        &["run", "m", "--fill", "sevens"],
        &["run", "m", "--repeat", "0"],
        &["run", "m", "--dim", "n"],
        &["run", "m", "--dim", "n=-1"],
        &["run", "m", "--input", "x"],
        &["run", "m", "--backend", "none"],
        &["nonsense"],
        &[],
    ] {
        let run = revseq(arguments);
        assert_eq!(run.code, Some(2), "{arguments:?}: {run:?}");
    }
    assert!(Path::new(env!("CARGO_BIN_EXE_revseq")).ends_with("revseq"));
}
