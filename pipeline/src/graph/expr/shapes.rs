//! Arithmetic of shapes with unknown dimensions: axes and broadcasting.

use millstream_element::{Dtype, TensorSpec};

/// The dimensions of a tensor; `None` is an unknown dimension.
pub(crate) type Known = Vec<Option<u64>>;

/// Returns the index of `axis` in a tensor of `rank` dimensions. A negative axis counts from the end.
pub(crate) fn axis_of(axis: i64, rank: usize) -> Result<usize, String> {
    let from_start = if axis < 0 {
        axis.saturating_add(rank as i64)
    } else {
        axis
    };
    match usize::try_from(from_start) {
        Ok(place) if place < rank => Ok(place),
        Ok(_) | Err(_) => Err(format!(
            "axis {axis} does not exist in a tensor of {rank} dimensions"
        )),
    }
}

/// Returns the dimension to which two dimensions broadcast, by NumPy's rules.
pub(crate) fn broadcast(one: Option<u64>, other: Option<u64>) -> Result<Option<u64>, String> {
    match (one, other) {
        (Some(1), dim) | (dim, Some(1)) => Ok(dim),
        (Some(one), Some(other)) if one == other => Ok(Some(one)),
        (Some(one), Some(other)) => Err(format!("dimensions of {one} and {other} items do not broadcast")),
        // The unknown dimension must be equal to the known dimension, or 1.
        (Some(known), None) | (None, Some(known)) => Ok(Some(known)),
        (None, None) => Ok(None),
    }
}

/// Returns the shape to which all of `specs` broadcast; `None` if the rank is unknown.
pub(crate) fn broadcast_all(specs: &[&TensorSpec]) -> Result<Option<Known>, String> {
    let mut dims: Known = Vec::new();
    for spec in specs {
        let Some(other) = spec.dims() else {
            return Ok(None);
        };
        let rank = dims.len().max(other.len());
        let of = |dims: &[Option<u64>], axis: usize| {
            let missing = rank - dims.len();
            axis.checked_sub(missing).map_or(Some(1), |axis| dims[axis])
        };
        let joined = (0..rank).map(|axis| broadcast(of(&dims, axis), of(other, axis)));
        dims = joined.collect::<Result<_, _>>()?;
    }
    Ok(Some(dims))
}

/// Returns the spec of a tensor with these dimensions; `None` is an unknown rank.
pub(crate) fn tensor(dtype: Dtype, dims: Option<Known>) -> TensorSpec {
    match dims {
        Some(dims) => TensorSpec::with_dims(dtype, &dims),
        None => TensorSpec::unknown_rank(dtype),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_broadcast_from_the_last_dimension_on() {
        let f32 = |dims: &[Option<u64>]| TensorSpec::with_dims(Dtype::F32, dims);
        let of = |one: &[Option<u64>], other: &[Option<u64>]| broadcast_all(&[&f32(one), &f32(other)]);
        assert_eq!(
            of(&[Some(5), Some(1)], &[Some(3)]),
            Ok(Some(vec![Some(5), Some(3)]))
        );
        assert_eq!(of(&[None], &[Some(3)]), Ok(Some(vec![Some(3)])));
        assert_eq!(of(&[None], &[Some(1)]), Ok(Some(vec![None])));
        assert_eq!(of(&[], &[Some(0)]), Ok(Some(vec![Some(0)])));
        assert!(of(&[Some(2)], &[Some(3)]).is_err());
        assert_eq!(
            broadcast_all(&[&f32(&[]), &TensorSpec::unknown_rank(Dtype::F32)]),
            Ok(None)
        );
    }

    #[test]
    fn axes_count_from_both_ends() {
        assert_eq!(axis_of(-1, 3), Ok(2));
        assert_eq!(axis_of(2, 3), Ok(2));
        assert!(axis_of(3, 3).is_err());
        assert!(axis_of(-4, 3).is_err());
        assert!(axis_of(i64::MIN, 3).is_err());
    }
}
