//! Entry points for fuzzers: they read bytes as files and process the result.
//!
//! An error is fine; a panic, a crash, or unbounded memory or time is a bug.

use std::path::PathBuf;
use std::sync::Once;

use anyhow::Result;

use crate::backend::tract::Tract;
use crate::commands::{inputs, inspect};
use crate::model::{Bindings, Model};
use crate::tensor::fill::Fill;
use crate::tensor::{Tensor, compare, npy, npz, pb, print};
use crate::{STACK, chain, fence};

/// Reads a model, shows it in every format, and reads its data.
pub fn model(bytes: &[u8]) {
    answer_on_deep_stack(|| {
        let model = read(bytes)?;
        inspect::everything(&model)?;
        model.with_data().map(drop)
    });
}

/// Reads a model with its data, makes up inputs and runs it on tract.
pub fn tract(bytes: &[u8]) {
    answer_on_deep_stack(|| {
        let model = read(bytes)?.with_data()?;
        let engine = Tract::default();
        let Ok(loaded) = engine.read(&model)? else {
            return Ok(());
        };
        let symbols = model.input_symbols().into_iter();
        let mut bindings: Bindings = symbols.map(|symbol| (symbol, 2)).collect();
        let sources = inputs::Sources {
            fill: Some(Fill::Iota),
            ..inputs::Sources::default()
        };
        let inputs = inputs::gather(&model, &sources, &mut bindings)?;
        for output in loaded.run(&inputs)? {
            print::values(&output?, "  ");
        }
        Ok(())
    });
}

/// Reads a tensor as either kind of file, writes it as either, and reads it again.
///
/// # Panics
/// If the tensors differ.
pub fn tensor(bytes: &[u8]) {
    answer(|| {
        let (name, tensor) = pb::decode(bytes)?;
        check_tensor(&tensor, &name);
        Ok(())
    });
    answer(|| {
        check_tensor(&npy::decode(bytes)?, "");
        Ok(())
    });
    answer(|| {
        for (name, tensor) in npz::decode(bytes)? {
            check_tensor(&tensor, &name);
        }
        Ok(())
    });
}

fn check_tensor(tensor: &Tensor, name: &str) {
    let (read_name, read) =
        pb::decode(&pb::encode(tensor, name).expect("it fits")).expect("it was encoded here");
    assert_eq!(read_name, name);
    check_same(tensor, &read);
    // NumPy does not have all types and strings.
    if let Ok(file) = npy::encode(tensor) {
        check_same(tensor, &npy::decode(&file).expect("it was encoded here"));
    }
    print::values(tensor, "  ");
    for index in 0..tensor.len().min(1 << 10) {
        tensor.value(index).json();
    }
}

fn check_same(one: &Tensor, other: &Tensor) {
    assert!(one == other, "{one:?} is not {other:?}");
    assert_eq!(
        compare::compare(one, other, compare::Tolerance::Exact),
        Ok(())
    );
}

/// A model out of bytes, in a folder that there is not.
fn read(bytes: &[u8]) -> Result<Model> {
    Model::parse(PathBuf::from("/nonexistent/model.onnx"), bytes.to_vec())
}

/// Runs [`answer`] with the stack of the command line: models nest.
fn answer_on_deep_stack(run: impl FnOnce() -> Result<()> + Send) {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK);
        let answered = thread.spawn_scoped(scope, || answer(run));
        if let Err(panic) = answered.expect("a thread").join() {
            std::panic::resume_unwind(panic);
        }
    });
}

/// Calls a function whose errors have to have a text of one line.
fn answer(run: impl FnOnce() -> Result<()>) {
    static FENCE: Once = Once::new();
    FENCE.call_once(fence::install);
    if let Err(error) = run() {
        let text = chain(&error);
        assert!(!text.is_empty() && !text.contains(['\n', '\r']), "{text:?}");
    }
}
