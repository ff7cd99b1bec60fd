//! The features of a `tf.train.Example` that are wanted, and the components that they become.

use millstream_element::{Dtype, ElementSpec, Structure, TensorSpec};
use minicbor::{Decode, Encode};
use serde::Deserialize;

use crate::graph::check::check_name;
use crate::graph::constant::{Constant, ConstantTensor};
use crate::graph::expr::{DtypeField, column_of};
use crate::graph::params::SpecField;

/// A feature that is wanted: its name in the examples, which is that of the component, and what it becomes.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct Feature {
    /// The name.
    #[n(0)]
    pub name: String,
    /// Dtype of the values: `i64`, `f32`, `bytes`, or `string`, which is checked to be UTF-8.
    #[n(1)]
    pub dtype: DtypeField,
    /// Layout of the resulting component.
    #[n(2)]
    pub layout: FeatureLayout,
}

/// Layout of the component that a feature's values become.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FeatureLayout {
    /// A tensor of these dimensions, as `tf.io.FixedLenFeature`; where it is missing a default, of so many
    /// values or one for all, else it is an error.
    #[n(0)]
    Fixed(#[n(0)] Vec<u64>, #[n(1)] Option<ConstantTensor>),
    /// A sparse tensor of as many values as there are, as `tf.io.VarLenFeature`.
    #[n(1)]
    Sparse,
    /// All values that are present: a vector for one example, a ragged tensor for several, as
    /// `tf.io.RaggedFeature`.
    #[n(2)]
    Ragged,
    /// One tensor of these dimensions for each group of values, none if the feature is missing, as
    /// `tf.io.FixedLenSequenceFeature`. Examples of a batch are padded with the default, which is one value,
    /// or with zeros.
    #[n(3)]
    Padded(#[n(0)] Vec<u64>, #[n(1)] Option<ConstantTensor>),
}

impl Feature {
    /// A feature of exactly so many values.
    pub fn fixed(name: impl Into<String>, dtype: Dtype, dims: &[u64]) -> Feature {
        Feature::of(name, dtype, FeatureLayout::Fixed(dims.to_vec(), None))
    }

    /// A feature of exactly so many values, with a default where it is missing.
    pub fn fixed_or(name: impl Into<String>, dtype: Dtype, dims: &[u64], default: ConstantTensor) -> Feature {
        Feature::of(name, dtype, FeatureLayout::Fixed(dims.to_vec(), Some(default)))
    }

    /// A feature of any number of values, as a sparse tensor.
    pub fn sparse(name: impl Into<String>, dtype: Dtype) -> Feature {
        Feature::of(name, dtype, FeatureLayout::Sparse)
    }

    /// A feature of any number of values, as a vector; of several examples as a ragged tensor.
    pub fn ragged(name: impl Into<String>, dtype: Dtype) -> Feature {
        Feature::of(name, dtype, FeatureLayout::Ragged)
    }

    /// A feature of any number of tensors; examples of a batch are padded with zeros and empty strings.
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

    /// Values of one tensor of it; `None` where that varies.
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
                "wants the feature {:?} as {}: examples hold i64, f32, bytes and string; cast it afterwards",
                self.name, self.dtype.0
            ));
        }
        let default = match &self.layout {
            FeatureLayout::Fixed(dims, default) => default.as_ref().map(|default| (dims.as_slice(), default)),
            FeatureLayout::Padded(dims, default) => {
                if self.values() == Some(0) {
                    return Err(format!(
                        "wants tensors of no values of the feature {:?}: {dims:?}",
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
        // As many values as the shape wants, or one for all of them.
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
                "has a default of another size or dtype than {}{dims:?} for the feature {:?}",
                self.dtype.0, self.name
            ))
        }
    }

    /// Structure and components, of one example or of several: `rows` of them, if that is known.
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

/// Checks the errors of features that no input can avoid.
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

/// `input` with the component `name`, one that its structure names directly, gone, and further ones instead:
/// all of an element that was nothing else.
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
                return Err(format!("{name:?} is no component of the dict itself: {input}"));
            }
        }
        Structure::Tuple(_)
        | Structure::List(_)
        | Structure::Ragged { .. }
        | Structure::Sparse
        | Structure::None => {
            return Err(format!(
                "elements are no dict and no single tensor: {input}; make them one with map_exprs"
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

/// Returns the number of examples that the component `name` holds: `None` for a single example, `Some(None)`
/// for an unknown number.
pub(crate) fn rows_of(input: &ElementSpec, name: &str) -> Result<Option<Option<u64>>, String> {
    let spec = &input.components()[column_of(name, input)?];
    let is_text = matches!(spec.dtype(), Dtype::Bytes | Dtype::String);
    match spec.dims() {
        Some([]) if is_text => Ok(None),
        Some([rows]) if is_text => Ok(Some(*rows)),
        Some(_) | None => Err(format!(
            "component {name:?} should be one byte string or a vector of them: {input}"
        )),
    }
}
