//! The vectors of every instruction set against plain loops over bytes.

#[cfg(target_arch = "x86_64")]
use super::x86::{V256, V512};
use super::*;
use crate::cpu::lines::MAX_BYTES_IN_PLACE;
use crate::simd_level::SimdLevel;

/// Applies the methods of a vector to bytes, on the instructions that it needs.
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
        for first in 0..=V::BYTES {
            let mask = V::load(prefix_mask(first));
            let expected = [&bytes[..first], &other[first..]].concat();
            vector
                .blend(V::load(other.as_ptr()), mask)
                .store(out.as_mut_ptr());
            assert_eq!(out, expected, "{first}");
        }

        // A vector anywhere in lines of which a byte can number all elements, and of longer ones.
        for at in (0..=MAX_BYTES_IN_PLACE - V::BYTES)
            .step_by(W)
            .filter(|_| V::MASKS)
        {
            for prefix in (W..=MAX_BYTES_IN_PLACE).step_by(7 * W) {
                let kept = prefix.saturating_sub(at).min(V::BYTES);
                let expected = [&bytes[..kept], &other[kept..]].concat();
                out.copy_from_slice(&other);
                vector.store_prefix::<W, MAX_BYTES_IN_PLACE>(out.as_mut_ptr(), at, prefix);
                assert_eq!(out, expected, "{prefix} from {at} on");
                if at + V::BYTES <= 256 && prefix <= 256 {
                    out.copy_from_slice(&other);
                    vector.store_prefix::<W, 256>(out.as_mut_ptr(), at, prefix);
                    assert_eq!(out, expected, "{prefix} from {at} on");
                }
            }
        }

        let order: Vec<u8> = (0..V::BYTES).map(|at| (at * 7 % V::BYTES) as u8).collect();
        vector
            .shuffle(V::load(order.as_ptr()))
            .store(out.as_mut_ptr());
        for (&found, &index) in out.iter().zip(&order).filter(|_| V::SHUFFLES) {
            assert_eq!(found, bytes[usize::from(index)]);
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
    // SAFETY: the CPU has the vector's instructions, which this function requires.
    unsafe {
        check::<V, 1, 16>();
        check::<V, 2, 8>();
        check::<V, 4, 4>();
        check::<V, 8, 2>();
        check::<V, 16, 1>();
    }
}

#[test]
fn vectors_match_their_definitions() {
    // SAFETY: every level is run only where the CPU has it.
    unsafe {
        check_widths::<Portable>();
        #[cfg(target_arch = "aarch64")]
        check_widths::<super::neon::V128>();
        check_widths::<super::portable::V128>();
        #[cfg(target_arch = "x86_64")]
        {
            if SimdLevel::Avx2.is_supported() {
                check_widths::<V256>();
            }
            if SimdLevel::Avx512.is_supported() {
                check_widths::<V512>();
            }
        }
    }
    assert!(SimdLevel::Portable.is_supported());
}

#[test]
fn few_bytes_are_stored_alone() {
    let bytes: Vec<u8> = (1..=LANE as u8).map(|index| index * 15).collect();
    for count in 0..LANE {
        let mut found = [0xee; LANE + 1];
        let from = bytes[..count].to_vec();
        // SAFETY: both have as many bytes.
        unsafe {
            let value = few::load(from.as_ptr(), count);
            assert_eq!(value.to_le_bytes()[..count], bytes[..count]);
            few::store(value, found.as_mut_ptr(), count);
        }
        assert_eq!(found[..count], bytes[..count]);
        assert!(found[count..].iter().all(|&byte| byte == 0xee), "{count}");
    }
}

fn check_prefix_reversed<const W: usize>() {
    let value: [u8; LANE] = std::array::from_fn(|index| index as u8 + 1);
    for length in 0..LANE / W {
        let mut expected = value;
        let (prefix, _) = expected.split_at_mut(length * W);
        prefix.reverse();
        for element in prefix.chunks_mut(W) {
            element.reverse();
        }
        let found = few::reverse_prefix::<W>(u128::from_le_bytes(value), length);
        assert_eq!(found.to_le_bytes(), expected, "{length} of {W} bytes");
    }
}

#[test]
fn a_prefix_is_reversed_and_the_rest_stays() {
    check_prefix_reversed::<1>();
    check_prefix_reversed::<2>();
    check_prefix_reversed::<4>();
    check_prefix_reversed::<8>();
}
