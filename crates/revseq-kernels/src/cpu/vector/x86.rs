//! SSE2, AVX2 and AVX-512.

use std::arch::x86_64::*;

use super::{LANE, Task, Vector, call_apart};

/// One lane: SSE2, which every x86-64 CPU has.
#[derive(Clone, Copy)]
pub(in crate::cpu) struct V128(__m128i);

/// Two lanes: AVX2.
#[derive(Clone, Copy)]
pub(in crate::cpu) struct V256(__m256i);

/// Four lanes: AVX-512 F, BW, DQ, VL and VBMI.
#[derive(Clone, Copy)]
pub(in crate::cpu) struct V512(__m512i);

/// The methods that are one instruction, or two, of any set.
macro_rules! plain_methods {
    (
        $load:ident, $store:ident, $stream:ident;
        $($width:pat => $low:ident, $high:ident;)*
    ) => {
        #[inline(always)]
        unsafe fn load(from: *const u8) -> Self {
            // SAFETY: the caller's.
            Self(unsafe { $load(from.cast()) })
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut u8) {
            // SAFETY: the caller's.
            unsafe { $store(to.cast(), self.0) };
        }

        #[inline(always)]
        unsafe fn stream(self, to: *mut u8) {
            // SAFETY: the caller's.
            unsafe {
                // Sanitizers do not see what these instructions store.
                if cfg!(revseq_sanitize) {
                    assert!(to.addr().is_multiple_of(Self::BYTES));
                    return self.store(to);
                }
                $stream(to.cast(), self.0);
            }
        }

        #[inline(always)]
        unsafe fn zip<const W: usize>(self, other: Self) -> (Self, Self) {
            // SAFETY: the caller's.
            unsafe {
                match W {
                    $($width => (Self($low(self.0, other.0)), Self($high(self.0, other.0))),)*
                }
            }
        }
    };
}

/// The methods of a vector of several lanes, by what takes its lower and its upper half.
macro_rules! stream_lanes_by_halves {
    ($Half:ident, $low:expr, $high:expr) => {
        #[inline(always)]
        unsafe fn stream_lanes(self, to: *mut u8) {
            // SAFETY: the caller's.
            unsafe {
                if to.addr().is_multiple_of(Self::BYTES) {
                    self.stream(to);
                } else {
                    $Half($low(self.0)).stream_lanes(to);
                    $Half($high(self.0)).stream_lanes(to.add($Half::BYTES));
                }
            }
        }

        #[inline(always)]
        unsafe fn stream_last_lanes(self, to: *mut u8, bytes: usize) {
            // SAFETY: the caller's.
            unsafe {
                if bytes >= Self::BYTES {
                    return self.stream_lanes(to);
                }
                if bytes > $Half::BYTES {
                    $Half($low(self.0)).stream_last_lanes(to, bytes - $Half::BYTES);
                }
                $Half($high(self.0)).stream_last_lanes(to.add($Half::BYTES), bytes);
            }
        }
    };
}

impl Vector for V128 {
    const BYTES: usize = 16;
    type Half = Self;
    // SSE2 has no instruction for it.
    const SHUFFLES: bool = false;

    #[inline(always)]
    unsafe fn apart<T: Task>(task: T) {
        unsafe fn run<T: Task>(task: T) {
            // SAFETY: the caller's.
            unsafe { task.run::<V128>() }
        }
        // SAFETY: the caller's.
        unsafe { call_apart::<Self, T>(run, task) }
    }

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
        // SAFETY: the caller's.
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
    unsafe fn plus(self, addend: u8) -> Self {
        // SAFETY: the caller's.
        Self(unsafe { _mm_add_epi8(self.0, _mm_set1_epi8(addend as i8)) })
    }

    #[inline(always)]
    unsafe fn merged_up_to(self, other: Self, numbers: Self, last: u8) -> Self {
        // SAFETY: the caller's.
        Self(unsafe {
            let last = _mm_set1_epi8(last as i8);
            let mask = _mm_cmpeq_epi8(_mm_max_epu8(numbers.0, last), last);
            let (first, rest) = (_mm_and_si128(mask, self.0), _mm_andnot_si128(mask, other.0));
            _mm_or_si128(first, rest)
        })
    }

    #[inline(always)]
    unsafe fn merged(self, other: Self, bytes: usize) -> Self {
        // SAFETY: the caller's.
        Self(unsafe {
            let mask = _mm_loadu_si128(first_bytes::<16>(bytes).cast());
            let (first, rest) = (_mm_and_si128(mask, self.0), _mm_andnot_si128(mask, other.0));
            _mm_or_si128(first, rest)
        })
    }
}

impl Vector for V256 {
    const BYTES: usize = 32;
    type Half = V128;
    const SHUFFLES: bool = true;

    #[inline(always)]
    unsafe fn apart<T: Task>(task: T) {
        #[target_feature(enable = "avx2,bmi1,bmi2")]
        unsafe fn run<T: Task>(task: T) {
            // SAFETY: the caller's.
            unsafe { task.run::<V256>() }
        }
        // SAFETY: the caller's.
        unsafe { call_apart::<Self, T>(run, task) }
    }

    plain_methods! {
        _mm256_loadu_si256, _mm256_storeu_si256, _mm256_stream_si256;
        1 => _mm256_unpacklo_epi8, _mm256_unpackhi_epi8;
        2 => _mm256_unpacklo_epi16, _mm256_unpackhi_epi16;
        4 => _mm256_unpacklo_epi32, _mm256_unpackhi_epi32;
        _ => _mm256_unpacklo_epi64, _mm256_unpackhi_epi64;
    }

    stream_lanes_by_halves! {
        V128, _mm256_castsi256_si128, _mm256_extracti128_si256::<1>
    }

    #[inline(always)]
    unsafe fn reversed<const W: usize>(self) -> Self {
        static IN_LANES: [Order<16>; 2] = [Order::reversed(1, 1), Order::reversed(2, 1)];
        static BY_WORDS: [Order<32>; 3] = [
            Order::reversed(4, 4),
            Order::reversed(8, 4),
            Order::reversed(16, 4),
        ];
        // SAFETY: the caller's.
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
    unsafe fn plus(self, addend: u8) -> Self {
        // SAFETY: the caller's.
        Self(unsafe { _mm256_add_epi8(self.0, _mm256_set1_epi8(addend as i8)) })
    }

    #[inline(always)]
    unsafe fn merged_up_to(self, other: Self, numbers: Self, last: u8) -> Self {
        // SAFETY: the caller's.
        Self(unsafe {
            let last = _mm256_set1_epi8(last as i8);
            let mask = _mm256_cmpeq_epi8(_mm256_max_epu8(numbers.0, last), last);
            _mm256_blendv_epi8(other.0, self.0, mask)
        })
    }

    #[inline(always)]
    unsafe fn merged(self, other: Self, bytes: usize) -> Self {
        // SAFETY: the caller's.
        Self(unsafe {
            let mask = _mm256_loadu_si256(first_bytes::<32>(bytes).cast());
            _mm256_blendv_epi8(other.0, self.0, mask)
        })
    }

    #[inline(always)]
    unsafe fn shuffled(self, order: Self) -> Self {
        // SAFETY: the caller's.
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
    unsafe fn across(one: V128, other: V128, start: usize) -> V128 {
        // SAFETY: the caller's, which has the instructions of this vector.
        unsafe { across(one, other, start) }
    }

    #[inline(always)]
    unsafe fn load_lanes(from: *const u8, pitch: usize) -> Self {
        // SAFETY: the caller's.
        Self(unsafe {
            let low = _mm256_castsi128_si256(_mm_loadu_si128(from.cast()));
            _mm256_inserti128_si256::<1>(low, _mm_loadu_si128(from.add(pitch).cast()))
        })
    }

    #[inline(always)]
    unsafe fn store_lanes(self, to: *mut u8, pitch: usize) {
        // SAFETY: the caller's.
        unsafe {
            _mm_storeu_si128(to.cast(), _mm256_castsi256_si128(self.0));
            _mm_storeu_si128(to.add(pitch).cast(), _mm256_extracti128_si256::<1>(self.0));
        }
    }
}

impl Vector for V512 {
    const BYTES: usize = 64;
    type Half = V256;
    const SHUFFLES: bool = true;

    #[inline(always)]
    unsafe fn apart<T: Task>(task: T) {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,bmi1,bmi2")]
        unsafe fn run<T: Task>(task: T) {
            // SAFETY: the caller's.
            unsafe { task.run::<V512>() }
        }
        // SAFETY: the caller's.
        unsafe { call_apart::<Self, T>(run, task) }
    }

    plain_methods! {
        _mm512_loadu_si512, _mm512_storeu_si512, _mm512_stream_si512;
        1 => _mm512_unpacklo_epi8, _mm512_unpackhi_epi8;
        2 => _mm512_unpacklo_epi16, _mm512_unpackhi_epi16;
        4 => _mm512_unpacklo_epi32, _mm512_unpackhi_epi32;
        _ => _mm512_unpacklo_epi64, _mm512_unpackhi_epi64;
    }

    stream_lanes_by_halves! {
        V256, _mm512_castsi512_si256, _mm512_extracti64x4_epi64::<1>
    }

    #[inline(always)]
    unsafe fn reversed<const W: usize>(self) -> Self {
        // SAFETY: the caller's.
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
    unsafe fn plus(self, addend: u8) -> Self {
        // SAFETY: the caller's.
        Self(unsafe { _mm512_add_epi8(self.0, _mm512_set1_epi8(addend as i8)) })
    }

    #[inline(always)]
    unsafe fn merged_up_to(self, other: Self, numbers: Self, last: u8) -> Self {
        // SAFETY: the caller's.
        Self(unsafe {
            let mask = _mm512_cmple_epu8_mask(numbers.0, _mm512_set1_epi8(last as i8));
            _mm512_mask_blend_epi8(mask, other.0, self.0)
        })
    }

    #[inline(always)]
    unsafe fn merged(self, other: Self, bytes: usize) -> Self {
        // SAFETY: the caller's.
        Self(unsafe { _mm512_mask_blend_epi8(first(bytes.min(64)), other.0, self.0) })
    }

    const MASKS: bool = true;

    #[inline(always)]
    unsafe fn store_up_to(self, to: *mut u8, numbers: Self, last: u8) {
        // SAFETY: the caller's.
        unsafe {
            let mask = _mm512_cmple_epu8_mask(numbers.0, _mm512_set1_epi8(last as i8));
            _mm512_mask_storeu_epi8(to.cast(), mask, self.0);
        }
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut u8, bytes: usize) {
        // SAFETY: the caller's.
        unsafe { _mm512_mask_storeu_epi8(to.cast(), first(bytes.min(64)), self.0) };
    }

    #[inline(always)]
    unsafe fn prefix_reversed<const W: usize>(self, length: usize) -> Self {
        let bytes = length * W;
        // SAFETY: the caller's. An index is modulo 64, so that those which reverse all
        // bytes and as many more reverse so many.
        Self(unsafe {
            let order = _mm512_add_epi8(
                load_order(const { &Order::reversed(W, 1) }),
                _mm512_set1_epi8(bytes as i8),
            );
            _mm512_mask_permutexvar_epi8(self.0, first(bytes), order, self.0)
        })
    }

    const ACROSS: bool = true;

    #[inline(always)]
    unsafe fn reversed_across<const W: usize>(low: Self, high: Self, start: usize) -> Self {
        // SAFETY: the caller's.
        Self(unsafe {
            let order = _mm512_add_epi8(
                load_order(const { &Order::reversed(W, 1) }),
                _mm512_set1_epi8(start as i8),
            );
            _mm512_permutex2var_epi8(low.0, order, high.0)
        })
    }

    #[inline(always)]
    unsafe fn shuffled(self, order: Self) -> Self {
        // SAFETY: the caller's.
        Self(unsafe { _mm512_permutexvar_epi8(order.0, self.0) })
    }

    #[inline(always)]
    unsafe fn across(one: V128, other: V128, start: usize) -> V128 {
        // SAFETY: the caller's, which has the instructions of this vector.
        unsafe { across(one, other, start) }
    }

    #[inline(always)]
    unsafe fn load_lanes(from: *const u8, pitch: usize) -> Self {
        // SAFETY: the caller's.
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
        // SAFETY: the caller's.
        unsafe {
            let vector = self.0;
            _mm_storeu_si128(to.cast(), _mm512_castsi512_si128(vector));
            _mm_storeu_si128(to.add(pitch).cast(), _mm512_extracti32x4_epi32::<1>(vector));
            _mm_storeu_si128(
                to.add(2 * pitch).cast(),
                _mm512_extracti32x4_epi32::<2>(vector),
            );
            _mm_storeu_si128(
                to.add(3 * pitch).cast(),
                _mm512_extracti32x4_epi32::<3>(vector),
            );
        }
    }

    #[inline(always)]
    unsafe fn reverse_part<const W: usize>(at: *mut u8, bytes: usize) {
        // SAFETY: the caller's. The elements are loaded as a vector's last, so that
        // reversed they are its first; bytes that are masked out are not touched.
        unsafe {
            let last = !first(64 - bytes);
            let from = at.wrapping_sub(64 - bytes);
            let reversed = Self(_mm512_maskz_loadu_epi8(last, from.cast())).reversed::<W>();
            _mm512_mask_storeu_epi8(at.cast(), first(bytes), reversed.0);
        }
    }
}

/// [`Vector::across`] by shuffles.
///
/// # Safety
/// The CPU has AVX2; `start` is at most a lane.
#[inline(always)]
unsafe fn across(one: V128, other: V128, start: usize) -> V128 {
    // An index with its highest bit set gives 0.
    static INDICES: [u8; 3 * LANE] = {
        let mut indices = [0x80; 3 * LANE];
        let mut at = 0;
        while at < LANE {
            indices[LANE + at] = at as u8;
            at += 1;
        }
        indices
    };
    let indices = INDICES.as_ptr().wrapping_add(start);
    // SAFETY: the caller's; a lane of indices follows both places.
    V128(unsafe {
        let first = _mm_loadu_si128(indices.add(LANE).cast());
        let last = _mm_loadu_si128(indices.cast());
        _mm_or_si128(
            _mm_shuffle_epi8(one.0, first),
            _mm_shuffle_epi8(other.0, last),
        )
    })
}

/// An order, for AVX-512's shuffles.
///
/// # Safety
/// The CPU has AVX-512.
#[inline(always)]
unsafe fn load_order(order: &Order<64>) -> __m512i {
    // SAFETY: the caller's; an order is a vector.
    unsafe { _mm512_load_si512(order.0.as_ptr().cast()) }
}

/// The mask of the first `bits` bits, at most 64.
///
/// # Safety
/// The CPU has BMI2.
#[inline(always)]
unsafe fn first(bits: usize) -> u64 {
    // SAFETY: the caller's.
    unsafe { _bzhi_u64(u64::MAX, bits as u32) }
}

/// Where `N` bytes lie of which the first `bytes` are ones, or all if those are more.
#[inline(always)]
fn first_bytes<const N: usize>(bytes: usize) -> *const u8 {
    static MASKS: [[u8; 32]; 2] = [[0xff; 32], [0; 32]];
    MASKS.as_ptr().cast::<u8>().wrapping_add(32 - bytes.min(N))
}

/// An order of the elements of a vector of `N` bytes, for shuffles by an index
/// as wide as the piece that it moves.
#[repr(align(64))]
struct Order<const N: usize>([u8; N]);

impl<const N: usize> Order<N> {
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
