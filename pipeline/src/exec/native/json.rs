//! The call of `parse_json`, which reads the declared fields of a text.

use bytes::Bytes;
use millstream_element::{Dtype, ElementSpec};
use serde_json::Value as Json;

use crate::exec::call::{Call, Place};
use crate::exec::constants::tensors;
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::value::{Dims, Tensor, Value};
use crate::graph::{JsonField, LiteralTensor, ParseJson, column_of};

use super::made;

const OP: &str = "parse_json";

pub(crate) struct JsonCall {
    component: usize,
    fields: Vec<(JsonField, Option<Tensor>)>,
}

impl JsonCall {
    pub(crate) fn new(parse: &ParseJson, input: &ElementSpec) -> Result<JsonCall, ExecError> {
        let refused = |reason| ExecError::new(ErrorKind::Caller, OP, reason);
        let fields = parse.fields.iter().map(|field| {
            let default = field.default.as_ref().map(|default| {
                let dims: Vec<u64> = field.dims.iter().copied().flatten().collect();
                let tensor = LiteralTensor {
                    dtype: field.dtype,
                    dims,
                    data: default.clone(),
                };
                tensors(&tensor.constant()?)?
                    .into_iter()
                    .next()
                    .ok_or_else(|| "a default has no items".to_owned())
            });
            Ok((field.clone(), default.transpose()?))
        });
        Ok(JsonCall {
            component: column_of(&parse.component, input).map_err(refused)?,
            fields: fields.collect::<Result<_, _>>().map_err(refused)?,
        })
    }

    fn parse(&self, text: &[u8], value: &mut Value) -> Result<(), String> {
        // The parser limits the depth of nested arrays to 128.
        let json: Json = serde_json::from_slice(text).map_err(|error| format!("invalid JSON: {error}"))?;
        for (field, default) in &self.fields {
            let found = at(&json, &field.path).filter(|found| !found.is_null());
            value.push(match (found, default) {
                (Some(found), _) => tensor_of(found, field)
                    .map_err(|reason| format!("field {:?} at {:?}: {reason}", field.name, field.path))?,
                (None, Some(default)) => default.clone(),
                (None, None) => {
                    return Err(format!(
                        "field {:?} at {:?} is missing, and has no default",
                        field.name, field.path
                    ));
                }
            });
        }
        Ok(())
    }
}

impl Call for JsonCall {
    fn name(&self) -> &str {
        OP
    }

    fn call(&self, mut value: Value, _: &Place<'_>) -> Result<Option<Value>, ExecError> {
        let tensor = made::taken(OP, &mut value, self.component)?;
        let text = tensor.contiguous().unwrap_or_default();
        let parsed = self.parse(text, &mut value);
        parsed.map_err(|reason| ExecError::new(ErrorKind::Value, OP, reason))?;
        Ok(Some(value))
    }
}

/// Returns the value at `path`. A key that contains dots is found by its exact text.
fn at<'j>(json: &'j Json, path: &str) -> Option<&'j Json> {
    if path.is_empty() {
        return Some(json);
    }
    match json {
        Json::Object(entries) => {
            if let Some(found) = entries.get(path) {
                return Some(found);
            }
            let (key, rest) = path.split_once('.')?;
            at(entries.get(key)?, rest)
        }
        Json::Array(items) => {
            let (place, rest) = path.split_once('.').unwrap_or((path, ""));
            at(items.get(place.parse::<usize>().ok()?)?, rest)
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => None,
    }
}

/// The items of a field, in row-major order.
struct Items {
    dtype: Dtype,
    fixed: Vec<u8>,
    strings: Vec<Bytes>,
}

fn tensor_of(json: &Json, field: &JsonField) -> Result<Tensor, String> {
    let dtype = field.dtype.0;
    let mut items = Items {
        dtype,
        fixed: Vec::new(),
        strings: Vec::new(),
    };
    let mut dims: Vec<Option<u64>> = field.dims.clone();
    items.add_all(json, &mut dims)?;
    // A dimension below an empty array was never measured, and gets the length 0.
    let dims: Dims = dims.into_iter().map(|dim| dim.unwrap_or(0)).collect();
    if dtype == Dtype::String {
        Tensor::strings(dtype, &dims, items.strings)
    } else {
        made::fixed(dtype, dims, items.fixed)
    }
}

impl Items {
    /// Adds the items of nested arrays with the lengths `dims`. Unknown lengths are set to the lengths that
    /// are found.
    fn add_all(&mut self, json: &Json, dims: &mut [Option<u64>]) -> Result<(), String> {
        let Some((dim, inner)) = dims.split_first_mut() else {
            return self.add(json);
        };
        let Json::Array(parts) = json else {
            return Err(format!("expected an array, found {}", kind(json)));
        };
        let length = parts.len() as u64;
        match *dim {
            Some(wanted) if wanted != length => {
                return Err(format!("expected an array of {wanted} items, found {length}"));
            }
            Some(_) | None => *dim = Some(length),
        }
        parts.iter().try_for_each(|part| self.add_all(part, inner))
    }

    fn add(&mut self, json: &Json) -> Result<(), String> {
        let added = match (self.dtype, json) {
            (Dtype::String, Json::String(text)) => {
                self.strings.push(Bytes::copy_from_slice(text.as_bytes()));
                Some(())
            }
            (Dtype::Bool, Json::Bool(truth)) => {
                self.fixed.push(u8::from(*truth));
                Some(())
            }
            (Dtype::F32, Json::Number(number)) => number.as_f64().map(|number| {
                self.fixed.extend((number as f32).to_le_bytes());
            }),
            (Dtype::F64, Json::Number(number)) => number.as_f64().map(|number| {
                self.fixed.extend(number.to_le_bytes());
            }),
            (Dtype::U64, Json::Number(number)) => number.as_u64().map(|number| {
                self.fixed.extend(number.to_le_bytes());
            }),
            (_, Json::Number(number)) => number.as_i64().and_then(|number| self.add_integer(number)),
            (_, Json::Null | Json::Bool(_) | Json::String(_) | Json::Array(_) | Json::Object(_)) => None,
        };
        added.ok_or_else(|| format!("expected {1}, found {0}", shown(json), self.dtype))
    }

    fn add_integer(&mut self, number: i64) -> Option<()> {
        match self.dtype {
            Dtype::I8 => self.fixed.extend(i8::try_from(number).ok()?.to_le_bytes()),
            Dtype::I16 => self.fixed.extend(i16::try_from(number).ok()?.to_le_bytes()),
            Dtype::I32 => self.fixed.extend(i32::try_from(number).ok()?.to_le_bytes()),
            Dtype::I64 => self.fixed.extend(number.to_le_bytes()),
            Dtype::U8 => self.fixed.extend(u8::try_from(number).ok()?.to_le_bytes()),
            Dtype::U16 => self.fixed.extend(u16::try_from(number).ok()?.to_le_bytes()),
            Dtype::U32 => self.fixed.extend(u32::try_from(number).ok()?.to_le_bytes()),
            Dtype::Bool
            | Dtype::U64
            | Dtype::F16
            | Dtype::Bf16
            | Dtype::F32
            | Dtype::F64
            | Dtype::F8E4M3
            | Dtype::F8E5M2
            | Dtype::C64
            | Dtype::C128
            | Dtype::String
            | Dtype::Bytes => return None,
        }
        Some(())
    }
}

fn kind(json: &Json) -> &'static str {
    match json {
        Json::Null => "null",
        Json::Bool(_) => "a bool",
        Json::Number(_) => "a number",
        Json::String(_) => "a string",
        Json::Array(_) => "an array",
        Json::Object(_) => "an object",
    }
}

/// Returns a short text that identifies the value in messages.
fn shown(json: &Json) -> String {
    match json {
        Json::Number(number) => number.to_string(),
        Json::String(text) => format!("{:?}", text.chars().take(32).collect::<String>()),
        Json::Null | Json::Bool(_) | Json::Array(_) | Json::Object(_) => kind(json).to_owned(),
    }
}
