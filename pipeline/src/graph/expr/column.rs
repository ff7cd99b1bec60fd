//! The place of a component that an expression names.

use millstream_element::{ElementSpec, Structure};

/// The place of the component `name` in elements of `input`.
pub(crate) fn column_of(name: &str, input: &ElementSpec) -> Result<usize, String> {
    if name.is_empty() && input.components().len() == 1 {
        return Ok(0);
    }
    // A name with a dot in it, such as the field "seg.png", is a key before it is a path.
    let mut key = None;
    if let Structure::Dict(entries) = input.structure()
        && entries.len() == input.components().len()
    {
        key = entries
            .iter()
            .position(|(key, entry)| key == name && *entry == Structure::Leaf);
    }
    key.or_else(|| input.position(name))
        .ok_or_else(|| format!("it has no component {name:?}: {input}"))
}
