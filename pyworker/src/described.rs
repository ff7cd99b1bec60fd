//! The description that an executor gets beside the code: the work, the form of elements and results, and the
//! number of executors of its kind. JSON; `millstream/_executor.py` reads it. Does not know how it is sent.

use millstream_element::{Dtype, ElementSpec, Structure, TensorSpec};
use serde_json::{Value as Json, json};

use super::params::Limits;

/// The kind of work.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind<'s> {
    /// Makes an element of each that it is given.
    Function(&'s ElementSpec),
    /// Makes an iterable of each that it is given.
    FlatFunction(&'s ElementSpec),
    /// Is given nothing and makes one iterable.
    Iterable,
}

/// Returns the description for an executor of code of this kind, which yields elements of `output`.
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

/// A structure as plain lists: `["tensor", dtype]`, `["dict", [[name, …], …]]`, `["tuple", […]]` and the
/// like.
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
