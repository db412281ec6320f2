//! Long runs of packed elements, in pieces that are asked for a while before they are copied.

use std::marker::PhantomData;

use crate::cpu::choice::processor;
use crate::cpu::memory::LINE;
use crate::cpu::memory::direction::{Direction, Forward};
use crate::cpu::memory::prefetch::{Ahead, FAR, NEAR, Soon};
use crate::cpu::memory::store_policy::Sink;
use crate::cpu::simd::{Task, Vector};

/// What is copied at once, in bytes: little enough that what is near lies in the first
/// level of the cache. What is left of a run goes with it if that is half as much.
///
/// Rows of 1028 bytes, 8 and 64 MiB, Zen 4, of the time with the rest by itself: 0.93.
pub(crate) const PIECE: usize = 1 << 10;

/// How much in sequence is asked for, where the processor foresees the rest, in bytes.
///
/// Runs in random order, 64 MiB, Zen 4, asked for and not: of 16 KiB 1.14 and
/// 1.6 times a copy, of 64 KiB 1.15 and 1.2, of 256 KiB 1.16 and 1.09, of 1 MiB
/// 1.12 and 1.03.
const UNFORESEEN: usize = 64 << 10;

/// How much in sequence is copied at once, where the processor foresees it, but for
/// what is [`FAR`] from its end, in bytes.
///
/// A copy of 64 MiB, Zen 4, of the time in pieces 0.85; but all of 128 KiB and then
/// another run 1.2.
const FORESEEN: usize = 256 << 10;

/// Copies runs to a sink, in `Forward` direction or in `D`, and asks for each a
/// while before.
///
/// Unless some are `LONG`, of more than [`PIECE`] bytes, all have the same size
/// and none is cut: to find out would take a tenth of what a row of 512 bytes takes.
pub(crate) struct Pieces<D, const LONG: bool> {
    queue: Ahead<Piece>,
    /// Where the run that was added last goes on in the input, and how much was
    /// added in sequence.
    end: *const u8,
    sequence: usize,
    /// How much in sequence is asked for.
    unforeseen: usize,
    direction: PhantomData<D>,
}

/// A run, or a part of a long one.
#[derive(Clone, Copy)]
struct Piece {
    from: *const u8,
    /// Its offset in the output.
    to: usize,
    /// At most [`PIECE`] and a half, or what is not cut.
    bytes: u32,
    turned: bool,
    /// Whether to ask for it.
    asked: bool,
}

impl<D: Direction, const LONG: bool> Pieces<D, LONG> {
    /// For runs of `bytes` bytes, or pieces of them.
    pub(crate) fn new<S: Sink>(bytes: usize) -> Self {
        Self {
            queue: Ahead::new(bytes.min(PIECE), NEAR, FAR),
            end: std::ptr::null(),
            sequence: 0,
            unforeseen: match S::ASKS && processor::foresees() {
                true => UNFORESEEN,
                false => usize::MAX,
            },
            direction: PhantomData,
        }
    }

    /// Copies a run to an offset of the output, now or later; in `D` if `turned`.
    ///
    /// # Safety
    /// Until [`finish`](Self::finish) `from` is readable for `bytes`, which are
    /// whole elements, and the sink's output has room for them.
    #[inline(always)]
    pub(crate) unsafe fn copy<V: Vector, S: Sink>(
        &mut self,
        sink: &mut S,
        turned: bool,
        from: *const u8,
        to: usize,
        bytes: usize,
    ) {
        if bytes == 0 {
            return;
        }
        if !S::ASKS {
            // SAFETY: the caller's.
            unsafe { copy_now::<V, S, D>(sink, turned, (from, to, bytes), None) };
            return;
        }
        if !LONG {
            let run = Piece {
                from,
                to,
                bytes: bytes as u32,
                turned,
                asked: true,
            };
            // SAFETY: the caller's.
            unsafe { self.push::<V, S>(sink, run) };
            return;
        }
        let end = from.wrapping_add(bytes);
        let (start, end) = match turned {
            true => (end, from),
            false => (from, end),
        };
        if self.end != start {
            self.sequence = 0;
        }
        self.end = end;
        // Pieces end where lines of the output do, of which none is then written in
        // parts.
        let whole = |at: usize, part: usize| {
            let before = (to + at + part) % LINE;
            part - before + before % D::ELEMENT
        };
        let start = |at: usize, part: usize| match turned {
            true => D::part(at, part, bytes),
            false => at,
        };
        let mut at = 0;
        while at < bytes {
            let mut part = bytes - at;
            if self.sequence >= self.unforeseen && part >= FORESEEN {
                part = whole(at, part - FAR);
                let run = (from.wrapping_add(start(at, part)), to + at, part);
                // SAFETY: the caller's; what was added before comes before it.
                unsafe {
                    self.finish::<V, S>(sink);
                    copy_now::<V, S, D>(sink, turned, run, None);
                }
                at += part;
                continue;
            }
            if part > PIECE + PIECE / 2 {
                part = whole(at, PIECE);
            }
            let piece = Piece {
                from: from.wrapping_add(start(at, part)),
                to: to + at,
                bytes: part as u32,
                turned,
                asked: self.sequence < self.unforeseen,
            };
            at += part;
            self.sequence += part;
            // SAFETY: the caller's.
            unsafe { self.push::<V, S>(sink, piece) };
        }
    }

    /// Adds a piece, and copies the oldest if there are enough.
    ///
    /// # Safety
    /// As for [`copy`](Self::copy).
    #[inline(always)]
    unsafe fn push<V: Vector, S: Sink>(&mut self, sink: &mut S, piece: Piece) {
        let Some((oldest, near)) = self.queue.push(piece) else {
            return;
        };
        // SAFETY: the caller's.
        unsafe {
            if LONG {
                oldest.copy::<V, S, D>(sink, Some((near, piece)));
            } else {
                let soon = Soon {
                    near: near.from,
                    far: piece.from,
                };
                let run = (oldest.from, oldest.to, piece.bytes as usize);
                copy_now::<V, S, D>(sink, oldest.turned, run, Some(soon));
            }
        }
    }

    /// Copies what has not been copied yet, in a function of its own: what
    /// copies a piece is large, and a part of [`copy`](Self::copy) already.
    ///
    /// # Safety
    /// As for [`copy`](Self::copy).
    #[inline(always)]
    pub(crate) unsafe fn finish<V: Vector, S: Sink>(&mut self, sink: &mut S) {
        if S::ASKS {
            // SAFETY: the caller's.
            unsafe { V::apart(Rest { pieces: self, sink }) };
        }
    }
}

/// What is left of pieces.
struct Rest<'a, D, S, const LONG: bool> {
    pieces: &'a mut Pieces<D, LONG>,
    sink: &'a mut S,
}

impl<D: Direction, S: Sink, const LONG: bool> Task for Rest<'_, D, S, LONG> {
    /// # Safety
    /// As [`Pieces::finish`].
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        while let Some(piece) = self.pieces.queue.pop() {
            // SAFETY: the caller's.
            unsafe { piece.copy::<V, S, D>(self.sink, None) };
        }
    }
}

impl Piece {
    /// Copies it, and asks for those of the pieces that are copied soon that it helps.
    ///
    /// # Safety
    /// As for [`Pieces::copy`].
    #[inline(always)]
    unsafe fn copy<V: Vector, S: Sink, D: Direction>(
        self,
        sink: &mut S,
        soon: Option<(Self, Self)>,
    ) {
        let bytes = self.bytes as usize;
        let mut longest = 0;
        let soon = match soon {
            Some((near, far)) if near.asked || far.asked => {
                longest = near.bytes.max(far.bytes) as usize;
                // To ask for what is read at once changes nothing.
                let place = |piece: Self| if piece.asked { piece.from } else { self.from };
                Some(Soon {
                    near: place(near),
                    far: place(far),
                })
            }
            _ => None,
        };
        // SAFETY: the caller's.
        unsafe { copy_now::<V, S, D>(sink, self.turned, (self.from, self.to, bytes), soon) };
        if let Some(soon) = soon {
            // Of those that are longer the rest is asked for, too.
            for at in (bytes..longest).step_by(LINE) {
                S::ask(soon.after(at), self.from);
            }
        }
    }
}

/// Copies a run from a place to an offset of the output, in `D` if `turned`.
///
/// # Safety
/// As for [`Pieces::copy`].
#[inline(always)]
unsafe fn copy_now<V: Vector, S: Sink, D: Direction>(
    sink: &mut S,
    turned: bool,
    (from, to, bytes): (*const u8, usize, usize),
    soon: Option<Soon>,
) {
    // SAFETY: the caller's.
    unsafe {
        sink.seek(to);
        match D::REVERSES && turned {
            true => sink.copy::<D>(from, bytes, soon),
            false => sink.copy::<Forward>(from, bytes, soon),
        }
    }
}
