//! The component that a column becomes, by the type of the column.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "Arrow has more types than this module supports"
)]

use arrow_schema::{DataType, Field};
use millstream_element::{Dtype, ElementSpec, Structure, TensorSpec};

/// Maximum number of a tensor's dimensions, and of nested levels.
const DEPTH_MAX: usize = 16;

/// The component that a column becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A single tensor.
    Leaf(Leaf),
    /// A dict of further components.
    Struct(Vec<(String, Shape)>),
}

/// A column that becomes a tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Leaf {
    /// The number of nested lists of any length.
    pub(crate) lists: usize,
    /// The lengths of the nested lists of fixed length, outermost first.
    pub(crate) dims: Vec<u64>,
    pub(crate) dtype: Dtype,
}

impl Shape {
    /// Returns the component for the column `field`.
    pub(crate) fn of(field: &Field) -> Result<Shape, String> {
        Shape::of_type(field.data_type(), 0).map_err(|reason| format!("column {:?} {reason}", field.name()))
    }

    fn of_type(data: &DataType, depth: usize) -> Result<Shape, String> {
        if depth == DEPTH_MAX {
            return Err(format!("has more than {DEPTH_MAX} levels of lists and structs"));
        }
        if let DataType::Struct(fields) = data {
            let fields = fields.iter().map(|field| {
                let shape = Shape::of_type(field.data_type(), depth + 1);
                Ok((
                    field.name().clone(),
                    shape.map_err(|reason| format!("field {:?} {reason}", field.name()))?,
                ))
            });
            return fields.collect::<Result<_, String>>().map(Shape::Struct);
        }
        Leaf::of(data).map(Shape::Leaf)
    }

    /// Returns the structure of the component and the specs of its tensors, for single rows or for `batches`
    /// of rows.
    pub(crate) fn spec(&self, batches: bool) -> (Structure, Vec<TensorSpec>) {
        match self {
            Shape::Leaf(leaf) => leaf.spec(batches),
            Shape::Struct(fields) => {
                let (mut entries, mut specs) = (Vec::new(), Vec::new());
                for (name, shape) in fields {
                    let (structure, more) = shape.spec(batches);
                    entries.push((name.clone(), structure));
                    specs.extend(more);
                }
                (Structure::Dict(entries), specs)
            }
        }
    }
}

impl Leaf {
    fn of(data: &DataType) -> Result<Leaf, String> {
        let (mut data, mut lists, mut dims) = (data, 0, Vec::new());
        loop {
            match data {
                DataType::List(item) | DataType::LargeList(item) if dims.is_empty() => {
                    lists += 1;
                    data = item.data_type();
                }
                DataType::FixedSizeList(item, length) => {
                    dims.push(
                        u64::try_from(*length).map_err(|_| "has lists of a negative length".to_owned())?,
                    );
                    data = item.data_type();
                }
                DataType::Dictionary(_, value) => data = value,
                _ => break,
            }
            if lists + dims.len() >= DEPTH_MAX {
                return Err(format!("has more than {DEPTH_MAX} levels of lists"));
            }
        }
        let dtype = dtype_of(data).ok_or_else(|| format!("has the unsupported type {data}"))?;
        Ok(Leaf { lists, dims, dtype })
    }

    fn spec(&self, batches: bool) -> (Structure, Vec<TensorSpec>) {
        let mut dims: Vec<Option<u64>> = self.dims.iter().copied().map(Some).collect();
        if batches || self.lists > 0 {
            dims.insert(0, None);
        }
        let values = TensorSpec::with_dims(self.dtype, &dims);
        // The outermost list of a single row becomes a dimension.
        let ragged = if batches {
            self.lists
        } else {
            self.lists.saturating_sub(1)
        };
        // The conversion keeps the value: there are at most 16 levels.
        let structure = match u8::try_from(ragged) {
            Ok(ragged_rank) if ragged_rank > 0 => Structure::Ragged { ragged_rank },
            Ok(_) | Err(_) => Structure::Leaf,
        };
        let splits = TensorSpec::with_dims(Dtype::I64, &[None]);
        let specs = std::iter::once(values).chain(std::iter::repeat_n(splits, ragged));
        (structure, specs.collect())
    }
}

/// Returns the spec of the elements of a table with the columns `columns`.
pub(crate) fn element(columns: &[(String, Shape)], batches: bool) -> Result<ElementSpec, String> {
    let (structure, specs) = Shape::Struct(columns.to_vec()).spec(batches);
    ElementSpec::new(structure, specs).map_err(|error| error.to_string())
}

/// Returns the dtype of the items. Dates and times become the integers as which they are stored.
fn dtype_of(data: &DataType) -> Option<Dtype> {
    Some(match data {
        DataType::Boolean => Dtype::Bool,
        DataType::Int8 => Dtype::I8,
        DataType::Int16 => Dtype::I16,
        DataType::Int32 | DataType::Date32 | DataType::Time32(_) => Dtype::I32,
        DataType::Int64
        | DataType::Date64
        | DataType::Time64(_)
        | DataType::Timestamp(..)
        | DataType::Duration(_) => Dtype::I64,
        DataType::UInt8 => Dtype::U8,
        DataType::UInt16 => Dtype::U16,
        DataType::UInt32 => Dtype::U32,
        DataType::UInt64 => Dtype::U64,
        DataType::Float16 => Dtype::F16,
        DataType::Float32 => Dtype::F32,
        DataType::Float64 => Dtype::F64,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Dtype::String,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            Dtype::Bytes
        }
        _ => return None,
    })
}
