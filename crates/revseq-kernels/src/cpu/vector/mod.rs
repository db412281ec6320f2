//! Vector registers: all that kernels ask of an instruction set, in one place.

#[cfg(target_arch = "aarch64")]
mod aarch64;
// Tested everywhere, used where there is nothing better.
#[cfg(any(test, not(target_arch = "x86_64")))]
mod generic;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(target_arch = "aarch64")]
pub(super) use aarch64::V128;
#[cfg(not(target_arch = "x86_64"))]
pub(super) use generic::V128 as Portable;
#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
pub(super) use generic::V128;
#[cfg(target_arch = "x86_64")]
pub(super) use x86::{V128 as Portable, V128, V256, V512};

use super::few;

/// The bytes of a lane, inside which [`Vector::zip`] works.
pub(super) const LANE: usize = 16;

/// The bytes of the widest vector.
pub(super) const WIDEST: usize = 64;

/// A vector register of bytes, which are elements of `W` bytes: 1, 2, 4, 8 or 16.
///
/// Every method but [`apart`](Self::apart) is inlined and has to end up in a function with the vector's
/// instructions; that is the safety condition of all of them, beside what each says.
pub(super) trait Vector: Copy {
    /// The bytes of a vector: one or more lanes.
    const BYTES: usize;

    /// A vector of half the bytes, or the same if it is one lane.
    type Half: Vector;

    /// Does a task in a function of its own, compiled with the vector's instructions.
    ///
    /// # Safety
    /// The CPU has them, and the task's condition holds.
    unsafe fn apart<T: Task>(task: T);

    /// Loads from anywhere.
    ///
    /// # Safety
    /// `from` is readable for a vector.
    unsafe fn load(from: *const u8) -> Self;

    /// Stores to anywhere.
    ///
    /// # Safety
    /// `to` is writable for a vector.
    unsafe fn store(self, to: *mut u8);

    /// Stores past the caches, where the target can.
    ///
    /// # Safety
    /// `to` is writable for a vector and a multiple of its bytes.
    unsafe fn stream(self, to: *mut u8);

    /// As [`stream`](Self::stream), lane by lane if that is not a multiple of the
    /// vector's bytes.
    ///
    /// # Safety
    /// `to` is writable for a vector and a multiple of a lane.
    #[inline(always)]
    unsafe fn stream_lanes(self, to: *mut u8) {
        const { assert!(Self::BYTES == LANE, "a vector of one lane") };
        // SAFETY: the caller's.
        unsafe { self.stream(to) };
    }

    /// As [`stream_lanes`](Self::stream_lanes), of the last `bytes` bytes alone, or of
    /// all if those are more than a vector's.
    ///
    /// # Safety
    /// As there; `bytes` are whole lanes, one at least.
    #[inline(always)]
    unsafe fn stream_last_lanes(self, to: *mut u8, _bytes: usize) {
        // SAFETY: the caller's; the last lane of one is all of it.
        unsafe { self.stream_lanes(to) };
    }

    /// The elements in reverse order.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn reversed<const W: usize>(self) -> Self;

    /// The first `bytes` bytes, all if those are more than a vector's; the others
    /// from another vector.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn merged(self, other: Self, bytes: usize) -> Self;

    /// For each byte of the elements from number `first` on, its element's, modulo 256.
    ///
    /// # Safety
    /// See the trait.
    #[inline(always)]
    unsafe fn numbers<const W: usize>(first: usize) -> Self {
        let numbers = const { &Numbers::of(W) };
        // SAFETY: the caller's; no vector is wider than the widest.
        unsafe { Self::load(numbers.0.as_ptr()).plus(first as u8) }
    }

    /// Every byte more by as much, modulo 256.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn plus(self, addend: u8) -> Self;

    /// The bytes whose `numbers` are at most `last`, the others from another vector.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn merged_up_to(self, other: Self, numbers: Self, last: u8) -> Self;

    /// Whether parts of vectors are worth it: [`store_first`](Self::store_first),
    /// [`store_up_to`](Self::store_up_to) and [`prefix_reversed`](Self::prefix_reversed).
    const MASKS: bool = false;

    /// The first `length` elements in reverse order, at most a vector's, the others as
    /// they are.
    ///
    /// # Safety
    /// See the trait.
    #[inline(always)]
    unsafe fn prefix_reversed<const W: usize>(self, length: usize) -> Self {
        let mut bytes = [0_u8; WIDEST];
        // SAFETY: the caller's; no vector is wider than the widest.
        unsafe { self.store(bytes.as_mut_ptr()) };
        let (elements, _) = bytes.as_chunks_mut::<W>();
        elements[..length].reverse();
        // SAFETY: as above.
        unsafe { Self::load(bytes.as_ptr()) }
    }

    /// Stores the first `bytes` bytes, all if those are more than a vector's.
    ///
    /// # Safety
    /// `to` is readable and writable for a vector.
    #[inline(always)]
    unsafe fn store_first(self, to: *mut u8, bytes: usize) {
        // SAFETY: the caller's.
        unsafe { self.merged(Self::load(to), bytes).store(to) };
    }

    /// Stores the bytes whose `numbers` are at most `last`.
    ///
    /// # Safety
    /// `to` is readable and writable for a vector.
    #[inline(always)]
    unsafe fn store_up_to(self, to: *mut u8, numbers: Self, last: u8) {
        // SAFETY: the caller's.
        unsafe { self.merged_up_to(Self::load(to), numbers, last).store(to) };
    }

    /// Whether [`reversed_across`](Self::reversed_across) is worth it.
    const ACROSS: bool = false;

    /// The elements of a vector in reverse order, which starts `start` bytes after
    /// the start of another, at most a vector's, and ends in the one after that.
    ///
    /// # Safety
    /// See the trait.
    #[inline(always)]
    unsafe fn reversed_across<const W: usize>(low: Self, high: Self, start: usize) -> Self {
        let mut bytes = [0_u8; 2 * WIDEST];
        // SAFETY: the caller's; no vector is wider than the widest.
        unsafe {
            low.store(bytes.as_mut_ptr());
            high.store(bytes.as_mut_ptr().add(Self::BYTES));
            Self::load(bytes[start..].as_ptr()).reversed::<W>()
        }
    }

    /// The lane that starts `start` bytes after the start of one and ends in another.
    ///
    /// # Safety
    /// See the trait; `start` is at most a lane.
    #[inline(always)]
    unsafe fn across(one: V128, other: V128, start: usize) -> V128 {
        let mut bytes = [0_u8; 2 * LANE];
        // SAFETY: the caller's; there is room for both lanes.
        unsafe {
            one.store(bytes.as_mut_ptr());
            other.store(bytes.as_mut_ptr().add(LANE));
            V128::load(bytes[start..].as_ptr())
        }
    }

    /// Interleaves elements in each lane: first those of the lanes' lower
    /// halves, then those of the upper ones. `W` is less than a lane.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn zip<const W: usize>(self, other: Self) -> (Self, Self);

    /// Whether [`shuffled`](Self::shuffled) is worth it.
    const SHUFFLES: bool;

    /// The bytes in another order: of each the index is in `order`, less than a vector.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn shuffled(self, order: Self) -> Self {
        let (mut bytes, mut indices) = ([0_u8; WIDEST], [0_u8; WIDEST]);
        // SAFETY: the caller's; no vector is wider than the widest.
        unsafe {
            self.store(bytes.as_mut_ptr());
            order.store(indices.as_mut_ptr());
            let shuffled = indices.map(|index| bytes[usize::from(index) % WIDEST]);
            Self::load(shuffled.as_ptr())
        }
    }

    /// Loads each lane from a place of its own, `pitch` bytes after the one before.
    ///
    /// # Safety
    /// Every place is readable for a lane.
    #[inline(always)]
    unsafe fn load_lanes(from: *const u8, _pitch: usize) -> Self {
        const { assert!(Self::BYTES == LANE, "a vector of one lane") };
        // SAFETY: the caller's.
        unsafe { Self::load(from) }
    }

    /// Stores each lane to a place of its own, `pitch` bytes after the one before.
    ///
    /// # Safety
    /// Every place is writable for a lane.
    #[inline(always)]
    unsafe fn store_lanes(self, to: *mut u8, _pitch: usize) {
        const { assert!(Self::BYTES == LANE, "a vector of one lane") };
        // SAFETY: the caller's.
        unsafe { self.store(to) };
    }

    /// Reverses less than a vector of elements where they lie.
    ///
    /// # Safety
    /// `at` is readable and writable for `bytes`, a number of whole elements
    /// and less than a vector.
    #[inline(always)]
    unsafe fn reverse_part<const W: usize>(at: *mut u8, bytes: usize) {
        let mut part = [0_u8; WIDEST];
        let part = part.as_mut_ptr();
        // SAFETY: the caller's; no vector is wider than the widest.
        unsafe {
            copy_bytes(at, part, bytes);
            Self::load(part).reversed::<W>().store(part);
            copy_bytes(part.add(Self::BYTES - bytes), at, bytes);
        }
    }

    /// Loads the first `bytes` bytes, less than a lane, into a vector of one.
    ///
    /// # Safety
    /// `from` is readable for them, and the vector is one lane.
    #[inline(always)]
    unsafe fn load_few(from: *const u8, bytes: usize) -> Self {
        debug_assert_eq!(Self::BYTES, LANE);
        // SAFETY: the caller's.
        unsafe {
            let few = few::load(from, bytes);
            Self::load(few.to_le_bytes().as_ptr())
        }
    }

    /// Stores the first `bytes` bytes only, less than a lane, of a vector of one.
    ///
    /// # Safety
    /// `to` is writable for them, and the vector is one lane.
    #[inline(always)]
    unsafe fn store_few(self, to: *mut u8, bytes: usize) {
        debug_assert_eq!(Self::BYTES, LANE);
        let mut few = [0_u8; LANE];
        // SAFETY: the caller's.
        unsafe {
            self.store(few.as_mut_ptr());
            few::store(u128::from_le_bytes(few), to, bytes);
        }
    }
}

/// The numbers of the elements of the widest vector, from 0 on.
#[repr(align(64))]
struct Numbers([u8; WIDEST]);

impl Numbers {
    const fn of(element: usize) -> Self {
        let mut numbers = [0; WIDEST];
        let mut at = 0;
        while at < WIDEST {
            numbers[at] = (at / element) as u8;
            at += 1;
        }
        Self(numbers)
    }
}

/// What a function of its own does: its loops then have all registers.
pub(super) trait Task {
    /// Does it. Always inlined, so that it gets the vector's instructions; a
    /// closure in it would not.
    ///
    /// # Safety
    /// See [`Vector`], and what the task says.
    unsafe fn run<V: Vector>(self);
}

/// Calls a function that is not to become part of its caller.
///
/// The compiler heeds `#[inline(never)]` only in functions without target features.
///
/// # Safety
/// As the function's.
#[inline(always)]
unsafe fn call_apart<V: Vector, T: Task>(run: unsafe fn(T), task: T) {
    #[cfg(test)]
    super::forced::reached::<V, T>();
    // SAFETY: the caller's.
    unsafe { std::hint::black_box(run)(task) };
}

/// Does a task by the widest vectors that `bytes` bytes fill, or by single lanes.
///
/// # Safety
/// As [`Vector::apart`].
#[inline(always)]
pub(super) unsafe fn apart<V: Vector, T: Task>(task: T, bytes: usize) {
    // SAFETY: the caller's.
    unsafe {
        if bytes >= V::BYTES {
            V::apart(task);
        } else if bytes >= V::Half::BYTES {
            V::Half::apart(task);
        } else {
            V128::apart(task);
        }
    }
}

/// Transposes `R` rows of `R` elements in each lane: afterwards the vector of
/// index `i` holds the elements that had index `i` in their lanes.
///
/// # Safety
/// See [`Vector`]; `R` elements of `W` bytes are a lane.
#[inline(always)]
pub(super) unsafe fn transpose<V: Vector, const W: usize, const R: usize>(
    mut rows: [V; R],
) -> [V; R] {
    // Interleaving the first half of the rows with the second moves one bit of
    // the row's index into the element's index.
    for _ in 0..R.ilog2() {
        let from = rows;
        for pair in 0..R / 2 {
            // SAFETY: the caller's.
            (rows[2 * pair], rows[2 * pair + 1]) =
                unsafe { from[pair].zip::<W>(from[pair + R / 2]) };
        }
    }
    rows
}

/// Copies bytes between places that do not overlap; short ones without a call.
///
/// # Safety
/// `from` is readable and `to` writable for `bytes`, and they do not overlap.
#[inline(always)]
pub(super) unsafe fn copy_bytes(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the caller's.
    unsafe {
        match bytes {
            0..LANE => copy_few(from, to, bytes),
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
pub(super) unsafe fn copy_few(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the caller's.
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

/// Orders streaming stores before what follows: other threads read the output.
#[inline(always)]
pub(super) fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of x86-64.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

/// Defines a function that asks for a cache line, by the hint of each target.
macro_rules! prefetch {
    ($(#[$meta:meta])* $visibility:vis $name:ident, $x86_64:ident, $aarch64:literal) => {
        $(#[$meta])*
        #[inline(always)]
        $visibility fn $name(from: *const u8) {
            #[cfg(target_arch = "x86_64")]
            {
                use std::arch::x86_64::{$x86_64, _mm_prefetch};
                // SAFETY: SSE is part of x86-64, and a prefetch of any address has no effect but speed.
                unsafe { _mm_prefetch::<$x86_64>(from.cast()) };
            }
            #[cfg(target_arch = "aarch64")]
            // SAFETY: as there; Rust's own name for this instruction is not stable.
            unsafe {
                std::arch::asm!(
                    concat!("prfm ", $aarch64, ", [{}]"),
                    in(reg) from,
                    options(nostack, preserves_flags, readonly)
                );
            }
            #[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
            let _ = from;
        }
    };
}

prefetch! {
    /// Asks for the cache line of an address that is read soon.
    pub(super) prefetch, _MM_HINT_T0, "pldl1keep"
}

prefetch! {
    /// Asks for a cache line into the second level.
    prefetch_second_level, _MM_HINT_T1, "pldl2keep"
}

/// Asks for the cache line of an address that is read later, into the second level.
///
/// Twice: a processor that is busy passes over some of what it is asked for.
/// Once and twice, Zen 4, past the caches: rows of 1 KiB 1.20 and 1.13 times a
/// copy, lines of 16 KiB 1.29 and 1.12, long runs of rows 1.24 and 1.07, columns
/// of bytes 4.3 and 3.7.
#[inline(always)]
pub(super) fn prefetch_far(from: *const u8) {
    prefetch_second_level(from);
    prefetch_second_level(from);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::level::Level;

    /// What the methods of a vector do to bytes, on the instructions that it needs.
    unsafe fn check<V: Vector, const W: usize, const R: usize>() {
        let bytes: Vec<u8> = (0..R * V::BYTES)
            .map(|index| (index * 37 % 251) as u8)
            .collect();
        let elements: Vec<&[u8]> = bytes[..V::BYTES].chunks(W).collect();
        let mut out = vec![0; V::BYTES];
        // SAFETY: the buffers hold a vector; the caller has the instructions.
        unsafe {
            let vector = V::load(bytes.as_ptr());
            vector.reversed::<W>().store(out.as_mut_ptr());
            assert_eq!(
                out,
                elements.iter().rev().copied().collect::<Vec<_>>().concat()
            );

            let other: Vec<u8> = bytes[..V::BYTES].iter().map(|byte| !byte).collect();
            for first in 0..2 * V::BYTES {
                let merged = vector.merged(V::load(other.as_ptr()), first);
                merged.store(out.as_mut_ptr());
                let (kept, rest) = (&bytes[..first.min(V::BYTES)], first.min(V::BYTES));
                assert_eq!(out, [kept, &other[rest..]].concat(), "{first}");

                out.copy_from_slice(&other);
                vector.store_first(out.as_mut_ptr(), first);
                assert_eq!(out, [kept, &other[rest..]].concat(), "{first}");
            }

            for first in (0..=256 - V::BYTES / W).step_by(5) {
                let numbers = V::numbers::<W>(first);
                for last in 0..=u8::MAX {
                    let merged = vector.merged_up_to(V::load(other.as_ptr()), numbers, last);
                    merged.store(out.as_mut_ptr());
                    let elements = (usize::from(last) + 1).saturating_sub(first);
                    let (kept, rest) = bytes[..V::BYTES].split_at((elements * W).min(V::BYTES));
                    let rest = &other[V::BYTES - rest.len()..];
                    assert_eq!(out, [kept, rest].concat(), "{last} from {first} on");

                    out.copy_from_slice(&other);
                    vector.store_up_to(out.as_mut_ptr(), numbers, last);
                    assert_eq!(out, [kept, rest].concat(), "{last} from {first} on");
                }
            }

            for length in 0..=V::BYTES / W {
                let (prefix, rest) = elements.split_at(length);
                let expected: Vec<&[u8]> = prefix.iter().rev().chain(rest).copied().collect();
                vector.prefix_reversed::<W>(length).store(out.as_mut_ptr());
                assert_eq!(out, expected.concat(), "{length}");
            }

            let both = [&bytes[..V::BYTES], &other].concat();
            for start in 0..=V::BYTES {
                let high = V::load(other.as_ptr());
                V::reversed_across::<W>(vector, high, start).store(out.as_mut_ptr());
                let elements = both[start..start + V::BYTES].chunks(W).rev();
                assert_eq!(out, elements.collect::<Vec<_>>().concat(), "{start}");
            }

            for start in 0..=LANE {
                let (one, other) = (V128::load(bytes.as_ptr()), V128::load(other.as_ptr()));
                let mut lane = [0; LANE];
                V::across(one, other, start).store(lane.as_mut_ptr());
                let both = [&bytes[..LANE], &both[V::BYTES..]].concat();
                assert_eq!(lane[..], both[start..start + LANE], "{start}");
            }

            let order: Vec<u8> = (0..V::BYTES).map(|at| (at * 7 % V::BYTES) as u8).collect();
            vector
                .shuffled(V::load(order.as_ptr()))
                .store(out.as_mut_ptr());
            for (&found, &index) in out.iter().zip(&order) {
                assert_eq!(found, bytes[usize::from(index)]);
            }

            for few in (0..LANE).filter(|_| V::BYTES == LANE) {
                out.fill(0xee);
                V::load_few(bytes.as_ptr(), few).store_few(out.as_mut_ptr(), few);
                assert_eq!(out[..few], bytes[..few]);
                assert!(out[few..].iter().all(|&byte| byte == 0xee));
            }

            for part in (0..V::BYTES).step_by(W) {
                let expected = elements[..part / W].iter().rev().copied();
                let expected = expected.collect::<Vec<_>>().concat();
                out.copy_from_slice(&bytes[..V::BYTES]);
                V::reverse_part::<W>(out.as_mut_ptr(), part);
                assert_eq!(out[..part], expected);
                assert_eq!(out[part..], bytes[part..V::BYTES]);
            }

            let pitch = LANE + 3;
            let mut spread = vec![0; V::BYTES / LANE * pitch];
            vector.store_lanes(spread.as_mut_ptr(), pitch);
            for (lane, place) in bytes[..V::BYTES].chunks(LANE).zip(spread.chunks(pitch)) {
                assert_eq!(lane, &place[..LANE]);
            }
            V::load_lanes(spread.as_ptr(), pitch).store(out.as_mut_ptr());
            assert_eq!(out, bytes[..V::BYTES]);

            let mut rows = [vector; R];
            for (row, from) in rows.iter_mut().zip(bytes.chunks(V::BYTES)) {
                *row = V::load(from.as_ptr());
            }
            for (column, vector) in transpose::<V, W, R>(rows).into_iter().enumerate() {
                vector.store(out.as_mut_ptr());
                for (at, found) in out.chunks(W).enumerate() {
                    let (lane, row) = (at / R, at % R);
                    let from = row * V::BYTES + lane * LANE + column * W;
                    assert_eq!(found, &bytes[from..from + W]);
                }
            }
        }
    }

    /// # Safety
    /// See [`Vector`].
    unsafe fn check_widths<V: Vector>() {
        // SAFETY: the caller's.
        unsafe {
            check::<V, 1, 16>();
            check::<V, 2, 8>();
            check::<V, 4, 4>();
            check::<V, 8, 2>();
            check::<V, 16, 1>();
        }
    }

    #[test]
    fn vectors_do_what_they_say() {
        // SAFETY: every level is run only where the CPU has it.
        unsafe {
            check_widths::<V128>();
            check_widths::<Portable>();
            check_widths::<super::generic::V128>();
            #[cfg(target_arch = "x86_64")]
            {
                if Level::Avx2.is_supported() {
                    check_widths::<V256>();
                }
                if Level::Avx512.is_supported() {
                    check_widths::<V512>();
                }
            }
        }
        assert!(Level::Portable.is_supported());
    }
}
