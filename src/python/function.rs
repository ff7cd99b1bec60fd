//! Python's functions as maps of a pipeline, and what both kinds of code are registered by. Nothing of the code is read here but its
//! header: a dispatcher learns what a dataset yields without running anything.

use std::sync::{Arc, OnceLock};

use millstream_element::{Dtype, ElementSpec, Structure, TensorSpec};
use millstream_pipeline::exec::{Functions, PreparedSitedMap, Site, SitedMapCall, Value};
use millstream_pipeline::graph::Params;
use serde_json::{Value as Json, json};

use super::crew::Job;
use super::crews::Crews;
use super::interpreter::Interpreter;
use super::iterable::Iterables;
use super::params::{Limits, NAME, PythonParams};

/// The functions, and Python's, run by processes of `interpreter`, which are started when there is code to run.
#[must_use]
pub fn registered(functions: Functions, interpreter: Interpreter) -> Functions {
    let crews = Arc::new(Crews::default());
    let iterables = Iterables::new(interpreter.clone(), Arc::clone(&crews));
    functions
        .with_sited_map(NAME, move |params, input| {
            prepared(&interpreter, &crews, params, input)
        })
        .with_source(NAME, iterables)
}

fn prepared(
    interpreter: &Interpreter,
    crews: &Arc<Crews>,
    params: &Params,
    input: &ElementSpec,
) -> Result<PreparedSitedMap, String> {
    let params = PythonParams::from_params(params)?;
    let header = params.header(interpreter)?;
    let described = described(Some(input), &header.limits);
    let (interpreter, crews, crew) = (interpreter.clone(), Arc::clone(crews), OnceLock::new());
    let code = params.code;
    let call: SitedMapCall = Arc::new(move |value: Value, site: &Site<'_>| {
        let crew = crew.get_or_init(|| {
            crews.crew(Job {
                interpreter: interpreter.clone(),
                described: described.clone(),
                code: code.clone(),
                limits: header.limits.clone(),
            })
        });
        Ok(crew.call(&value, site)?)
    });
    Ok(PreparedSitedMap {
        output: params.output,
        call,
    })
}

/// What an executor is told beside the code: what elements are that it is called with, or that there are none.
pub(super) fn described(input: Option<&ElementSpec>, limits: &Limits) -> String {
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
    json!({
        "given": input.map(|spec| plain(spec.structure(), &mut spec.components().iter())),
        "processes": processes,
        "dtypes": dtypes,
    })
    .to_string()
}

/// A structure as plain lists: `["tensor", dtype]`, `["dict", [[name, …], …]]`, `["tuple", […]]` and the like.
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
