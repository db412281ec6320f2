//! `--device gpu` and the list of adapters.

use crate::common::{has, models, refuses, revseq};

fn model(name: &str) -> String {
    models().join(name).display().to_string()
}

#[test]
fn a_device_of_another_name_is_refused() {
    for device in ["cuda", "gpu:", "GPU", ""] {
        let run = revseq(&["run", &model("graphs/between_neg"), "--device", device]);
        assert_eq!(run.code, Some(2), "{run:?}");
        has(
            &run.stderr,
            "expected cpu, gpu, gpu:INDEX, gpu:NAME or gpu:software",
        );
    }
}

#[test]
fn a_gpu_is_for_the_provider_and_not_for_onnxruntime_s_own_kernels() {
    let path = model("graphs/between_neg");
    let arguments = ["run", &path, "--device", "gpu", "--backend", "ort-plain"];
    refuses(
        &arguments,
        "--device is for this project's kernels; ort-plain runs ONNX Runtime's own, on the CPU",
    );
}

#[cfg(feature = "gpu")]
mod built {
    use serde_json::Value as Json;

    use super::*;
    use crate::common::succeeds;

    /// The adapters, as `devices` lists them.
    fn adapters() -> Vec<Json> {
        let json: Json = serde_json::from_str(&succeeds(&["devices", "--format", "json"])).unwrap();
        assert_eq!(json["gpu"]["built"], true);
        json["gpu"]["adapters"].as_array().unwrap().clone()
    }

    /// The software adapters; without one the test is skipped, by name.
    fn software(test: &str) -> Vec<Json> {
        let software: Vec<Json> = adapters()
            .into_iter()
            .filter(|adapter| adapter["kind"] == "software")
            .collect();
        if software.is_empty() {
            revseq_skips::skip(test, "no software adapter");
        }
        software
    }

    /// A snapshot in which all adapters have one name.
    fn snapshot(name: &str, text: &str) {
        insta::with_settings!({
            omit_expression => true,
            prepend_module_to_snapshot => false,
            filters => vec![
                (r"\d+: [^;\n]+ \((vulkan|gl), software\)(; \d+: [^;\n]+)*", "[ADAPTER]"),
                (r"\S*models/", "models/"),
            ],
        }, {
            insta::assert_snapshot!(name, text);
        });
    }

    #[test]
    fn devices_lists_adapters_with_their_kind_and_limits() {
        for adapter in software("devices_lists_adapters_with_their_kind_and_limits") {
            let index = adapter["index"].as_u64().unwrap();
            let name = adapter["name"].as_str().unwrap();
            let text = succeeds(&["devices"]);
            let backend = adapter["backend"].as_str().unwrap();
            has(&text, &format!("  gpu:{index:<9} {name}\n"));
            has(&text, &format!("kind        software, {backend}"));
            for limit in ["max_buffer_bytes", "max_binding_bytes"] {
                assert!(adapter[limit].as_u64().unwrap() >= 1 << 27, "{adapter}");
            }
        }
    }

    #[test]
    fn software_is_never_taken_unless_it_is_named() {
        let all = adapters();
        let software = software("software_is_never_taken_unless_it_is_named");
        let path = model("graphs/between_neg");
        if all.len() > software.len() {
            revseq_skips::skip(
                "software_is_never_taken_unless_it_is_named",
                "there is hardware",
            );
        } else if !software.is_empty() {
            let run = revseq(&["run", &path, "--device", "gpu"]);
            assert_eq!(run.code, Some(2), "{run:?}");
            snapshot("gpu_no_hardware", &run.stderr);
        }
    }

    #[test]
    fn a_missing_adapter_is_refused_with_a_list_of_adapters() {
        if software("a_missing_adapter_is_refused_with_a_list_of_adapters").is_empty() {
            return;
        }
        let path = model("graphs/between_neg");
        let mut text = String::new();
        for device in ["gpu:99", "gpu:no such adapter"] {
            let run = revseq(&["run", &path, "--device", device]);
            assert_eq!(run.code, Some(2), "{run:?}");
            assert_eq!(run.stdout, "", "{run:?}");
            text += &run.stderr;
        }
        snapshot("gpu_unknown_adapter", &text);
    }

    #[test]
    fn run_on_a_gpu_prints_as_on_the_cpu_and_names_the_device() {
        for adapter in software("run_on_a_gpu_prints_as_on_the_cpu_and_names_the_device") {
            let path = model("graphs/between_neg");
            let device = format!("gpu:{}", adapter["index"]);
            let run = revseq(&["run", &path, "--device", &device]);
            assert_eq!(run.code, Some(0), "{run:?}");
            assert_eq!(run.stdout, succeeds(&["run", &path]));
            snapshot("gpu_run_stderr", &run.stderr);
            let json = succeeds(&["run", &path, "--device", &device, "--format", "json"]);
            let json: Json = serde_json::from_str(&json).unwrap();
            let name = adapter["name"].as_str().unwrap();
            assert!(json["device"].as_str().unwrap().contains(name), "{json}");
        }
    }

    #[test]
    fn verify_of_all_models() {
        for adapter in software("verify_of_all_models") {
            let device = format!("gpu:{}", adapter["index"]);
            let run = revseq(&["verify", &model(""), "--device", &device]);
            assert_eq!(run.code, Some(0), "{run:?}");
            let skipped = run.stdout.lines().filter(|line| !line.ends_with(": ok"));
            let text: Vec<&str> = skipped.chain(run.stderr.lines()).collect();
            snapshot("gpu_verify_models", &text.join("\n"));
        }
    }

    #[test]
    fn strings_are_refused_and_not_moved_elsewhere() {
        if software("strings_are_refused_and_not_moved_elsewhere").is_empty() {
            return;
        }
        let run = revseq(&["run", &model("types/string"), "--device", "gpu:software"]);
        assert_eq!(run.code, Some(2), "{run:?}");
        assert_eq!(run.stdout, "", "{run:?}");
        has(&run.stderr, "the GPU kernels move no strings");
    }
}
