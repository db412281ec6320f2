//! All that `revseq rewrite` makes of the repository's models, and ONNX's own checker.
//!
//! `REVSEQ_TEST_PYTHON` names a Python that has the package `onnx`.

use std::process::Command;

use revseq_rewrite::{Assumptions, Options, RUNTIMES};

use crate::common::{Folder, all_models, models, models_in};

/// Checks every model below a folder, types and shapes included.
const SCRIPT: &str = "
import pathlib, sys, onnx
for path in sorted(pathlib.Path(sys.argv[1]).glob('*.onnx')):
    try:
        onnx.checker.check_model(path, full_check=True)
    except Exception as error:
        print(f'{path.name}: {error}')
";

#[test]
fn rewritten_models_pass_onnx_s_checker() {
    let python = std::env::var("REVSEQ_TEST_PYTHON").unwrap_or_default();
    if python.is_empty() {
        let test = "rewritten_models_pass_onnx_s_checker";
        revseq_skips::skip(test, "REVSEQ_TEST_PYTHON is not set");
        return;
    }
    let mut all = all_models();
    all.extend(models_in(&models().join("../tests/data/keras")));
    let assume = Assumptions {
        right_padded: true,
        ..Assumptions::default()
    };
    let options = [(true, false), (false, true), (true, true)].map(|(portable, fast)| Options {
        portable,
        fast,
        assume,
        ..Options::default()
    });
    let without_lengths = Options {
        passes: vec!["sequence-lens".to_owned()],
        ..options[1].clone()
    };
    let of_runtimes: Vec<Options> = RUNTIMES
        .iter()
        .map(|runtime| Options {
            runtime: Some(runtime.name.to_owned()),
            ..options[1].clone()
        })
        .collect();
    let folder = Folder::new();
    let mut count = 0;
    for path in all {
        let bytes = std::fs::read(path.join("model.onnx")).expect("a model");
        for options in options.iter().chain([&without_lengths]).chain(&of_runtimes) {
            let mut model = revseq_onnx::decode(&bytes).expect("a model");
            let report =
                revseq_rewrite::rewrite_messages(&mut model, options).expect("known passes");
            if report.rewritten().next().is_none() {
                continue;
            }
            count += 1;
            let name = path.file_name().unwrap().to_string_lossy();
            let rewritten = revseq_onnx::encode(&model).expect("it fits");
            folder.write(&format!("{count}_{name}.onnx"), &rewritten);
        }
    }
    assert!(count > 600, "{count}");
    let run = Command::new(python)
        .args(["-c", SCRIPT])
        .arg(folder.path(""))
        .output()
        .expect("Python starts");
    assert!(run.status.success(), "{run:?}");
    assert_eq!(String::from_utf8_lossy(&run.stdout), "");
}
