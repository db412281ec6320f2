//! Tests of how maxima of windows are computed, against tract's operator, which an unoptimised model
//! runs.

use super::build::graph;
use super::convolutions::check;

/// Images and attributes.
const POOLS: [(&[usize], &str); 11] = [
    (&[3, 8, 10], "kernel_shape=[2,2];strides=[2,2]"),
    (&[3, 9, 11], "kernel_shape=[2,2];strides=[2,2];ceil_mode=1"),
    (
        &[3, 9, 11],
        "kernel_shape=[2,2];strides=[2,1];pads=[0,1,0,1]",
    ),
    (
        &[3, 9, 11],
        "kernel_shape=[3,3];strides=[2,2];pads=[1,1,1,1]",
    ),
    (&[3, 9, 11], "kernel_shape=[2,3];auto_pad=\"SAME_UPPER\""),
    (&[3, 9, 11], "kernel_shape=[4,1];auto_pad=\"SAME_LOWER\""),
    (&[3, 9, 11], "kernel_shape=[2,2];dilations=[3,2]"),
    (&[3, 21], "kernel_shape=[2];strides=[2]"),
    (
        &[3, 21],
        "kernel_shape=[5];strides=[3];pads=[2,1];ceil_mode=1",
    ),
    (
        &[3, 21],
        "kernel_shape=[3];dilations=[2];auto_pad=\"SAME_UPPER\"",
    ),
    (&[3, 4, 5, 6], "kernel_shape=[2,2,2]"),
];

#[test]
fn maxima_of_windows_are_those_of_tract() {
    for (image, attributes) in POOLS {
        for batch in ["1", "2", "N"] {
            let sizes: String = image.iter().map(|size| format!(",{size}")).collect();
            let shape = format!("x:f32[{batch}{sizes}]");
            let graph = graph(&shape, "y", &format!("y = MaxPool<{attributes}>(x)"));
            let batches: &[usize] = match batch {
                "1" => &[1],
                "2" => &[2],
                _ => &[3, 1, 0],
            };
            let found = check(&graph, image, batches);
            let in_rows = batch != "N" && image.len() < 4;
            let reshaped = found.iter().any(|op| op == "Reshape" || op == "IntoShape");
            assert_eq!(reshaped, in_rows, "{attributes} of {batch}: {found:?}");
        }
    }
}
