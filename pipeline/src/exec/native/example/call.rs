//! The calls that parse examples of TensorFlow.

use std::collections::HashMap;

use bytes::Bytes;
use millstream_element::ElementSpec;

use crate::exec::call::{Call, Place};
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::native::made;
use crate::exec::value::Value;
use crate::graph::{Feature, ParseExample, ParseSequenceExample, column_of};

use super::column::Column;
use super::message;

/// Number of the field of an `Example` or a `SequenceExample` that holds features.
const FEATURES: u64 = 1;
/// Number of the field of a `SequenceExample` that holds feature lists.
const FEATURE_LISTS: u64 = 2;

pub(crate) struct ExampleCall {
    component: usize,
    wanted: Wanted,
}

pub(crate) struct SequenceExampleCall {
    component: usize,
    context: Wanted,
    sequences: Wanted,
}

/// The wanted features, which are found by name.
struct Wanted {
    features: Vec<Feature>,
    places: HashMap<Vec<u8>, usize>,
}

impl Wanted {
    fn new(features: &[Feature]) -> Wanted {
        let places = features.iter().enumerate();
        let places = places.map(|(place, feature)| (feature.name.as_bytes().to_vec(), place));
        Wanted {
            features: features.to_vec(),
            places: places.collect(),
        }
    }

    /// Finds the value of each wanted feature in the map in field `within` of `message`.
    fn find<'b>(&self, message: &'b [u8], within: u64) -> Result<Vec<Option<&'b [u8]>>, String> {
        let mut found = vec![None; self.features.len()];
        message::entries(message, within, |key, value| {
            if let Some(place) = self.places.get(key) {
                found[*place] = Some(value);
            }
            Ok(())
        })?;
        Ok(found)
    }

    fn columns(&self, rows: usize) -> Vec<Column<'_>> {
        self.features
            .iter()
            .map(|feature| Column::new(feature, rows))
            .collect()
    }
}

/// Adds the values that an example has of the feature `name` to the feature's column.
fn add<'b>(name: &str, column: &mut Column<'b>, feature: Option<&'b [u8]>) -> Result<(), String> {
    let feature = match feature {
        Some(feature) if message::is_set(feature)? => Some(feature),
        Some(_) | None => None,
    };
    let added = match feature {
        Some(feature) => message::values(feature, column).and_then(|count| column.end_row(count)),
        None => column.missing(),
    };
    added.map_err(|reason| format!("feature {name:?}: {reason}"))
}

impl ExampleCall {
    pub(crate) fn new(parse: &ParseExample, input: &ElementSpec) -> Result<ExampleCall, ExecError> {
        let refused = |reason| ExecError::new(ErrorKind::Caller, "parse_example", reason);
        Ok(ExampleCall {
            component: column_of(&parse.component, input).map_err(refused)?,
            wanted: Wanted::new(&parse.features),
        })
    }

    /// Parses the features of all `records`, and appends them to `value` as further components.
    fn parse(&self, records: &[Bytes], batched: bool, value: &mut Value) -> Result<(), String> {
        let mut columns = self.wanted.columns(records.len());
        for (row, record) in records.iter().enumerate() {
            let parsed = self.wanted.find(record, FEATURES).and_then(|found| {
                let features = self.wanted.features.iter().zip(&mut columns).zip(found);
                let mut features =
                    features.map(|((feature, column), found)| add(&feature.name, column, found));
                features.try_for_each(|added| added)
            });
            parsed.map_err(|reason| {
                if batched {
                    format!("example {row} of {}: {reason}", records.len())
                } else {
                    reason
                }
            })?;
        }
        let record = records.first().filter(|_| !batched);
        columns
            .into_iter()
            .try_for_each(|column| column.finish(batched, record, value))
    }
}

impl Call for ExampleCall {
    fn name(&self) -> &str {
        "parse_example"
    }

    fn call(&self, mut value: Value, _: &Place<'_>) -> Result<Option<Value>, ExecError> {
        let tensor = made::taken(self.name(), &mut value, self.component)?;
        let batched = !tensor.dims().is_empty();
        let parsed = self.parse(&made::items(&tensor), batched, &mut value);
        parsed.map_err(|reason| ExecError::new(ErrorKind::Value, self.name(), reason))?;
        Ok(Some(value))
    }
}

impl SequenceExampleCall {
    pub(crate) fn new(
        parse: &ParseSequenceExample,
        input: &ElementSpec,
    ) -> Result<SequenceExampleCall, ExecError> {
        let refused = |reason| ExecError::new(ErrorKind::Caller, "parse_sequence_example", reason);
        Ok(SequenceExampleCall {
            component: column_of(&parse.component, input).map_err(refused)?,
            context: Wanted::new(&parse.context),
            sequences: Wanted::new(&parse.sequences),
        })
    }

    fn parse(&self, record: &Bytes, value: &mut Value) -> Result<(), String> {
        let found = self.context.find(record, FEATURES)?;
        let columns = self.context.columns(1);
        for ((feature, mut column), found) in self.context.features.iter().zip(columns).zip(found) {
            add(&feature.name, &mut column, found)?;
            column.finish(false, Some(record), value)?;
        }
        let found = self.sequences.find(record, FEATURE_LISTS)?;
        let columns = self.sequences.columns(0);
        for ((feature, mut column), list) in self.sequences.features.iter().zip(columns).zip(found) {
            let name = &feature.name;
            match list {
                Some(list) => message::features(list, |feature| add(name, &mut column, Some(feature)))?,
                None => {
                    // A feature list may be missing if its feature has a default. A missing list has no rows.
                    let mut absent = Column::new(feature, 1);
                    absent
                        .missing()
                        .map_err(|reason| format!("feature list {name:?}: {reason}"))?;
                }
            }
            column.finish(true, None, value)?;
        }
        Ok(())
    }
}

impl Call for SequenceExampleCall {
    fn name(&self) -> &str {
        "parse_sequence_example"
    }

    fn call(&self, mut value: Value, _: &Place<'_>) -> Result<Option<Value>, ExecError> {
        let tensor = made::taken(self.name(), &mut value, self.component)?;
        let records = made::items(&tensor);
        let missing = || ExecError::new(ErrorKind::Internal, self.name(), "the component is missing");
        let record = records.first().ok_or_else(missing)?;
        let parsed = self.parse(record, &mut value);
        parsed.map_err(|reason| ExecError::new(ErrorKind::Value, self.name(), reason))?;
        Ok(Some(value))
    }
}
