//! LabelEncoder and OneHotEncoder, with the outputs of ONNX Runtime.

use tract_onnx::prelude::*;

use crate::build::{fails, graph, refused, run};

fn texts(texts: &[&str]) -> Tensor {
    tensor1(&texts.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>())
}

fn encoded(node: &str, x: &Tensor) -> TractResult<Tensor> {
    let node = node.replace('@', "ai.onnx.ml.");
    let declared = format!("x:{}[N]", format!("{:?}", x.datum_type()).to_lowercase());
    let model = graph(&declared, "y", &format!("y = {node}(x)"));
    Ok(run(model, std::slice::from_ref(x))?.swap_remove(0))
}

#[test]
fn labels_are_looked_up() {
    let words = texts(&["a", "b", "z", ""]);
    let numbers = tensor1(&[0_i64, 2, 3, -1]);
    let floats = tensor1(&[0_f32, -0.0, 2.0, f32::NAN]);
    for (attributes, x, expected) in [
        (
            r#"classes_strings=["a","b","a"];default_int64=7"#,
            &words,
            tensor1(&[2_i64, 1, 7, 7]),
        ),
        (
            r#"classes_strings=["a","b","a"]"#,
            &numbers,
            texts(&["a", "a", "_Unused", "_Unused"]),
        ),
        (
            r#"keys_strings=["a","b","a"];values_int64s=[5,6,7]"#,
            &words,
            tensor1(&[5_i64, 6, -1, -1]),
        ),
        (
            r#"keys_int64s=[2,0];values_floats=[1.5,0.5];default_float=9.0"#,
            &numbers,
            tensor1(&[0.5_f32, 1.5, 9., 9.]),
        ),
        (
            r#"keys_floats=[0.0,2.0,2.0];values_strings=["z","t","u"];default_string="none""#,
            &floats,
            texts(&["z", "z", "t", "none"]),
        ),
        (
            "keys_floats=[NaN,1.0];values_int64s=[4,5]",
            &floats,
            tensor1(&[-1_i64, -1, -1, 4]),
        ),
    ] {
        let found = encoded(&format!("@LabelEncoder<{attributes}>"), x);
        assert_eq!(found.unwrap(), expected, "{attributes}");
    }
    let found = encoded(
        "@LabelEncoder<keys_int64s=[2];values_floats=[1.5]>",
        &numbers,
    )
    .unwrap();
    let default = found.to_plain_array_view::<f32>().unwrap()[[0]];
    assert_eq!(default.to_bits(), (-0_f32).to_bits());
}

#[test]
fn categories_become_one_hot() {
    let two = tensor2(&[[0_f32, 0., 1.], [0., 1., 0.], [0., 0., 0.]]);
    let found = encoded(
        r#"@OneHotEncoder<cats_strings=["a","b","a"]>"#,
        &texts(&["a", "b", "z"]),
    );
    assert_eq!(found.unwrap(), two);
    for x in [tensor1(&[1.7_f32, -1.2, 5.]), tensor1(&[1_f64, -1., 5.])] {
        let found = encoded("@OneHotEncoder<cats_int64s=[1,2,-1]>", &x).unwrap();
        let expected = tensor2(&[[1_f32, 0., 0.], [0., 0., 1.], [0., 0., 0.]]);
        assert_eq!(found, expected);
    }
    let strict = "@OneHotEncoder<cats_int64s=[1,2];zeros=0>";
    let found = encoded(strict, &tensor1(&[2_i64])).unwrap();
    assert_eq!(found, tensor2(&[[0_f32, 1.]]));
    fails(
        encoded(strict, &tensor1(&[3_i64])),
        "none of its 2 categories",
    );
}

#[test]
fn what_cannot_be_looked_up_is_refused() {
    refused(
        r#"x:i64[N] -> y
           y = ai.onnx.ml.LabelEncoder<keys_int64s=[1,2];values_int64s=[3]>(x) => it has 2 keys and 1 values
           x:i64[N] -> y
           y = ai.onnx.ml.LabelEncoder<keys_int64s=[1]>(x) => it has no attribute values_…
           x:f32[N] -> y
           y = ai.onnx.ml.LabelEncoder<classes_strings=["a"]>(x) => its input is F32, expected String or I64
           x:i64[N] -> y
           y = ai.onnx.ml.OneHotEncoder<cats_strings=["a"]>(x) => its input is I64, expected String
           x:i64[N] -> y
           y = LabelEncoder<keys_int64s=[1];values_int64s=[3]>(x) => it is of domain "", expected "ai.onnx.ml""#,
        |model| model,
    );
}
