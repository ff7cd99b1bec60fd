//! Users' Python code on a worker: functions and iterables that run in supervised processes of the user's
//! interpreter. The worker itself runs no Python code and is not linked with Python.
//!
//! - `count`: the number of executors of this process
//! - `crew`: the pool of executors of one function: which executors are idle, dead or to be ended
//! - `crews`: the executor pools of this process, which are kept for a while between tasks
//! - `descendants`: the memory and the number of a process's descendants
//! - `described`: the description that executors receive with the code (pure)
//! - `ending`: the reason why an executor's call has no result, as text
//! - `environment`: the environment variables that executors see
//! - `isolation`: the isolation of the code from the worker's rights
//! - `executor`: one process that calls the function, and the wait for its results
//! - `foreman`: the process that imports the modules of the code, and starts and reaps executors
//! - `fitting`: the check that results fit their declared spec (pure)
//! - `function`, `flat_map`, `iterable`: the kinds of code that the pipeline runs
//! - `registration`: registers these kinds of code with the pipeline
//! - `interpreter`: the Python interpreter
//! - `params`: the parameters of functions and iterables: their output, their code, and its limits
//! - `region`: memory that this process and one executor share (unsafe)
//! - `socket`: datagrams with file descriptors and timeouts
//! - `wire`: the messages to and from executors (pure)

mod count;
#[cfg(target_os = "linux")]
mod crew;
#[cfg(target_os = "linux")]
mod crews;
#[cfg(target_os = "linux")]
mod descendants;
#[cfg(target_os = "linux")]
mod described;
#[cfg(target_os = "linux")]
mod ending;
mod environment;
#[cfg(target_os = "linux")]
mod executor;
mod fitting;
#[cfg(target_os = "linux")]
mod flat_map;
#[cfg(target_os = "linux")]
mod foreman;
#[cfg(target_os = "linux")]
mod function;
mod interpreter;
mod isolation;
#[cfg(target_os = "linux")]
mod iterable;
mod params;
#[cfg(target_os = "linux")]
mod region;
#[cfg(target_os = "linux")]
mod registration;
#[cfg(target_os = "linux")]
mod socket;
#[cfg(target_os = "linux")]
mod wire;

pub use count::python_processes;
pub use environment::ExecutorEnvironment;
pub use fitting::fitting;
pub use interpreter::Interpreter;
pub use isolation::{Isolation, UnknownIsolation};
pub use params::{Limits, NAME, PythonParams, raised};
#[cfg(target_os = "linux")]
pub use registration::registered;
