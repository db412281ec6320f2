//! The errors of a build without some features.

use serde_json::Value as Json;

use crate::common::{models, refuses, succeeds};

const HOW: &str =
    "`cargo install --path crates/tools/revseq-runner --features full` builds all of it";

#[test]
fn gpus() {
    let model = models().join("graphs/between_neg").display().to_string();
    let why = format!("this revseq was built without GPUs; {HOW}");
    refuses(
        &["run", &model, "--device", "gpu:0"],
        &format!("--device gpu:0: {why}"),
    );
    let json: Json = serde_json::from_str(&succeeds(&["devices", "--format", "json"])).unwrap();
    assert_eq!(json["gpu"]["built"], false);
    assert!(succeeds(&["devices"]).contains(&format!("GPU\n  none: {why}\n")));
}
