//! The arithmetic of single numbers, for every dtype that expressions can compute with, and the dispatch on
//! the dtype.

use half::{bf16, f16};

use super::items::Item;

/// An integer or a float.
pub(crate) trait Number: Item + PartialOrd {
    /// The type in which items are summed.
    type Sum: Copy + Default;

    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn floor_div(self, other: Self) -> Result<Self, &'static str>;
    fn modulo(self, other: Self) -> Result<Self, &'static str>;
    fn power(self, other: Self) -> Result<Self, &'static str>;
    fn least(self, other: Self) -> Self;
    fn greatest(self, other: Self) -> Self;
    fn negative(self) -> Self;
    fn magnitude(self) -> Self;
    fn sign(self) -> Self;
    fn added(sum: Self::Sum, item: Self) -> Self::Sum;
    fn summed(sum: Self::Sum) -> Self;
}

/// A float.
pub(crate) trait Float: Number<Sum = f64> {
    fn wide(self) -> f64;
    fn narrow(wide: f64) -> Self;
    fn over(self, other: Self) -> Self;
    fn mapped(self, f32: fn(f32) -> f32, f64: fn(f64) -> f64) -> Self;
}

const BY_ZERO: &str = "an integer is divided by 0";
const NEGATIVE: &str = "an integer has a negative exponent: cast it to a float";

macro_rules! integers {
    ($($item:ident: $sum:ident, $below:expr;)*) => { $(
        impl Number for $item {
            type Sum = $sum;

            fn plus(self, other: $item) -> $item {
                self.wrapping_add(other)
            }

            fn minus(self, other: $item) -> $item {
                self.wrapping_sub(other)
            }

            fn times(self, other: $item) -> $item {
                self.wrapping_mul(other)
            }

            fn floor_div(self, other: $item) -> Result<$item, &'static str> {
                if other == 0 {
                    return Err(BY_ZERO);
                }
                let (quotient, rest) = (self.wrapping_div(other), self.wrapping_rem(other));
                let down = rest != 0 && ($below(rest) != $below(other));
                Ok(if down { quotient.wrapping_sub(1) } else { quotient })
            }

            fn modulo(self, other: $item) -> Result<$item, &'static str> {
                if other == 0 {
                    return Err(BY_ZERO);
                }
                let rest = self.wrapping_rem(other);
                let adjust = rest != 0 && ($below(rest) != $below(other));
                Ok(if adjust { rest.wrapping_add(other) } else { rest })
            }

            fn power(self, other: $item) -> Result<$item, &'static str> {
                if $below(other) {
                    return Err(NEGATIVE);
                }
                let (mut base, mut exponent, mut power): ($item, $item, $item) = (self, other, 1);
                while exponent > 0 {
                    if exponent % 2 == 1 {
                        power = power.wrapping_mul(base);
                    }
                    base = base.wrapping_mul(base);
                    exponent /= 2;
                }
                Ok(power)
            }

            fn least(self, other: $item) -> $item {
                self.min(other)
            }

            fn greatest(self, other: $item) -> $item {
                self.max(other)
            }

            fn negative(self) -> $item {
                self.wrapping_neg()
            }

            fn magnitude(self) -> $item {
                if $below(self) { self.wrapping_neg() } else { self }
            }

            fn sign(self) -> $item {
                match self.cmp(&0) {
                    std::cmp::Ordering::Less => (0 as $item).wrapping_sub(1),
                    std::cmp::Ordering::Equal => 0,
                    std::cmp::Ordering::Greater => 1,
                }
            }

            fn added(sum: $sum, item: $item) -> $sum {
                sum.wrapping_add($sum::from(item))
            }

            fn summed(sum: $sum) -> $item {
                // A sum wraps around, and its low bits are the wrapped sum of the items.
                sum as $item
            }
        }
    )* };
}

integers! {
    i8: i64, i8::is_negative;
    i16: i64, i16::is_negative;
    i32: i64, i32::is_negative;
    i64: i64, i64::is_negative;
    u8: u64, |_: u8| false;
    u16: u64, |_: u16| false;
    u32: u64, |_: u32| false;
    u64: u64, |_: u64| false;
}

macro_rules! floats {
    ($($item:ident as $wide:ident: $to:expr, $from:expr;)*) => { $(
        impl Number for $item {
            type Sum = f64;

            fn plus(self, other: $item) -> $item {
                $from($to(self) + $to(other))
            }

            fn minus(self, other: $item) -> $item {
                $from($to(self) - $to(other))
            }

            fn times(self, other: $item) -> $item {
                $from($to(self) * $to(other))
            }

            fn floor_div(self, other: $item) -> Result<$item, &'static str> {
                Ok($from(($to(self) / $to(other)).floor()))
            }

            fn modulo(self, other: $item) -> Result<$item, &'static str> {
                let (one, other): ($wide, $wide) = ($to(self), $to(other));
                let rest = one % other;
                let adjust = rest != 0.0 && ((rest < 0.0) != (other < 0.0));
                Ok($from(if adjust { rest + other } else { rest }))
            }

            fn power(self, other: $item) -> Result<$item, &'static str> {
                Ok($from($to(self).powf($to(other))))
            }

            fn least(self, other: $item) -> $item {
                if self.is_nan() || self < other { self } else { other }
            }

            fn greatest(self, other: $item) -> $item {
                if self.is_nan() || self > other { self } else { other }
            }

            fn negative(self) -> $item {
                -self
            }

            fn magnitude(self) -> $item {
                $from($to(self).abs())
            }

            fn sign(self) -> $item {
                let wide: $wide = $to(self);
                $from(if wide == 0.0 || wide.is_nan() { wide } else { wide.signum() })
            }

            fn added(sum: f64, item: $item) -> f64 {
                sum + item.wide()
            }

            fn summed(sum: f64) -> $item {
                $item::narrow(sum)
            }
        }
    )* };
}

floats! {
    f32 as f32: |item: f32| item, |wide: f32| wide;
    f64 as f64: |item: f64| item, |wide: f64| wide;
    f16 as f32: f16::to_f32, f16::from_f32;
    bf16 as f32: bf16::to_f32, bf16::from_f32;
}

macro_rules! widths {
    ($($item:ident: $wide:expr, $narrow:expr, |$one:ident, $other:ident| $over:expr, |$x:ident, $f32:ident, $f64:ident| $mapped:expr;)*) => { $(
        impl Float for $item {
            fn wide(self) -> f64 {
                $wide(self)
            }

            fn narrow(wide: f64) -> $item {
                $narrow(wide)
            }

            fn over(self, $other: $item) -> $item {
                let $one = self;
                $over
            }

            fn mapped(self, $f32: fn(f32) -> f32, $f64: fn(f64) -> f64) -> $item {
                let $x = self;
                $mapped
            }
        }
    )* };
}

widths! {
    f32: f64::from, |wide| wide as f32, |one, other| one / other, |x, narrow, _wide| narrow(x);
    f64: |item| item, |wide| wide, |one, other| one / other, |x, _narrow, wide| wide(x);
    f16: f16::to_f64, f16::from_f64, |one, other| f16::from_f32(one.to_f32() / other.to_f32()), |x, narrow, _wide| f16::from_f32(narrow(x.to_f32()));
    bf16: bf16::to_f64, bf16::from_f64, |one, other| bf16::from_f32(one.to_f32() / other.to_f32()), |x, narrow, _wide| bf16::from_f32(narrow(x.to_f32()));
}

/// Expands to `$body` with `$item` as the Rust type of items of the number `$dtype`, or to `$other` for
/// dtypes that are not numbers.
macro_rules! with_number {
    ($dtype:expr, $item:ident => $body:expr, $other:expr) => {
        match $dtype {
            Dtype::I8 => {
                type $item = i8;
                $body
            }
            Dtype::I16 => {
                type $item = i16;
                $body
            }
            Dtype::I32 => {
                type $item = i32;
                $body
            }
            Dtype::I64 => {
                type $item = i64;
                $body
            }
            Dtype::U8 => {
                type $item = u8;
                $body
            }
            Dtype::U16 => {
                type $item = u16;
                $body
            }
            Dtype::U32 => {
                type $item = u32;
                $body
            }
            Dtype::U64 => {
                type $item = u64;
                $body
            }
            Dtype::F16 => {
                type $item = half::f16;
                $body
            }
            Dtype::Bf16 => {
                type $item = half::bf16;
                $body
            }
            Dtype::F32 => {
                type $item = f32;
                $body
            }
            Dtype::F64 => {
                type $item = f64;
                $body
            }
            Dtype::Bool
            | Dtype::F8E4M3
            | Dtype::F8E5M2
            | Dtype::C64
            | Dtype::C128
            | Dtype::String
            | Dtype::Bytes => $other,
        }
    };
}

/// Expands to `$body` with the Rust type of the float `$dtype`, in the way of `with_number`.
macro_rules! with_float {
    ($dtype:expr, $item:ident => $body:expr, $other:expr) => {
        match $dtype {
            Dtype::F16 => {
                type $item = half::f16;
                $body
            }
            Dtype::Bf16 => {
                type $item = half::bf16;
                $body
            }
            Dtype::F32 => {
                type $item = f32;
                $body
            }
            Dtype::F64 => {
                type $item = f64;
                $body
            }
            Dtype::Bool
            | Dtype::I8
            | Dtype::I16
            | Dtype::I32
            | Dtype::I64
            | Dtype::U8
            | Dtype::U16
            | Dtype::U32
            | Dtype::U64
            | Dtype::F8E4M3
            | Dtype::F8E5M2
            | Dtype::C64
            | Dtype::C128
            | Dtype::String
            | Dtype::Bytes => $other,
        }
    };
}

pub(crate) use {with_float, with_number};

/// Returns the error for an operation that the analysis should have refused.
pub(crate) fn no_number(dtype: millstream_element::Dtype) -> String {
    format!("the operation is not defined for {dtype}")
}
