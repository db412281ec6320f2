//! Fewer bytes than a vector has, without a call and without a loop over bytes. [M14]

use super::LANE;

/// Loads `bytes` bytes, less than a lane; the first is the lowest, the others are 0.
///
/// # Safety
/// `from` is readable for them.
#[inline(always)]
pub(crate) unsafe fn load(from: *const u8, bytes: usize) -> u128 {
    // SAFETY: both parts lie in `bytes`, for which `from` is readable; where they overlap they have
    // the same bits.
    unsafe {
        match bytes {
            8.. => {
                let last = u64::from_le_bytes(*from.add(bytes - 8).cast());
                let first = u64::from_le_bytes(*from.cast());
                u128::from(first) | u128::from(last) << (8 * (bytes - 8))
            }
            4..8 => {
                let last = u32::from_le_bytes(*from.add(bytes - 4).cast());
                let first = u32::from_le_bytes(*from.cast());
                (u64::from(first) | u64::from(last) << (8 * (bytes - 4))).into()
            }
            2..4 => {
                let last = u16::from_le_bytes(*from.add(bytes - 2).cast());
                let first = u16::from_le_bytes(*from.cast());
                (u32::from(first) | u32::from(last) << (8 * (bytes - 2))).into()
            }
            1 => (*from).into(),
            0 => 0,
        }
    }
}

/// Stores the lowest `bytes` bytes, less than a lane.
///
/// # Safety
/// `to` is writable for them.
#[inline(always)]
pub(crate) unsafe fn store(value: u128, to: *mut u8, bytes: usize) {
    // SAFETY: both parts lie in `bytes`, for which `to` is writable; where they overlap they write
    // the same.
    unsafe {
        match bytes {
            8.. => {
                let last = (value >> (8 * (bytes - 8))) as u64;
                *to.cast() = (value as u64).to_le_bytes();
                *to.add(bytes - 8).cast() = last.to_le_bytes();
            }
            4..8 => {
                let last = (value as u64 >> (8 * (bytes - 4))) as u32;
                *to.cast() = (value as u32).to_le_bytes();
                *to.add(bytes - 4).cast() = last.to_le_bytes();
            }
            2..4 => {
                let last = (value as u32 >> (8 * (bytes - 2))) as u16;
                *to.cast() = (value as u16).to_le_bytes();
                *to.add(bytes - 2).cast() = last.to_le_bytes();
            }
            1 => *to = value as u8,
            0 => {}
        }
    }
}

/// Copies `bytes` bytes, less than a lane.
///
/// # Safety
/// `from` is readable and `to` writable for them.
#[inline(always)]
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: this function's conditions.
    unsafe { store(load(from, bytes), to, bytes) };
}

/// Reverses the first `length` elements of `W` bytes of a line of less than a lane.
#[inline(always)]
pub(crate) fn reverse_prefix<const W: usize>(line: u128, length: usize) -> u128 {
    // To reverse one element is to reverse none; no shift is then by all bits.
    let bits = 8 * W * length.max(1);
    let reversed = match W {
        1 => line.swap_bytes(),
        2 => {
            const LOWER: u128 = u128::MAX / 0xffff * 0xff;
            let bytes = line.swap_bytes();
            (bytes & LOWER) << 8 | (bytes >> 8 & LOWER)
        }
        4 => {
            let (low, high) = (line as u64, (line >> 64) as u64);
            u128::from(low.rotate_left(32)) << 64 | u128::from(high.rotate_left(32))
        }
        8 => line.rotate_left(64),
        _ => line,
    };
    reversed >> (8 * LANE - bits) | line >> bits << bits
}
