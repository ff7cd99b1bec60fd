//! The position of a component that an expression names.

use millstream_element::{ElementSpec, Structure};

/// Returns the position of the component `name` in elements of `input`. The empty name is the only component.
pub(crate) fn column_of(name: &str, input: &ElementSpec) -> Result<usize, String> {
    if name.is_empty() && input.components().len() == 1 {
        return Ok(0);
    }
    // A key of a dict can contain a dot, as the field "seg.png". Therefore `name` is looked up as a key
    // before it is read as a path.
    let mut key = None;
    if let Structure::Dict(entries) = input.structure()
        && entries.len() == input.components().len()
    {
        key = entries
            .iter()
            .position(|(key, entry)| key == name && *entry == Structure::Leaf);
    }
    key.or_else(|| input.position(name))
        .ok_or_else(|| format!("found no component {name:?} in {input}"))
}
