//! Masks of numbers in loops that are recurrent layers.

use super::super::{pass, rewritten};
use super::recurrent_loop::{MASK, MASKED, START, with_bodies};
use super::{changed, check};
use crate::Options;

/// A pass may enable an earlier one: without reversals that undo each other, the loop is a layer.
#[test]
fn passes_run_until_none_changes_anything() {
    let what = "RNN, forward, with the steps that its mask counts put first";
    let flips = "back = Slice(x, minus, first, zero, minus)
        forth = Slice(back, minus, first, zero, minus)";
    let rows = changed(
        &with_bodies(&[START, flips, MASK, MASKED])
            .with("Gather<axis=0>(x, t)", "Gather<axis=0>(forth, t)"),
        &format!(
            "[options fast] => any | {what}
             => ! only one is flipped"
        ),
    );
    check("recurrent-loop", &rows);
}

/// Numbers are masks if they are provably 0 or 1, or if the loop takes their truth values.
#[test]
fn recurrent_loop_with_a_mask_of_numbers() {
    let ordered = "RNN, forward, with the steps that its mask counts put first";
    let mixing = "its mask mask is not provably 0 or 1 at each step";
    let mask = "any = ReduceMax<axes=[2];keepdims=1>(x)
        is_any = Cast<to=9>(any)
        mask = Cast<to=1>(is_any)";
    let numbers = with_bodies(&[START, mask, MASKED]);
    let state = "h2 = Where(counts, new, h)";
    let by_products = "no = Sub(whole, counts)
        taken = Mul(new, counts)
        held = Mul(no, h)
        h2 = Add(taken, held)";
    let output = "output = Where(counts, new, repeated)";
    let product = "shown = Mul(counts, new)
        hidden = Mul(repeated, no)
        output = Add(shown, hidden)";
    let mut rows = changed(
        &numbers.clone().with(state, by_products).with(output, product),
        &format!("=> any | {ordered}
             [opset 11] => any | {ordered}
             # The forms of numbers that are 0 or 1.
             mask = Cast<to=1>(is_any) -> mask = Cast<to=7>(is_any)
             counts = Gather<axis=0>(mask, t) -> number = Gather<axis=0>(mask, t); counts = Cast<to=1>(number)
             => any | {ordered}
             mask = Cast<to=1>(is_any) -> mask = Cast<to=11>(is_any)
             counts = Gather<axis=0>(mask, t) -> number = Gather<axis=0>(mask, t); counts = Cast<to=1>(number)
             => any | {ordered}
             mask = Cast<to=1>(is_any) -> small = Cast<to=6>(is_any); mask = Cast<to=10>(small)
             counts = Gather<axis=0>(mask, t) -> number = Gather<axis=0>(mask, t); counts = Cast<to=1>(number)
             => any | {ordered}
             mask = Cast<to=1>(is_any) -> is_none = Equal(any, nought); is_some = Not(is_none); mask = Cast<to=1>(is_some)
             => any | {ordered}
             mask = Cast<to=1>(is_any) -> is_more = Greater(any, half); mask = Cast<to=1>(is_more) => any | {ordered}
             mask = Cast<to=1>(is_any) -> is_more = Greater(any, half); both = And(is_more, is_any); mask = Cast<to=1>(both)
             => any | {ordered}
             mask = Cast<to=1>(is_any) -> one_mask = Cast<to=1>(is_any); is_more = Greater(any, half); other = Cast<to=1>(is_more); mask = Mul(one_mask, other)
             => any | {ordered}
             mask = Cast<to=1>(is_any) -> padding = Cast<to=1>(is_any); mask = Sub(whole, padding) => any | {ordered}
             mask = Cast<to=1>(is_any) -> mask = Where(is_any, whole, nought) => any | {ordered}
             mask = Cast<to=1>(is_any) -> numbers = Cast<to=1>(is_any); turned = Transpose<perm=[1,0,2]>(numbers); mask = Transpose<perm=[1,0,2]>(turned)
             => any | {ordered}
             mask = Cast<to=1>(is_any) -> numbers = Cast<to=1>(is_any); flat = Squeeze(numbers, two); mask = Unsqueeze(flat, two)
             => any | {ordered}
             mask = Cast<to=1>(is_any) -> numbers = Cast<to=1>(is_any); mask = Concat<axis=0>(numbers, numbers)
             => any | {ordered}
             mask = Cast<to=1>(is_any) -> wide = Shape(any); mask = ConstantOfShape(wide) => any | {ordered}
             # A constant of ones is no mask.
             mask = Cast<to=1>(is_any) -> wide = Shape(any); mask = Expand(whole, wide) => any | RNN, forward
             # Their number alone.
             [options fast right-padded] => any | RNN, forward, with the mask as lengths
             # Others.
             mask = Cast<to=1>(is_any) -> mask = Identity(any) => ! {mixing}
             [options fast right-padded] mask = Cast<to=1>(is_any) -> mask = Identity(any) => ! {mixing}
             mask = Cast<to=1>(is_any) -> mask = Cast<to=7>(any)
             counts = Gather<axis=0>(mask, t) -> number = Gather<axis=0>(mask, t); counts = Cast<to=1>(number)
             => ! {mixing}
             mask = Cast<to=1>(is_any) -> mask = Cast<to=11>(any)
             counts = Gather<axis=0>(mask, t) -> number = Gather<axis=0>(mask, t); counts = Cast<to=1>(number)
             => ! {mixing}
             mask = Cast<to=1>(is_any) -> mask = Where(is_any, whole, half) => ! {mixing}
             mask = Cast<to=1>(is_any) -> numbers = Cast<to=1>(is_any); mask = Mul(numbers, half) => ! {mixing}
             mask = Cast<to=1>(is_any) -> numbers = Cast<to=1>(is_any); mask = Add(numbers, numbers) => ! {mixing}
             mask = Cast<to=1>(is_any) -> numbers = Cast<to=1>(is_any); mask = Sub(half, numbers) => ! {mixing}
             mask = Cast<to=1>(is_any) -> wide = Shape(any); mask = Expand(two_times, wide) => ! {mixing}
             [sizes 1 ? 3] mask = Cast<to=1>(is_any) -> mask = Identity(any) => ! {mixing}"),
    );
    rows.extend(changed(
        &numbers,
        &format!("# The loop takes truth values of any numbers.
             counts = Gather<axis=0>(mask, t) -> number = Gather<axis=0>(mask, t); counts = Cast<to=9>(number)
             mask = Cast<to=1>(is_any) -> mask = Cast<to=7>(any) => any | {ordered}
             # A cast to an integer in between has other truth values.
             counts = Gather<axis=0>(mask, t) -> number = Gather<axis=0>(mask, t); less = Cast<to=6>(number); counts = Cast<to=9>(less)
             mask = Cast<to=1>(is_any) -> mask = Cast<to=7>(any) => ! not the cell"),
    ));
    check("recurrent-loop", &rows);
}

fn masked_layers() -> Options {
    Options {
        masked_layers: true,
        ..pass("recurrent-loop")
    }
}

/// A host that computes masks gets them as they are, and states that are 0 not at all.
#[test]
fn masked_layers_have_the_masks_of_their_loops() {
    let what = "RNN, forward, with its mask";
    let rows = changed(
        &with_bodies(&[START, MASK, MASKED]),
        &format!("[options pass:recurrent-loop masked] => any | {what}
             [options pass:recurrent-loop masked] [outputs y last ended] => any | {what}
             [options pass:recurrent-loop right-padded masked] => any | {what}
             [options pass:recurrent-loop masked] output = Where(counts, new, repeated) -> output = Where(counts, new, nought)
             => any | {what}
             [options pass:recurrent-loop masked] mask = Cast<to=9>(any) -> all = Cast<to=9>(any); mask = Squeeze(all, two)
             counts = Gather<axis=0>(mask, t) -> flags = Gather<axis=0>(mask, t); counts = Unsqueeze(flags, one)
             => any | {what}
             # Both states begin with the same value, whatever it is.
             [options pass:recurrent-loop masked] begin = Expand(nought, states) -> begin = Expand(half, states)
             start, begin, done) -> start, begin, begin) => any | {what}
             # The loop reads what was flipped before it.
             [options pass:recurrent-loop masked] mask = Cast<to=9>(any) -> flags = Cast<to=9>(any); mask = Slice(flags, minus, first, zero, minus)
             => any | {what}
             [options pass:recurrent-loop masked] output = Where(counts, new, repeated) -> shown = Mul(number, new); hidden = Mul(repeated, no); output = Add(shown, hidden)
             h2 = Where(counts, new, h) -> number = Cast<to=1>(counts); no = Sub(whole, number); taken = Mul(new, number); held = Mul(no, h); h2 = Add(taken, held)
             => any | {what}
             # One way for all.
             [options pass:recurrent-loop masked] h2 = Where(counts, new, h) -> number = Cast<to=1>(counts); no = Sub(whole, number); taken = Mul(new, number); held = Mul(no, h); h2 = Add(taken, held)
             => ! are chosen by products with its mask, and others
             [options pass:recurrent-loop masked] begin = Expand(nought, states) -> begin = Expand(half, states)
             => ! 0 before the first valid step, and its state is not"),
    );
    check("recurrent-loop", &rows);
}

/// The attributes say what the loop does where its mask is false.
#[test]
fn masked_layers_say_what_they_output_elsewhere() {
    let attributes = |changes: &[(&'static str, &'static str)]| {
        let nodes = [START, MASK, MASKED];
        let mut row = with_bodies(&nodes);
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
