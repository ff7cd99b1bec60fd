//! The promise of a task about its elements: one `TensorSpec` for each component, and their structure. This
//! file does not know bytes.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt;

use crate::dtype::Dtype;
use crate::structure::{RAGGED_SPLITS, RAGGED_VALUES, SPARSE_PARTS, Structure, StructureError};

/// Maximum number of dimensions of one tensor.
pub const MAX_RANK: usize = 16;
/// Maximum value of a dimension, because frameworks store dimensions in an `i64`.
pub const DIM_MAX: u64 = i64::MAX as u64;
/// Maximum number of components of one element.
pub const MAX_COMPONENTS: usize = 64;

/// The dtype and shape of one component, as far as they are known.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorSpec {
    dtype: Dtype,
    dims: Option<Vec<Option<u64>>>,
}

impl TensorSpec {
    /// Returns the spec of a tensor with exactly this shape.
    ///
    /// ```
    /// use millstream_element::{Dtype, TensorSpec};
    ///
    /// let image = TensorSpec::fixed(Dtype::U8, &[224, 224, 3]);
    /// assert!(image.is_static());
    /// ```
    #[must_use]
    pub fn fixed(dtype: Dtype, dims: &[u64]) -> TensorSpec {
        TensorSpec {
            dtype,
            dims: Some(dims.iter().copied().map(Some).collect()),
        }
    }

    /// Returns the spec of a tensor with a known rank. `None` marks a dimension that varies.
    ///
    /// ```
    /// use millstream_element::{Dtype, TensorSpec};
    ///
    /// let tokens = TensorSpec::with_dims(Dtype::I32, &[None]);
    /// assert!(!tokens.is_static());
    /// ```
    #[must_use]
    pub fn with_dims(dtype: Dtype, dims: &[Option<u64>]) -> TensorSpec {
        TensorSpec {
            dtype,
            dims: Some(dims.to_vec()),
        }
    }

    /// Returns the spec of a tensor of any rank up to [`MAX_RANK`].
    #[must_use]
    pub fn unknown_rank(dtype: Dtype) -> TensorSpec {
        TensorSpec { dtype, dims: None }
    }

    /// Returns the spec of a single item.
    #[must_use]
    pub fn scalar(dtype: Dtype) -> TensorSpec {
        TensorSpec::fixed(dtype, &[])
    }

    /// Returns the dtype of the tensor.
    #[must_use]
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Returns the dimensions: `None` for an unknown rank, and an inner `None` for an unknown dimension.
    #[must_use]
    pub fn dims(&self) -> Option<&[Option<u64>]> {
        self.dims.as_deref()
    }

    /// Returns whether the payloads of all elements have the same known size. For this, all dimensions must
    /// be known and items must have a fixed length.
    #[must_use]
    pub fn is_static(&self) -> bool {
        self.payload_bytes().is_some()
    }

    /// Returns the size of the payload in bytes, if it is the same for every element. Returns `None`
    /// otherwise, and if the size exceeds `u64`.
    #[must_use]
    pub fn payload_bytes(&self) -> Option<u64> {
        let item_bytes = self.dtype.item_bytes()? as u64;
        let dims = self.dims.as_deref()?;
        items_in(dims.iter().copied())?.checked_mul(item_bytes)
    }

    /// Returns whether the spec accepts a tensor with this dtype and shape.
    #[must_use]
    pub fn accepts(&self, dtype: Dtype, dims: &[u64]) -> bool {
        self.dtype == dtype && self.accepts_dims(dims)
    }

    /// Returns whether the spec accepts this shape.
    #[must_use]
    pub fn accepts_dims(&self, dims: &[u64]) -> bool {
        match &self.dims {
            None => dims.len() <= MAX_RANK,
            Some(wanted) => {
                wanted.len() == dims.len()
                    && wanted
                        .iter()
                        .zip(dims)
                        .all(|(want, have)| want.is_none_or(|want| want == *have))
            }
        }
    }

    /// Returns this spec with an additional leading dimension, as in a batch. An unknown rank stays unknown.
    ///
    /// # Errors
    /// [`SpecError::RankTooHigh`] if the result has more than [`MAX_RANK`] dimensions.
    pub fn batched(&self, size: Option<u64>) -> Result<TensorSpec, SpecError> {
        let dims = self
            .dims
            .as_ref()
            .map(|dims| std::iter::once(size).chain(dims.iter().copied()).collect());
        let spec = TensorSpec {
            dtype: self.dtype,
            dims,
        };
        spec.check()?;
        Ok(spec)
    }

    fn check(&self) -> Result<(), SpecError> {
        let rank = self.dims.as_ref().map_or(0, Vec::len);
        if rank > MAX_RANK {
            return Err(SpecError::RankTooHigh { rank });
        }
        let known = self.dims.iter().flatten().flatten();
        match known.max() {
            Some(&dim) if dim > DIM_MAX => Err(SpecError::DimensionTooLarge { dim }),
            Some(_) | None => Ok(()),
        }
    }
}

/// Returns the product of the dimensions; `None` if one is unknown or the product exceeds `u64`. If all are
/// known and any is zero, the product is zero.
pub(crate) fn items_in(dims: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    let mut items = Some(1u64);
    let mut empty = false;
    for dim in dims {
        let dim = dim?;
        empty |= dim == 0;
        items = items.and_then(|items| items.checked_mul(dim));
    }
    if empty { Some(0) } else { items }
}

/// The structure of an element, and the spec of each component in flatten order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ElementSpec {
    structure: Structure,
    components: Vec<TensorSpec>,
}

impl ElementSpec {
    /// Makes a spec from a structure and the spec of each leaf, in flatten order.
    ///
    /// # Errors
    /// Fails if a limit is exceeded, if the counts differ, or if the parts of a ragged or sparse tensor do
    /// not fit together.
    pub fn new(structure: Structure, components: Vec<TensorSpec>) -> Result<ElementSpec, SpecError> {
        structure.check()?;
        if components.len() > MAX_COMPONENTS {
            return Err(SpecError::TooManyComponents {
                count: components.len(),
            });
        }
        if structure.leaves() != components.len() {
            return Err(SpecError::Count {
                leaves: structure.leaves(),
                specs: components.len(),
            });
        }
        components.iter().try_for_each(TensorSpec::check)?;
        check_composites(&structure, &mut components.iter())?;
        Ok(ElementSpec {
            structure,
            components,
        })
    }

    /// Returns the spec of an element that is one tensor.
    ///
    /// # Errors
    /// Fails like [`ElementSpec::new`].
    pub fn single(spec: TensorSpec) -> Result<ElementSpec, SpecError> {
        ElementSpec::new(Structure::Leaf, vec![spec])
    }

    /// Returns the spec of an element that is a flat dict of tensors, in this order.
    ///
    /// # Errors
    /// Fails like [`ElementSpec::new`].
    pub fn dict<N: Into<String>>(
        entries: impl IntoIterator<Item = (N, TensorSpec)>,
    ) -> Result<ElementSpec, SpecError> {
        let (names, specs): (Vec<_>, Vec<_>) = entries
            .into_iter()
            .map(|(name, spec)| ((name.into(), Structure::Leaf), spec))
            .unzip();
        ElementSpec::new(Structure::Dict(names), specs)
    }

    /// Returns the spec of an element that is a flat tuple of tensors.
    ///
    /// # Errors
    /// Fails like [`ElementSpec::new`].
    pub fn tuple(specs: impl IntoIterator<Item = TensorSpec>) -> Result<ElementSpec, SpecError> {
        let specs: Vec<_> = specs.into_iter().collect();
        ElementSpec::new(Structure::Tuple(vec![Structure::Leaf; specs.len()]), specs)
    }

    /// Returns the spec of each component in flatten order, at most [`MAX_COMPONENTS`].
    #[must_use]
    pub fn components(&self) -> &[TensorSpec] {
        &self.components
    }

    /// Returns the nesting of the components.
    #[must_use]
    pub fn structure(&self) -> &Structure {
        &self.structure
    }

    /// Returns whether all elements have the same shapes and sizes.
    #[must_use]
    pub fn is_static(&self) -> bool {
        self.components.iter().all(TensorSpec::is_static)
    }

    /// Returns the index of the component at a path such as `image` or `a.b.0`; see [`Structure::position`].
    #[must_use]
    pub fn position(&self, path: &str) -> Option<usize> {
        self.structure.position(path)
    }

    /// Returns this spec with an additional leading dimension on every component, as in a batch.
    ///
    /// # Errors
    /// [`SpecError::RankTooHigh`] if a component has too many dimensions. [`SpecError::Composite`] if the
    /// element has ragged or sparse tensors, which cannot get a leading dimension.
    pub fn batched(&self, size: Option<u64>) -> Result<ElementSpec, SpecError> {
        if has_composite(&self.structure) {
            return Err(SpecError::Composite);
        }
        let components: Result<_, _> = self.components.iter().map(|spec| spec.batched(size)).collect();
        Ok(ElementSpec {
            structure: self.structure.clone(),
            components: components?,
        })
    }
}

/// The error for an invalid spec. All variants are faults of the spec's author.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// A tensor has too many dimensions.
    #[error("a tensor has {rank} dimensions, the limit is {MAX_RANK}")]
    RankTooHigh {
        /// The requested number of dimensions.
        rank: usize,
    },
    /// A dimension exceeds an `i64`, which frameworks use for dimensions.
    #[error("a tensor has a dimension of {dim}, the limit is {DIM_MAX}")]
    DimensionTooLarge {
        /// The requested dimension.
        dim: u64,
    },
    /// An element has too many components.
    #[error("an element has {count} components, the limit is {MAX_COMPONENTS}")]
    TooManyComponents {
        /// The requested number of components.
        count: usize,
    },
    /// The structure and the component specs differ in number.
    #[error("expected {leaves} component specs, one for each leaf of the structure, found {specs}")]
    Count {
        /// The number of leaves of the structure.
        leaves: usize,
        /// The number of specs passed by the caller.
        specs: usize,
    },
    /// The structure itself is invalid.
    #[error(transparent)]
    Structure(#[from] StructureError),
    /// A part of a ragged or sparse tensor has a wrong dtype or rank.
    #[error("part `{part}` of a ragged or sparse tensor must be {wanted}")]
    Part {
        /// The name of the wrong part.
        part: &'static str,
        /// The required dtype and rank.
        wanted: &'static str,
    },
    /// A ragged or sparse tensor cannot get a leading batch dimension.
    #[error(
        "ragged and sparse tensors have no leading batch dimension; batch their rows before building them"
    )]
    Composite,
}

fn has_composite(structure: &Structure) -> bool {
    match structure {
        Structure::Leaf | Structure::None => false,
        Structure::Ragged { .. } | Structure::Sparse => true,
        Structure::Tuple(items) | Structure::List(items) => items.iter().any(has_composite),
        Structure::Dict(entries) => entries.iter().any(|(_, item)| has_composite(item)),
    }
}

fn check_composites(
    structure: &Structure,
    specs: &mut std::slice::Iter<'_, TensorSpec>,
) -> Result<(), SpecError> {
    match structure {
        Structure::Leaf => {
            specs.next();
            Ok(())
        }
        Structure::None => Ok(()),
        Structure::Tuple(items) | Structure::List(items) => {
            items.iter().try_for_each(|item| check_composites(item, specs))
        }
        Structure::Dict(entries) => entries
            .iter()
            .try_for_each(|(_, item)| check_composites(item, specs)),
        Structure::Ragged { ragged_rank } => {
            specs.next();
            specs
                .take(usize::from(*ragged_rank))
                .try_for_each(|spec| check_index(spec, 1, RAGGED_SPLITS))
        }
        Structure::Sparse => {
            let [indices, _, dense_shape] = SPARSE_PARTS;
            specs
                .next()
                .map_or(Ok(()), |spec| check_index(spec, 2, indices))?;
            specs.next();
            specs
                .next()
                .map_or(Ok(()), |spec| check_index(spec, 1, dense_shape))
        }
    }
}

fn check_index(spec: &TensorSpec, rank: usize, part: &'static str) -> Result<(), SpecError> {
    let integer = matches!(spec.dtype, Dtype::I32 | Dtype::I64);
    if integer && spec.dims.as_ref().is_some_and(|dims| dims.len() == rank) {
        return Ok(());
    }
    let wanted = if rank == 1 {
        "i32 or i64 of rank 1"
    } else {
        "i32 or i64 of rank 2"
    };
    Err(SpecError::Part { part, wanted })
}

impl fmt::Display for TensorSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.dtype)?;
        let Some(dims) = &self.dims else {
            return f.write_str("[..]");
        };
        f.write_str("[")?;
        for (index, dim) in dims.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            match dim {
                Some(dim) => write!(f, "{comma}{dim}")?,
                None => write!(f, "{comma}?")?,
            }
        }
        f.write_str("]")
    }
}

impl fmt::Display for ElementSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(&self.structure, &mut self.components.iter(), f)
    }
}

type Specs<'a> = std::slice::Iter<'a, TensorSpec>;

fn show(structure: &Structure, specs: &mut Specs<'_>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match structure {
        Structure::Leaf => show_leaf("", specs, f),
        Structure::None => f.write_str("none"),
        Structure::Tuple(items) => {
            f.write_str("(")?;
            show_items(items, specs, f)?;
            f.write_str(if items.len() == 1 { ",)" } else { ")" })
        }
        Structure::List(items) => {
            f.write_str("[")?;
            show_items(items, specs, f)?;
            f.write_str("]")
        }
        Structure::Dict(entries) => {
            f.write_str("{")?;
            for (index, (name, item)) in entries.iter().enumerate() {
                write!(f, "{}{name}: ", if index == 0 { "" } else { ", " })?;
                show(item, specs, f)?;
            }
            f.write_str("}")
        }
        Structure::Ragged { ragged_rank } => {
            f.write_str("ragged(")?;
            show_leaf(RAGGED_VALUES, specs, f)?;
            for _ in 0..*ragged_rank {
                f.write_str(", ")?;
                show_leaf(RAGGED_SPLITS, specs, f)?;
            }
            f.write_str(")")
        }
        Structure::Sparse => {
            f.write_str("sparse(")?;
            for (index, part) in SPARSE_PARTS.into_iter().enumerate() {
                f.write_str(if index == 0 { "" } else { ", " })?;
                show_leaf(part, specs, f)?;
            }
            f.write_str(")")
        }
    }
}

fn show_items(items: &[Structure], specs: &mut Specs<'_>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (index, item) in items.iter().enumerate() {
        f.write_str(if index == 0 { "" } else { ", " })?;
        show(item, specs, f)?;
    }
    Ok(())
}

fn show_leaf(label: &str, specs: &mut Specs<'_>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Some(spec) = specs.next() else { return Ok(()) };
    if label.is_empty() {
        write!(f, "{spec}")
    } else {
        write!(f, "{label}: {spec}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_names_dtypes_and_marks_the_unknown() {
        let spec = ElementSpec::dict([
            ("image", TensorSpec::fixed(Dtype::U8, &[32, 224, 224, 3])),
            ("label", TensorSpec::with_dims(Dtype::I64, &[None])),
            ("text", TensorSpec::unknown_rank(Dtype::String)),
            ("id", TensorSpec::scalar(Dtype::U64)),
        ])
        .unwrap();
        assert_eq!(
            spec.to_string(),
            "{image: u8[32,224,224,3], label: i64[?], text: string[..], id: u64[]}"
        );
        let ragged = ElementSpec::new(
            Structure::Tuple(vec![Structure::Ragged { ragged_rank: 1 }]),
            vec![
                TensorSpec::with_dims(Dtype::F32, &[None]),
                TensorSpec::with_dims(Dtype::I64, &[None]),
            ],
        );
        assert_eq!(
            ragged.unwrap().to_string(),
            "(ragged(values: f32[?], row_splits: i64[?]),)"
        );
    }

    #[test]
    fn only_static_specs_have_known_sizes() {
        assert_eq!(TensorSpec::fixed(Dtype::F32, &[2, 3]).payload_bytes(), Some(24));
        assert_eq!(TensorSpec::scalar(Dtype::C128).payload_bytes(), Some(16));
        assert_eq!(TensorSpec::fixed(Dtype::String, &[2]).payload_bytes(), None);
        assert_eq!(TensorSpec::with_dims(Dtype::U8, &[None]).payload_bytes(), None);
        assert_eq!(TensorSpec::fixed(Dtype::U8, &[u64::MAX, 2]).payload_bytes(), None);
        assert_eq!(
            TensorSpec::fixed(Dtype::U8, &[u64::MAX, u64::MAX, 0]).payload_bytes(),
            Some(0)
        );
    }

    #[test]
    fn accepts_exactly_the_shapes_promised() {
        let spec = TensorSpec::with_dims(Dtype::F32, &[None, Some(3)]);
        assert!(spec.accepts(Dtype::F32, &[7, 3]));
        assert!(!spec.accepts(Dtype::F64, &[7, 3]));
        assert!(!spec.accepts(Dtype::F32, &[7, 4]));
        assert!(!spec.accepts(Dtype::F32, &[7]));
        assert!(TensorSpec::unknown_rank(Dtype::U8).accepts(Dtype::U8, &[1; MAX_RANK]));
        assert!(!TensorSpec::unknown_rank(Dtype::U8).accepts(Dtype::U8, &[1; MAX_RANK + 1]));
    }

    #[test]
    fn dimensions_beyond_an_i64_are_refused() {
        let of = |dim| ElementSpec::single(TensorSpec::fixed(Dtype::U8, &[dim, 0])).map(drop);
        assert_eq!(of(DIM_MAX), Ok(()));
        let dim = DIM_MAX + 1;
        assert_eq!(of(dim), Err(SpecError::DimensionTooLarge { dim }));
    }

    #[test]
    fn batching_adds_a_leading_dimension_within_bounds() {
        let spec = ElementSpec::tuple([
            TensorSpec::fixed(Dtype::U8, &[2]),
            TensorSpec::unknown_rank(Dtype::U8),
        ]);
        assert_eq!(
            spec.unwrap().batched(Some(8)).unwrap().to_string(),
            "(u8[8,2], u8[..])"
        );
        let highest = ElementSpec::single(TensorSpec::fixed(Dtype::U8, &[1; MAX_RANK])).unwrap();
        assert_eq!(
            highest.batched(None),
            Err(SpecError::RankTooHigh { rank: MAX_RANK + 1 })
        );
        let sparse = ElementSpec::new(
            Structure::Sparse,
            vec![
                TensorSpec::with_dims(Dtype::I64, &[None, Some(2)]),
                TensorSpec::with_dims(Dtype::F32, &[None]),
                TensorSpec::fixed(Dtype::I64, &[2]),
            ],
        );
        assert_eq!(sparse.unwrap().batched(Some(2)), Err(SpecError::Composite));
    }

    #[test]
    fn mismatched_specs_are_refused() {
        let leaf = TensorSpec::scalar(Dtype::U8);
        let none = ElementSpec::new(Structure::Leaf, vec![]);
        assert_eq!(none, Err(SpecError::Count { leaves: 1, specs: 0 }));
        let many = ElementSpec::tuple(vec![leaf.clone(); MAX_COMPONENTS + 1]);
        assert_eq!(
            many,
            Err(SpecError::TooManyComponents {
                count: MAX_COMPONENTS + 1
            })
        );
        let splits = ElementSpec::new(Structure::Ragged { ragged_rank: 1 }, vec![leaf.clone(), leaf]);
        assert!(matches!(
            splits,
            Err(SpecError::Part {
                part: "row_splits",
                ..
            })
        ));
    }
}
