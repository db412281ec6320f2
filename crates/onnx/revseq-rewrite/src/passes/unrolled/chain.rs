//! Cells of which each begins with the states of the one before.

use std::collections::HashMap;

use super::cells::{StepCell, is_alike, is_of_kind};

/// Cells with the same weights, each of whose states are those after the one before.
pub(super) struct Chain<'c, 'a> {
    pub(super) cells: Vec<&'c StepCell<'a>>,
    /// Reason why the last one's output is not the state of one more.
    pub(super) end: Option<String>,
}

/// All chains, longest possible. Where two cells begin with the same states, the first goes on.
pub(super) fn find<'c, 'a>(cells: &'c [StepCell<'a>]) -> Vec<Chain<'c, 'a>> {
    let mut by_output: HashMap<&str, usize> = HashMap::new();
    for (place, cell) in cells.iter().enumerate() {
        by_output.entry(cell.cell.output).or_insert(place);
    }
    let mut next: HashMap<usize, usize> = HashMap::new();
    let mut ends: HashMap<usize, String> = HashMap::new();
    let mut is_first = vec![true; cells.len()];
    for (place, cell) in cells.iter().enumerate() {
        let Some(&before) = by_output.get(cell.cell.hidden) else {
            continue;
        };
        if by_output[cell.cell.output] != place {
            // The same value, read at another step of the same place.
            is_first[place] = false;
            continue;
        }
        match differ(&cells[before], cell) {
            Some(why) => {
                ends.entry(before).or_insert(why);
            }
            None if next.contains_key(&before) => {
                let at = cell.step.at;
                let why = format!("two cells begin with its output, the second at step {at}");
                ends.insert(before, why);
            }
            None => {
                next.insert(before, place);
                is_first[place] = false;
            }
        }
    }
    let firsts = (0..cells.len()).filter(|&place| is_first[place]);
    let chains = firsts.map(|first| {
        let places = std::iter::successors(Some(first), |place| next.get(place).copied());
        let places: Vec<usize> = places.collect();
        let end = places.last().and_then(|last| ends.remove(last));
        Chain {
            cells: places.into_iter().map(|place| &cells[place]).collect(),
            end,
        }
    });
    chains.collect()
}

/// Returns why a cell that begins with another's output does not go on with it; `None` if it does.
fn differ(before: &StepCell<'_>, after: &StepCell<'_>) -> Option<String> {
    let at = after.step.at;
    let (one, other) = (&before.cell, &after.cell);
    let sequence = |cell: &StepCell<'_>| (cell.step.sequence.to_owned(), cell.step.axis);
    if sequence(before) != sequence(after) {
        let value = after.step.sequence;
        Some(format!("its output goes on to a cell that reads {value}"))
    } else if !is_of_kind(one, other) {
        Some(format!("the cell at step {at} is of another kind"))
    } else if !is_alike(one, other) {
        Some(format!("the cell at step {at} has other weights"))
    } else if one.memory.map(|(_, new)| new) != other.memory.map(|(old, _)| old) {
        Some(format!("the cell at step {at} has another cell state"))
    } else {
        None
    }
}
