//! SSE2, AVX2 and AVX-512.

use std::arch::x86_64::*;

use super::{LANE, SimdTask, Vector, prefix_mask};

/// The methods that are one instruction, or two, of any set.
macro_rules! plain_methods {
    (
        $load:ident, $store:ident, $stream:ident;
        $($width:pat => $low:ident, $high:ident;)*
    ) => {
        #[inline(always)]
        unsafe fn load(from: *const u8) -> Self {
            // SAFETY: `from` is readable for a vector.
            Self(unsafe { $load(from.cast()) })
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut u8) {
            // SAFETY: `to` is writable for a vector.
            unsafe { $store(to.cast(), self.0) };
        }

        #[inline(always)]
        unsafe fn stream(self, to: *mut u8) {
            // SAFETY: `to` is writable for a vector and a multiple of its bytes.
            unsafe {
                // Sanitizers do not see these stores.
                if cfg!(revseq_sanitize) {
                    assert!(to.addr().is_multiple_of(Self::BYTES));
                    return self.store(to);
                }
                $stream(to.cast(), self.0);
            }
        }

        #[inline(always)]
        unsafe fn zip<const W: usize>(self, other: Self) -> (Self, Self) {
            // SAFETY: the CPU has the instructions of the vector.
            unsafe {
                match W {
                    $($width => (Self($low(self.0, other.0)), Self($high(self.0, other.0))),)*
                }
            }
        }
    };
}

/// An order of the elements of a vector of `N` bytes, for shuffles by an index
/// as wide as the piece that it moves.
#[repr(align(64))]
struct Order<const N: usize>([u8; N]);

impl<const N: usize> Order<N> {
    /// Returns for each byte the number of its element of `element` bytes.
    const fn numbers(element: usize) -> Self {
        let mut numbers = [0; N];
        let mut at = 0;
        while at < N {
            numbers[at] = (at / element) as u8;
            at += 1;
        }
        Self(numbers)
    }

    /// Reversed elements of `element` bytes, moved in pieces of `piece` bytes.
    const fn reversed(element: usize, piece: usize) -> Self {
        let mut order = [0; N];
        let mut at = 0;
        while at < N {
            // Little-endian: the lowest byte of an index is the first.
            let from = N - element - at / element * element + at % element;
            order[at] = (from / piece) as u8;
            at += piece;
        }
        Self(order)
    }
}

/// 16 bytes, by SSE2, which every x86-64 CPU has.
#[derive(Clone, Copy)]
pub(crate) struct V128(__m128i);

impl Vector for V128 {
    const BYTES: usize = LANE;
    type Half = Self;

    plain_methods! {
        _mm_loadu_si128, _mm_storeu_si128, _mm_stream_si128;
        1 => _mm_unpacklo_epi8, _mm_unpackhi_epi8;
        2 => _mm_unpacklo_epi16, _mm_unpackhi_epi16;
        4 => _mm_unpacklo_epi32, _mm_unpackhi_epi32;
        _ => _mm_unpacklo_epi64, _mm_unpackhi_epi64;
    }

    #[inline(always)]
    unsafe fn reversed<const W: usize>(self) -> Self {
        const HALVES: i32 = 0b01_00_11_10;
        const ALL: i32 = 0b00_01_10_11;
        // SAFETY: the CPU has the instructions of the vector.
        Self(unsafe {
            let words = |vector| {
                let halves = _mm_shufflehi_epi16::<ALL>(_mm_shufflelo_epi16::<ALL>(vector));
                _mm_shuffle_epi32::<HALVES>(halves)
            };
            match W {
                1 => {
                    let words = words(self.0);
                    _mm_or_si128(_mm_slli_epi16::<8>(words), _mm_srli_epi16::<8>(words))
                }
                2 => words(self.0),
                4 => _mm_shuffle_epi32::<ALL>(self.0),
                8 => _mm_shuffle_epi32::<HALVES>(self.0),
                _ => self.0,
            }
        })
    }

    #[inline(always)]
    unsafe fn blend(self, other: Self, mask: Self) -> Self {
        // SAFETY: the CPU has the instructions of the vector.
        Self(unsafe {
            let rest = _mm_andnot_si128(mask.0, other.0);
            _mm_or_si128(_mm_and_si128(mask.0, self.0), rest)
        })
    }
}

/// 32 bytes, by AVX2.
#[derive(Clone, Copy)]
pub(crate) struct V256(__m256i);

/// Does a task by these vectors.
///
/// # Safety
/// The CPU has the instructions, and the task's condition holds.
#[target_feature(enable = "avx2,bmi1,bmi2")]
pub(crate) unsafe fn run_avx2<T: SimdTask>(task: T) {
    // SAFETY: the task's condition holds.
    unsafe { task.run::<V256>() }
}

impl Vector for V256 {
    const BYTES: usize = 32;
    type Half = V128;
    const SHUFFLES: bool = true;

    plain_methods! {
        _mm256_loadu_si256, _mm256_storeu_si256, _mm256_stream_si256;
        1 => _mm256_unpacklo_epi8, _mm256_unpackhi_epi8;
        2 => _mm256_unpacklo_epi16, _mm256_unpackhi_epi16;
        4 => _mm256_unpacklo_epi32, _mm256_unpackhi_epi32;
        _ => _mm256_unpacklo_epi64, _mm256_unpackhi_epi64;
    }

    #[inline(always)]
    unsafe fn reversed<const W: usize>(self) -> Self {
        static IN_LANES: [Order<16>; 2] = [Order::reversed(1, 1), Order::reversed(2, 1)];
        static BY_WORDS: [Order<32>; 3] = [
            Order::reversed(4, 4),
            Order::reversed(8, 4),
            Order::reversed(16, 4),
        ];
        // SAFETY: the CPU has the instructions of the vector.
        Self(unsafe {
            let in_lanes = |order: &Order<16>| {
                let order = _mm_load_si128(order.0.as_ptr().cast());
                _mm256_shuffle_epi8(self.0, _mm256_broadcastsi128_si256(order))
            };
            let by_words = |vector: __m256i, order: &Order<32>| {
                let order = _mm256_load_si256(order.0.as_ptr().cast());
                _mm256_permutevar8x32_epi32(vector, order)
            };
            match W {
                1 => by_words(in_lanes(&IN_LANES[0]), &BY_WORDS[2]),
                2 => by_words(in_lanes(&IN_LANES[1]), &BY_WORDS[2]),
                4 => by_words(self.0, &BY_WORDS[0]),
                8 => by_words(self.0, &BY_WORDS[1]),
                _ => by_words(self.0, &BY_WORDS[2]),
            }
        })
    }

    #[inline(always)]
    unsafe fn blend(self, other: Self, mask: Self) -> Self {
        // SAFETY: the CPU has the instructions of the vector.
        Self(unsafe { _mm256_blendv_epi8(other.0, self.0, mask.0) })
    }

    #[inline(always)]
    unsafe fn shuffle(self, order: Self) -> Self {
        // SAFETY: the CPU has the instructions of the vector.
        Self(unsafe {
            let low = _mm256_permute2x128_si256::<0x00>(self.0, self.0);
            let high = _mm256_permute2x128_si256::<0x11>(self.0, self.0);
            // The bit of 16 in an index becomes the highest of its byte, which chooses.
            _mm256_blendv_epi8(
                _mm256_shuffle_epi8(low, order.0),
                _mm256_shuffle_epi8(high, order.0),
                _mm256_slli_epi16::<3>(order.0),
            )
        })
    }

    #[inline(always)]
    unsafe fn load_lanes(from: *const u8, pitch: usize) -> Self {
        // SAFETY: every place is readable for a lane.
        Self(unsafe {
            let low = _mm256_castsi128_si256(_mm_loadu_si128(from.cast()));
            _mm256_inserti128_si256::<1>(low, _mm_loadu_si128(from.add(pitch).cast()))
        })
    }

    #[inline(always)]
    unsafe fn store_lanes(self, to: *mut u8, pitch: usize) {
        // SAFETY: every place is writable for a lane.
        unsafe {
            _mm_storeu_si128(to.cast(), _mm256_castsi256_si128(self.0));
            _mm_storeu_si128(to.add(pitch).cast(), _mm256_extracti128_si256::<1>(self.0));
        }
    }
}

/// 64 bytes, by AVX-512 F, BW, DQ, VL and VBMI.
#[derive(Clone, Copy)]
pub(crate) struct V512(__m512i);

/// Does a task by these vectors.
///
/// # Safety
/// The CPU has the instructions, and the task's condition holds.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,bmi1,bmi2")]
pub(crate) unsafe fn run_avx512<T: SimdTask>(task: T) {
    // SAFETY: the task's condition holds.
    unsafe { task.run::<V512>() }
}

impl Vector for V512 {
    const BYTES: usize = 64;
    type Half = V256;
    const SHUFFLES: bool = true;

    plain_methods! {
        _mm512_loadu_si512, _mm512_storeu_si512, _mm512_stream_si512;
        1 => _mm512_unpacklo_epi8, _mm512_unpackhi_epi8;
        2 => _mm512_unpacklo_epi16, _mm512_unpackhi_epi16;
        4 => _mm512_unpacklo_epi32, _mm512_unpackhi_epi32;
        _ => _mm512_unpacklo_epi64, _mm512_unpackhi_epi64;
    }

    #[inline(always)]
    unsafe fn reversed<const W: usize>(self) -> Self {
        // SAFETY: the CPU has the instructions of the vector.
        Self(unsafe {
            // No shuffle has wider indices.
            let order = load_order(const { &Order::reversed(W, if W < 8 { W } else { 8 }) });
            match W {
                1 => _mm512_permutexvar_epi8(order, self.0),
                2 => _mm512_permutexvar_epi16(order, self.0),
                4 => _mm512_permutexvar_epi32(order, self.0),
                _ => _mm512_permutexvar_epi64(order, self.0),
            }
        })
    }

    #[inline(always)]
    unsafe fn blend(self, other: Self, mask: Self) -> Self {
        /// The second operand where the first has ones, or else the third.
        const SELECT: i32 = 0b1100_1010;
        // SAFETY: the CPU has the instructions of the vector.
        Self(unsafe { _mm512_ternarylogic_epi64::<SELECT>(mask.0, self.0, other.0) })
    }

    const MASKS: bool = true;

    #[inline(always)]
    unsafe fn store_prefix<const W: usize, const MOST: usize>(
        self,
        to: *mut u8,
        at: usize,
        prefix: usize,
    ) {
        // SAFETY: `to` is writable for a vector, and so is the mask readable.
        unsafe {
            let mask = if MOST / W <= 256 {
                // Each byte has the number of its element, which a loop over lines keeps.
                let first = _mm512_set1_epi8((at / W) as i8);
                let numbers = _mm512_add_epi8(load_order(const { &Order::numbers(W) }), first);
                let last = _mm512_set1_epi8((prefix / W - 1) as i8);
                _mm512_cmple_epu8_mask(numbers, last)
            } else {
                _mm512_movepi8_mask(Self::load(prefix_mask(prefix.saturating_sub(at))).0)
            };
            _mm512_mask_storeu_epi8(to.cast(), mask, self.0);
        }
    }

    #[inline(always)]
    unsafe fn shuffle(self, order: Self) -> Self {
        // SAFETY: the CPU has the instructions of the vector.
        Self(unsafe { _mm512_permutexvar_epi8(order.0, self.0) })
    }

    #[inline(always)]
    unsafe fn load_lanes(from: *const u8, pitch: usize) -> Self {
        // SAFETY: every place is readable for a lane.
        Self(unsafe {
            let lane = |index: usize| _mm_loadu_si128(from.add(index * pitch).cast());
            let vector = _mm512_castsi128_si512(lane(0));
            let vector = _mm512_inserti32x4::<1>(vector, lane(1));
            let vector = _mm512_inserti32x4::<2>(vector, lane(2));
            _mm512_inserti32x4::<3>(vector, lane(3))
        })
    }

    #[inline(always)]
    unsafe fn store_lanes(self, to: *mut u8, pitch: usize) {
        // SAFETY: every place is writable for a lane.
        unsafe {
            let store = |index: usize, lane| _mm_storeu_si128(to.add(index * pitch).cast(), lane);
            store(0, _mm512_castsi512_si128(self.0));
            store(1, _mm512_extracti32x4_epi32::<1>(self.0));
            store(2, _mm512_extracti32x4_epi32::<2>(self.0));
            store(3, _mm512_extracti32x4_epi32::<3>(self.0));
        }
    }
}

/// An order, for AVX-512's shuffles.
///
/// # Safety
/// The CPU has AVX-512.
#[inline(always)]
unsafe fn load_order(order: &Order<64>) -> __m512i {
    // SAFETY: an order is a vector, aligned as one.
    unsafe { _mm512_load_si512(order.0.as_ptr().cast()) }
}
