//! The conversion of coefficients to pixels: the inverse cosine transform of libjpeg's `jidctint`, equal bit
//! for bit, on eight columns at a time.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

/// Eight numbers that are computed together. Sums wrap around, because a corrupt picture may have any
/// coefficients.
type Lanes = [i32; 8];

/// Number of fractional bits of the constants.
const CONST_BITS: u32 = 13;
/// Number of fractional bits between the two passes.
const PASS1_BITS: u32 = 2;

#[inline(always)]
fn each(one: Lanes, other: Lanes, op: impl Fn(i32, i32) -> i32) -> Lanes {
    std::array::from_fn(|lane| op(one[lane], other[lane]))
}

#[inline(always)]
fn add(one: Lanes, other: Lanes) -> Lanes {
    each(one, other, i32::wrapping_add)
}

#[inline(always)]
fn sub(one: Lanes, other: Lanes) -> Lanes {
    each(one, other, i32::wrapping_sub)
}

#[inline(always)]
fn mul(lanes: Lanes, factor: i32) -> Lanes {
    lanes.map(|lane| lane.wrapping_mul(factor))
}

/// Divides by `2^shift`, and rounds to the nearest integer.
#[inline(always)]
fn descale(lanes: Lanes, shift: u32) -> Lanes {
    lanes.map(|lane| lane.wrapping_add(1 << (shift - 1)) >> shift)
}

/// Computes one pass: eight transforms of eight numbers, one transform in each lane. The results are divided
/// by `2^shift`.
#[inline(always)]
fn pass(rows: [Lanes; 8], shift: u32) -> [Lanes; 8] {
    // The even part of the transform.
    let shared = mul(add(rows[2], rows[6]), 4433);
    let even2 = add(shared, mul(rows[6], -15137));
    let even3 = add(shared, mul(rows[2], 6270));
    let even0 = mul(add(rows[0], rows[4]), 1 << CONST_BITS);
    let even1 = mul(sub(rows[0], rows[4]), 1 << CONST_BITS);
    let (sum0, sum3) = (add(even0, even3), sub(even0, even3));
    let (sum1, sum2) = (add(even1, even2), sub(even1, even2));
    // The odd part of the transform.
    let (odd0, odd1, odd2, odd3) = (rows[7], rows[5], rows[3], rows[1]);
    let z3 = add(odd0, odd2);
    let z4 = add(odd1, odd3);
    let z5 = mul(add(z3, z4), 9633);
    let z1 = mul(add(odd0, odd3), -7373);
    let z2 = mul(add(odd1, odd2), -20995);
    let z3 = add(mul(z3, -16069), z5);
    let z4 = add(mul(z4, -3196), z5);
    let odd0 = add(mul(odd0, 2446), add(z1, z3));
    let odd1 = add(mul(odd1, 16819), add(z2, z4));
    let odd2 = add(mul(odd2, 25172), add(z2, z3));
    let odd3 = add(mul(odd3, 12299), add(z1, z4));
    [
        descale(add(sum0, odd3), shift),
        descale(add(sum1, odd2), shift),
        descale(add(sum2, odd1), shift),
        descale(add(sum3, odd0), shift),
        descale(sub(sum3, odd0), shift),
        descale(sub(sum2, odd1), shift),
        descale(sub(sum1, odd2), shift),
        descale(sub(sum0, odd3), shift),
    ]
}

#[inline(always)]
fn transposed(rows: [Lanes; 8]) -> [Lanes; 8] {
    std::array::from_fn(|row| std::array::from_fn(|column| rows[column][row]))
}

/// Writes the pixels of a block to eight rows of `out`, which are `stride` bytes apart. The first row begins
/// at the start of `out`.
#[inline(always)]
pub(super) fn block(coefficients: &[i16; 64], factors: &[i16; 64], out: &mut [u8], stride: usize) {
    let rows: [Lanes; 8] = std::array::from_fn(|row| {
        std::array::from_fn(|column| {
            let at = row * 8 + column;
            i32::from(coefficients[at].wrapping_mul(factors[at]))
        })
    });
    let between = pass(rows, CONST_BITS - PASS1_BITS).map(|lanes| lanes.map(saturated));
    let pixels = transposed(pass(transposed(between), CONST_BITS + PASS1_BITS + 3));
    for (row, out) in pixels.iter().zip(out.chunks_mut(stride)) {
        if let Some(out) = out.first_chunk_mut::<8>() {
            *out = row.map(|value| value.wrapping_add(128).clamp(0, 255) as u8);
        }
    }
}

#[inline(always)]
fn saturated(value: i32) -> i32 {
    value.clamp(i16::MIN.into(), i16::MAX.into())
}

/// Writes the pixels of a block that has only its first coefficient. All pixels have one brightness.
#[inline(always)]
pub(super) fn flat(first: i16, factor: i16, out: &mut [u8], stride: usize) {
    let value = i32::from(first.wrapping_mul(factor));
    let pixel = ((value + 4) >> 3).saturating_add(128).clamp(0, 255) as u8;
    for out in out.chunks_mut(stride) {
        if let Some(out) = out.first_chunk_mut::<8>() {
            *out = [pixel; 8];
        }
    }
}

#[cfg(test)]
mod tests {
    use std::f64::consts::PI;

    use proptest::prelude::*;

    use super::*;

    /// Computes the transform by its definition.
    fn naive(coefficients: &[i16; 64], factors: &[i16; 64]) -> Vec<f64> {
        let scale = |at: usize| if at == 0 { 0.5f64.sqrt() } else { 1.0 };
        let wave = |at: usize, place: usize| {
            ((2 * place + 1) as f64 * at as f64 * PI / 16.0).cos() * scale(at) / 2.0
        };
        let mut all = Vec::new();
        for y in 0..8 {
            for x in 0..8 {
                let mut sum = 128.0;
                for v in 0..8 {
                    for u in 0..8 {
                        let at = v * 8 + u;
                        let value = f64::from(coefficients[at]) * f64::from(factors[at]);
                        sum += value * wave(u, x) * wave(v, y);
                    }
                }
                all.push(sum.clamp(0.0, 255.0));
            }
        }
        all
    }

    proptest! {
        #[test]
        fn a_block_is_the_sum_of_its_waves(
            values in prop::collection::vec(-60i16..60, 64), factors in prop::collection::vec(1i16..20, 64), keep in 1usize..64,
        ) {
            let mut coefficients: [i16; 64] = values.try_into().unwrap();
            coefficients[keep..].fill(0);
            let factors: [i16; 64] = factors.try_into().unwrap();
            let mut out = [0; 8 * 9];
            block(&coefficients, &factors, &mut out, 9);
            for (at, expected) in naive(&coefficients, &factors).iter().enumerate() {
                let found = f64::from(out[at / 8 * 9 + at % 8]);
                prop_assert!((found - expected).abs() < 1.1, "{} for {}", found, expected);
            }
        }

        #[test]
        fn a_block_of_one_brightness_is_flat(first: i16, factor in 1i16..256) {
            let (mut whole, mut short) = ([0; 64], [0; 64]);
            let mut coefficients = [0; 64];
            coefficients[0] = first;
            block(&coefficients, &[factor; 64], &mut whole, 8);
            flat(first, factor, &mut short, 8);
            prop_assert_eq!(whole, short);
        }
    }
}
