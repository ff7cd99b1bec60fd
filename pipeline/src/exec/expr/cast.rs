//! Conversion of items from one dtype to another.

use half::{bf16, f16};
use millstream_element::Dtype;

use crate::exec::value::{Dims, Tensor};

use super::items::{Item, built, bytes_of, items};

/// Number of items that are converted at once between two number types, by way of the widest type of their
/// kind.
const CHUNK: usize = 64;

/// Converts the items of `of` to `dtype`.
pub(crate) fn cast(of: &Tensor, dtype: Dtype, saturate: bool) -> Result<Tensor, String> {
    let from = of.dtype();
    if from == dtype {
        return Ok(of.clone());
    }
    if from.item_bytes().is_none() {
        return retyped(of, dtype);
    }
    let bytes = bytes_of(of)?;
    let dims = Dims::from_slice(of.dims());
    built(dtype, dims, |into| {
        if !saturate && plain(from, dtype, bytes, into) {
            return Ok(());
        }
        converted(from, dtype, saturate, bytes, into)
    })
}

/// Converts strings to byte strings, or byte strings to strings.
fn retyped(of: &Tensor, dtype: Dtype) -> Result<Tensor, String> {
    if dtype == Dtype::String {
        let mut broken = None;
        let mut index = 0;
        of.for_each_string(&mut |item| {
            if broken.is_none() && std::str::from_utf8(item).is_err() {
                broken = Some(index);
            }
            index += 1;
        });
        if let Some(index) = broken {
            return Err(format!("byte string {index} is not UTF-8"));
        }
    }
    Ok(Tensor::from_parts(
        dtype,
        Dims::from_slice(of.dims()),
        of.data().clone(),
    ))
}

/// Converts the items in one step, for the frequent pairs of dtypes. Returns `false` for any other pair.
fn plain(from: Dtype, to: Dtype, bytes: &[u8], into: &mut [u8]) -> bool {
    macro_rules! pairs {
        ($($from_dtype:ident $from:ident => $($to_dtype:ident $to:ident)*;)*) => {
            match (from, to) {
                $($((Dtype::$from_dtype, Dtype::$to_dtype) => {
                    for (item, into) in items::<$from>(bytes).zip(into.chunks_exact_mut(size_of::<$to>())) {
                        (item as $to).write(into);
                    }
                    true
                })*)*
                _ => false,
            }
        };
    }
    pairs! {
        U8 u8 => F32 f32 F64 f64 I32 i32 I64 i64;
        I32 i32 => F32 f32 F64 f64 I64 i64;
        I64 i64 => F32 f32 F64 f64 I32 i32 U8 u8;
        F32 f32 => F64 f64 I32 i32 I64 i64 U8 u8;
        F64 f64 => F32 f32 I32 i32 I64 i64;
    }
}

/// Items between their old and their new dtype.
#[expect(
    clippy::large_enum_variant,
    reason = "one value on the stack serves all chunks of a tensor"
)]
enum Wide {
    Signed([i64; CHUNK]),
    Unsigned([u64; CHUNK]),
    /// The real and imaginary parts of the items.
    Float([f64; CHUNK], [f64; CHUNK]),
}

fn converted(from: Dtype, to: Dtype, saturate: bool, bytes: &[u8], into: &mut [u8]) -> Result<(), String> {
    let (Some(from_bytes), Some(to_bytes)) = (from.item_bytes(), to.item_bytes()) else {
        return Err(format!("{from} cannot be cast to {to}"));
    };
    let chunks = bytes.chunks(CHUNK * from_bytes);
    for (chunk, into) in chunks.zip(into.chunks_mut(CHUNK * to_bytes)) {
        let wide = widened(from, chunk)?;
        narrowed(&wide, to, saturate, into)?;
    }
    Ok(())
}

fn widened(from: Dtype, bytes: &[u8]) -> Result<Wide, String> {
    fn all<T: Item, W: Copy + Default>(bytes: &[u8], wide: impl Fn(T) -> W) -> [W; CHUNK] {
        let mut chunk = [W::default(); CHUNK];
        for (item, into) in items::<T>(bytes).zip(&mut chunk) {
            *into = wide(item);
        }
        chunk
    }
    const REAL: [f64; CHUNK] = [0.0; CHUNK];
    Ok(match from {
        Dtype::Bool => Wide::Unsigned(all(bytes, |item: bool| u64::from(item))),
        Dtype::I8 => Wide::Signed(all(bytes, |item: i8| item.into())),
        Dtype::I16 => Wide::Signed(all(bytes, |item: i16| item.into())),
        Dtype::I32 => Wide::Signed(all(bytes, |item: i32| item.into())),
        Dtype::I64 => Wide::Signed(all(bytes, |item: i64| item)),
        Dtype::U8 => Wide::Unsigned(all(bytes, |item: u8| item.into())),
        Dtype::U16 => Wide::Unsigned(all(bytes, |item: u16| item.into())),
        Dtype::U32 => Wide::Unsigned(all(bytes, |item: u32| item.into())),
        Dtype::U64 => Wide::Unsigned(all(bytes, |item: u64| item)),
        Dtype::F16 => Wide::Float(all(bytes, f16::to_f64), REAL),
        Dtype::Bf16 => Wide::Float(all(bytes, bf16::to_f64), REAL),
        Dtype::F32 => Wide::Float(all(bytes, |item: f32| item.into()), REAL),
        Dtype::F64 => Wide::Float(all(bytes, |item: f64| item), REAL),
        Dtype::F8E4M3 => Wide::Float(all(bytes, |item: u8| E4M3.read(item)), REAL),
        Dtype::F8E5M2 => Wide::Float(all(bytes, |item: u8| E5M2.read(item)), REAL),
        Dtype::C64 => {
            let part = |at: usize| parts::<f32>(bytes, at, f64::from);
            Wide::Float(part(0), part(1))
        }
        Dtype::C128 => {
            let part = |at: usize| parts::<f64>(bytes, at, |item| item);
            Wide::Float(part(0), part(1))
        }
        Dtype::String | Dtype::Bytes => return Err(format!("expected a number, found {from}")),
    })
}

/// Returns the real parts (`at` 0) or the imaginary parts (`at` 1) of complex numbers.
fn parts<T: Item>(bytes: &[u8], at: usize, wide: impl Fn(T) -> f64) -> [f64; CHUNK] {
    let mut chunk = [0.0; CHUNK];
    for (item, into) in items::<T>(bytes).skip(at).step_by(2).zip(&mut chunk) {
        *into = wide(item);
    }
    chunk
}

fn narrowed(wide: &Wide, to: Dtype, saturate: bool, into: &mut [u8]) -> Result<(), String> {
    macro_rules! integer {
        ($to:ident) => {
            match wide {
                Wide::Signed(items) if saturate => narrow(items, into, |item: i64| {
                    item.clamp(
                        i64::try_from($to::MIN).unwrap_or(0),
                        i64::try_from($to::MAX).unwrap_or(i64::MAX),
                    ) as $to
                }),
                Wide::Unsigned(items) if saturate => narrow(items, into, |item: u64| {
                    item.min(u64::try_from($to::MAX).unwrap_or(u64::MAX)) as $to
                }),
                Wide::Signed(items) => narrow(items, into, |item: i64| item as $to),
                Wide::Unsigned(items) => narrow(items, into, |item: u64| item as $to),
                Wide::Float(items, _) => narrow(items, into, |item: f64| item as $to),
            }
        };
    }
    macro_rules! float {
        ($narrow:expr) => {
            match wide {
                Wide::Signed(items) => narrow(items, into, |item: i64| $narrow(item as f64)),
                Wide::Unsigned(items) => narrow(items, into, |item: u64| $narrow(item as f64)),
                Wide::Float(items, _) => narrow(items, into, |item: f64| $narrow(item)),
            }
        };
    }
    match to {
        Dtype::Bool => match wide {
            Wide::Signed(items) => narrow(items, into, |item: i64| item != 0),
            Wide::Unsigned(items) => narrow(items, into, |item: u64| item != 0),
            Wide::Float(real, imaginary) => {
                for ((real, imaginary), into) in real.iter().zip(imaginary).zip(into) {
                    *into = u8::from(*real != 0.0 || *imaginary != 0.0);
                }
            }
        },
        Dtype::I8 => integer!(i8),
        Dtype::I16 => integer!(i16),
        Dtype::I32 => integer!(i32),
        Dtype::I64 => integer!(i64),
        Dtype::U8 => integer!(u8),
        Dtype::U16 => integer!(u16),
        Dtype::U32 => integer!(u32),
        Dtype::U64 => integer!(u64),
        Dtype::F16 => float!(f16::from_f64),
        Dtype::Bf16 => float!(bf16::from_f64),
        Dtype::F32 => match wide {
            Wide::Signed(items) => narrow(items, into, |item: i64| item as f32),
            Wide::Unsigned(items) => narrow(items, into, |item: u64| item as f32),
            Wide::Float(items, _) => narrow(items, into, |item: f64| item as f32),
        },
        Dtype::F64 => float!(|item: f64| item),
        Dtype::F8E4M3 => float!(|item| E4M3.write(item)),
        Dtype::F8E5M2 => float!(|item| E5M2.write(item)),
        Dtype::C64 => complex(wide, into, |item| item as f32),
        Dtype::C128 => complex(wide, into, |item| item),
        Dtype::String | Dtype::Bytes => return Err(format!("a number cannot be cast to {to}")),
    }
    Ok(())
}

fn narrow<W: Copy, T: Item>(items: &[W; CHUNK], into: &mut [u8], narrow: impl Fn(W) -> T) {
    for (item, into) in items.iter().zip(into.chunks_exact_mut(T::BYTES)) {
        narrow(*item).write(into);
    }
}

fn complex<T: Item>(wide: &Wide, into: &mut [u8], narrow: impl Fn(f64) -> T) {
    for (index, into) in into.chunks_exact_mut(2 * T::BYTES).enumerate() {
        let (real, imaginary) = match wide {
            Wide::Signed(items) => (items[index] as f64, 0.0),
            Wide::Unsigned(items) => (items[index] as f64, 0.0),
            Wide::Float(real, imaginary) => (real[index], imaginary[index]),
        };
        let (first, second) = into.split_at_mut(T::BYTES);
        narrow(real).write(first);
        narrow(imaginary).write(second);
    }
}

/// The format of an 8-bit float: the width of its mantissa, the bias of its exponent, and its special values.
struct Float8 {
    mantissa_bits: u32,
    bias: i32,
    /// The bits of the largest finite value.
    largest: u8,
    /// The bits that represent infinity and overflow.
    infinity: u8,
    nan: u8,
}

/// The format E4M3, which has no infinities: values that are too large become NaN.
const E4M3: Float8 = Float8 {
    mantissa_bits: 3,
    bias: 7,
    largest: 0x7e,
    infinity: 0x7f,
    nan: 0x7f,
};
/// The format E5M2, with the special values of IEEE 754.
const E5M2: Float8 = Float8 {
    mantissa_bits: 2,
    bias: 15,
    largest: 0x7b,
    infinity: 0x7c,
    nan: 0x7e,
};

impl Float8 {
    fn read(&self, bits: u8) -> f64 {
        let magnitude = bits & 0x7f;
        let sign = if bits & 0x80 == 0 { 1.0 } else { -1.0 };
        if magnitude > self.largest {
            let infinite = magnitude == self.infinity && self.infinity != self.nan;
            return if infinite { sign * f64::INFINITY } else { f64::NAN };
        }
        let exponent = i32::from(magnitude >> self.mantissa_bits);
        let mantissa = f64::from(magnitude & ((1 << self.mantissa_bits) - 1));
        let scale = f64::from(1u32 << self.mantissa_bits);
        let value = if exponent == 0 {
            mantissa / scale * 2f64.powi(1 - self.bias)
        } else {
            (1.0 + mantissa / scale) * 2f64.powi(exponent - self.bias)
        };
        sign * value
    }

    /// Returns the bits of the nearest float. If two floats are equally near, the float with the even
    /// mantissa is chosen.
    fn write(&self, value: f64) -> u8 {
        let sign = if value.is_sign_negative() { 0x80 } else { 0 };
        if value.is_nan() {
            return sign | self.nan;
        }
        let magnitude = value.abs();
        // The finite floats are in ascending order, so a binary search finds the first float that is not
        // smaller.
        let (mut low, mut high) = (0u8, self.largest + 1);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.read(middle) < magnitude {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        if low > self.largest {
            // The rounding limit is half a step beyond the largest finite float, where a further float would
            // follow.
            let largest = self.read(self.largest);
            let step = largest - self.read(self.largest - 1);
            let rounds_down = magnitude < largest + step / 2.0
                || (magnitude == largest + step / 2.0 && self.largest.is_multiple_of(2));
            return sign | if rounds_down { self.largest } else { self.infinity };
        }
        let Some(below) = low.checked_sub(1) else {
            return sign;
        };
        let (down, up) = (magnitude - self.read(below), self.read(low) - magnitude);
        let nearest = if down < up || (down == up && below.is_multiple_of(2)) {
            below
        } else {
            low
        };
        sign | nearest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_of_8_bits_round_to_nearest() {
        for float in [E4M3, E5M2] {
            for bits in 0..=255u8 {
                let value = float.read(bits);
                if value.is_nan() {
                    assert_eq!(float.write(value) & 0x7f, float.nan);
                } else {
                    assert_eq!(float.write(value), bits, "{value}");
                }
                if bits & 0x7f < float.largest {
                    let next = float.read(bits + 1);
                    let even = if bits.is_multiple_of(2) { bits } else { bits + 1 };
                    assert_eq!(float.write(value + (next - value) / 2.0), even);
                    assert_eq!(float.write(value + (next - value) / 4.0), bits);
                }
            }
        }
        assert_eq!(E4M3.read(0x7e), 448.0);
        assert_eq!(E5M2.read(0x7b), 57344.0);
        assert_eq!(E4M3.write(464.0), 0x7e);
        assert_eq!(E4M3.write(465.0), 0x7f);
        assert_eq!(E5M2.write(1e9), 0x7c);
        assert_eq!(E5M2.read(0xfc), f64::NEG_INFINITY);
    }
}
