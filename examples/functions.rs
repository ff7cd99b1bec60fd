//! An example of a worker that registers a Rust function by name. Datasets apply the function with
//! `.map_declared("scale", Params::encode(&3i64), spec)`. The dataset declares the output's `spec`, because
//! the dispatcher does not know the function.
//!
//! To run the example next to `millstream dispatcher`: `cargo run --example functions`, followed by the
//! dispatcher's address if it is not on this machine.

use std::env::{args, var_os};
use std::error::Error;
use std::sync::Arc;

use millstream::link::KeySource;
use millstream::pipeline::exec::{PreparedMap, Tensor, Value};
use millstream::{Worker, WorkerConfig, functions};

fn main() -> Result<(), Box<dyn Error>> {
    let key = KeySource::from_environment(|name| var_os(name))?.load()?;
    let functions = functions::builtin(Some(&key)).with_map("scale", |params, input| {
        let factor: i64 = params.decode()?;
        let call = move |value: Value| {
            let number = value.first().and_then(Tensor::as_i64).ok_or("not a number")?;
            let scaled = number.checked_mul(factor).ok_or("beyond 64 bits")?;
            Ok(Value::from_buf([Tensor::i64(scaled)]))
        };
        let (output, call) = (input.clone(), Arc::new(call));
        Ok(PreparedMap { output, call })
    });
    let dispatcher = args().nth(1).unwrap_or_else(|| "127.0.0.1:5050".to_owned());
    let mut config = WorkerConfig::new(dispatcher);
    config.functions = Arc::new(functions);
    Ok(Worker::start(&key, config)?.join()?)
}
