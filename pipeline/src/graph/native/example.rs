//! `parse_example` and `parse_sequence_example`: the protocol messages that TensorFlow keeps examples in.

use millstream_element::ElementSpec;
use minicbor::{Decode, Encode};
use serde::Deserialize;

use super::feature::{Feature, FeatureLayout, check_features, rows_of, unpacked};
use super::function::NativeFunction;

/// Parameters of `parse_example`: the component, one serialised `tf.train.Example` or a vector of them,
/// becomes its features.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct ParseExample {
    /// The component that holds the examples.
    #[n(0)]
    pub component: String,
    /// The features that are wanted. Others are passed over.
    #[n(1)]
    pub features: Vec<Feature>,
}

/// Parameters of `parse_sequence_example`: the component, one serialised `tf.train.SequenceExample`, becomes
/// its features.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct ParseSequenceExample {
    /// The component that holds the example.
    #[n(0)]
    pub component: String,
    /// The features of the context that are wanted.
    #[n(1)]
    #[serde(default)]
    pub context: Vec<Feature>,
    /// The feature lists that are wanted: each is a tensor with a row for every feature of the list. A list
    /// that is missing is one of no rows, unless its rows are of a fixed shape and have no default.
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
                "pads the rows of the list {:?}: take them as ragged, or of a fixed shape",
                feature.name
            )),
            None => Ok(()),
        }
    }

    fn output(&self, input: &ElementSpec) -> Result<ElementSpec, String> {
        if rows_of(input, &self.component)?.is_some() {
            return Err(
                "sequence examples are parsed one by one: parse them before they are batched".to_owned(),
            );
        }
        let context = self.context.iter();
        let context = context.map(|feature| (feature.name.clone(), feature.specs(None)));
        let sequences = self.sequences.iter();
        let sequences = sequences.map(|feature| (feature.name.clone(), feature.specs(Some(None))));
        unpacked(input, &self.component, context.chain(sequences))
    }
}
