//! Masks of numbers in loops that are recurrent layers.

use super::super::{fast, pass, rewritten, right_padded};
use super::recurrent_loop::{START, with_bodies};
use super::{ANY, Row, check, leaves, takes};
use crate::Options;

/// A pass may enable an earlier one: without reversals that undo each other, the loop is a layer.
#[test]
fn passes_run_until_none_changes_anything() {
    let nodes = [
        START,
        "back = Slice(x, minus, first, zero, minus)\nforth = Slice(back, minus, first, zero, minus)",
        "any = ReduceMax<axes=[2];keepdims=1>(x)\nmask = Cast<to=9>(any)",
        "done = Expand(nought, states)",
        "counted, last, ended, y = Loop<body=@masked>(time, always, start, begin, done)",
    ];
    let read = |row: Row| with_bodies(row).with("Gather<axis=0>(x, t)", "Gather<axis=0>(forth, t)");
    let what = "RNN, forward, with the steps that its mask counts put first";
    check(
        "recurrent-loop",
        &[
            read(takes(what, ANY, &nodes)).options(fast()),
            read(leaves("only one is flipped", &nodes)),
        ],
    );
}

/// Numbers are masks if they are provably 0 or 1, or if the loop takes their truth values.
#[test]
fn recurrent_loop_with_a_mask_of_numbers() {
    let nodes = [
        START,
        "any = ReduceMax<axes=[2];keepdims=1>(x)\nis_any = Cast<to=9>(any)",
        "mask = Cast<to=1>(is_any)",
        "done = Expand(nought, states)",
        "counted, last, ended, y = Loop<body=@masked>(time, always, start, begin, done)",
    ];
    let ordered = "RNN, forward, with the steps that its mask counts put first";
    let by_products = |row: Row| {
        with_bodies(row)
            .with(
                "h2 = Where(counts, new, h)",
                "no = Sub(whole, counts)\ntaken = Mul(new, counts)\nheld = Mul(no, h)
                h2 = Add(taken, held)",
            )
            .with(
                "output = Where(counts, new, repeated)",
                "shown = Mul(counts, new)\nhidden = Mul(repeated, no)
                output = Add(shown, hidden)",
            )
    };
    let take = || by_products(takes(ordered, ANY, &nodes));
    let model = |mask| take().with("mask = Cast<to=1>(is_any)", mask);
    let as_float = |row: Row| {
        row.with(
            "counts = Gather<axis=0>(mask, t)",
            "number = Gather<axis=0>(mask, t)\ncounts = Cast<to=1>(number)",
        )
    };
    let mixing = "its mask mask is not provably 0 or 1 at each step";
    let miss = |mask| {
        let row = by_products(leaves(mixing, &nodes));
        row.with("mask = Cast<to=1>(is_any)", mask)
    };
    let by_truth = |row: Row, truth| {
        let row = with_bodies(row).with("counts = Gather<axis=0>(mask, t)", truth);
        row.with("mask = Cast<to=1>(is_any)", "mask = Cast<to=7>(any)")
    };
    let truth = "number = Gather<axis=0>(mask, t)\ncounts = Cast<to=9>(number)";
    check(
        "recurrent-loop",
        &[
            take(),
            take().opset(11),
            // The forms of numbers that are 0 or 1.
            as_float(model("mask = Cast<to=7>(is_any)")),
            as_float(model("mask = Cast<to=11>(is_any)")),
            as_float(model(
                "small = Cast<to=6>(is_any)\nmask = Cast<to=10>(small)",
            )),
            model(
                "is_none = Equal(any, nought)\nis_some = Not(is_none)\nmask = Cast<to=1>(is_some)",
            ),
            model("is_more = Greater(any, half)\nmask = Cast<to=1>(is_more)"),
            model(
                "is_more = Greater(any, half)\nboth = And(is_more, is_any)\nmask = Cast<to=1>(both)",
            ),
            model(
                "one_mask = Cast<to=1>(is_any)\nis_more = Greater(any, half)
                other = Cast<to=1>(is_more)\nmask = Mul(one_mask, other)",
            ),
            model("padding = Cast<to=1>(is_any)\nmask = Sub(whole, padding)"),
            model("mask = Where(is_any, whole, nought)"),
            model(
                "numbers = Cast<to=1>(is_any)\nturned = Transpose<perm=[1,0,2]>(numbers)
                mask = Transpose<perm=[1,0,2]>(turned)",
            ),
            model(
                "numbers = Cast<to=1>(is_any)\nflat = Squeeze(numbers, two)
                mask = Unsqueeze(flat, two)",
            ),
            model("numbers = Cast<to=1>(is_any)\nmask = Concat<axis=0>(numbers, numbers)"),
            model("wide = Shape(any)\nmask = ConstantOfShape(wide)"),
            // A constant of ones is no mask.
            by_products(takes("RNN, forward", ANY, &nodes)).with(
                "mask = Cast<to=1>(is_any)",
                "wide = Shape(any)\nmask = Expand(whole, wide)",
            ),
            // Their number alone.
            by_products(takes("RNN, forward, with the mask as lengths", ANY, &nodes))
                .options(right_padded()),
            // The loop takes truth values of any numbers.
            by_truth(takes(ordered, ANY, &nodes), truth),
            // Others.
            miss("mask = Identity(any)"),
            miss("mask = Identity(any)").options(right_padded()),
            as_float(miss("mask = Cast<to=7>(any)")),
            as_float(miss("mask = Cast<to=11>(any)")),
            miss("mask = Where(is_any, whole, half)"),
            miss("numbers = Cast<to=1>(is_any)\nmask = Mul(numbers, half)"),
            miss("numbers = Cast<to=1>(is_any)\nmask = Add(numbers, numbers)"),
            miss("numbers = Cast<to=1>(is_any)\nmask = Sub(half, numbers)"),
            miss("wide = Shape(any)\nmask = Expand(two_times, wide)"),
            miss("mask = Identity(any)").sizes([Some(1), None, Some(3)]),
            // A cast to an integer in between has other truth values.
            by_truth(
                leaves("not the cell", &nodes),
                "number = Gather<axis=0>(mask, t)\nless = Cast<to=6>(number)
                counts = Cast<to=9>(less)",
            ),
        ],
    );
}

pub(super) fn masked_layers() -> Options {
    Options {
        masked_layers: true,
        ..pass("recurrent-loop")
    }
}

/// A host that computes masks gets them as they are, and states that are 0 not at all.
#[test]
fn masked_layers_have_the_masks_of_their_loops() {
    let nodes = [
        START,
        "any = ReduceMax<axes=[2];keepdims=1>(x)\nmask = Cast<to=9>(any)",
        "done = Expand(nought, states)",
        "counted, last, ended, y = Loop<body=@masked>(time, always, start, begin, done)",
    ];
    let what = "RNN, forward, with its mask";
    let row =
        |what, operators| with_bodies(takes(what, operators, &nodes)).options(masked_layers());
    let outputs = |row: Row, outputs| row.with("output = Where(counts, new, repeated)", outputs);
    let by_products = |row: Row| {
        row.with(
            "h2 = Where(counts, new, h)",
            "number = Cast<to=1>(counts)\nno = Sub(whole, number)
            taken = Mul(new, number)\nheld = Mul(no, h)\nh2 = Add(taken, held)",
        )
    };
    check(
        "recurrent-loop",
        &[
            row(what, ANY),
            row(what, ANY).outputs("y last ended"),
            row(what, ANY).options(Options {
                assume: right_padded().assume,
                ..masked_layers()
            }),
            outputs(row(what, ANY), "output = Where(counts, new, nought)"),
            row(what, ANY)
                .with(
                    "mask = Cast<to=9>(any)",
                    "all = Cast<to=9>(any)\nmask = Squeeze(all, two)",
                )
                .with(
                    "counts = Gather<axis=0>(mask, t)",
                    "flags = Gather<axis=0>(mask, t)\ncounts = Unsqueeze(flags, one)",
                ),
            // Both states begin with the same value, whatever it is.
            row(what, ANY)
                .with(
                    "begin = Expand(nought, states)",
                    "begin = Expand(half, states)",
                )
                .with("start, begin, done)", "start, begin, begin)"),
            // The loop reads what was flipped before it.
            row(what, ANY).with(
                "mask = Cast<to=9>(any)",
                "flags = Cast<to=9>(any)
                mask = Slice(flags, minus, first, zero, minus)",
            ),
            by_products(outputs(
                row(what, ANY),
                "shown = Mul(number, new)\nhidden = Mul(repeated, no)\noutput = Add(shown, hidden)",
            )),
            // One way for all.
            by_products(
                with_bodies(leaves(
                    "are chosen by products with its mask, and others",
                    &nodes,
                ))
                .options(masked_layers()),
            ),
            with_bodies(leaves(
                "0 before the first valid step, and its state is not",
                &nodes,
            ))
            .options(masked_layers())
            .with(
                "begin = Expand(nought, states)",
                "begin = Expand(half, states)",
            ),
        ],
    );
}

/// The attributes say what the loop does where its mask is false.
#[test]
fn masked_layers_say_what_they_output_elsewhere() {
    let attributes = |changes: &[(&'static str, &'static str)]| {
        let nodes = [
            START,
            "any = ReduceMax<axes=[2];keepdims=1>(x)\nmask = Cast<to=9>(any)",
            "done = Expand(nought, states)",
            "counted, last, ended, y = Loop<body=@masked>(time, always, start, begin, done)",
        ];
        let mut row = with_bodies(takes("RNN", ANY, &nodes));
        for (from, to) in changes {
            row = row.with(from, to);
        }
        let (model, _) = rewritten(&row.model(), &masked_layers());
        let nodes = &model.graph.as_option().unwrap().node;
        let layer = nodes.iter().find(|it| it.op() == "MaskedRNN").unwrap();
        assert_eq!(layer.domain(), crate::masked::DOMAIN);
        assert_eq!(layer.input(5), None, "a state that is 0");
        ["blends", "repeats"].map(|name| layer.int(name).or(0) == Some(1))
    };
    let zeros = (
        "output = Where(counts, new, repeated)",
        "output = Where(counts, new, nought)",
    );
    let products = [
        (
            "h2 = Where(counts, new, h)",
            "number = Cast<to=1>(counts)\nno = Sub(whole, number)
            taken = Mul(new, number)\nheld = Mul(no, h)\nh2 = Add(taken, held)",
        ),
        (
            "output = Where(counts, new, repeated)",
            "shown = Mul(number, new)\nhidden = Mul(repeated, no)\noutput = Add(shown, hidden)",
        ),
    ];
    assert_eq!(attributes(&[]), [false, true]);
    assert_eq!(attributes(&[zeros]), [false, false]);
    assert_eq!(attributes(&products), [true, true]);
}
