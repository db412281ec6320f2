//! Inputs that are made up: integers that a model accepts, and sizes that fit each other.

use prost::Message;

use crate::common::{
    FLOAT, Folder, flips, graph, has, model, prints, refuses, revseq, succeeds, tensor,
};
use crate::ort::onnxruntime;

/// A model of nodes behind data of one declared size, `[n, 2, 3]`, which comes of a product.
fn of_data(folder: &Folder, nodes: &str) -> String {
    folder.text(&format!(
        "x:f32[n,4] lengths:i64[k] -> y:f32[a,b,c]
         w:f32[4,6] = 0.0
         product = MatMul(x, w)
         data = Reshape(product, [-1 2 3])
         {nodes}"
    ))
}

#[test]
fn lengths_stay_within_an_axis_that_nothing_declares() {
    let folder = Folder::new();
    let reverse = "y = ReverseSequence<time_axis=1;batch_axis=0>(data, lengths)";
    let path = of_data(&folder, reverse);
    for seed in 0..4 {
        let fill = format!("random:{seed}");
        succeeds(&format!("run {path} --fill {fill} -d n=5 -d k=5"));
    }
}

#[test]
fn indices_stay_within_their_axis_where_a_number_is_added() {
    let folder = Folder::new();
    for op in ["Sub", "Add"] {
        let nodes = format!("index = {op}(lengths, [1])\n y = Gather<axis=2>(data, index)");
        let path = of_data(&folder, &nodes);
        for seed in 0..4 {
            let fill = format!("random:{seed}");
            succeeds(&format!("run {path} --fill {fill} -d n=2 -d k=9"));
        }
    }
}

/// A model whose two inputs have to have the same number of rows, under two names. It has reversals
/// that undo each other.
fn sum(folder: &Folder) -> String {
    folder.text(&format!(
        "a:f32[n,t] b:f32[m,u] -> y:f32[n,v]\n joined = Concat<axis=1>(a, b)\n {}",
        flips("joined")
    ))
}

#[test]
fn sizes_of_two_names_agree_where_they_have_to() {
    let folder = Folder::new();
    let (model, output) = (sum(&folder), folder.path("out.onnx"));
    let rewrite = ["rewrite", &model, "-o", &output, "--check"];
    prints(&rewrite, "check on tract, made-up inputs 1: ok");
}

#[test]
fn a_check_takes_inputs_and_fills() {
    let folder = Folder::new();
    let (model, output) = (sum(&folder), folder.path("out.onnx"));
    let rewrite = ["rewrite", &model, "-o", &output];
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
        format!("{name}={}", path)
    };
    let (a, b) = (given("a", 3), given("b", 4));
    let check = ["--check", "--input", &a];
    // The size that the file gives holds for the other input, too.
    prints(
        &with(&[&check[..], &["--fill", "b=ints:0..5"]].concat()),
        "made-up inputs 2: ok",
    );
    let both = [&check[..], &["--input", &b, "--overwrite"]].concat();
    prints(&with(&both), "the given inputs: ok");
}

/// Features that weights fix, and sizes without a name or with one that stands for any.
#[test]
fn a_check_makes_up_what_weights_leave_open() {
    let folder = Folder::new();
    let path = folder.text(&format!(
        "x:f32[None,None] h:f32[?,hidden] -> y:f32[-1,None,?,N]
         w:f32[1,3,5] = 0.0
         r:f32[1,3,3] = 0.0
         mean:f32[5] = 0.0
         turned = Transpose<perm=[1,0]>(x)
         centred = Sub(turned, mean)
         steps = Unsqueeze(centred, [1])
         state = Unsqueeze(h, [1])
         all = RNN<hidden_size=3>(steps, w, r, _, _, state)
         {}",
        flips("all")
    ));
    let path = path.as_str();
    let output = folder.path("out.onnx");
    let rewrite = ["rewrite", path, "-o", &output, "--check"];
    prints(&rewrite, "made-up inputs 2: ok");
    // The number of steps is all that is left.
    let fill = ["run", path, "--fill", "random"];
    let run = revseq(&fill);
    assert_eq!(run.code, Some(0), "{run:?}");
    let note = format!("{path}: made-up sizes x.1=7; --dim sets others\n");
    assert_eq!(run.stderr, note);
    let run = revseq(&[&fill[..], &["--dim", "x.1=4"]].concat());
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
}

/// A model without data has none to compare on, and needs none where nothing was changed.
#[test]
fn an_unchanged_model_is_not_checked() {
    let folder = Folder::new();
    let path = folder.text("x:f32[n] -> y:f32[n]\n y = Nonsense(x)");
    let output = folder.path("out.onnx");
    let run = revseq(&format!("rewrite {} -o {} --check", path, output));
    assert_eq!(run.code, Some(0), "{run:?}");
    let why = "--check: no pass changed the model, so there is nothing to compare";
    has(&run.stderr, why);
    assert_eq!(
        std::fs::read(&path).unwrap(),
        std::fs::read(output).unwrap()
    );
}

/// Data beside the model's file counts as that of its folder does.
#[test]
fn a_check_uses_the_data_beside_the_model() {
    let folder = Folder::new();
    let path = sum(&folder);
    for (index, (name, columns)) in [("a", 3), ("b", 4)].into_iter().enumerate() {
        let tensor = tensor(name, FLOAT, &[2, columns], &vec![0; 8 * columns as usize]);
        let file = format!("test_data_set_0/input_{index}.pb");
        folder.write(&file, &tensor.encode_to_vec());
    }
    let output = folder.path("out.onnx");
    prints(
        &["rewrite", &path, "-o", &output, "--check"],
        "check on tract, test_data_set_0: ok",
    );
}

/// tract makes a number of NaN in Tanh. That is no difference between two models, but it is said.
#[test]
fn a_check_says_where_both_models_differ_from_onnx_runtime() {
    let test = "a_check_says_where_both_models_differ_from_onnx_runtime";
    let Some(library) = onnxruntime(test) else {
        return;
    };
    let folder = Folder::new();
    let path = folder.text(&format!(
        "x:f32[n] -> y:f32[n]\n z = Tanh(x)\n {}",
        flips("z")
    ));
    let bytes = [f32::NAN, 1.0].map(f32::to_le_bytes).concat();
    let x = tensor("x", FLOAT, &[2], &bytes).encode_to_vec();
    let x = format!("x={}", folder.write("x.pb", &x));
    let output = folder.path("out.onnx");
    let mut rewrite = vec!["rewrite", &path, "--check", "--input", &x];
    rewrite.extend(["-o", &output, "--ort-lib", &library]);
    let report = succeeds(&rewrite);
    let but =
        "check on tract, the given inputs: ok, but both models differ from ort-plain: output y";
    has(&report, but);
    has(&report, "check on ort-plain, the given inputs: ok\n");
}

/// An LSTM of `[seq, batch, 2]` with lengths, as PyTorch has it, and the number of its weights.
fn packed(weights: f32) -> Vec<u8> {
    let lstm = graph(&format!(
        "x:f32[seq,batch,2] lens:i32[batch] -> y:f32[seq,1,batch,1]
         w:f32[1,4,2] = {weights:?}
         r:f32[1,4,1] = {weights:?}
         y = LSTM<hidden_size=1>(x, w, r, _, lens)"
    ));
    model(lstm).encode_to_vec()
}

/// Whichever axis comes first.
#[test]
fn axes_that_count_steps_have_some() {
    let folder = Folder::new();
    let reverse = graph(
        "x:f32[T,N,3] lens:i64[N] -> y:f32[T,N,3]
         y = ReverseSequence<time_axis=0;batch_axis=1>(x, lens)",
    );
    let reverse = folder.write("reverse.onnx", &model(reverse).encode_to_vec());
    let layer = folder.write("layer.onnx", &packed(0.5));
    for (path, sizes) in [(reverse, "T=7, N=2"), (layer, "seq=7, batch=2")] {
        let path = &path;
        let run = revseq(&["run", path, "--fill", "random"]);
        assert_eq!(run.code, Some(0), "{run:?}");
        let note = format!("{path}: made-up sizes {sizes}; --dim sets others\n");
        assert_eq!(run.stderr, note);
    }
}

#[test]
fn a_snapshot_that_tests_nothing_is_warned_of() {
    let folder = Folder::new();
    let path: &str = &folder.write("model.onnx", &packed(0.5));
    let snapshot = |arguments: &[&str]| {
        let run = revseq(&[&["snapshot", path, "--add"], arguments].concat());
        assert_eq!(run.code, Some(0), "{run:?}");
        run.stderr
    };
    let zero = "the lengths \"lens\" are all 0, so that no step counts: give others with --input\n";
    let untested = "its outputs are the same with weights of 0, so that this tests none of them: ";
    let usual = snapshot(&[]);
    assert!(
        !usual.contains(zero) && !usual.contains(untested),
        "{usual}"
    );
    // A model that has lost its weights since fails.
    folder.write("model.onnx", &packed(0.0));
    let run = revseq(&["verify", path]);
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(snapshot(&[]).contains(untested));
    folder.write("model.onnx", &packed(0.5));
    let without = snapshot(&["--fill", "lens=zeros"]);
    has(&without, zero);
    has(&without, untested);
}
