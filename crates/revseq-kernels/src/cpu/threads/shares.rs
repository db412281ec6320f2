//! Pieces that rayon's threads share.

use super::claims::Claims;

/// Runs all pieces on the calling thread and those of a pool.
pub(crate) fn run<'scope>(
    scope: &rayon::Scope<'scope>,
    claims: &'scope Claims,
    threads: usize,
    piece: &'scope (impl Fn(usize) + Sync),
) {
    // The calling thread works, too, and does not wait for another to wake.
    let sharers = threads.min(claims.len());
    for sharer in 1..sharers {
        scope.spawn(move |_| take(claims, sharers, sharer, piece));
    }
    take(claims, sharers, 0, piece);
}

/// Works on what nobody has come to, from the share of `sharer` on.
///
/// The pieces make as many shares of neighbours as there are threads. A thread
/// begins with its own share, the same in every run, whose bytes it may have in
/// its caches, and shares one border with the next: lines that are written in
/// turns on two sides of a border are slow between caches that are far apart. [M42]
fn take(claims: &Claims, sharers: usize, sharer: usize, piece: impl Fn(usize)) {
    let pieces = claims.len();
    let first = pieces * sharer / sharers;
    for index in (first..pieces).chain(0..first) {
        claims.run(index, &piece);
    }
}

#[cfg(test)]
mod tests;
