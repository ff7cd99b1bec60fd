//! `select`: chooses, orders and names components.

use millstream_element::ElementSpec;
use minicbor::{Decode, Encode};
use serde::Deserialize;

use super::function::NativeFunction;
use crate::graph::check::check_name;
use crate::graph::expr::column_of;

/// Parameters of `select`, which yields a dict of the chosen components.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct Select {
    /// The chosen components, in order.
    #[n(0)]
    pub components: Vec<Selected>,
}

/// One component of a `select`.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct Selected {
    /// The name of the component in the input.
    #[n(0)]
    pub from: String,
    /// The name of the component in the output.
    #[n(1)]
    pub name: String,
}

impl NativeFunction for Select {
    fn check(&self) -> Result<(), String> {
        if self.components.is_empty() {
            return Err("selects no components".to_owned());
        }
        self.components
            .iter()
            .try_for_each(|selected| check_name("component", &selected.name))
    }

    fn output(&self, input: &ElementSpec) -> Result<ElementSpec, String> {
        let mut fields = Vec::with_capacity(self.components.len());
        for selected in &self.components {
            let position = column_of(&selected.from, input)?;
            fields.push((selected.name.clone(), input.components()[position].clone()));
        }
        ElementSpec::dict(fields).map_err(|error| error.to_string())
    }
}
