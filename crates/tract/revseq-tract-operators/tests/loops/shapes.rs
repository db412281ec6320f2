//! Models whose plans for all sizes say what the data do not keep: an error, and never memory that is not the
//! operand's.

use tract_onnx::prelude::*;

use crate::build::{Graph, fails, graph, parse, run_optimized};

/// A plan for all sizes, optimised by this crate.
fn plan(graph: Graph) -> Arc<TypedRunnableModel> {
    let typed = revseq_tract_operators::into_typed(parse(graph).unwrap()).unwrap();
    let model = revseq_tract_operators::into_optimized(typed).unwrap();
    model.into_runnable().unwrap()
}

/// Numbers from 1 on.
fn numbers(shape: &[usize]) -> Tensor {
    let count = shape.iter().product::<usize>();
    let numbers: Vec<f32> = (1..=count).map(|it| it as f32).collect();
    Tensor::from_shape(shape, &numbers).unwrap()
}

fn run(plan: &Arc<TypedRunnableModel>, inputs: &[Tensor]) -> TractResult<Tensor> {
    let inputs = inputs.iter().map(|it| it.clone().into_tvalue());
    let mut outputs = plan.run(inputs.collect())?;
    Ok(outputs.remove(0).into_tensor())
}

/// Asserts that a run is an error of sizes.
#[track_caller]
fn refuses(plan: &Arc<TypedRunnableModel>, inputs: &[Tensor]) {
    let error = run(plan, inputs).unwrap_err();
    assert!(
        error.is::<revseq_tract_operators::OtherSizes>(),
        "{error:?}"
    );
}

/// Sums over an axis of which the plan has two expressions.
#[test]
fn operands_have_as_many_elements_to_sum_over() {
    let rows = [
        ("x:f32[N,K]", "y = MatMul(x, w)", vec![14, 4], [3, 14]),
        (
            "x:f32[N,K]",
            "t = Tanh(x)\ny = MatMul(t, w)",
            vec![14, 1],
            [3, 14],
        ),
        ("x:f32[K,N]", "y = MatMul(w, x)", vec![4, 14], [14, 3]),
    ];
    for (input, nodes, weights, fitting) in rows {
        let plan = plan(graph(input, "y", nodes).constant("w", numbers(&weights)));
        run(&plan, &[numbers(&fitting)]).unwrap();
        for other in [7, 2] {
            refuses(
                &plan,
                &[numbers(
                    &fitting.map(|it| if it == 14 { other } else { it }),
                )],
            );
        }
        run(&plan, &[numbers(&fitting)]).unwrap();
    }
}

#[test]
fn quantised_operands_have_as_many_elements_to_sum_over() {
    let bytes = |shape: &[usize]| Tensor::zero::<u8>(shape).unwrap();
    let product = graph("x:u8[N,K]", "y", "y = MatMulInteger(x, w)");
    let plan = plan(product.constant("w", bytes(&[14, 4])));
    assert_eq!(run(&plan, &[bytes(&[3, 14])]).unwrap().shape(), [3, 4]);
    refuses(&plan, &[bytes(&[3, 7])]);
}

#[test]
fn operands_that_are_both_inputs_agree() {
    let both = "x:f32[N,K] z:f32[L,M]";
    let plan = plan(graph(both, "y", "y = MatMul(x, z)"));
    let (x, z) = (numbers(&[2, 3]), numbers(&[3, 4]));
    assert_eq!(run(&plan, &[x.clone(), z]).unwrap().shape(), [2, 4]);
    refuses(&plan, &[x, numbers(&[5, 4])]);
}

#[test]
fn an_operand_much_larger_than_the_other_is_not_read_beyond_it() {
    let weights = Tensor::zero::<f32>(&[1 << 20, 1]).unwrap();
    let plan = plan(graph("x:f32[N,K]", "y", "y = MatMul(x, w)").constant("w", weights));
    refuses(&plan, &[numbers(&[1, 1])]);
}

#[test]
fn scales_have_the_elements_of_a_row() {
    let scale = || numbers(&[14]);
    for operator in ["LayerNormalization", "RMSNormalization"] {
        let nodes = format!("y = {operator}(x, w)");
        let plan = plan(graph("x:f32[N,K]", "y", &nodes).constant("w", scale()));
        run(&plan, &[numbers(&[3, 14])]).unwrap();
        refuses(&plan, &[numbers(&[3, 1])]);
        refuses(&plan, &[numbers(&[3, 7])]);
    }
}

/// The last window of an odd number of elements would begin in the padding.
#[test]
fn pools_have_no_window_in_the_padding_alone() {
    let graph = graph(
        "x:f32[N,2,W]",
        "y",
        "a = MaxPool<ceil_mode=1;kernel_shape=[2];pads=[1,1];strides=[2]>(x)\ny = Conv(a, w)",
    );
    let plan = plan(graph.constant("w", numbers(&[2, 2, 1])));
    for (width, windows) in [(1, 1), (2, 2), (5, 3), (6, 4), (7, 4)] {
        let found = run(&plan, &[numbers(&[1, 2, width])]).unwrap();
        assert_eq!(found.shape(), [1, 2, windows], "{width}");
    }
}

#[test]
fn a_reflection_stays_within_its_axis() {
    let graph = graph("x:f32[N]", "y", "y = Pad<mode=\"reflect\">(x, pads)");
    let plan = plan(graph.constant("pads", tensor1(&[2_i64, 3])));
    let found = run(&plan, &[numbers(&[4])]).unwrap();
    assert_eq!(found, tensor1(&[3_f32, 2., 1., 2., 3., 4., 3., 2., 1.]));
    let error = run(&plan, &[numbers(&[3])])
        .unwrap_err()
        .root_cause()
        .to_string();
    let expected = "it reflects 3 elements along axis 0, which has 3, one of them the edge";
    assert_eq!(error, expected);
}

/// A size that is known only in a run stays one, though the value has no elements or one number.
#[test]
fn values_keep_the_sizes_of_a_run() {
    let empty = "a = MatMul(x, w)\ny = Slice(a, zero, zero, one)";
    let plan_of_empty = plan(
        graph("x:f32[N,4,2]", "y", empty)
            .constant("w", numbers(&[2, 3]))
            .constants("zero = [0], one = [1]"),
    );
    for batch in [1, 5, 0] {
        let found = run(&plan_of_empty, &[numbers(&[batch, 4, 2])]).unwrap();
        assert_eq!(found.shape(), [batch, 0, 3]);
    }
    let zeros = graph("x:f32[N,2]", "y", "z = Mul(x, zero)\ny = Add(z, w)");
    let zeros = plan(
        zeros
            .constant("zero", tensor0(0_f32))
            .constant("w", numbers(&[1, 2])),
    );
    let found = run(&zeros, &[numbers(&[3, 2])]).unwrap();
    assert_eq!(found, tensor2(&[[1_f32, 2.], [1., 2.], [1., 2.]]));
}

/// ONNX reads a size of 0 as that of the input's axis.
#[test]
fn a_reshape_to_a_size_of_0_is_planned_anew() {
    let nodes = "s = Shape(x)\nt = Gather(s, [0])\nu = Gather(s, [1])\n\
                 to = Concat<axis=0>(t, [1], u, [3])\ny = Reshape(x, to)";
    let plan = plan(graph("x:f32[T,U,3]", "y", nodes));
    let found = run(&plan, &[numbers(&[2, 4, 3])]).unwrap();
    assert_eq!(found.shape(), [2, 1, 4, 3]);
    refuses(&plan, &[numbers(&[0, 0, 3])]);
}

/// A size that an exporter computes is 0 where nothing is left, and ONNX's shape has another number of elements.
#[test]
fn nothing_is_reshaped_to_nothing() {
    let nodes = |before: &str| format!("{before}\ny = Reshape(x, to)\nv = Shape(y)");
    for (rows, to) in [
        (0, [1, 0, 4]),
        (2, [1, 2, 4]),
        (0, [3, 4, 0]),
        (0, [0, 5, 7]),
    ] {
        let x = numbers(&[rows, 4]);
        let numbers_of_to = tensor1(&to.map(|size: usize| size as i64));
        let by_shape = "s = Shape(z)\nto = Identity(s)";
        for (inputs, before, others) in [
            (
                "x:f32[N,4] to:i64[3]".to_owned(),
                "",
                vec![numbers_of_to.clone()],
            ),
            (
                format!("x:f32[{rows},4] to:i64[3]"),
                "",
                vec![numbers_of_to.clone()],
            ),
            (
                format!("x:f32[{rows},4] z:f32[{},{},{}]", to[0], to[1], to[2]),
                by_shape,
                vec![numbers(&to)],
            ),
        ] {
            let model = graph(&inputs, "y v", &nodes(before));
            let given = [vec![x.clone()], others].concat();
            let found =
                run_optimized(model, &given).unwrap_or_else(|it| panic!("{inputs}: {it:?}"));
            assert_eq!(found[0].shape(), to, "{inputs}");
            assert_eq!(found[1], numbers_of_to, "{inputs}");
        }
    }
    // Wherever that fits, a 0 is the input's size.
    let model = || graph("x:f32[N,M] to:i64[2]", "y", "y = Reshape(x, to)");
    let run =
        |shape: [usize; 2], to: [i64; 2]| run_optimized(model(), &[numbers(&shape), tensor1(&to)]);
    assert_eq!(run([0, 4], [1, 0]).unwrap()[0].shape(), [1, 0]);
    assert_eq!(run([3, 0], [0, 0]).unwrap()[0].shape(), [3, 0]);
    assert_eq!(run([0, 4], [0, -1]).unwrap()[0].shape(), [0, 0]);
    for to in [[2, 3], [-1, -1]] {
        fails(run([0, 4], to), "another number of elements");
    }
}

/// A fused program is for the sizes in it, also those that its inputs do not have.
#[test]
fn fused_operators_follow_sizes_that_only_symbols_tell() {
    let reshaped = graph("", "v", "t = Tanh(flat)\nr = Reshape(t, shape)\nv = Neg(r)");
    let same = graph("", "w", "w = Neg(x)");
    let nodes = "shape = Shape(x)\nflat = Reshape(x, all)\n\
                 y = If<then_branch=@then;else_branch=@other>(k)";
    let plan = plan(
        graph("x:f32[N,M] k:bool[]", "y", nodes)
            .with("then", reshaped)
            .with("other", same)
            .constant("all", tensor1(&[-1_i64])),
    );
    for shape in [[3, 4], [4, 3], [2, 6], [3, 4]] {
        let x = numbers(&shape);
        let found = run(&plan, &[x, tensor0(true)]).unwrap();
        assert_eq!(found.shape(), shape);
    }
}
