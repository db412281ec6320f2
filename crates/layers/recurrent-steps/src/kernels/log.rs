//! The natural logarithm, by operations that vectors have.

/// The coefficients of `ln(1 + x)` in `[sqrt(1/2) - 1, sqrt(2) - 1]` behind `x - x²/2`, from the highest power
/// down, fitted with an error below that of rounding (Cephes, `logf.c`).
const P: [f32; 9] = [
    7.037_683_6e-2,
    -0.115_146_1,
    0.116_769_98,
    -0.124_201_41,
    0.142_493_23,
    -0.166_680_57,
    0.200_007_15,
    -0.249_999_94,
    0.333_333_3,
];

/// `ln 2` in two parts, the first of which has few bits.
const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];

/// Returns the natural logarithm: that of 0 is minus infinity, and of negative numbers NaN.
#[inline(always)]
pub(super) fn log(x: f32) -> f32 {
    // Numbers below the smallest normal one are made larger by 2^23.
    let is_tiny = x < f32::MIN_POSITIVE;
    let scaled = if is_tiny { x * 8_388_608.0 } else { x };
    let bits = scaled.to_bits() as i32;
    let exponent = (bits >> 23) - 126 - if is_tiny { 23 } else { 0 };
    // The mantissa, in [1/2, 1).
    let mantissa = f32::from_bits(((bits & 0x007f_ffff) | 0x3f00_0000) as u32);
    let is_low = mantissa < std::f32::consts::FRAC_1_SQRT_2;
    let reduced = if is_low {
        mantissa + mantissa
    } else {
        mantissa
    } - 1.0;
    let power = (exponent - i32::from(is_low)) as f32;
    let square = reduced * reduced;
    let mut sum = P[0];
    for coefficient in &P[1..] {
        sum = sum * reduced + coefficient;
    }
    let small = sum * reduced * square + power * LN_2[1] - 0.5 * square;
    let finite = reduced + small + power * LN_2[0];
    let of_large = if x == f32::INFINITY { x } else { finite };
    let of_zero = if x == 0.0 {
        f32::NEG_INFINITY
    } else {
        of_large
    };
    if x >= 0.0 { of_zero } else { f32::NAN }
}

#[cfg(test)]
mod tests {
    use super::log;

    #[test]
    fn errors_are_those_of_rounding() {
        let bits = (0..0x7f80_0000_u32).step_by(65_537);
        for x in bits
            .map(f32::from_bits)
            .chain([1.0, 0.999_999_94, 1.000_000_1, f32::MAX])
        {
            let exact = f64::from(x).ln();
            let bound = 1.2e-7 * exact.abs() + if exact.is_infinite() { 0.0 } else { 1e-9 };
            let error = (f64::from(log(x)) - exact).abs();
            assert!(
                x == 0.0 || error <= bound * 1.5,
                "{x:e}: {} for {exact}",
                log(x)
            );
        }
        assert_eq!(log(0.0), f32::NEG_INFINITY);
        assert_eq!(log(-0.0), f32::NEG_INFINITY);
        assert_eq!(log(f32::INFINITY), f32::INFINITY);
        assert!(log(-1.0).is_nan() && log(f32::NAN).is_nan());
    }
}
