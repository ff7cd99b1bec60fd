//! The selected features of a `tf.train.Example`, and the components that they become.

use millstream_element::{Dtype, ElementSpec, Structure, TensorSpec};
use minicbor::{Decode, Encode};
use serde::Deserialize;

use crate::graph::check::check_name;
use crate::graph::constant::{Constant, ConstantTensor};
use crate::graph::expr::{DtypeField, column_of};
use crate::graph::params::SpecField;

/// A selected feature of an example. The component has the name of the feature.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct Feature {
    /// The name of the feature and of the component.
    #[n(0)]
    pub name: String,
    /// The dtype of the values: `i64`, `f32`, `bytes`, or `string`, whose values must be valid UTF-8.
    #[n(1)]
    pub dtype: DtypeField,
    /// The layout of the component.
    #[n(2)]
    pub layout: FeatureLayout,
}

/// The layout of the component that a feature becomes.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FeatureLayout {
    /// A tensor of these dimensions, as `tf.io.FixedLenFeature`. The default replaces a missing feature, and
    /// has one value for each item or one for all. A missing feature without a default is an error.
    #[n(0)]
    Fixed(#[n(0)] Vec<u64>, #[n(1)] Option<ConstantTensor>),
    /// A sparse tensor of all values in the feature, as `tf.io.VarLenFeature`.
    #[n(1)]
    Sparse,
    /// All values in the feature, as `tf.io.RaggedFeature`: a vector for one example, a ragged tensor for
    /// several.
    #[n(2)]
    Ragged,
    /// One tensor of these dimensions for each group of values, as `tf.io.FixedLenSequenceFeature`. A missing
    /// feature has no tensors. Examples of a batch are padded with the default, which is one value, or with
    /// zeros.
    #[n(3)]
    Padded(#[n(0)] Vec<u64>, #[n(1)] Option<ConstantTensor>),
}

impl Feature {
    /// Describes a feature of a fixed number of values.
    pub fn fixed(name: impl Into<String>, dtype: Dtype, dims: &[u64]) -> Feature {
        Feature::of(name, dtype, FeatureLayout::Fixed(dims.to_vec(), None))
    }

    /// Describes a feature of a fixed number of values, with a default for a missing feature.
    pub fn fixed_or(name: impl Into<String>, dtype: Dtype, dims: &[u64], default: ConstantTensor) -> Feature {
        Feature::of(name, dtype, FeatureLayout::Fixed(dims.to_vec(), Some(default)))
    }

    /// Describes a feature of any number of values, which becomes a sparse tensor.
    pub fn sparse(name: impl Into<String>, dtype: Dtype) -> Feature {
        Feature::of(name, dtype, FeatureLayout::Sparse)
    }

    /// Describes a feature of any number of values, which becomes a vector, or a ragged tensor for several
    /// examples.
    pub fn ragged(name: impl Into<String>, dtype: Dtype) -> Feature {
        Feature::of(name, dtype, FeatureLayout::Ragged)
    }

    /// Describes a feature of any number of tensors. The examples of a batch are padded with zeros or empty
    /// strings.
    pub fn padded(name: impl Into<String>, dtype: Dtype, dims: &[u64]) -> Feature {
        Feature::of(name, dtype, FeatureLayout::Padded(dims.to_vec(), None))
    }

    fn of(name: impl Into<String>, dtype: Dtype, layout: FeatureLayout) -> Feature {
        Feature {
            name: name.into(),
            dtype: DtypeField(dtype),
            layout,
        }
    }

    /// Returns the number of values in one tensor of the feature; `None` if that number varies.
    pub(crate) fn values(&self) -> Option<u64> {
        let (FeatureLayout::Fixed(dims, _) | FeatureLayout::Padded(dims, _)) = &self.layout else {
            return None;
        };
        dims.iter().try_fold(1u64, |all, dim| all.checked_mul(*dim))
    }

    fn check(&self) -> Result<(), String> {
        check_name("feature", &self.name)?;
        if !matches!(
            self.dtype.0,
            Dtype::I64 | Dtype::F32 | Dtype::Bytes | Dtype::String
        ) {
            return Err(format!(
                "cannot read the feature {:?} as {}: examples hold i64, f32, bytes and string; read one of these and cast it",
                self.name, self.dtype.0
            ));
        }
        let default = match &self.layout {
            FeatureLayout::Fixed(dims, default) => default.as_ref().map(|default| (dims.as_slice(), default)),
            FeatureLayout::Padded(dims, default) => {
                if self.values() == Some(0) {
                    return Err(format!(
                        "reads the feature {:?} as tensors without values: {dims:?}",
                        self.name
                    ));
                }
                default.as_ref().map(|default| (&[][..], default))
            }
            FeatureLayout::Sparse | FeatureLayout::Ragged => None,
        };
        let Some((dims, default)) = default else {
            return Ok(());
        };
        // The default has one value for each item of the shape, or one value for all items.
        let fits = [dims, &[]].into_iter().any(|dims| {
            let spec = ElementSpec::single(TensorSpec::fixed(self.dtype.0, dims));
            spec.is_ok_and(|spec| {
                let tensors = vec![default.clone()];
                let spec = SpecField(spec);
                Constant { spec, tensors }.check().is_ok()
            })
        });
        if fits {
            Ok(())
        } else {
            Err(format!(
                "expected a default of {}{dims:?} for the feature {:?}, found one of another size or dtype",
                self.dtype.0, self.name
            ))
        }
    }

    /// Returns the structure and the components for one example if `rows` is `None`. Otherwise returns them
    /// for several examples, whose number may be unknown.
    pub(crate) fn specs(&self, rows: Option<Option<u64>>) -> (Structure, Vec<TensorSpec>) {
        let dtype = self.dtype.0;
        let leading: Vec<Option<u64>> = rows.into_iter().collect();
        let inner = |dims: &[u64]| dims.iter().copied().map(Some).collect::<Vec<_>>();
        let of = |parts: &[&[Option<u64>]]| vec![TensorSpec::with_dims(dtype, &parts.concat())];
        match &self.layout {
            FeatureLayout::Fixed(dims, _) => (Structure::Leaf, of(&[&leading, &inner(dims)])),
            FeatureLayout::Padded(dims, _) => (Structure::Leaf, of(&[&leading, &[None], &inner(dims)])),
            FeatureLayout::Ragged => match rows {
                None => (Structure::Leaf, of(&[&[None]])),
                Some(rows) => {
                    let splits =
                        TensorSpec::with_dims(Dtype::I64, &[rows.and_then(|rows| rows.checked_add(1))]);
                    let values = TensorSpec::with_dims(dtype, &[None]);
                    (Structure::Ragged { ragged_rank: 1 }, vec![values, splits])
                }
            },
            FeatureLayout::Sparse => {
                let rank = 1 + leading.len() as u64;
                let parts = vec![
                    TensorSpec::with_dims(Dtype::I64, &[None, Some(rank)]),
                    TensorSpec::with_dims(dtype, &[None]),
                    TensorSpec::fixed(Dtype::I64, &[rank]),
                ];
                (Structure::Sparse, parts)
            }
        }
    }
}

/// Checks the features, without knowledge of the input.
pub(crate) fn check_features(features: &[Feature], others: &[Feature]) -> Result<(), String> {
    if features.is_empty() && others.is_empty() {
        return Err("names no features".to_owned());
    }
    let all: Vec<&Feature> = features.iter().chain(others).collect();
    for (index, feature) in all.iter().enumerate() {
        feature.check()?;
        if all[..index].iter().any(|other| other.name == feature.name) {
            return Err(format!("names the feature {:?} twice", feature.name));
        }
    }
    Ok(())
}

/// Returns `input` with the component `name` replaced by `parts`. The element must be a dict that directly
/// contains the component, or a single tensor.
pub(crate) fn unpacked(
    input: &ElementSpec,
    name: &str,
    parts: impl IntoIterator<Item = (String, (Structure, Vec<TensorSpec>))>,
) -> Result<ElementSpec, String> {
    let gone = column_of(name, input)?;
    let mut entries = Vec::new();
    let mut components = input.components().to_vec();
    match input.structure() {
        Structure::Leaf => {}
        Structure::Dict(known) => {
            let mut at = 0;
            let mut found = false;
            for (name, entry) in known {
                if at == gone && *entry == Structure::Leaf {
                    found = true;
                } else {
                    entries.push((name.clone(), entry.clone()));
                }
                at += entry.leaves();
            }
            if !found {
                return Err(format!(
                    "expected {name:?} to be a direct component of the dict, found {input}"
                ));
            }
        }
        Structure::Tuple(_)
        | Structure::List(_)
        | Structure::Ragged { .. }
        | Structure::Sparse
        | Structure::None => {
            return Err(format!(
                "expected a dict or a single tensor, found {input}; make a dict with map_exprs"
            ));
        }
    }
    components.remove(gone);
    for (name, (structure, specs)) in parts {
        entries.push((name, structure));
        components.extend(specs);
    }
    ElementSpec::new(Structure::Dict(entries), components).map_err(|error| error.to_string())
}

/// Returns the number of examples in the component `name`: `None` for a single example, `Some(None)` for an
/// unknown number.
pub(crate) fn rows_of(input: &ElementSpec, name: &str) -> Result<Option<Option<u64>>, String> {
    let spec = &input.components()[column_of(name, input)?];
    let is_text = matches!(spec.dtype(), Dtype::Bytes | Dtype::String);
    match spec.dims() {
        Some([]) if is_text => Ok(None),
        Some([rows]) if is_text => Ok(Some(*rows)),
        Some(_) | None => Err(format!(
            "expected component {name:?} to be one byte string or a vector of byte strings, found {input}"
        )),
    }
}
