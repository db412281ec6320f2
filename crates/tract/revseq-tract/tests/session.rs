//! Sessions: models opened and run by name, for sizes of the data and for symbolic ones.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
#[cfg(feature = "multithread")]
use std::sync::Arc;
use std::time::{Duration, Instant};

use revseq_onnx::model::tensor_proto::DataLocation;
use revseq_onnx::model::{self, FLOAT, GraphProto, StringStringEntryProto, TensorProto};
use revseq_rewrite::Options;
use revseq_test_models::text;
use revseq_tract::{
    Error, ErrorKind, How, Interrupt, LengthsPolicy, Limits, LoadOptions, Model, Session, Size,
    Sizes, tensor,
};
use tract_onnx::prelude::*;
use tract_onnx::tract_hir::infer::Factoid;
use tract_onnx::tract_hir::internal::Approximation;

use data::tensors;

mod data;

fn all_models() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../models")
}

/// The folders of models with data, by their paths below `models`.
fn folders() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![all_models()];
    while let Some(folder) = open.pop() {
        for entry in folder.read_dir().expect("a folder of models") {
            let path = entry.expect("an entry").path();
            if path.join("test_data_set_0").is_dir() {
                found.push(path);
            } else if path.is_dir() {
                open.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Opens and runs a model on its data, and compares its outputs with those on record.
fn check(folder: &Path, sizes: Sizes) -> Result<bool, Error> {
    let options = LoadOptions::new().with_sizes(sizes);
    let session = Session::open_with(folder.join("model.onnx"), &options)?;
    let names: Vec<String> = session.inputs().iter().map(|it| it.name.clone()).collect();
    let inputs = std::iter::zip(names, tensors(folder, "input"));
    let outputs = session.run(inputs)?;
    let recorded = tensors(folder, "output");
    assert_eq!(outputs.len(), recorded.len(), "{folder:?}");
    for ((name, output), recorded) in outputs.iter().zip(&recorded) {
        if output.datum_type() == String::datum_type() {
            assert_eq!(output, recorded, "{folder:?}, {name}");
            continue;
        }
        let close = output.close_enough(recorded, Approximation::Custom(1e-5, 1e-4, 0.));
        close.unwrap_or_else(|error| panic!("{folder:?}, {name}: {error:#}"));
    }
    Ok(session.is_symbolic())
}

#[test]
fn all_models_run_for_the_sizes_of_the_data_and_for_symbolic_ones() {
    let mut refused: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let (mut of_data, mut symbolic) = (0, 0);
    for folder in folders() {
        let name = folder.strip_prefix(all_models()).expect("it is below");
        let name = name.to_string_lossy().replace('\\', "/");
        match check(&folder, Sizes::OfData) {
            Ok(_) => of_data += 1,
            Err(error) => {
                refused.entry(error.to_string()).or_default().push(name);
                continue;
            }
        }
        match check(&folder, Sizes::Symbolic) {
            Ok(is_symbolic) => symbolic += usize::from(is_symbolic),
            Err(error) => panic!("{name} runs for the sizes of its data: {error}"),
        }
    }
    assert!(of_data >= 146 && symbolic >= 140, "{of_data}, {symbolic}");
    let refused: Vec<String> = refused.into_keys().collect();
    let types = ["bfloat16", "complex128", "complex64"].map(|it| format!("tract has no {it}"));
    assert_eq!(refused, types);
}

#[test]
fn a_session_may_be_shared() {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<Session>();
    is_shared::<revseq_tract::Plan>();
    is_shared::<Error>();
}

fn masked() -> Session {
    let path = all_models().join("exported/keras_bilstm_masked/model.onnx");
    Session::open(path).expect("it opens")
}

/// The repository's page shows this.
#[test]
fn the_snippet_of_the_page_runs() {
    let x: Vec<f32> = (0..7 * 8).map(|it| it as f32 / 56.0).collect();
    let x = tensor(&[1, 7, 8], x).expect("as many");
    let outputs = masked().run([("x", x)]).expect("it runs");
    let scores: Vec<f32> = outputs.to_vec("Identity:0").expect("floats");
    assert!(
        (scores.iter().sum::<f32>() - 1.0).abs() < 1e-5,
        "{scores:?}"
    );
    assert_eq!(scores.len(), 3);
}

#[test]
fn inputs_are_checked_by_name_type_and_size() {
    let session = masked();
    let [input] = session.inputs() else {
        panic!("{:?}", session.inputs());
    };
    let sizes = input.sizes.as_deref().expect("a rank");
    assert!(
        matches!(sizes, [Size::Symbol(_) | Size::Unknown, ..]),
        "{sizes:?}"
    );
    let name = input.name.clone();
    let run = |name: &str, value: Tensor| session.run([(name, value)]).err();
    let kind = |error: Option<Error>| error.map(|it| (it.kind(), it.to_string()));
    let given = tensors(&all_models().join("exported/keras_bilstm_masked"), "input").remove(0);
    assert_eq!(kind(run(&name, given.clone())), None);
    for (name, value, words) in [
        (
            "X",
            given.clone(),
            "the model has no input \"X\", expected [\"x\"]",
        ),
        (
            &*name,
            given.cast_to::<f64>().expect("numbers").into_owned(),
            "double",
        ),
        (&*name, tensor0(1_f32), "expected"),
    ] {
        let (kind, message) = kind(run(name, value)).expect("it is refused");
        assert_eq!(kind, ErrorKind::Input);
        assert!(message.contains(words), "{message}");
    }
}

/// A model of a text.
fn model(text: &str) -> Vec<u8> {
    changed(text, |_| ())
}

/// The same after a change. Its nodes are named after their outputs.
fn changed(text: &str, change: impl FnOnce(&mut GraphProto)) -> Vec<u8> {
    let mut graph = text::graph(text);
    for node in &mut graph.node {
        node.name = Some(node.output.join("+"));
    }
    change(&mut graph);
    text::model(graph, 19)
}

fn open(model: &[u8]) -> Session {
    Session::from_bytes(model, &LoadOptions::new()).unwrap_or_else(|error| panic!("{error}"))
}

fn floats(value: &Tensor) -> Vec<f32> {
    let view = value.to_plain_array_view::<f32>().expect("floats");
    view.iter().copied().collect()
}

/// A thread that waits for others' part of a product takes other tasks of its pool, and so may come
/// to run another model.
#[cfg(feature = "multithread")]
#[test]
fn tasks_of_a_pool_may_run_models_on_it() {
    use rayon::prelude::*;
    use tract_linalg::multithread::{Executor, multithread_tract_scope};

    const SIZE: usize = 200;
    let bytes = model(
        "x:f32[n,n] -> y:f32[n,n]
         a = MatMul(x, x)
         b = MatMul(a, x)
         y = MatMul(b, x)",
    );
    let pool = || {
        Arc::new(
            rayon::ThreadPoolBuilder::new()
                .num_threads(2)
                .build()
                .unwrap(),
        )
    };
    let x = Tensor::zero::<f32>(&[SIZE, SIZE]).expect("zeros");
    let (pool, other) = (pool(), pool());
    let sessions = [
        LoadOptions::new(),
        LoadOptions::new().with_threads(1),
        LoadOptions::new().with_threads(2),
    ];
    let sessions = sessions.map(|options| Session::from_bytes(&bytes, &options).expect("it loads"));
    for tasks in [&pool, &other] {
        tasks.install(|| {
            (0..60).into_par_iter().for_each(|task| {
                let run = || sessions[task % 3].run([("x", x.clone())]);
                let outputs =
                    multithread_tract_scope(Executor::MultiThread(Arc::clone(&pool)), run);
                assert_eq!(outputs.expect("it runs")["y"], x);
            });
        });
    }
}

#[test]
fn declared_types_between_nodes_are_not_believed() {
    let bytes = changed("x:f32[n] -> y:f32[m]\n h = Relu(x)\n y = Neg(h)", |graph| {
        graph.value_info = text::values("h:f32[7,stale]");
    });
    let session = open(&bytes);
    assert!(session.is_symbolic());
    let outputs = session.run([("x", tensor1(&[1_f32, -2.]))]);
    assert_eq!(floats(&outputs.expect("it runs")["y"]), [-1., 0.]);
}

/// A constant `c` in the field of its type.
fn unsigned(number: u64) -> TensorProto {
    TensorProto {
        name: Some("c".to_owned()),
        dims: vec![1],
        data_type: Some(text::code_of("u64")),
        uint64_data: vec![number],
        ..TensorProto::default()
    }
}

#[test]
fn unsigned_numbers_are_read_from_their_own_field() {
    let large = u64::MAX - 1;
    let bytes = changed("-> y:u64[1]\n y = Identity(c)", |graph| {
        graph.initializer.push(unsigned(large));
    });
    let outputs = open(&bytes).run::<String, Tensor>([]).expect("it runs");
    assert_eq!(outputs["y"], tensor1(&[large]));
}

/// They lie beside the message that tract reads.
#[test]
fn unsigned_numbers_stand_beside_sizes_from_data() {
    let bytes = changed(
        "x:u64[3] end:i64[1] -> y:u64[n]
         part = Slice(x, [0], end, [0])
         y = Add(part, c)",
        |graph| graph.initializer.push(unsigned(u64::MAX - 9)),
    );
    let inputs = [("x", tensor1(&[1_u64, 2, 3])), ("end", tensor1(&[2_i64]))];
    let outputs = open(&bytes).run(inputs).expect("it runs");
    assert_eq!(outputs["y"], tensor1(&[u64::MAX - 8, u64::MAX - 7]));
}

#[test]
fn values_that_tract_has_to_know_are_taken_from_the_inputs() {
    let bytes = model("x:f32[a,b] axis:i64[] -> y:f32[a,b]\n y = CumSum(x, axis)");
    let session = open(&bytes);
    let x = tensor2(&[[1_f32, 2.], [3., 4.]]);
    for (axis, expected) in [
        (0, [1., 2., 4., 6.]),
        (1, [1., 3., 3., 7.]),
        (0, [1., 2., 4., 6.]),
    ] {
        let outputs = session.run([("x", x.clone()), ("axis", tensor0(axis as i64))]);
        assert_eq!(floats(&outputs.expect("it runs")["y"]), expected);
    }
    let error = session.run([("x", x), ("axis", tensor0(2_i64))]);
    let error = error.expect_err("there is no such axis");
    assert_eq!(error.node(), Some("y"), "{error}");
}

#[test]
fn one_session_runs_all_sizes_and_names_that_contradict_the_data() {
    let bytes = model("a:f32[n] b:f32[n] -> y:f32[m]\n y = Concat<axis=0>(a, b)");
    let session = open(&bytes);
    assert!(session.is_symbolic());
    for (a, b) in [(2, 2), (0, 0), (3, 1), (2, 2), (5, 5), (1, 3)] {
        let [a, b] = [a, b].map(|size: usize| Tensor::zero::<f32>(&[size]).expect("floats"));
        let expected = a.len() + b.len();
        let outputs = session.run([("a", a), ("b", b)]).expect("it runs");
        assert_eq!(outputs[0].shape(), [expected]);
    }
}

/// A plan has the defaults of the inputs that were left out when it was made.
#[test]
fn defaults_may_be_left_out_and_given_in_turn() {
    let bytes = model(
        "x:i64[n] u:i64[1] v:i64[1] -> y:i64[n]
         u = [10]
         v = [100]
         sum = Add(x, u)
         y = Add(sum, v)",
    );
    for sizes in [Sizes::Symbolic, Sizes::OfData] {
        let options = LoadOptions::new().with_sizes(sizes);
        let session = Session::from_bytes(&bytes, &options).expect("it loads");
        let given: [(&[(&str, i64)], i64); 7] = [
            (&[], 110),
            (&[("u", 20)], 120),
            (&[("v", 300)], 310),
            (&[("u", 20), ("v", 300)], 320),
            (&[("u", 30)], 130),
            (&[("v", 400)], 410),
            (&[], 110),
        ];
        for (given, expected) in given {
            let x = ("x", tensor1(&[1_i64, 2]));
            let given = given.iter().map(|(name, it)| (*name, tensor1(&[*it])));
            let outputs = session.run(given.chain([x])).expect("it runs");
            assert_eq!(outputs["y"], tensor1(&[expected + 1, expected + 2]));
        }
    }
}

/// The error is ONNX's, and of the node; a plan for all sizes takes other inputs again.
#[test]
fn operands_that_do_not_fit_are_refused_by_their_sizes() {
    let bytes = model("x:f32[n,k] w:f32[l,m] -> y:f32[n,m]\n y = MatMul(x, w)");
    let session = open(&bytes);
    assert!(session.is_symbolic());
    let zeros = |shape: [usize; 2]| Tensor::zero::<f32>(&shape).expect("zeros");
    for (rows, is_right) in [(4, true), (14, false), (4, true), (1, false)] {
        let outputs = session.run([("x", zeros([3, 4])), ("w", zeros([rows, 2]))]);
        if is_right {
            assert_eq!(outputs.expect("it runs")["y"], zeros([3, 2]));
            continue;
        }
        let error = outputs.expect_err("4 columns and another number of rows");
        let expected = format!(
            "node \"y\" (MatMul): its operands have 4 columns and {rows} rows, expected as many"
        );
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn values_are_bounded_before_they_are_made() {
    let bytes = model("x:f32[n,1] -> y:f32[n,m]\n y = Expand(x, [1 1048576])");
    let options = LoadOptions::new().with_limits(Limits::none().with_bytes(1 << 30));
    for sizes in [Sizes::Symbolic, Sizes::OfData] {
        let session = Session::from_bytes(&bytes, &options.clone().with_sizes(sizes));
        let session = session.expect("it opens");
        let x = |size| Tensor::zero::<f32>(&[size, 1]).expect("floats");
        let outputs = session.run([("x", x(2))]).expect("it is small");
        assert_eq!(outputs["y"].shape(), [2, 1 << 20]);
        let none: [(&str, Tensor); 0] = [];
        let error = session.run(none).expect_err("it needs x");
        assert_eq!(error.to_string(), "input \"x\" is missing");
        let error = session.run([("x", x(2)), ("x", x(2))]).expect_err("twice");
        assert_eq!(error.kind(), ErrorKind::Input);
        assert_eq!(error.to_string(), "input \"x\" is given twice");
        let error = session.run([("x", x(1 << 10))]).expect_err("4 GiB");
        assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
        assert!(error.to_string().contains("1 GiB"), "{error}");
    }
}

#[test]
fn errors_say_what_is_wrong() {
    let opened = |bytes: &[u8]| {
        let session = Session::from_bytes(bytes, &LoadOptions::new());
        let error = session.expect_err("it is refused");
        (error.kind(), error.to_string())
    };
    let (kind, _) = opened(b"no model");
    assert_eq!(kind, ErrorKind::Model);
    let foreign = |domain| model(&format!("x:f32[n] -> y:f32[n]\n y = {domain}.Relu(x)"));
    let (kind, message) = opened(&foreign("com.example"));
    assert_eq!(kind, ErrorKind::Unsupported);
    assert_eq!(
        message,
        "tract has no com.example::Relu (node \"y\"); ONNX Runtime 1.32 has no com.example::Relu, either"
    );
    open(&foreign("ai.onnx"));
    let error = Session::open("/dev/null/model.onnx").expect_err("there is none");
    assert_eq!(error.kind(), ErrorKind::Read);
    // tract panics where an output is of no node.
    let bytes = model("x:f32[n] -> z:f32[n]\n y = Relu(x)");
    let (kind, message) = opened(&bytes);
    assert_eq!(kind, ErrorKind::Model);
    assert_eq!(message, "graph: no node produces its output \"z\"");
}

/// Two floats in a file.
fn external(name: &str, location: &str) -> TensorProto {
    TensorProto {
        name: Some(name.to_owned()),
        dims: vec![2],
        data_type: Some(FLOAT),
        data_location: Some(DataLocation::EXTERNAL),
        external_data: vec![entry("location", location)],
        ..TensorProto::default()
    }
}

fn entry(key: &str, value: &str) -> StringStringEntryProto {
    StringStringEntryProto {
        key: Some(key.to_owned()),
        value: Some(value.to_owned()),
        ..StringStringEntryProto::default()
    }
}

#[test]
fn data_in_other_files_stays_in_the_folder_of_the_model() {
    let folder = std::env::temp_dir().join(format!("revseq-session-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("inside")).expect("a folder");
    for file in ["inside/data", "outside"] {
        let data: Vec<u8> = [1_f32, 2.].iter().flat_map(|it| it.to_le_bytes()).collect();
        std::fs::write(folder.join(file), data).expect("it is written");
    }
    let path = folder.join("inside/model.onnx");
    let open = |location: &str| {
        let bytes = changed("x:f32[2] -> y:f32[2]\n y = Add(x, c)", |graph| {
            graph.initializer.push(external("c", location));
        });
        std::fs::write(&path, &bytes).expect("it is written");
        (Session::open(&path), bytes)
    };
    let (session, bytes) = open("data");
    let outputs = session
        .expect("it opens")
        .run([("x", tensor1(&[1_f32, 1.]))]);
    assert_eq!(floats(&outputs.expect("it runs")["y"]), [2., 3.]);
    let (outside, _) = open("../outside");
    let error = outside.expect_err("it is outside").to_string();
    assert!(
        error.ends_with(
            "its data is in \"../outside\", which is not a path below the model's folder"
        ),
        "{error}"
    );
    // A model that is opened has the data; bytes have no folder.
    let _ = open("data");
    let mut whole = Model::open(&path).expect("it opens");
    revseq_rewrite::rewrite(&mut whole, &Options::default()).expect("no pass is asked for");
    let session = Session::from_model(whole, &LoadOptions::new()).expect("it has all data");
    let outputs = session.run([("x", tensor1(&[1_f32, 1.]))]);
    assert_eq!(floats(&outputs.expect("it runs")["y"]), [2., 3.]);
    let decoded = Model::decode(&bytes).expect("a model");
    for session in [
        Session::from_bytes(&bytes, &LoadOptions::new()),
        Session::from_model(decoded, &LoadOptions::new()),
    ] {
        assert_eq!(
            session.expect_err("no folder").to_string(),
            "its data is in \"data\": open it by the path of its file"
        );
    }
    std::fs::remove_dir_all(&folder).expect("it is removed");
}

#[test]
fn constants_of_0_and_minus_0_are_two() {
    let bytes = model(
        "x:f32[1] -> y:f32[1] z:f32[1]
         y = Div(x, [0.0])
         z = Div(x, [-0.0])",
    );
    let session = Session::from_bytes(&bytes, &LoadOptions::new()).expect("it opens");
    let outputs = session.run([("x", tensor1(&[1.0_f32]))]).expect("it runs");
    assert_eq!(outputs["y"], tensor1(&[f32::INFINITY]));
    assert_eq!(outputs["z"], tensor1(&[f32::NEG_INFINITY]));
}

/// Exporters name an input that they leave out, at the end as well.
#[test]
fn scalars_may_be_lists_of_one_element() {
    for (call, expected) in [
        ("CumSum(x, [1])", [1_f32, 3., 3., 7.]),
        ("Trilu(x, [1])", [0., 2., 0., 0.]),
        ("Trilu(x, k)", [0., 2., 0., 0.]),
        ("Pad(x, [0 -1 0 1], v)", [2., 9., 4., 9.]),
        ("Pad(x, [0 -1 0 1], [7.0])", [2., 7., 4., 7.]),
    ] {
        let bytes = model(&format!(
            "x:f32[n,2] k:i64[1] v:f32[1] -> y:f32[n,2]\n y = {call}"
        ));
        let inputs = [
            ("x", tensor2(&[[1_f32, 2.], [3., 4.]])),
            ("k", tensor1(&[1_i64])),
            ("v", tensor1(&[9_f32])),
        ];
        let outputs = open(&bytes).run(inputs).expect("it runs");
        assert_eq!(floats(&outputs["y"]), expected, "{call}");
    }
}

/// tract pads with a value in all modes.
#[test]
fn the_edge_of_a_pad_reads_no_value() {
    let bytes = model("x:f32[2] -> y:f32[4]\n y = Pad<mode=edge>(x, [1 1], [7.0])");
    let outputs = open(&bytes).run([("x", tensor1(&[1_f32, 2.]))]);
    assert_eq!(floats(&outputs.expect("it runs")["y"]), [1., 1., 2., 2.]);
}

/// Keras' LayerNormalization becomes such a BatchNormalization.
#[test]
fn a_batch_is_normalised_by_a_computed_mean_and_variance() {
    for of in ["f32", "f64"] {
        let bytes = model(&format!(
            "x:{of}[n,2,t] known:{of}[2] more:{of}[2] s:{of}[2] b:{of}[2] v:{of}[2] -> y:{of}[n,2,t]
             mean = Add(known, more)
             y = BatchNormalization<epsilon=0.75>(x, s, b, mean, v)"
        ));
        let vector = |elements: [f64; 2]| {
            let vector = tensor1(&elements);
            let to = match of {
                "f32" => f32::datum_type(),
                _ => f64::datum_type(),
            };
            vector.cast_to_dt(to).expect("a float").into_owned()
        };
        let x = tensor1(&[1_f64, 2., 3., 4.])
            .into_shape(&[1, 2, 2])
            .expect("as many");
        let x = x
            .cast_to_dt(vector([0.0; 2]).datum_type())
            .expect("a float")
            .into_owned();
        let inputs = [
            ("x", x),
            ("known", vector([1.0, 2.0])),
            ("more", vector([-1.0, 0.0])),
            ("s", vector([2.0, 3.0])),
            ("b", vector([0.5, -1.0])),
            ("v", vector([0.25, 3.25])),
        ];
        let outputs = open(&bytes).run(inputs).expect("it runs");
        // (x - [0, 2]) / [1, 2] * [2, 3] + [0.5, -1], along the second axis.
        let y = outputs["y"].cast_to::<f32>().expect("a float");
        assert_eq!(floats(&y), [2.5, 4.5, 0.5, 2.0]);
    }
}

#[test]
fn a_batch_is_normalised_by_its_own_statistics() {
    for batch in ["2", "n"] {
        let bytes = model(&format!(
            "x:f32[{batch},2,1] -> y:f32[{batch},2,1] mean:f32[2] variance:f32[2]
             y, mean, variance = BatchNormalization<training_mode=1>(x, [1.0 2.0], [0.0 1.0], [0.0 0.0], [1.0 1.0])"
        ));
        let x = Tensor::from_shape(&[2, 2, 1], &[1_f32, 2., 3., 6.]).expect("a batch");
        let outputs = open(&bytes).run([("x", x)]).expect("it runs");
        for (name, expected) in [
            ("y", &[-1_f32, -1., 1., 3.][..]),
            ("mean", &[0.2, 0.4]),
            ("variance", &[1.0, 1.3]),
        ] {
            let found = floats(&outputs[name]);
            let is_near = |(found, expected): (&f32, &f32)| (found - expected).abs() < 1e-4;
            assert!(
                std::iter::zip(&found, expected).all(is_near),
                "{name}: {found:?}"
            );
        }
    }
}

#[test]
fn a_pad_may_go_on_with_the_other_end() {
    for size in ["3", "n"] {
        let bytes = model(&format!(
            "x:f32[{size}] -> y:f32[m]\n y = Pad<mode=wrap>(x, [4 2])"
        ));
        let outputs = open(&bytes).run([("x", tensor1(&[1_f32, 2., 3.]))]);
        let found = floats(&outputs.expect("it runs")["y"]);
        assert_eq!(found, [3., 1., 2., 3., 1., 2., 3., 1., 2.]);
    }
}

/// Axes beyond a rank that is known once the model is inferred, or by the data: tract counts up to
/// them, or makes so many sizes.
#[test]
fn axes_beyond_the_rank_are_errors() {
    let normalised = |x: &str| {
        model(&format!(
            "{x} -> y:f32[]
             between = Tanh(x)
             y = LayerNormalization<axis=-5>(between, [1.0 1.0 1.0 1.0])"
        ))
    };
    let unsqueezed = model("x:f32[n,3,4] -> y:f32[]\n y = Unsqueeze(x, [0 1099511627776])");
    let least = "axis is -5, expected one from -3 to 2";
    let most = "axes has 1099511627776, expected each from -5 to 4";
    for (bytes, why) in [
        (normalised("x:f32[n,3,4]"), least),
        (normalised("x:f32"), least),
        (unsqueezed, most),
    ] {
        for sizes in [Sizes::Symbolic, Sizes::OfData] {
            let options = LoadOptions::new().with_sizes(sizes);
            let session = Session::from_bytes(&bytes, &options).expect("it opens");
            let x = Tensor::zero::<f32>(&[2, 3, 4]).expect("floats");
            let error = session.run([("x", x)]).expect_err("there is no such axis");
            assert!(error.to_string().contains(why), "{error}");
            assert_eq!(error.node(), Some("y"), "{error}");
        }
    }
}

/// Numbers of more than 32 bits where sizes may be, all the same.
#[test]
fn numbers_of_64_bits_may_stand_where_sizes_do() {
    let bytes = model(
        "x:f32[n,0] -> counted:i64[3] y:f32[a,b]
         counted = Range(5000000000, 5000000003, 1)
         y = Reshape<allowzero=1>(x, [5000000000 0])",
    );
    for sizes in [Sizes::Symbolic, Sizes::OfData] {
        let options = LoadOptions::new().with_sizes(sizes);
        let session = Session::from_bytes(&bytes, &options).expect("it opens");
        let x = Tensor::zero::<f32>(&[2, 0]).expect("floats");
        let outputs = session.run([("x", x)]).expect("it runs");
        let counted = [5_000_000_000_i64, 5_000_000_001, 5_000_000_002];
        assert_eq!(outputs["counted"], tensor1(&counted));
        assert_eq!(outputs["y"].shape(), [5_000_000_000, 0]);
    }
}

/// The sizes of what a loop outputs are those of an axis, unless its first condition is false.
#[test]
fn a_loop_that_ends_before_its_sizes_is_planned_for_those_of_the_data() {
    for starts in ["starts", "never"] {
        let bytes = model(&format!(
            "x:f32[N] starts:bool[] -> y:i64[steps]
             sizes = Shape(x)
             n = Gather(sizes, 0)
             never = Cast<to=9>(0)
             y = Loop<body=@body>(n, {starts})
             @body: step condition -> goes_on scanned
             next = Add(step, 1)
             goes_on = Less(next, n)
             scanned = Identity(step)"
        ));
        let session = open(&bytes);
        assert!(session.is_symbolic());
        for given in [true, false, true] {
            let x = Tensor::zero::<f32>(&[3]).expect("floats");
            let outputs = session.run([("x", x), ("starts", tensor0(given))]);
            let outputs = outputs.unwrap_or_else(|error| panic!("{starts} {given}: {error}"));
            let steps = if given && starts == "starts" { 3 } else { 0 };
            assert_eq!(outputs["y"].shape(), [steps], "{starts} {given}");
        }
    }
}

#[test]
fn inner_options_keep_what_they_do_not_set() {
    let bytes = model(
        "x:f32[3,1,1] -> y:f32[]
         w:f32[1,1,1] = 1.0
         lengths = Cast<to=6>([9])
         y = RNN<hidden_size=1>(x, w, w, _, lengths)",
    );
    let load = |options: &LoadOptions| options.model_for_bytes(&bytes)?.into_typed();
    load(&LoadOptions::new()).expect_err("it has 3 steps, not 9");
    let clamp = LoadOptions::new().with_lengths(LengthsPolicy::Clamp);
    load(&clamp).expect("9 becomes 3");
    let clamp = clamp.with_limits(Limits::none().with_steps(5));
    load(&clamp).expect("9 becomes 3");
    let x = || Tensor::zero::<f32>(&[3, 1, 1]).expect("floats");
    let session = open(&bytes);
    session
        .run([("x", x())])
        .expect_err("it has 3 steps, not 9");
    let session = Session::from_bytes(&bytes, &clamp).expect("it opens");
    session.run([("x", x())]).expect("9 becomes 3");
}

/// A file may have any key beside its place.
#[test]
fn a_key_of_external_data_names_no_weight() {
    let bytes = changed(
        "-> y:f32[2] z:f32[2048]
         weight:f32[2048] = 1.0
         y = Constant()
         z = Identity(weight)",
        |graph| {
            let mut outside = external("outside", "elsewhere.bin");
            outside.external_data.push(entry("revseq.weight", "0"));
            graph.node[0].attribute = vec![model::tensor("value", outside)];
        },
    );
    let mut model = revseq_tract::revseq_onnx::decode(&bytes).expect("a model");
    revseq_tract::revseq_onnx::tensor::all_to_raw(&mut model).expect("tensors");
    let inferred = revseq_tract::infer(model, &Default::default(), &LoadOptions::new());
    let first = inferred.outputs.first();
    let shape = first.and_then(|fact| fact.shape.concretize());
    assert_ne!(shape, Some(tvec![2048.to_dim()]));
}

/// For each weight, a Scan in the Scan adds its products with all of `x` to 1.
#[test]
fn a_scan_in_a_scan_begins_anew_in_each_step_and_run() {
    let bytes = model(
        "w:f32[W] x:f32[X] -> y:f32[W]
         y = Scan<num_scan_inputs=1;body=@weighs>(w)
         @weighs: w_t:f32[] -> found:f32[]
         all, sums = Scan<num_scan_inputs=1;body=@adds>(1.0, x)
         found = Identity(all)
         @adds: sum:f32[] x_t:f32[] -> more:f32[] each:f32[]
         product = Mul(x_t, w_t)
         more = Add(sum, product)
         each = Identity(more)",
    );
    for sizes in [Sizes::Symbolic, Sizes::OfData] {
        let options = LoadOptions::new().with_sizes(sizes);
        let session = Session::from_bytes(&bytes, &options).expect("it opens");
        assert_eq!(session.is_symbolic(), sizes == Sizes::Symbolic);
        for (w, x) in [
            (&[1_f32, -2., 3.][..], &[1_f32, 2.][..]),
            (&[5.], &[1., 1., 1., 1.]),
            (&[1., 2.], &[3.]),
            (&[1., -2., 3.], &[1., 2.]),
        ] {
            let outputs = session.run([("w", tensor1(w)), ("x", tensor1(x))]);
            let sum: f32 = x.iter().sum();
            let expected: Vec<f32> = w.iter().map(|w| 1.0 + w * sum).collect();
            assert_eq!(
                outputs.expect("it runs")["y"],
                tensor1(&expected),
                "{sizes:?}"
            );
        }
    }
}

/// Each loop of these models is a layer, whatever the sizes, with its mask if it has one.
#[test]
fn loops_of_keras_are_layers() {
    let models = [
        ("keras_bilstm_masked", "LSTM LSTM LSTM LSTM"),
        ("keras_gru_bidirectional", "GRU GRU"),
        ("keras_gru_masked_backwards", "GRU"),
        ("keras_lstm_backwards_states", "LSTM"),
        ("keras_lstm_gru_simplernn", "LSTM GRU RNN"),
        ("keras_lstm_stacked_masked", "LSTM LSTM"),
        ("keras_simplernn_bidirectional_masked", "RNN RNN"),
        ("tf_speech_bigru_timemajor", "GRU GRU GRU GRU"),
    ];
    for (model, layers) in models {
        let path = all_models().join("exported").join(model).join("model.onnx");
        let session = Session::open(path).unwrap();
        let executions = session.symbolic_plan().unwrap().executions();
        let found: Vec<&str> = executions
            .iter()
            .map(|it| match &it.how {
                How::Layer(operator) => operator.as_str(),
                _ => panic!("{model}: {} runs {}", it.node, it.how),
            })
            .collect();
        assert_eq!(found.join(" "), layers, "{model}");
    }
}
/// A loop of as many rounds as an input says.
fn rounds() -> (Vec<u8>, Vec<(&'static str, Tensor)>) {
    let bytes = model(
        "rounds:i64[] x:f32[n] -> y:f32[n]
         y = Loop<body=@body>(rounds, _, x)
         @body: step:i64[] goes_on:bool[] before:f32[n] -> goes_on_then:bool[] after:f32[n]
         tanh = Tanh(before)
         after = Sub(tanh, before)
         goes_on_then = Identity(goes_on)",
    );
    let x = Tensor::zero::<f32>(&[1 << 16]).expect("floats");
    (bytes, vec![("rounds", tensor0(1_i64 << 19)), ("x", x)])
}

/// A layer of 100,000 steps, with the output that is read and its first axes.
fn long_layer(units: i64, read: &str, axes: &str) -> (Vec<u8>, Vec<(&'static str, Tensor)>) {
    let bytes = model(&format!(
        "x:f32[steps,1,8] -> {read}:f32[{axes},{units}]
         w:f32[1,{gates},8] = 0.01
         r:f32[1,{gates},{units}] = 0.01
         y, y_h = LSTM<hidden_size={units}>(x, w, r)",
        gates = 4 * units
    ));
    let x = Tensor::zero::<f32>(&[100_000, 1, 8]).expect("floats");
    (bytes, vec![("x", x)])
}

/// A Scan that stays tract's own.
fn long_scan() -> (Vec<u8>, Vec<(&'static str, Tensor)>) {
    let bytes = model(
        "h:f32[4,512] x:f32[steps,1] -> y:f32[steps,1,1]
         w:f32[512,512] = 0.01
         last, y = Scan<num_scan_inputs=1;body=@body>(h, x)
         @body: before:f32[4,512] part:f32[1] -> after:f32[4,512] most:f32[1,1]
         product = MatMul(before, w)
         sum = Add(product, part)
         after = Softmax(sum)
         most = ReduceMax(after)",
    );
    let h = Tensor::zero::<f32>(&[4, 512]).expect("floats");
    let x = Tensor::zero::<f32>(&[100_000, 1]).expect("floats");
    (bytes, vec![("h", h), ("x", x)])
}

/// A chain of products.
fn long_chain() -> (Vec<u8>, Vec<(&'static str, Tensor)>) {
    let nodes = (0..400).map(|it| format!("v{} = MatMul(v{it}, v0)\n", it + 1));
    let nodes: String = nodes.collect();
    let bytes = model(&format!("v0:f32[n,n] -> v400:f32[n,n]\n{nodes}"));
    let x = Tensor::zero::<f32>(&[512, 512]).expect("floats");
    (bytes, vec![("v0", x)])
}

/// Each of these runs for seconds.
#[test]
fn runs_end_at_a_deadline_or_when_they_are_interrupted() {
    let soon = Duration::from_millis(50);
    for (what, (bytes, inputs)) in [
        ("a loop", rounds()),
        ("a layer", long_layer(256, "y", "steps,1,1")),
        ("a Scan", long_scan()),
        ("a chain", long_chain()),
    ] {
        let run = |session: &Session, interrupt: Option<&Interrupt>| {
            let begin = Instant::now();
            let result = match interrupt {
                Some(interrupt) => session.run_with(inputs.clone(), interrupt),
                None => session.run(inputs.clone()),
            };
            let time = begin.elapsed();
            let error = result
                .err()
                .unwrap_or_else(|| panic!("{what} ran to its end"));
            assert_eq!(error.kind(), ErrorKind::Interrupted, "{what}: {error}");
            assert!(time < Duration::from_secs(2), "{what} ended after {time:?}");
            error.to_string()
        };
        let session = open(&bytes);
        assert!(session.is_symbolic(), "{what}");
        let timed = Interrupt::new().with_time(soon);
        let message = run(&session, Some(&timed));
        assert!(
            message.starts_with("the run took longer than the 50ms"),
            "{message}"
        );
        let interrupt = Interrupt::new();
        let message = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(soon);
                interrupt.raise();
            });
            run(&session, Some(&interrupt))
        });
        assert!(message.starts_with("the run was interrupted"), "{message}");
        let limits = Limits::none().with_time(soon);
        for threads in [1, 2] {
            let options = LoadOptions::new().with_limits(limits).with_threads(threads);
            let session = Session::from_bytes(&bytes, &options).expect("it opens");
            let message = run(&session, None);
            assert!(message.contains("50ms that are allowed"), "{message}");
        }
    }
}

/// The output of all steps has 200 MB: writing it takes longer than a run may that is over.
#[test]
fn a_layer_with_a_large_output_ends_at_once() {
    for (read, axes) in [("y", "steps,1,1"), ("y_h", "1,1")] {
        let (bytes, inputs) = long_layer(512, read, axes);
        let session = open(&bytes);
        let run = |_| {
            let inputs = inputs.clone();
            let interrupt = Interrupt::new().with_time(Duration::from_millis(1));
            let begin = Instant::now();
            let error = session.run_with(inputs, &interrupt);
            let time = begin.elapsed();
            let error = error.expect_err("its time is over");
            assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
            time
        };
        // The machine may be busy during some of them.
        let time = (0..5).map(run).min().expect("a time");
        assert!(time < Duration::from_millis(50), "{read}: {time:?}");
    }
}

#[test]
fn a_session_runs_on_after_a_run_that_was_interrupted() {
    let (bytes, inputs) = rounds();
    let session = open(&bytes);
    let x = &inputs[1].1;
    let few = || session.run([("rounds", tensor0(3_i64)), ("x", x.clone())]);
    let before = few().expect("it runs");
    let raised = Interrupt::new();
    raised.raise();
    let error = session
        .run_with(inputs.clone(), &raised)
        .expect_err("it is raised");
    assert_eq!(error.kind(), ErrorKind::Interrupted);
    assert_eq!(few().expect("it runs")["y"], before["y"]);
    // A session that is opened meanwhile is as any other.
    assert!(raised.scope(|| open(&bytes)).is_symbolic());
}

#[test]
fn loops_that_exceed_a_limit_are_errors_of_that_kind() {
    let (bytes, inputs) = rounds();
    let x = inputs[1].1.clone();
    for (limits, words) in [
        (
            Limits::none().with_steps(10),
            "does not end within 10 steps",
        ),
        (Limits::none().with_bytes(1000), "more than the 1000"),
    ] {
        for sizes in [Sizes::Symbolic, Sizes::OfData] {
            let options = LoadOptions::new().with_limits(limits).with_sizes(sizes);
            let session = Session::from_bytes(&bytes, &options).expect("it opens");
            let few = session.run([
                ("rounds", tensor0(10_i64)),
                ("x", x.slice(0, 0, 50).unwrap()),
            ]);
            few.expect("it stays within the limits");
            let error = session.run([("rounds", tensor0(11_i64)), ("x", x.clone())]);
            let error = error.expect_err("it is too much");
            assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
            let message = error.to_string();
            assert!(message.contains(words), "{message}");
            assert!(limits.bytes.is_some() || message.contains("\"y\" (Loop)"));
        }
    }
}

#[test]
fn values_are_made_of_and_read_as_those_of_rust() {
    let bytes = model(
        "floats:f32[n,2] texts:string[m] truths:bool[m] number:i64[] -> f:f32[n,2] t:string[m] b:bool[m] n:i64[]
         f = Identity(floats)
         t = Identity(texts)
         b = Identity(truths)
         n = Identity(number)",
    );
    let session = open(&bytes);
    let texts = ["a", "b"].map(str::to_owned);
    let given = [
        ("floats", tensor(&[1, 2], [1_f32, 2.]).unwrap()),
        ("texts", tensor(&[2], texts.clone()).unwrap()),
        ("truths", tensor(&[2], vec![true, false]).unwrap()),
        ("number", tensor(&[], [7_i64]).unwrap()),
    ];
    let mut outputs = session.run(given).expect("it runs");
    assert_eq!(outputs.to_vec::<f32>("f").unwrap(), [1., 2.]);
    assert_eq!(outputs.to_vec::<String>("t").unwrap(), texts);
    assert_eq!(outputs.to_vec::<bool>("b").unwrap(), [true, false]);
    assert_eq!(outputs.to_vec::<i64>("n").unwrap(), [7]);
    assert_eq!(outputs.view::<f32>("f").unwrap()[[0, 1]], 2.);
    let wrong = outputs.view::<f64>("f").expect_err("floats");
    assert_eq!(wrong.kind(), ErrorKind::Output);
    assert_eq!(
        wrong.to_string(),
        "output \"f\" is float[1,2], read as double"
    );
    let wrong = outputs.to_vec::<f32>("F").expect_err("none");
    let expected = "the model has no output \"F\", expected [\"f\", \"t\", \"b\", \"n\"]";
    assert_eq!(wrong.to_string(), expected);
    assert_eq!(outputs.take("n").expect("there is one"), tensor0(7_i64));
    assert!(outputs.get("n").is_none());
    let wrong = tensor(&[2, 3], [1_f32, 2.]).expect_err("two of six");
    assert_eq!(wrong.kind(), ErrorKind::Input);
    assert_eq!(
        wrong.to_string(),
        "a tensor of sizes [2, 3] has 6 elements, given 2"
    );
    tensor(&[usize::MAX, 2], [0_u8; 0]).expect_err("too many");
}
