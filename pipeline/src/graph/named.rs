//! Parameters of operations by name: how specs, dtypes and constants are written in JSON.
//!
//! Owns that notation, which front ends in other languages use. Refuses to know the operations that have such
//! parameters.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::{Dtype, ElementSpec, Structure, TensorSpec};
use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error};
use serde_json::{Map, Value};

use super::constant::ConstantTensor;
use super::expr::{DtypeField, Expr};
use super::params::SpecField;

/// Structures nest at most this deep in JSON; the check of a spec has a stricter limit.
const NESTING_MAX: usize = 64;

/// Reads parameters of type `T` by their names.
///
/// # Errors
/// The reason, as text: a parameter is missing, unknown or of a wrong type.
pub(crate) fn named_params<T: DeserializeOwned>(parameters: Map<String, Value>) -> Result<T, String> {
    serde_json::from_value(Value::Object(parameters)).map_err(|error| error.to_string())
}

/// A dtype is its name, such as `"float32"` or `"i64"`.
impl<'de> Deserialize<'de> for DtypeField {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<DtypeField, D::Error> {
        let name = String::deserialize(json)?;
        name.parse::<Dtype>().map(DtypeField).map_err(Error::custom)
    }
}

/// A spec is an array that begins with the kind: `["tensor", dtype, dims]`, where `dims` is `null` for an
/// unknown rank and holds `null` for an unknown dimension; `["tuple", items]` and `["list", items]`;
/// `["dict", [[name, item], …]]`; `["ragged", parts]`, `["sparse", parts]` and `["none"]`.
impl<'de> Deserialize<'de> for SpecField {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<SpecField, D::Error> {
        let json = Value::deserialize(json)?;
        spec_of(&json).map(SpecField).map_err(Error::custom)
    }
}

/// A constant is the bytes of its items, or a list of byte strings for items of variable length.
impl<'de> Deserialize<'de> for ConstantTensor {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<ConstantTensor, D::Error> {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "snake_case")]
        enum Notation {
            Fixed(Vec<u8>),
            Items(Vec<Vec<u8>>),
        }
        Ok(match Notation::deserialize(json)? {
            Notation::Fixed(bytes) => ConstantTensor::fixed(bytes),
            Notation::Items(items) => ConstantTensor::items(items),
        })
    }
}

/// The parameters of an operation that has none.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoParameters {}

/// Returns the delimiter of comma-separated values.
pub(crate) fn comma() -> u8 {
    b','
}

/// Returns true, the default of switches that are on.
pub(crate) fn yes() -> bool {
    true
}

/// An expression is the bytes of its encoding.
impl<'de> Deserialize<'de> for Expr {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Expr, D::Error> {
        let bytes = Vec::<u8>::deserialize(json)?;
        minicbor::decode(&bytes).map_err(Error::custom)
    }
}

fn spec_of(json: &Value) -> Result<ElementSpec, String> {
    let mut components = Vec::new();
    let structure = structure_of(json, &mut components, NESTING_MAX)?;
    ElementSpec::new(structure, components).map_err(|error| error.to_string())
}

fn structure_of(
    json: &Value,
    components: &mut Vec<TensorSpec>,
    nesting_max: usize,
) -> Result<Structure, String> {
    let kind = json[0].as_str().unwrap_or_default();
    let nesting_max = nesting_max
        .checked_sub(1)
        .ok_or("expected a spec of at most 64 levels, found more")?;
    let items = || {
        json[1]
            .as_array()
            .ok_or_else(|| format!("expected a list of specs after {kind:?}, found {}", json[1]))
    };
    let mut all = || -> Result<Vec<Structure>, String> {
        let items = items()?.iter();
        items
            .map(|item| structure_of(item, components, nesting_max))
            .collect()
    };
    Ok(match kind {
        "tensor" => {
            components.push(tensor_of(json)?);
            Structure::Leaf
        }
        "tuple" => Structure::Tuple(all()?),
        "list" => Structure::List(all()?),
        "dict" => {
            let entries = items()?.iter().map(|entry| {
                let name = entry[0]
                    .as_str()
                    .ok_or_else(|| format!("expected the name of a dict's entry, found {}", entry[0]))?;
                let item = structure_of(&entry[1], components, nesting_max)?;
                Ok((name.to_owned(), item))
            });
            Structure::Dict(entries.collect::<Result<_, String>>()?)
        }
        "ragged" => {
            let ragged_rank = u8::try_from(all()?.len().saturating_sub(1)).unwrap_or(u8::MAX);
            Structure::Ragged { ragged_rank }
        }
        "sparse" => {
            all()?;
            Structure::Sparse
        }
        "none" => Structure::None,
        _ => return Err(format!("expected a spec that begins with its kind, found {json}")),
    })
}

fn tensor_of(json: &Value) -> Result<TensorSpec, String> {
    let name = json[1].as_str().unwrap_or_default();
    let dtype: Dtype = name
        .parse()
        .map_err(|error: millstream_element::DtypeError| error.to_string())?;
    let dims: Option<Vec<Option<u64>>> = serde_json::from_value(json[2].clone())
        .map_err(|_| format!("expected dimensions or null, found {}", json[2]))?;
    Ok(match dims {
        Some(dims) => TensorSpec::with_dims(dtype, &dims),
        None => TensorSpec::unknown_rank(dtype),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(json: Value) -> Result<ElementSpec, String> {
        serde_json::from_value::<SpecField>(json)
            .map(|spec| spec.0)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn specs_nest_as_their_notation_does() {
        let image = ["tensor".into(), "u8".into(), json!([null, null, 3])];
        let label = json!(["tensor", "i64", []]);
        let spec = read(json!([
            "dict",
            [["image", image], ["rest", ["tuple", [label, ["none"]]]]]
        ]))
        .unwrap();
        let expected = ElementSpec::new(
            Structure::Dict(vec![
                ("image".to_owned(), Structure::Leaf),
                (
                    "rest".to_owned(),
                    Structure::Tuple(vec![Structure::Leaf, Structure::None]),
                ),
            ]),
            vec![
                TensorSpec::with_dims(Dtype::U8, &[None, None, Some(3)]),
                TensorSpec::scalar(Dtype::I64),
            ],
        );
        assert_eq!(spec, expected.unwrap());
        assert_eq!(
            read(json!(["tensor", "f32", null])).unwrap(),
            ElementSpec::single(TensorSpec::unknown_rank(Dtype::F32)).unwrap()
        );
    }

    #[test]
    fn wrong_specs_are_refused_by_reason() {
        for (json, reason) in [
            (json!(5), "begins with its kind"),
            (json!(["tuple"]), "a list of specs"),
            (json!(["dict", [[1, ["none"]]]]), "the name of a dict's entry"),
            (json!(["tensor", "f32", "x"]), "expected dimensions"),
            (json!(["tensor", "f33", []]), "f33"),
        ] {
            let error = read(json).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
        let mut nested = json!(["none"]);
        for _ in 0..200 {
            nested = json!(["tuple", [nested]]);
        }
        assert!(read(nested).unwrap_err().contains("64 levels"));
    }

    #[test]
    fn constants_are_bytes_or_lists_of_bytes() {
        let read = |json| serde_json::from_value::<ConstantTensor>(json);
        assert_eq!(
            read(json!({"fixed": [1, 0]})).unwrap(),
            ConstantTensor::fixed([1, 0])
        );
        assert_eq!(
            read(json!({"items": [[97], []]})).unwrap(),
            ConstantTensor::items([&b"a"[..], b""])
        );
        assert!(read(json!([1])).is_err());
    }
}
