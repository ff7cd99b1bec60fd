//! The decoder for processors with AVX2 and BMI2. Most of the code is the common code, compiled for these
//! instructions. Only the transform and the colours are written with intrinsics, which add two products at
//! once, as in libjpeg-turbo. The results are equal.
#![expect(
    unsafe_code,
    reason = "intrinsics need instructions that not every processor has"
)]

use std::arch::x86_64::*;

use crate::image::area::Area;
use crate::image::decoded::Decoded;

use super::header::Header;
use super::kernel::Kernel;
use super::{colours, pixels};

/// Runs `pixels::pixels` with the instructions of newer processors. Returns `None` if the processor lacks
/// these instructions.
pub(super) fn pixels(header: &Header<'_>, area: Area, wanted: u8) -> Option<Result<Decoded, &'static str>> {
    let has_all = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("lzcnt");
    // SAFETY: the checks above confirmed every instruction set for which the function is compiled.
    has_all.then(|| unsafe { wide_pixels(header, area, wanted) })
}

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
fn wide_pixels(header: &Header<'_>, area: Area, wanted: u8) -> Result<Decoded, &'static str> {
    pixels::pixels::<Wide>(header, area, wanted)
}

/// The form of the arithmetic for processors with AVX2.
struct Wide;

impl Kernel for Wide {
    #[inline(always)]
    fn block(coefficients: &[i16; 64], factors: &[i16; 64], out: &mut [u8], stride: usize) {
        // SAFETY: only `wide_pixels`, and tests that check the processor, use this type, so the processor has
        // AVX2.
        let rows = unsafe { block(coefficients, factors) };
        for (row, out) in rows.iter().zip(out.chunks_mut(stride)) {
            if let Some(out) = out.first_chunk_mut::<8>() {
                *out = *row;
            }
        }
    }

    #[inline(always)]
    fn colours(luma: &[u8], blue: &[u8], red: &[u8], out: &mut [[u8; 3]]) {
        let count = luma.len().min(blue.len()).min(red.len()).min(out.len());
        let (luma, luma_rest) = luma[..count].as_chunks::<16>();
        let (blue, blue_rest) = blue[..count].as_chunks::<16>();
        let (red, red_rest) = red[..count].as_chunks::<16>();
        let (out, out_rest) = out[..count].as_chunks_mut::<16>();
        for (((out, luma), blue), red) in out.iter_mut().zip(luma).zip(blue).zip(red) {
            // SAFETY: only `wide_pixels`, and tests that check the processor, use this type, so the processor
            // has AVX2.
            let [first, second, third] = unsafe { colours(luma, blue, red) };
            let bytes = out.as_flattened_mut().as_chunks_mut::<16>().0;
            if let [one, two, three] = bytes {
                (*one, *two, *three) = (first, second, third);
            }
        }
        colours::colours(luma_rest, blue_rest, red_rest, out_rest);
    }
}

/// Returns the pixels of a block, row by row.
#[inline]
#[target_feature(enable = "avx2")]
fn block(coefficients: &[i16; 64], factors: &[i16; 64]) -> [[u8; 8]; 8] {
    let (coefficients, factors) = (coefficients.as_chunks::<8>().0, factors.as_chunks::<8>().0);
    let mut rows = [_mm_set1_epi16(0); 8];
    for (row, (coefficients, factors)) in rows.iter_mut().zip(coefficients.iter().zip(factors)) {
        *row = _mm_mullo_epi16(load(coefficients), load(factors));
    }
    let columns = transposed(pass::<11>(rows));
    let rows = transposed(pass::<18>(columns));
    let mut pixels = [[0; 8]; 8];
    for (pixels, rows) in pixels
        .as_chunks_mut::<2>()
        .0
        .iter_mut()
        .zip(rows.as_chunks::<2>().0)
    {
        let [one, two] = rows.map(|row| _mm_add_epi16(row, _mm_set1_epi16(128)));
        let both = _mm_packus_epi16(one, two);
        let second = _mm_cvtsi128_si64(_mm_unpackhi_epi64(both, both));
        *pixels = [_mm_cvtsi128_si64(both).to_le_bytes(), second.to_le_bytes()];
    }
    pixels
}

#[inline]
#[target_feature(enable = "avx2")]
fn load(row: &[i16; 8]) -> __m128i {
    // SAFETY: the reference covers sixteen readable bytes, and the load needs no alignment.
    unsafe { _mm_loadu_si128(std::ptr::from_ref(row).cast()) }
}

/// Computes one pass of `jidctint`: eight transforms of eight numbers, one transform in each lane, divided by
/// `2^SHIFT`. The constants are sums of `jidctint`'s constants, so that each sum has products of two numbers.
#[inline]
#[target_feature(enable = "avx2")]
fn pass<const SHIFT: i32>(rows: [__m128i; 8]) -> [__m128i; 8] {
    let (outer, inner) = (pair(rows[0], rows[4]), pair(rows[2], rows[6]));
    let (even0, even1) = (products(outer, 8192, 8192), products(outer, 8192, -8192));
    let (even2, even3) = (products(inner, 4433, -10704), products(inner, 10703, 4433));
    let (sum0, sum3) = (_mm256_add_epi32(even0, even3), _mm256_sub_epi32(even0, even3));
    let (sum1, sum2) = (_mm256_add_epi32(even1, even2), _mm256_sub_epi32(even1, even2));
    let (low, high) = (pair(rows[1], rows[3]), pair(rows[5], rows[7]));
    let odd0 = _mm256_add_epi32(products(low, 2260, -6436), products(high, 9633, -11363));
    let odd1 = _mm256_add_epi32(products(low, 6437, -11362), products(high, 2261, 9633));
    let odd2 = _mm256_add_epi32(products(low, 9633, -2259), products(high, -11362, -6436));
    let odd3 = _mm256_add_epi32(products(low, 11363, 9633), products(high, 6437, 2260));
    [
        descaled::<SHIFT>(_mm256_add_epi32(sum0, odd3)),
        descaled::<SHIFT>(_mm256_add_epi32(sum1, odd2)),
        descaled::<SHIFT>(_mm256_add_epi32(sum2, odd1)),
        descaled::<SHIFT>(_mm256_add_epi32(sum3, odd0)),
        descaled::<SHIFT>(_mm256_sub_epi32(sum3, odd0)),
        descaled::<SHIFT>(_mm256_sub_epi32(sum2, odd1)),
        descaled::<SHIFT>(_mm256_sub_epi32(sum1, odd2)),
        descaled::<SHIFT>(_mm256_sub_epi32(sum0, odd3)),
    ]
}

/// Interleaves the numbers of two rows.
#[inline]
#[target_feature(enable = "avx2")]
fn pair(one: __m128i, other: __m128i) -> __m256i {
    _mm256_set_m128i(_mm_unpackhi_epi16(one, other), _mm_unpacklo_epi16(one, other))
}

/// Multiplies the first number of each pair by `first` and the second by `second`, and adds the products.
#[inline]
#[target_feature(enable = "avx2")]
fn products(pair: __m256i, first: i16, second: i16) -> __m256i {
    let both = i32::from(second) << 16 | i32::from(first.cast_unsigned());
    _mm256_madd_epi16(pair, _mm256_set1_epi32(both))
}

/// Divides by `2^SHIFT`, rounds to the nearest integer, and saturates to 16 bits.
#[inline]
#[target_feature(enable = "avx2")]
fn descaled<const SHIFT: i32>(lanes: __m256i) -> __m128i {
    let lanes = _mm256_srai_epi32::<SHIFT>(_mm256_add_epi32(lanes, _mm256_set1_epi32(1 << (SHIFT - 1))));
    _mm_packs_epi32(
        _mm256_castsi256_si128(lanes),
        _mm256_extracti128_si256::<1>(lanes),
    )
}

#[inline]
#[target_feature(enable = "avx2")]
fn transposed(rows: [__m128i; 8]) -> [__m128i; 8] {
    let [a, b, c, d, e, f, g, h] = rows;
    let (ab, cd) = (_mm_unpacklo_epi16(a, b), _mm_unpacklo_epi16(c, d));
    let (ef, gh) = (_mm_unpacklo_epi16(e, f), _mm_unpacklo_epi16(g, h));
    let (ab_high, cd_high) = (_mm_unpackhi_epi16(a, b), _mm_unpackhi_epi16(c, d));
    let (ef_high, gh_high) = (_mm_unpackhi_epi16(e, f), _mm_unpackhi_epi16(g, h));
    let (upper01, upper23) = (_mm_unpacklo_epi32(ab, cd), _mm_unpackhi_epi32(ab, cd));
    let (upper45, upper67) = (
        _mm_unpacklo_epi32(ab_high, cd_high),
        _mm_unpackhi_epi32(ab_high, cd_high),
    );
    let (lower01, lower23) = (_mm_unpacklo_epi32(ef, gh), _mm_unpackhi_epi32(ef, gh));
    let (lower45, lower67) = (
        _mm_unpacklo_epi32(ef_high, gh_high),
        _mm_unpackhi_epi32(ef_high, gh_high),
    );
    [
        _mm_unpacklo_epi64(upper01, lower01),
        _mm_unpackhi_epi64(upper01, lower01),
        _mm_unpacklo_epi64(upper23, lower23),
        _mm_unpackhi_epi64(upper23, lower23),
        _mm_unpacklo_epi64(upper45, lower45),
        _mm_unpackhi_epi64(upper45, lower45),
        _mm_unpacklo_epi64(upper67, lower67),
        _mm_unpackhi_epi64(upper67, lower67),
    ]
}

/// Converts sixteen pixels to RGB with the channels side by side. The arithmetic is that of
/// `colours::colours`.
#[inline]
#[target_feature(enable = "avx2")]
fn colours(luma: &[u8; 16], blue: &[u8; 16], red: &[u8; 16]) -> [[u8; 16]; 3] {
    let centre = _mm256_set1_epi16(128);
    let y = _mm256_cvtepu8_epi16(load_bytes(luma));
    let cb = _mm256_sub_epi16(_mm256_cvtepu8_epi16(load_bytes(blue)), centre);
    let cr = _mm256_sub_epi16(_mm256_cvtepu8_epi16(load_bytes(red)), centre);
    let r = _mm256_add_epi16(_mm256_add_epi16(y, cr), high(cr, 26345));
    let b = _mm256_add_epi16(_mm256_add_epi16(y, _mm256_slli_epi16::<1>(cb)), high(cb, -14942));
    let shares = |pair| {
        let sum = _mm256_add_epi32(products(pair, -22554, 18734), _mm256_set1_epi32(32768));
        _mm256_srai_epi32::<16>(sum)
    };
    // The halves are separated and joined in the same order, so that every pixel keeps its place.
    let (low, high) = (_mm256_unpacklo_epi16(cb, cr), _mm256_unpackhi_epi16(cb, cr));
    let g = _mm256_add_epi16(
        _mm256_sub_epi16(y, cr),
        _mm256_packs_epi32(shares(low), shares(high)),
    );
    let [r, g, b] = [bytes(r), bytes(g), bytes(b)];
    let mut all = [[0; 16]; 3];
    for (all, places) in all.iter_mut().zip(&PLACES) {
        let [r, g, b] = [(r, 0), (g, 1), (b, 2)]
            .map(|(lanes, channel): (__m128i, usize)| _mm_shuffle_epi8(lanes, load_bytes(&places[channel])));
        // SAFETY: the pointer covers sixteen writable bytes of `all`, and the store needs no alignment.
        unsafe { _mm_storeu_si128(all.as_mut_ptr().cast(), _mm_or_si128(_mm_or_si128(r, g), b)) };
    }
    all
}

/// The source of each channel's bytes, for each third of sixteen pixels. A value above 127 selects no byte.
const PLACES: [[[u8; 16]; 3]; 3] = {
    let mut places = [[[0x80; 16]; 3]; 3];
    let mut at = 0;
    while at < 48 {
        places[at / 16][at % 3][at % 16] = (at / 3) as u8;
        at += 1;
    }
    places
};

/// Multiplies lanes and keeps the high halves, as `colours::high` does.
#[inline]
#[target_feature(enable = "avx2")]
fn high(lanes: __m256i, factor: i16) -> __m256i {
    let product = _mm256_mulhi_epi16(_mm256_slli_epi16::<1>(lanes), _mm256_set1_epi16(factor));
    _mm256_srai_epi16::<1>(_mm256_add_epi16(product, _mm256_set1_epi16(1)))
}

/// Converts lanes to bytes. Values outside of a byte saturate.
#[inline]
#[target_feature(enable = "avx2")]
fn bytes(lanes: __m256i) -> __m128i {
    _mm_packus_epi16(
        _mm256_castsi256_si128(lanes),
        _mm256_extracti128_si256::<1>(lanes),
    )
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_bytes(bytes: &[u8; 16]) -> __m128i {
    // SAFETY: the reference covers sixteen readable bytes, and the load needs no alignment.
    unsafe { _mm_loadu_si128(std::ptr::from_ref(bytes).cast()) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::image::jpeg::kernel::Plain;

    proptest! {
        #[test]
        fn blocks_are_equal_on_all_processors(
            coefficients in prop::array::uniform32(any::<[i16; 2]>()), factors in prop::array::uniform32(any::<[i16; 2]>()),
            small: bool,
        ) {
            if !is_x86_feature_detected!("avx2") {
                return Ok(());
            }
            let all = |pairs: [[i16; 2]; 32]| -> [i16; 64] { pairs.concat().try_into().unwrap() };
            let (mut coefficients, mut factors) = (all(coefficients), all(factors));
            if small {
                coefficients = coefficients.map(|value| value >> 8);
                factors = factors.map(|value| value & 15);
            }
            let (mut one, mut other) = ([0; 64], [0; 64]);
            Wide::block(&coefficients, &factors, &mut one, 8);
            Plain::block(&coefficients, &factors, &mut other, 8);
            prop_assert_eq!(one, other);
        }
    }
    #[test]
    fn colours_are_equal_on_all_processors() {
        if !is_x86_feature_detected!("avx2") {
            return;
        }
        let all: Vec<u8> = (0..=255).collect();
        for blue in (0..=255).step_by(15) {
            for red in 0..=255 {
                // The counts cover whole groups of sixteen pixels, and pixels that are left over.
                for count in [256, 16 + usize::from(red) % 16] {
                    let (mut one, mut other) = ([[0; 3]; 256], [[0; 3]; 256]);
                    Wide::colours(&all[..count], &[blue; 256], &[red; 256], &mut one);
                    Plain::colours(&all[..count], &[blue; 256], &[red; 256], &mut other);
                    assert_eq!(one, other, "{blue} {red}");
                }
            }
        }
    }
}
