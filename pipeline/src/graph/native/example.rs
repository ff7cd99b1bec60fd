//! `parse_example` and `parse_sequence_example`: parse the protocol buffers in which TensorFlow stores
//! examples.

use millstream_element::ElementSpec;
use minicbor::{Decode, Encode};
use serde::Deserialize;

use super::feature::{Feature, FeatureLayout, check_features, rows_of, unpacked};
use super::function::NativeFunction;

/// Parameters of `parse_example`, which replaces the component by features. The component is one serialised
/// `tf.train.Example`, or a vector of examples.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct ParseExample {
    /// The component that holds the examples.
    #[n(0)]
    pub component: String,
    /// The selected features; other features are ignored.
    #[n(1)]
    pub features: Vec<Feature>,
}

/// Parameters of `parse_sequence_example`, which replaces the component by features. The component is one
/// serialised `tf.train.SequenceExample`.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct ParseSequenceExample {
    /// The component that holds the example.
    #[n(0)]
    pub component: String,
    /// The selected features of the context.
    #[n(1)]
    #[serde(default)]
    pub context: Vec<Feature>,
    /// The selected feature lists. Each list becomes a tensor with one row for each feature in the list. A
    /// missing list has no rows, but is an error if its rows have a fixed shape and no default.
    #[n(2)]
    #[serde(default)]
    pub sequences: Vec<Feature>,
}

impl NativeFunction for ParseExample {
    fn check(&self) -> Result<(), String> {
        check_features(&self.features, &[])
    }

    fn output(&self, input: &ElementSpec) -> Result<ElementSpec, String> {
        let rows = rows_of(input, &self.component)?;
        let parts = self.features.iter();
        let parts = parts.map(|feature| (feature.name.clone(), feature.specs(rows)));
        unpacked(input, &self.component, parts)
    }
}

impl NativeFunction for ParseSequenceExample {
    fn check(&self) -> Result<(), String> {
        check_features(&self.context, &self.sequences)?;
        let padded = self
            .sequences
            .iter()
            .find(|feature| matches!(feature.layout, FeatureLayout::Padded(..)));
        match padded {
            Some(feature) => Err(format!(
                "pads the rows of the list {:?}: read the rows as ragged or of a fixed shape",
                feature.name
            )),
            None => Ok(()),
        }
    }

    fn output(&self, input: &ElementSpec) -> Result<ElementSpec, String> {
        if rows_of(input, &self.component)?.is_some() {
            return Err(
                "expected a single sequence example, found a batch: parse examples before they are batched"
                    .to_owned(),
            );
        }
        let context = self.context.iter();
        let context = context.map(|feature| (feature.name.clone(), feature.specs(None)));
        let sequences = self.sequences.iter();
        let sequences = sequences.map(|feature| (feature.name.clone(), feature.specs(Some(None))));
        unpacked(input, &self.component, context.chain(sequences))
    }
}
