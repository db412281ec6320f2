//! Models are read and written without loss, or refused.

use std::path::Path;

use revseq_onnx::model::{
    AttributeProto, AttributeType, FLOAT, GraphProto, ModelProto, StringStringEntryProto,
    TensorProto, node, tensor_proto,
};
use revseq_onnx::{decode, encode, external, external_files};

#[test]
fn models_are_written_as_they_were() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../models");
    let files = walkdir::WalkDir::new(root).into_iter();
    let paths = files.map(|entry| entry.expect("models are there").into_path());
    let mut count = 0;
    for path in paths.filter(|path| path.ends_with("model.onnx")) {
        let mut bytes = std::fs::read(&path).unwrap();
        assert!(
            encode(&decode(&bytes).unwrap()).unwrap() == bytes,
            "{path:?}"
        );
        // Field 1000, which ONNX does not have.
        bytes.extend([0xc2, 0x3e, 4, b'k', b'e', b'p', b't']);
        assert!(
            encode(&decode(&bytes).unwrap()).unwrap() == bytes,
            "{path:?}"
        );
        count += 1;
    }
    assert!(count > 100, "{count}");
}

/// A model with a graph in a node in a graph, to this depth.
fn nested(depth: usize) -> Vec<u8> {
    let mut graph = GraphProto::default();
    for _ in 0..depth {
        let body = AttributeProto {
            name: Some("body".to_owned()),
            r#type: Some(AttributeType::GRAPH),
            g: graph.into(),
            ..AttributeProto::default()
        };
        graph = GraphProto {
            node: vec![node("Loop", &[], &["y"], vec![body])],
            ..GraphProto::default()
        };
    }
    let model = ModelProto {
        graph: graph.into(),
        ..ModelProto::default()
    };
    encode(&model).unwrap()
}

#[test]
fn an_invalid_model_is_refused() {
    let error = |bytes: &[u8]| decode(bytes).unwrap_err().to_string();
    assert_eq!(
        error(b"no model"),
        "it is not an ONNX model: it is a text file"
    );
    // These begin as a model does.
    assert_eq!(
        error(b"Belongs elsewhere"),
        "it is not an ONNX model: it is a text file"
    );
    assert_eq!(error(b""), "it is not an ONNX model: it is empty");
    assert_eq!(
        error(b"\x08\x0a"),
        "it has no graph: it is not an ONNX model"
    );
    // A graph, a node and an attribute at each level.
    assert!(decode(&nested(32)).is_ok());
    assert_eq!(error(&nested(40)), "it is not an ONNX model");
    // A graph of ten bytes, of which two are there.
    assert_eq!(
        error(b"\x08\x0a\x3a\x0a\x12\x01"),
        "it ends too early: it has 6 bytes of at least 14"
    );
}

/// In a process of its own, whose memory is limited for good.
#[cfg(target_os = "linux")]
#[test]
fn a_lack_of_memory_is_an_error() {
    const LIMITED: &str = "REVSEQ_TEST_LIMITED";
    const SIZE: usize = 230 << 20;
    if std::env::var_os(LIMITED).is_none() {
        let test = std::env::current_exe().unwrap();
        let name = "a_lack_of_memory_is_an_error";
        // Less than twice the size, in KiB.
        let command = format!("ulimit -v 450000; exec {test:?} --exact {name}");
        let limited = std::process::Command::new("sh")
            .args(["-c", &command])
            .env(LIMITED, "")
            .output()
            .unwrap();
        let output = String::from_utf8_lossy(&limited.stdout);
        assert!(
            limited.status.success() && output.contains("1 passed"),
            "{output}"
        );
        return;
    }
    let mut data = vec![0; SIZE];
    // A field of a model.
    data[..2].copy_from_slice(&[0x08, 0x0a]);
    let overhead = 128 << 20;
    let error = decode(&data).err().map(|error| error.to_string());
    assert_eq!(
        error,
        Some(format!("not enough memory for {} bytes", SIZE + overhead))
    );
    let tensor = TensorProto {
        raw_data: Some(data),
        ..TensorProto::default()
    };
    let error = encode(&tensor).err().map(|error| error.to_string());
    assert_eq!(
        error,
        Some(format!("not enough memory for {} bytes", SIZE + 5))
    );
}

/// A model with its data in `e.data`, as caches keep it: all files in one folder, and links to them
/// in another.
#[cfg(unix)]
fn cache(name: &str) -> std::path::PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&root);
    for folder in ["blobs", "snapshots/one"] {
        std::fs::create_dir_all(root.join(folder)).unwrap();
    }
    let weights = TensorProto {
        name: Some("w".to_owned()),
        dims: vec![2],
        data_type: Some(FLOAT),
        data_location: Some(tensor_proto::DataLocation::EXTERNAL),
        external_data: vec![StringStringEntryProto {
            key: Some("location".to_owned()),
            value: Some("e.data".to_owned()),
            ..StringStringEntryProto::default()
        }],
        ..TensorProto::default()
    };
    let graph = GraphProto {
        initializer: vec![weights],
        ..GraphProto::default()
    };
    let model = ModelProto {
        graph: graph.into(),
        ..ModelProto::default()
    };
    std::fs::write(root.join("blobs/1111"), encode(&model).unwrap()).unwrap();
    std::fs::write(root.join("blobs/2222"), [0; 8]).unwrap();
    let link = |to: &str, name: &str| {
        std::os::unix::fs::symlink(to, root.join("snapshots/one").join(name)).unwrap();
    };
    link("../../blobs/1111", "model.onnx");
    link("../../blobs/2222", "e.data");
    root.canonicalize().unwrap()
}

#[cfg(unix)]
fn resolved(path: &Path) -> Result<(Option<std::path::PathBuf>, String), String> {
    let mut model = decode(&std::fs::read(path).unwrap()).unwrap();
    let folder = external::resolve_links(&mut model, path).map_err(|error| error.to_string())?;
    let file = external_files(&model).pop_first().unwrap();
    Ok((folder, file))
}

#[cfg(unix)]
#[test]
fn data_behind_links_is_named_where_it_is() {
    let root = cache("links");
    let model = root.join("snapshots/one/model.onnx");
    assert_eq!(
        resolved(&model),
        Ok((Some(root.join("blobs")), "2222".to_owned()))
    );
    // Data below the folder that the model leads to, and in the folder of the link.
    std::fs::create_dir(root.join("blobs/parts")).unwrap();
    std::fs::rename(root.join("blobs/2222"), root.join("blobs/parts/2222")).unwrap();
    let data = root.join("snapshots/one/e.data");
    std::fs::remove_file(&data).unwrap();
    std::os::unix::fs::symlink("../../blobs/parts/2222", &data).unwrap();
    assert_eq!(
        resolved(&model),
        Ok((Some(root.join("blobs/parts")), "2222".to_owned()))
    );
    std::fs::remove_file(&data).unwrap();
    std::fs::write(&data, [0; 8]).unwrap();
    assert_eq!(resolved(&model), Ok((None, "e.data".to_owned())));
    // Elsewhere.
    std::fs::write(root.join("3333"), [0; 8]).unwrap();
    std::fs::remove_file(&data).unwrap();
    std::os::unix::fs::symlink("../../3333", &data).unwrap();
    let out = "initializer \"w\": its data in \"e.data\": a link leads out of the model's folder";
    assert_eq!(resolved(&model), Err(out.to_owned()));
    // A model that is no link follows none.
    std::fs::copy(
        root.join("blobs/1111"),
        root.join("snapshots/one/copy.onnx"),
    )
    .unwrap();
    let copy = root.join("snapshots/one/copy.onnx");
    assert_eq!(resolved(&copy), Ok((None, "e.data".to_owned())));
}

/// Git keeps a pointer in place of large data, which has room for a small tensor.
#[cfg(unix)]
#[test]
fn data_that_git_keeps_elsewhere_is_not_read() {
    let root = cache("pointer");
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 8\n";
    std::fs::write(root.join("blobs/2222"), pointer).unwrap();
    let path = root.join("snapshots/one/model.onnx");
    let mut model = decode(&std::fs::read(&path).unwrap()).unwrap();
    let error = external::load(&mut model, &path).unwrap_err().to_string();
    assert!(
        error.contains("its data in \"e.data\": it is a Git LFS pointer"),
        "{error}"
    );
    let file = root.join("blobs/2222");
    let error = revseq_onnx::file::read(&file).unwrap_err().to_string();
    assert!(error.contains("`git lfs pull` gets the file"), "{error}");
}
