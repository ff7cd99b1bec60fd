//! Tests of shape operations: each operation is compared with a naive one that looks up every item by
//! its index.

use millstream_element::Dtype;
use millstream_pipeline::graph::{Span, col, concat, stack};
use millstream_testkit::rounds;
use proptest::prelude::*;

use super::arrays::{Array, array, array_of_rank, byte_string, computed, filled, of_arrays};

proptest! {
    #![proptest_config(rounds(100))]

    #[test]
    fn transposing_moves_every_item((array, axes) in array().prop_flat_map(|array| {
        let axes: Vec<u64> = (0..array.dims.len() as u64).collect();
        (Just(array), Just(axes).prop_shuffle())
    })) {
        let dims: Vec<u64> = axes.iter().map(|axis| array.dims[*axis as usize]).collect();
        let expected = Array::new(&dims, |place| {
            let mut from = vec![0; place.len()];
            for (axis, at) in axes.iter().zip(place) {
                from[*axis as usize] = *at;
            }
            array.at(&from)
        });
        if axes.iter().rev().copied().eq(0..axes.len() as u64) {
            prop_assert_eq!(&of_arrays(&[&array], col("a").transpose([])).unwrap(), &expected);
        }
        prop_assert_eq!(of_arrays(&[&array], col("a").transpose(axes)).unwrap(), expected);
    }

    #[test]
    fn slices_hold_what_their_spans_take(
        array in array_of_rank(2),
        rows in span(),
        columns in span(),
        place in -4i64..4,
    ) {
        let taken = |dim: u64, span: &Span| -> Vec<u64> {
            let Span::Range { start, stop, step } = *span else { panic!() };
            let dim = dim as i64;
            let all: Vec<i64> = if step > 0 { (0..dim).collect() } else { (0..dim).rev().collect() };
            let from_end = |place: i64| if place < 0 { place + dim } else { place };
            let begins = |at: i64| start.is_none_or(|start| if step > 0 { at >= from_end(start) } else { at <= from_end(start) });
            let ends = |at: i64| stop.is_none_or(|stop| if step > 0 { at < from_end(stop) } else { at > from_end(stop) });
            let inside = all.into_iter().filter(|at| begins(*at) && ends(*at));
            inside.step_by(step.unsigned_abs() as usize).map(|at| at as u64).collect()
        };
        let (row_places, column_places) = (taken(array.dims[0], &rows), taken(array.dims[1], &columns));
        let expected = Array::new(&[row_places.len() as u64, column_places.len() as u64], |place| {
            array.at(&[row_places[place[0] as usize], column_places[place[1] as usize]])
        });
        prop_assert_eq!(of_arrays(&[&array], col("a").slice([rows, columns])).unwrap(), expected);
        let from_end = if place < 0 { place + array.dims[0] as i64 } else { place };
        if (0..array.dims[0] as i64).contains(&from_end) {
            let expected = Array::new(&[column_places.len() as u64], |place| {
                array.at(&[from_end as u64, column_places[place[0] as usize]])
            });
            prop_assert_eq!(of_arrays(&[&array], col("a").slice([Span::At(place), columns])).unwrap(), expected);
        }
    }

    #[test]
    fn joined_tensors_hold_each_other(
        (one, other, axis) in (1usize..4).prop_flat_map(|rank| {
            (prop::collection::vec(0u64..4, rank), 0..rank, 0u64..4)
        }).prop_flat_map(|(dims, axis, along)| {
            let mut others = dims.clone();
            others[axis] = along;
            (filled(dims), filled(others), Just(axis))
        }),
    ) {
        let mut dims = one.dims.clone();
        dims[axis] += other.dims[axis];
        let expected = Array::new(&dims, |place| {
            let mut place = place.to_vec();
            match place[axis].checked_sub(one.dims[axis]) {
                None => one.at(&place),
                Some(behind) => {
                    place[axis] = behind;
                    other.at(&place)
                }
            }
        });
        let named = axis as i64 - dims.len() as i64;
        prop_assert_eq!(of_arrays(&[&one, &other], concat([col("a"), col("b")], named)).unwrap(), expected);
    }

    #[test]
    fn stacked_tensors_are_side_by_side(array in array(), at in 0usize..4) {
        let at = at.min(array.dims.len());
        let mut dims = array.dims.clone();
        dims.insert(at, 2);
        let expected = Array::new(&dims, |place| {
            let mut place = place.to_vec();
            let which = place.remove(at);
            array.at(&place) * if which == 0 { 1 } else { -1 }
        });
        prop_assert_eq!(of_arrays(&[&array], stack([col("a"), -col("a")], at as i64)).unwrap(), expected);
    }

    #[test]
    fn gathering_takes_the_slices_that_are_named(
        array in array_of_rank(3),
        axis in 0usize..3,
        indices in prop::collection::vec(-4i64..5, 4),
    ) {
        let along = array.dims[axis] as i64;
        let indices = Array { dims: vec![2, 2], items: indices };
        let mut dims = array.dims.clone();
        dims.splice(axis..=axis, [2, 2]);
        let found = of_arrays(&[&array, &indices], col("a").gather(col("b"), axis as i64));
        if indices.items.iter().any(|index| *index >= along || *index < -along) {
            prop_assert!(found.unwrap_err().to_string().contains("outside"));
            return Ok(());
        }
        let expected = Array::new(&dims, |place| {
            let mut place = place.to_vec();
            let index = indices.at(&[place[axis], place[axis + 1]]);
            place.splice(axis..axis + 2, [index.rem_euclid(along) as u64]);
            array.at(&place)
        });
        prop_assert_eq!(found.unwrap(), expected);
    }

    #[test]
    fn padding_surrounds(array in array(), pads in prop::collection::vec((0u64..3, 0u64..3), 3), value in -3i64..3) {
        let pads = &pads[..array.dims.len()];
        let dims: Vec<u64> = array.dims.iter().zip(pads).map(|(dim, (before, behind))| dim + before + behind).collect();
        let expected = Array::new(&dims, |place| {
            let moved = place.iter().zip(pads).zip(&array.dims);
            let moved: Option<Vec<u64>> = moved
                .map(|((place, (before, _)), dim)| place.checked_sub(*before).filter(|place| place < dim))
                .collect();
            moved.map_or(value, |place| array.at(&place))
        });
        prop_assert_eq!(of_arrays(&[&array], col("a").pad(pads.to_vec(), value)).unwrap(), expected);
    }

    #[test]
    fn padding_to_a_length_fills_or_cuts(array in array_of_rank(2), axis in 0usize..2, length in 0u64..6) {
        let mut dims = array.dims.clone();
        dims[axis] = length;
        let expected = Array::new(&dims, |place| {
            if place[axis] < array.dims[axis] { array.at(place) } else { 9 }
        });
        let found = of_arrays(&[&array], col("a").pad_to(axis as i64, length, 9, true)).unwrap();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn other_dimensions_keep_the_items(array in array()) {
        let items = array.items.len() as u64;
        let flat = of_arrays(&[&array], col("a").reshape([items as i64, 1]).squeeze([-1]).expand_dims(0)).unwrap();
        prop_assert_eq!(flat, Array { dims: vec![1, items], items: array.items.clone() });
        let dims = of_arrays(&[&array], col("a").shape()).unwrap();
        let expected = array.dims.iter().map(|dim| *dim as i64).collect();
        prop_assert_eq!(dims, Array { dims: vec![array.dims.len() as u64], items: expected });
        let wide: Vec<u64> = [vec![2], array.dims.clone()].concat();
        let expected = Array::new(&wide, |place| array.at(&place[1..]));
        prop_assert_eq!(of_arrays(&[&array], col("a").broadcast_to(wide)).unwrap(), expected);
    }

    #[test]
    fn one_hot_is_one_at_the_index_alone(array in array(), depth in 0u64..4) {
        let mut dims = array.dims.clone();
        dims.push(depth);
        let expected = Array::new(&dims, |place| {
            let (class, place) = place.split_last().unwrap();
            (array.at(place) == *class as i64).into()
        });
        let found = of_arrays(&[&array], col("a").one_hot(depth, Dtype::I64)).unwrap();
        prop_assert_eq!(found, expected);
    }
}

fn span() -> impl Strategy<Value = Span> {
    let place = || prop::option::of(-4i64..5);
    (place(), place(), prop::sample::select(vec![-2i64, -1, 1, 2]))
        .prop_map(|(start, stop, step)| Span::Range { start, stop, step })
}

#[test]
fn raw_bytes_are_numbers_in_either_order() {
    let raw = |big_endian| {
        let column = [("x", byte_string(&[1, 0, 0, 2]))];
        computed(
            &column,
            col("x").decode_raw(Dtype::I16, big_endian).cast(Dtype::I64),
        )
    };
    let items = |big_endian| super::arrays::array_of(&raw(big_endian).unwrap()).items;
    assert_eq!(items(false), [1, 512]);
    assert_eq!(items(true), [256, 2]);
    let odd = computed(
        &[("x", byte_string(&[1, 2, 3]))],
        col("x").decode_raw(Dtype::I16, false),
    );
    assert!(odd.unwrap_err().to_string().contains("not a whole number"));
}

#[test]
fn spans_are_written_as_ranges() {
    let numbers = Array {
        dims: vec![5],
        items: vec![0, 1, 2, 3, 4],
    };
    let of = |span: Span| of_arrays(&[&numbers], col("a").slice([span])).unwrap().items;
    assert_eq!(of(Span::between(1, -1)), [1, 2, 3]);
    assert_eq!(of((1..3).into()), [1, 2]);
    assert_eq!(of((3..).into()), [3, 4]);
    assert_eq!(of((..2).into()), [0, 1]);
    assert_eq!(of(Span::from(..).by(-2)), [4, 2, 0]);
    assert_eq!(of_arrays(&[&numbers], col("a").at(-1)).unwrap().items, [4]);
    assert_eq!(of_arrays(&[&numbers], col("a").len()).unwrap().items, [5]);
}
