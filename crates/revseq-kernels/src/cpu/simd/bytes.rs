//! Copies of a few bytes, without a call.

use super::LANE;

/// Copies bytes between places that do not overlap; short ones without a call.
///
/// # Safety
/// `from` is readable and `to` writable for `bytes`, and they do not overlap.
#[inline(always)]
pub(crate) unsafe fn copy_bytes(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: both are valid for `bytes`, which are at least a chunk of each branch.
    unsafe {
        match bytes {
            0..LANE => copy_partial(from, to, bytes),
            LANE..32 => copy_chunks::<LANE>(from, to, bytes),
            32..=256 => copy_chunks::<32>(from, to, bytes),
            _ => std::ptr::copy_nonoverlapping(from, to, bytes),
        }
    }
}

/// As [`copy_bytes`], of less than a lane.
///
/// # Safety
/// As there.
#[inline(always)]
pub(crate) unsafe fn copy_partial(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: both are valid for `bytes`, which are at least a chunk of each branch.
    unsafe {
        match bytes {
            8.. => copy_chunks::<8>(from, to, bytes),
            4..8 => copy_chunks::<4>(from, to, bytes),
            2..4 => copy_chunks::<2>(from, to, bytes),
            1 => *to = *from,
            0 => {}
        }
    }
}

/// Copies chunks of `N` bytes, the last one over the end of the one before it.
///
/// # Safety
/// As [`copy_bytes`]; `bytes` is at least `N`.
#[inline(always)]
unsafe fn copy_chunks<const N: usize>(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: every chunk ends within `bytes`.
    unsafe {
        let last = bytes - N;
        let mut at = 0;
        while at < last {
            *to.add(at).cast::<[u8; N]>() = *from.add(at).cast::<[u8; N]>();
            at += N;
        }
        *to.add(last).cast::<[u8; N]>() = *from.add(last).cast::<[u8; N]>();
    }
}
