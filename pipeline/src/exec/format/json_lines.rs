//! The format `json_lines`: files with one JSON document on each line.

use std::sync::Arc;

use bytes::Bytes;
use millstream_element::{Dtype, TensorSpec};
use serde_json::Value as Json;

use crate::exec::error::Origin;
use crate::exec::value::{Tensor, Value};
use crate::graph::{self, JsonColumn};
use crate::record::Stream;

use super::lines::{Line, Lines};
use super::parse::{inline, integer, shown};
use super::reader::{FileReader, OpenFile, Opened, ReadError, Record, Start};

pub(crate) struct JsonLines(pub(crate) graph::JsonLines);

struct JsonFile {
    lines: Lines<Stream>,
    fields: Arc<[Field]>,
}

struct Field {
    field: JsonColumn,
    default: Option<Tensor>,
}

impl OpenFile for JsonLines {
    fn open(&self, file: Opened, start: Start) -> Result<Box<dyn FileReader>, ReadError> {
        let fields: Result<Arc<[Field]>, String> = self.0.fields.iter().map(Field::new).collect();
        let fields = fields.map_err(ReadError::unopened)?;
        let Opened { path, file } = file;
        let stream = Stream::new(file, self.0.compression, start.place);
        let stream = stream
            .map_err(|error| ReadError::unopened(format!("cannot open {path}: {error}")).blaming(&error))?;
        Ok(Box::new(JsonFile {
            lines: Lines::new(path, stream, start),
            fields,
        }))
    }
}

impl FileReader for JsonFile {
    fn record(&mut self) -> Result<Option<Record>, ReadError> {
        loop {
            let Some(Line { text, origin }) = self.lines.line()? else {
                return Ok(None);
            };
            if !text.trim_ascii().is_empty() {
                return self.document(&text, origin).map(Some);
            }
        }
    }

    fn place(&self) -> u64 {
        self.lines.offset_bytes()
    }
}

impl JsonFile {
    fn document(&self, text: &[u8], origin: Origin) -> Result<Record, ReadError> {
        let document: Json = match serde_json::from_slice(text) {
            Ok(document) => document,
            Err(error) => return Err(ReadError::record(origin, format!("invalid JSON: {error}"))),
        };
        let mut value = Value::with_capacity(self.fields.len());
        for field in self.fields.iter() {
            match field.of(&document) {
                Ok(tensor) => value.push(tensor),
                Err(reason) => {
                    let reason = format!("field {:?}: {reason}", field.field.name);
                    return Err(ReadError::record(origin, reason));
                }
            }
        }
        Ok(Record { value, origin })
    }
}

impl Field {
    fn new(field: &JsonColumn) -> Result<Field, String> {
        let (name, default) = (&field.name, field.default.as_ref());
        let default = default.map(|text| {
            let json: Json = serde_json::from_str(text).map_err(|error| error.to_string())?;
            tensor_of(&json, spec_of(field)?)
        });
        Ok(Field {
            field: field.clone(),
            default: default
                .transpose()
                .map_err(|reason| format!("the default of {name:?}: {reason}"))?,
        })
    }

    fn of(&self, document: &Json) -> Result<Tensor, String> {
        let mut value = document;
        for part in &self.field.path {
            value = match (value, part.parse::<usize>()) {
                (Json::Object(object), _) => object.get(part).unwrap_or(&Json::Null),
                (Json::Array(items), Ok(index)) => items.get(index).unwrap_or(&Json::Null),
                (Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_), _) => {
                    &Json::Null
                }
            };
        }
        if value.is_null() {
            let at = self.field.path.join(".");
            let missing = || format!("the document has no value at {at:?}, and the field has no default");
            return self.default.clone().ok_or_else(missing);
        }
        tensor_of(value, spec_of(&self.field)?)
    }
}

fn spec_of(field: &JsonColumn) -> Result<&TensorSpec, String> {
    field
        .tensor()
        .ok_or_else(|| "expected a field that is a tensor".to_owned())
}

/// Converts a value to a tensor that `spec` describes.
fn tensor_of(value: &Json, spec: &TensorSpec) -> Result<Tensor, String> {
    let dims = spec.dims().unwrap_or_default();
    let mut items = Items::default();
    let mut shape: Vec<Option<u64>> = dims.to_vec();
    items.take(value, spec.dtype(), &mut shape)?;
    // The length of a dimension below an empty array is unknown, and counts as 0.
    let shape: Vec<u64> = shape.into_iter().map(|dim| dim.unwrap_or(0)).collect();
    let dtype = spec.dtype();
    if dtype.item_bytes().is_none() {
        return Tensor::strings(dtype, &shape, items.strings);
    }
    if shape.is_empty() {
        return inline(dtype, &items.fixed);
    }
    Tensor::fixed(dtype, &shape, items.fixed)
}

/// The items of a tensor, in row-major order.
#[derive(Default)]
struct Items {
    fixed: Vec<u8>,
    strings: Vec<Bytes>,
}

impl Items {
    /// Adds the items of `value`, and fills in the unknown dimensions of `shape`.
    fn take(&mut self, value: &Json, dtype: Dtype, shape: &mut [Option<u64>]) -> Result<(), String> {
        let Some((length, below)) = shape.split_first_mut() else {
            return self.item(value, dtype);
        };
        let Json::Array(items) = value else {
            return Err(format!("expected an array, found {}", shown(&value.to_string())));
        };
        let found = items.len() as u64;
        match length {
            Some(length) if *length != found => {
                return Err(format!("expected an array of {length} items, found {found}"));
            }
            Some(_) => {}
            None => *length = Some(found),
        }
        items.iter().try_for_each(|item| self.take(item, dtype, below))
    }

    fn item(&mut self, value: &Json, dtype: Dtype) -> Result<(), String> {
        match (dtype, value) {
            (Dtype::String | Dtype::Bytes, Json::String(text)) => {
                self.strings.push(Bytes::copy_from_slice(text.as_bytes()));
                return Ok(());
            }
            (Dtype::Bool, Json::Bool(value)) => self.fixed.push(u8::from(*value)),
            (Dtype::F32, Json::Number(number)) => {
                let value = number
                    .as_f64()
                    .ok_or_else(|| format!("expected f32, found {number}"))?;
                self.fixed.extend((value as f32).to_le_bytes());
            }
            (Dtype::F64, Json::Number(number)) => {
                let value = number
                    .as_f64()
                    .ok_or_else(|| format!("expected f64, found {number}"))?;
                self.fixed.extend(value.to_le_bytes());
            }
            (_, Json::Number(number)) if dtype != Dtype::Bool => {
                let value = number
                    .as_i64()
                    .map(i128::from)
                    .or_else(|| number.as_u64().map(i128::from));
                let bytes = value.and_then(|value| integer(dtype, value));
                self.fixed
                    .extend(bytes.ok_or_else(|| format!("expected {dtype}, found {number}"))?);
            }
            (_, _) => return Err(format!("expected {dtype}, found {}", shown(&value.to_string()))),
        }
        Ok(())
    }
}
