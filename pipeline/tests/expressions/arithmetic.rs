//! Tests of numeric expressions: element-wise operations, reductions and conversions.

use millstream_element::Dtype;
use millstream_pipeline::graph::{Expr, col, lit};
use millstream_testkit::rounds;
use proptest::prelude::*;

use super::arrays::{Array, array, computed, encoded, filled, of_arrays, places};

const INTEGERS: [Dtype; 8] = [
    Dtype::I8,
    Dtype::I16,
    Dtype::I32,
    Dtype::I64,
    Dtype::U8,
    Dtype::U16,
    Dtype::U32,
    Dtype::U64,
];

type Naive = fn(i64, i64) -> Option<i64>;
type Operation = (&'static str, fn(Expr, Expr) -> Expr, Naive);

/// Returns the operations on integers and their counterparts in Python. A counterpart returns `None`
/// where Python raises an error.
fn operations() -> Vec<Operation> {
    vec![
        ("+", |x, y| x + y, |x, y| Some(x.wrapping_add(y))),
        ("-", |x, y| x - y, |x, y| Some(x.wrapping_sub(y))),
        ("*", |x, y| x * y, |x, y| Some(x.wrapping_mul(y))),
        (
            "//",
            |x, y| x.floor_div(y),
            |x, y| (y != 0).then(|| (x as f64 / y as f64).floor() as i64),
        ),
        (
            "%",
            |x, y| x % y,
            |x, y| (y != 0).then(|| x - (x as f64 / y as f64).floor() as i64 * y),
        ),
        (
            "**",
            |x, y| x.pow(y),
            |x, y| (y >= 0).then(|| (0..y).fold(1i64, |power, _| power.wrapping_mul(x))),
        ),
        ("min", |x, y| x.minimum(y), |x, y| Some(x.min(y))),
        ("max", |x, y| x.maximum(y), |x, y| Some(x.max(y))),
        (
            "==",
            |x, y| x.eq(y).cast(Dtype::I64),
            |x, y| Some((x == y).into()),
        ),
        (
            "!=",
            |x, y| x.ne(y).cast(Dtype::I64),
            |x, y| Some((x != y).into()),
        ),
        ("<", |x, y| x.lt(y).cast(Dtype::I64), |x, y| Some((x < y).into())),
        (
            "<=",
            |x, y| x.le(y).cast(Dtype::I64),
            |x, y| Some((x <= y).into()),
        ),
        (">", |x, y| x.gt(y).cast(Dtype::I64), |x, y| Some((x > y).into())),
        (
            ">=",
            |x, y| x.ge(y).cast(Dtype::I64),
            |x, y| Some((x >= y).into()),
        ),
        (
            "&",
            |x, y| (x.ne(0) & y.ne(0)).cast(Dtype::I64),
            |x, y| Some((x != 0 && y != 0).into()),
        ),
        (
            "|",
            |x, y| (x.ne(0) | y.ne(0)).cast(Dtype::I64),
            |x, y| Some((x != 0 || y != 0).into()),
        ),
        (
            "^",
            |x, y| (x.ne(0) ^ y.ne(0)).cast(Dtype::I64),
            |x, y| Some(((x != 0) != (y != 0)).into()),
        ),
    ]
}

/// Returns two random arrays whose shapes can be broadcast together.
fn pair() -> impl Strategy<Value = (Array, Array)> {
    let dims = prop::collection::vec(0u64..4, 0..4);
    (dims, any::<[[bool; 3]; 2]>(), 0usize..4, any::<bool>()).prop_flat_map(|(dims, kept, cut, first)| {
        let shape = |kept: [bool; 3], cut: usize| {
            let pairs = dims.iter().zip(kept);
            let shape = pairs.map(|(dim, keep)| if keep { *dim } else { 1 });
            shape.skip(cut.min(dims.len())).collect::<Vec<u64>>()
        };
        let cuts = if first { (cut, 0) } else { (0, cut) };
        (filled(shape(kept[0], cuts.0)), filled(shape(kept[1], cuts.1)))
    })
}

fn broadcast_dims(one: &Array, other: &Array) -> Vec<u64> {
    let rank = one.dims.len().max(other.dims.len());
    let dim = |dims: &[u64], axis: usize| (axis + dims.len()).checked_sub(rank).map_or(1, |axis| dims[axis]);
    (0..rank)
        .map(|axis| match (dim(&one.dims, axis), dim(&other.dims, axis)) {
            (1, dim) => dim,
            (dim, _) => dim,
        })
        .collect()
}

proptest! {
    #![proptest_config(rounds(100))]

    #[test]
    fn operations_of_two_are_those_of_every_pair((one, other) in pair()) {
        let dims = broadcast_dims(&one, &other);
        for (name, expr, naive) in operations() {
            let pairs = places(&dims);
            let items = pairs.iter().map(|place| naive(one.broadcast_at(place), other.broadcast_at(place)));
            let expected: Option<Vec<i64>> = items.collect();
            let found = of_arrays(&[&one, &other], expr(col("a"), col("b")));
            match expected {
                Some(items) => prop_assert_eq!(found.unwrap(), Array { dims: dims.clone(), items }, "{}", name),
                None => prop_assert!(found.is_err(), "{}", name),
            }
        }
    }

    #[test]
    fn integers_of_every_width_wrap_around(x: i64, y: i64) {
        let scalar = |item| Array { dims: vec![], items: vec![item] };
        for dtype in INTEGERS {
            let columns = [("a", scalar(x).column(dtype)), ("b", scalar(y).column(dtype))];
            let all = (col("a") + col("b")) * col("a") - col("b");
            let found = computed(&columns, all).unwrap();
            let expected = x.wrapping_add(y).wrapping_mul(x).wrapping_sub(y);
            prop_assert_eq!(found.contiguous().unwrap(), encoded(0.0, expected, dtype));
        }
    }

    #[test]
    fn reductions_are_those_of_every_group_of_items(
        array in array(),
        reduced in any::<[bool; 3]>(),
        all: bool,
        keep_dims: bool,
    ) {
        let rank = array.dims.len();
        let axes: Vec<usize> = if all { (0..rank).collect() } else { (0..rank).filter(|axis| reduced[*axis]).collect() };
        if !all && axes.is_empty() {
            return Ok(());
        }
        let named: Vec<i64> = if all { vec![] } else { axes.iter().map(|axis| *axis as i64 - rank as i64).collect() };
        let kept: Vec<u64> = (0..rank).map(|axis| if axes.contains(&axis) { 1 } else { array.dims[axis] }).collect();
        let groups: Vec<Vec<i64>> = places(&kept)
            .iter()
            .map(|kept| {
                let all = places(&array.dims).into_iter();
                let mine = all.filter(|place| (0..rank).all(|axis| axes.contains(&axis) || place[axis] == kept[axis]));
                mine.map(|place| array.at(&place)).collect()
            })
            .collect();
        let dims: Vec<u64> = (0..rank)
            .filter(|axis| keep_dims || !axes.contains(axis))
            .map(|axis| kept[axis])
            .collect();
        let check = |expr: Expr, naive: fn(&[i64]) -> Option<i64>| {
            let items: Option<Vec<i64>> = groups.iter().map(|group| naive(group)).collect();
            let found = of_arrays(&[&array], expr);
            match items {
                Some(items) => assert_eq!(found.unwrap(), Array { dims: dims.clone(), items }),
                None => assert!(found.unwrap_err().to_string().contains("an empty tensor")),
            }
        };
        let axes = || named.clone();
        check(col("a").sum(axes(), keep_dims), |group| Some(group.iter().sum()));
        check(col("a").max(axes(), keep_dims), |group| group.iter().max().copied());
        check(col("a").min(axes(), keep_dims), |group| group.iter().min().copied());
        check(col("a").gt(0).any(axes(), keep_dims).cast(Dtype::I64), |group| {
            Some(group.iter().any(|item| *item > 0).into())
        });
        check(col("a").gt(0).all(axes(), keep_dims).cast(Dtype::I64), |group| {
            Some(group.iter().all(|item| *item > 0).into())
        });
        let mean = col("a").cast(Dtype::F64).mean(axes(), keep_dims);
        check((mean * 1000.0).floor().cast(Dtype::I64), |group| {
            // The mean of no numbers is NaN, which becomes 0 as an integer.
            let mean = group.iter().sum::<i64>() as f64 / group.len() as f64;
            Some((mean * 1000.0).floor() as i64)
        });
    }

    #[test]
    fn casts_are_those_of_rust_whatever_the_dtypes(value in prop_oneof![-400i64..400, any::<i64>()]) {
        let scalar = Array { dims: vec![1], items: vec![value] };
        let dtypes = INTEGERS.into_iter().chain([Dtype::Bool, Dtype::F32, Dtype::F64]);
        for (from, to) in dtypes.clone().flat_map(|from| dtypes.clone().map(move |to| (from, to))) {
            let found = computed(&[("a", scalar.column(from))], col("a").cast(to)).unwrap();
            let source = encoded(value as f64, value, from);
            // Conversions of integers keep the value; conversions of floats to integers truncate.
            let (float, int) = if matches!(from, Dtype::F32 | Dtype::F64) {
                let float = if from == Dtype::F32 { f64::from(value as f32) } else { value as f64 };
                (float, saturated(float, to))
            } else if from == Dtype::U64 {
                (value as u64 as f64, value)
            } else {
                let is_negative = source.last().unwrap() & 0x80 != 0 && from.name().starts_with('i');
                let mut wide = [if is_negative { 255 } else { 0 }; 8];
                wide[..source.len()].copy_from_slice(&source);
                (i64::from_le_bytes(wide) as f64, i64::from_le_bytes(wide))
            };
            let expected = if to == Dtype::F32 && from == Dtype::I64 {
                (value as f32).to_le_bytes().to_vec()
            } else if to == Dtype::F32 && from == Dtype::U64 {
                (value as u64 as f32).to_le_bytes().to_vec()
            } else if to == Dtype::Bool {
                vec![u8::from(float != 0.0)]
            } else {
                encoded(float, int, to)
            };
            prop_assert_eq!(found.contiguous().unwrap(), expected, "{} to {}", from, to);
        }
    }

    #[test]
    fn saturating_casts_go_to_the_nearest(value: i64) {
        for to in INTEGERS {
            let scalar = Array { dims: vec![], items: vec![value] };
            let found = computed(&[("a", scalar.column(Dtype::I64))], col("a").saturating_cast(to)).unwrap();
            let (low, high) = bounds(to);
            let nearest = i128::from(value).clamp(low, high);
            prop_assert_eq!(found.contiguous().unwrap(), encoded(0.0, nearest as i64, to));
        }
    }
}

fn bounds(dtype: Dtype) -> (i128, i128) {
    let bits = dtype.item_bytes().unwrap() as u32 * 8;
    if dtype.name().starts_with('i') {
        (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
    } else {
        (0, (1i128 << bits) - 1)
    }
}

/// Converts a float to an integer of the dtype `to`, and returns the bits of an `i64`.
fn saturated(float: f64, to: Dtype) -> i64 {
    if matches!(to, Dtype::Bool | Dtype::F32 | Dtype::F64) {
        return 0;
    }
    let (low, high) = bounds(to);
    (float as i128).clamp(low, high) as i64
}

fn f64s(expr: Expr) -> Vec<f64> {
    let one = Array {
        dims: vec![2],
        items: vec![-3, 2],
    };
    let found = computed(&[("x", one.column(Dtype::F64))], expr).unwrap();
    assert_eq!(found.dtype(), Dtype::F64);
    let items = found.contiguous().unwrap().chunks_exact(8);
    items
        .map(|item| f64::from_le_bytes(item.try_into().unwrap()))
        .collect()
}

#[test]
fn operations_of_floats_are_those_of_numpy() {
    let x = || col("x");
    assert_eq!(f64s((x() / 2.0).floor()), [-2.0, 1.0]);
    assert_eq!(f64s((x() / 2.0).ceil()), [-1.0, 1.0]);
    assert_eq!(f64s((x() / 2.0).round()), [-2.0, 1.0]);
    assert_eq!(f64s(x() % 2.0), [1.0, 0.0]);
    assert_eq!(f64s(x().floor_div(2)), [-2.0, 1.0]);
    assert_eq!(f64s(x().abs().sqrt()), [3f64.sqrt(), 2f64.sqrt()]);
    assert_eq!(f64s(x().exp().log()), [(-3f64).exp().ln(), 2f64.exp().ln()]);
    assert_eq!(f64s(x().sign()), [-1.0, 1.0]);
    assert_eq!(f64s(x().tanh()), [(-3f64).tanh(), 2f64.tanh()]);
    assert_eq!(f64s(-x()), [3.0, -2.0]);
    assert_eq!(f64s(x().pow(2.0)), [9.0, 4.0]);
    assert_eq!(f64s(x().clip(-1.0, 1.5)), [-1.0, 1.5]);
    assert_eq!(f64s(x().gt(0.0).if_else(x(), lit(0.5))), [0.5, 2.0]);
    let nan = || lit(0.0) / lit(0.0);
    assert_eq!(
        f64s(x() * 0.0 + nan().is_nan().if_else(lit(1.0), lit(2.0))),
        [1.0, 1.0]
    );
    assert!(f64s(x().minimum(nan())).iter().all(|item| item.is_nan()));
    assert!(f64s(nan().maximum(x())).iter().all(|item| item.is_nan()));
    assert_eq!(f64s(x() * 0.0 + nan().is_finite().cast(Dtype::F64)), [0.0, 0.0]);
}

#[test]
fn integers_divide_as_floats() {
    let of = |dtype: Dtype, expr: Expr| {
        let array = Array {
            dims: vec![],
            items: vec![7],
        };
        computed(&[("x", array.column(Dtype::I64))], col("x").cast(dtype) * 1 + 0)
            .and(computed(
                &[("x", array.column(Dtype::I64))],
                expr.cast(Dtype::F64),
            ))
            .map(|found| f64::from_le_bytes(found.contiguous().unwrap().try_into().unwrap()))
            .unwrap()
    };
    let half = |dtype: Dtype| of(dtype, col("x").cast(dtype) / 2);
    for dtype in INTEGERS
        .into_iter()
        .chain([Dtype::F16, Dtype::Bf16, Dtype::F32, Dtype::F64])
    {
        assert_eq!(half(dtype), 3.5, "{dtype}");
    }
    assert_eq!(of(Dtype::F16, col("x").cast(Dtype::F16) * 0.1), 0.69970703125);
    assert_eq!(of(Dtype::Bf16, col("x").cast(Dtype::Bf16) * 0.1), 0.69921875);
    assert_eq!(of(Dtype::F32, col("x").cast(Dtype::F8E4M3).cast(Dtype::F32)), 7.0);
    assert_eq!(of(Dtype::F32, col("x").cast(Dtype::C64).cast(Dtype::F32)), 7.0);
}
