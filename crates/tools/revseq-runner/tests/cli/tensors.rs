//! Tensors through files: every type, in every way that a file can hold it.

use prost::Message;
use tract_onnx::pb::{GraphProto, TensorProto};

use crate::common::{Folder, int64s, node, refuses, reverse_graph, succeeds, tensor, value};

/// A model that gives back its input.
fn identity(elem_type: i32) -> GraphProto {
    GraphProto {
        name: "graph".to_owned(),
        node: vec![node("Identity", &["x"], &["y"])],
        input: vec![value("x", elem_type, &["2", "3"])],
        output: vec![value("y", elem_type, &["2", "3"])],
        ..GraphProto::default()
    }
}

/// The types that tract runs: their codes, and bytes that are six elements.
fn types() -> Vec<(i32, Vec<u8>)> {
    // Every bit pattern but the bool's is an element; NaNs are among them.
    let bytes = |size: usize| {
        let mut bytes: Vec<u8> = (0..6 * size).map(|at| (at * 37 + 11) as u8).collect();
        bytes[4 * size..5 * size].fill(0xff);
        bytes
    };
    let sizes = [
        (1, 4),
        (2, 1),
        (3, 1),
        (4, 2),
        (5, 2),
        (6, 4),
        (7, 8),
        (10, 2),
        (11, 8),
        (12, 4),
        (13, 8),
    ];
    let mut types: Vec<_> = sizes
        .into_iter()
        .map(|(code, size)| (code, bytes(size)))
        .collect();
    types.push((9, vec![0, 1, 1, 0, 1, 0]));
    types
}

fn read(path: &str) -> TensorProto {
    TensorProto::decode(std::fs::read(path).unwrap().as_slice()).unwrap()
}

#[test]
fn every_type_comes_back_bit_for_bit() {
    let folder = Folder::new();
    for (code, bytes) in types() {
        let model = folder.model(identity(code));
        let x = folder.write("x.pb", &tensor("x", code, &[2, 3], &bytes).encode_to_vec());
        let mut from = x;
        // pb to npy, npy to npy, npy to pb.
        for name in ["a.npy", "b.npy", "c.pb"] {
            let to = folder.path(name);
            let input = format!("x={}", from);
            let output = format!("y={}", to);
            succeeds(&format!("run {} --overwrite -i {input} -o {output}", model));
            from = to;
        }
        let back = read(&from);
        assert_eq!(
            (back.data_type, back.raw_data),
            (code, bytes),
            "type {code}"
        );
        assert_eq!(back.name, "y");
    }
}

#[test]
fn strings_come_back() {
    let folder = Folder::new();
    let model: &str = &folder.model(identity(8));
    let strings = ["", "a", "längere", "日本語", "with \"quotes\"", "𝄞"];
    let mut x = tensor("x", 8, &[2, 3], &[]);
    x.string_data = strings
        .iter()
        .map(|string| string.as_bytes().to_vec())
        .collect();
    let x = folder.write("x.pb", &x.encode_to_vec());
    let (npy, pb) = (folder.path("y.npy"), folder.path("z.pb"));
    let run = |from: &str, to: &str| {
        let (input, output) = (format!("x={from}"), format!("y={to}"));
        succeeds(&["run", model, "--overwrite", "-i", &input, "-o", &output])
    };
    run(&x, &npy);
    assert!(
        std::fs::read(&npy)
            .unwrap()
            .windows(5)
            .any(|text| text == b"'<U13")
    );
    run(&npy, &pb);
    let back: Vec<_> = read(&pb)
        .string_data
        .into_iter()
        .map(|text| String::from_utf8(text).unwrap())
        .collect();
    assert_eq!(back, strings);
    let printed = succeeds(&["run", model, "-i", &format!("x={}", npy)]);
    assert!(printed.contains(r#""with \"quotes\"""#), "{printed}");
}

#[test]
fn typed_fields_equal_raw_data() {
    let folder = Folder::new();
    let check = |code: i32, change: &dyn Fn(&mut TensorProto), expected: &str| {
        let model = folder.model(identity(code));
        let mut x = tensor("x", code, &[2, 3], &[]);
        change(&mut x);
        // As an input, and as an initializer that stands in for it.
        let path = folder.write("x.pb", &x.encode_to_vec());
        let as_input = succeeds(&format!("run {} -i x={}", model, path));
        let mut graph = identity(code);
        graph.initializer = vec![x];
        let as_initializer = succeeds(&["run", &folder.model(graph)]);
        assert_eq!(as_input, as_initializer);
        assert!(as_input.contains(expected), "type {code}: {as_input}");
    };
    for (code, ints, expected) in [
        (2, [0, 255, 1, 2, 3, 4], "[  0, 255,   1]"),
        (3, [-128, 127, 1, 2, 3, 4], "[-128,  127,    1]"),
        (4, [0, 65535, 1, 2, 3, 4], "[    0, 65535,     1]"),
        (5, [-32768, 1, 2, 3, 4, 5], "[-32768,      1,      2]"),
        (
            6,
            [i32::MIN, 1, 2, 3, 4, 5],
            "[-2147483648,           1,           2]",
        ),
        (9, [0, 1, 1, 0, 0, 1], "[false,  true,  true]"),
        (10, [0x3c00, 0xc000, 0, 0, 0, 0], "[ 1.0, -2.0,  0.0]"),
    ] {
        check(code, &|x| x.int32_data = ints.to_vec(), expected);
    }
    check(1, &|x| x.float_data = vec![1.5; 6], "[1.5, 1.5, 1.5]");
    let least = "-9223372036854775808";
    check(7, &|x| x.int64_data = vec![i64::MIN; 6], least);
    check(11, &|x| x.double_data = vec![0.1; 6], "[0.1, 0.1, 0.1]");
    // tract's own loader looks for these two in other fields.
    let most = "[4294967295, 4294967295, 4294967295]";
    check(12, &|x| x.uint64_data = vec![4_294_967_295; 6], most);
    let most = "18446744073709551615";
    check(13, &|x| x.uint64_data = vec![u64::MAX; 6], most);
}

#[test]
fn empty_tensors_keep_their_type() {
    let folder = Folder::new();
    for (code, name) in [(12, "uint32"), (13, "uint64"), (1, "float"), (8, "string")] {
        let mut graph = identity(code);
        graph.input.clear();
        graph.output = vec![value("y", code, &["0", "3"])];
        graph.initializer = vec![tensor("x", code, &[0, 3], &[])];
        let output = succeeds(&["run", &folder.model(graph)]);
        assert_eq!(output, format!("y: {name}[0,3]\n  (no elements)\n"));
    }
}

#[test]
fn npy_files_of_either_order() {
    let folder = Folder::new();
    let model: &str = &folder.model(identity(6));
    let npy = |descr: &str, fortran: &str, values: &[[u8; 4]]| {
        let text =
            format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': (2, 3), }}\n");
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((text.len() as u16).to_le_bytes());
        bytes.extend(text.as_bytes());
        bytes.extend(values.concat());
        format!("x={}", folder.write("x.npy", &bytes))
    };
    let expected = "y: int32[2,3]\n  [[0, 1, 2],\n   [3, 4, 5]]\n";
    let little = |values: [i32; 6]| values.map(i32::to_le_bytes);
    let big = |values: [i32; 6]| values.map(i32::to_be_bytes);
    for input in [
        npy("<i4", "False", &little([0, 1, 2, 3, 4, 5])),
        npy("<i4", "True", &little([0, 3, 1, 4, 2, 5])),
        npy(">i4", "False", &big([0, 1, 2, 3, 4, 5])),
        npy(">i4", "True", &big([0, 3, 1, 4, 2, 5])),
    ] {
        assert_eq!(succeeds(&["run", model, "-i", &input]), expected);
    }
    refuses(
        &["run", model, "-i", &npy("<f4", "False", &little([0; 6]))],
        "is float[2,3]",
    );
}

#[test]
fn pb_files_with_wrong_fields() {
    let folder = Folder::new();
    let model: &str = &folder.model(identity(1));
    for (bytes, why) in [
        (b"garbage".to_vec(), "it is not a TensorProto"),
        (vec![], "it is empty"),
        (
            tensor("x", 1, &[2, 3], &[0; 23]).encode_to_vec(),
            "has 23 bytes in raw_data, expected 24",
        ),
        (
            tensor("x", 1, &[1 << 50, 3], &[0; 24]).encode_to_vec(),
            "has 24 bytes in raw_data",
        ),
        (
            tensor("x", 23, &[2, 3], &[0; 3]).encode_to_vec(),
            "its element type float4e2m1",
        ),
    ] {
        let path = folder.write("x.pb", &bytes);
        refuses(&["run", model, "-i", &format!("x={}", path)], why);
    }
    refuses(
        &["run", model, "-i", "x=x.txt"],
        "neither in .pb (TensorProto) nor in .npy",
    );
    refuses(&["run", model, "-i", "x=none.npy"], "cannot read none.npy");
}

#[test]
fn npy_files_with_wrong_headers() {
    let folder = Folder::new();
    let model = folder.model(reverse_graph());
    let lens = folder.write("lens.pb", &int64s("lens", &[1, 2, 3, 4]).encode_to_vec());
    let header = |version: u8, length: usize, text: &str, data: usize| {
        let mut bytes = b"\x93NUMPY".to_vec();
        bytes.extend([version, 0]);
        if version == 1 {
            bytes.extend((length as u16).to_le_bytes());
        } else {
            bytes.extend((length as u32).to_le_bytes());
        }
        bytes.extend_from_slice(text.as_bytes());
        bytes.resize(bytes.len() + data, 0);
        bytes
    };
    let dict = |descr: &str, shape: &str| {
        format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n")
    };
    let file = |descr: &str, shape: &str, data| {
        let text = dict(descr, shape);
        header(1, text.len(), &text, data)
    };
    let deep = format!("{}{}", "(".repeat(4000), ")".repeat(90));
    for (bytes, why) in [
        (vec![], "it is not an .npy file"),
        (b"\x93NUMPY\x01".to_vec(), "it ends within its header"),
        (header(9, 10, "", 10), "version 9.0"),
        (
            header(2, 0xffff_ffff, "", 10),
            "its header is 4294967295 bytes long",
        ),
        (header(1, 200, "{}", 10), "it ends within its header"),
        (
            header(1, 60, &format!("{:60}", "not a dict"), 0),
            "its header is not that of an .npy file",
        ),
        (header(1, deep.len(), &deep, 0), "its header"),
        (file("'<f4'", "(4, 5, 3)", 239), "but 239 bytes follow"),
        (file("'<f4'", "(4, 5, 3)", 241), "but 241 bytes follow"),
        (
            file("'<f4'", "(1099511627776, 1099511627776)", 16),
            "its header",
        ),
        (
            file("'<f4'", "(18446744073709551615, 4611686018427387904)", 0),
            "its header",
        ),
        (
            file(
                "'<f4'",
                "(0, 18446744073709551615, 18446744073709551615)",
                0,
            ),
            "its header",
        ),
        (
            file("'<f4'", "(-1, 4)", 16),
            "its header is not that of an .npy file",
        ),
        (file("'|O'", "(2,)", 16), "it holds Python objects"),
        (file("'<M8[D]'", "(2,)", 16), "ONNX has no type like"),
        (file("[('a', '<f4')]", "(2,)", 8), "records"),
        (
            file("'<U0'", "(1099511627776,)", 0),
            "it promises 1099511627776 empty strings",
        ),
        (file("'<U9223372036854775807'", "(2,)", 8), "its"),
        (file("'|b1'", "(2,)", 2), "expected float[4,5,3]"),
    ] {
        let path = folder.write("x.npy", &bytes);
        let input = format!("x={}", path);
        let lens = format!("lens={}", lens);
        refuses(&["run", &model, "-i", &input, "-i", &lens], why);
    }
}
