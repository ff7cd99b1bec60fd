//! The description that an executor receives with the code: the kind of work, the structure of inputs and
//! results, and the number of executors. The description is JSON, and `millstream/_executor.py` reads it.
//! This file does not know how the description is sent.

use millstream_element::{Dtype, ElementSpec, Structure, TensorSpec};
use serde_json::{Value as Json, json};

use super::params::Limits;

/// The kind of work of an executor.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind<'s> {
    /// The executor makes one element from each input element.
    Function(&'s ElementSpec),
    /// The executor makes one iterable from each input element.
    FlatFunction(&'s ElementSpec),
    /// The executor makes one iterable, without an input.
    Iterable,
}

/// Returns the description for an executor of this kind of code, whose results are elements of `output`.
pub(super) fn described(kind: Kind<'_>, output: &ElementSpec, limits: &Limits) -> String {
    let (input, makes) = match kind {
        Kind::Function(input) => (Some(input), "element"),
        Kind::FlatFunction(input) => (Some(input), "iterable"),
        Kind::Iterable => (None, "iterable"),
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let processes = match limits.processes {
        0 if input.is_some() => threads,
        0 => 1,
        processes => processes as usize,
    };
    let dtypes: serde_json::Map<String, Json> = Dtype::ALL
        .iter()
        .map(|dtype| (dtype.code().to_string(), json!(dtype.name())))
        .collect();
    let nested = |spec: &ElementSpec| plain(spec.structure(), &mut spec.components().iter());
    json!({
        "makes": makes,
        "given": input.map(nested),
        "yields": nested(output),
        "processes": processes,
        "dtypes": dtypes,
    })
    .to_string()
}

/// Converts a structure to plain lists: `["tensor", dtype]`, `["dict", [[name, …], …]]`, `["tuple", […]]` and
/// similar lists.
fn plain(structure: &Structure, specs: &mut std::slice::Iter<'_, TensorSpec>) -> Json {
    let mut all = |kind: &str, items: &[Structure]| {
        let items: Vec<Json> = items.iter().map(|item| plain(item, specs)).collect();
        json!([kind, items])
    };
    match structure {
        Structure::Leaf => json!(["tensor", specs.next().map(|spec| spec.dtype().name())]),
        Structure::Tuple(items) => all("tuple", items),
        Structure::List(items) => all("list", items),
        Structure::Dict(entries) => {
            let entries: Vec<Json> = entries
                .iter()
                .map(|(name, item)| json!([name, plain(item, specs)]))
                .collect();
            json!(["dict", entries])
        }
        Structure::Ragged { ragged_rank } => {
            all("ragged", &vec![Structure::Leaf; 1 + usize::from(*ragged_rank)])
        }
        Structure::Sparse => all("sparse", &[Structure::Leaf, Structure::Leaf, Structure::Leaf]),
        Structure::None => json!(["none"]),
    }
}
