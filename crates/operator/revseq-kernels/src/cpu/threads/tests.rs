//! The pieces that each thread takes.

use super::*;
use std::sync::Mutex;

/// The pieces that each of the sharers takes, if they arrive in this order.
fn taken(pieces: usize, sharers: usize, order: &[usize], most: usize) -> Vec<Vec<usize>> {
    let claims = Claims::new(pieces);
    let turn = |&sharer: &usize| {
        let of_turn = Mutex::new(Vec::new());
        take(&claims, sharers, sharer, |piece| {
            of_turn.lock().unwrap().push(piece);
            // Others come while this one works.
            if of_turn.lock().unwrap().len() == most {
                for other in order.iter().filter(|&&other| other != sharer) {
                    take(&claims, sharers, *other, |piece| {
                        of_turn.lock().unwrap().push(piece)
                    });
                }
            }
        });
        of_turn.into_inner().unwrap()
    };
    order.iter().map(turn).collect()
}

#[test]
fn a_thread_begins_with_its_own_share_and_takes_what_others_leave() {
    assert_eq!(taken(6, 2, &[1, 0], 6), [vec![3, 4, 5, 0, 1, 2], vec![]]);
    assert_eq!(taken(5, 3, &[2], 5), [[3, 4, 0, 1, 2]]);
    assert_eq!(taken(6, 2, &[0, 1], 2), [vec![0, 1, 3, 4, 5, 2], vec![]]);
}

#[test]
fn every_piece_is_taken_once() {
    for pieces in 1..70 {
        for sharers in 1..=pieces.min(9) {
            let order: Vec<_> = (0..sharers).rev().collect();
            for most in [1, 3, pieces] {
                let mut all = taken(pieces, sharers, &order, most).concat();
                all.sort_unstable();
                assert_eq!(all, (0..pieces).collect::<Vec<_>>());
            }
        }
    }
}
