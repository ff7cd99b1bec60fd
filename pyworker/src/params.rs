//! The parameters of Python functions and iterables: the output specification, and the packed code. The
//! header of the code names the Python version that packed the code, and the limits for running it. This file
//! does not know the code itself.

use std::time::Duration;

use millstream_element::ElementSpec;
use millstream_pipeline::exec::{ErrorKind, ExecError, Site};
use millstream_pipeline::graph::Params;
use serde::Deserialize;

use super::interpreter::Interpreter;

/// The name of Python functions and sources in graphs.
pub const NAME: &str = "python";
/// Size in bytes of the length field, which precedes the spec and the code.
const LENGTH_BYTES: usize = 4;
/// The beginning of the message of an exception for a value that does not suit its declaration.
const UNSUITED: &str = "millstream.errors.InvalidArgumentError: ";
/// Maximum number of processes that read one iterable together.
const PROCESSES_MAX: u32 = 256;

/// The code of a function or an iterable, and the specification of its output.
#[derive(Debug, Clone)]
pub struct PythonParams {
    /// The specification of the output elements.
    pub output: ElementSpec,
    /// A header line in JSON, followed by the pickled code.
    pub code: Vec<u8>,
}

/// The limits for calls of Python code. If the header of the code omits a limit, the value in
/// [`Limits::default`] applies.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// The time limit in seconds for one call, or for one element of an iterable.
    pub deadline_s: f64,
    /// Maximum memory of a process in bytes; 0 means half of the machine's memory.
    pub memory_bytes: u64,
    /// The number of calls after which a process is replaced by a new process; 0 means never.
    pub recycle_after: u64,
    /// Maximum number of attempts for one element if its process is killed or crashes.
    pub attempts: u32,
    /// The number of processes that read one iterable together, which `get_worker_info` shows. 0 means one
    /// process for an iterable, and one for each thread of the worker for a function.
    pub processes: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            deadline_s: 300.0,
            memory_bytes: 0,
            recycle_after: 0,
            attempts: 3,
            processes: 0,
        }
    }
}

impl Limits {
    /// Returns the time limit for one call.
    pub(super) fn deadline(&self) -> Duration {
        Duration::try_from_secs_f64(self.deadline_s).unwrap_or(Duration::MAX)
    }
}

/// The header of packed code: the program that packed the code, and the requirements of the code.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Header {
    pub(super) python: String,
    pub(super) implementation: String,
    pub(super) limits: Limits,
    /// True if the code has its own seed. Seeded code receives the number of the pass, and derives its random
    /// draws from seed, pass and element.
    pub(super) seeded: bool,
}

impl Header {
    /// Returns the site that the code receives.
    pub(super) fn told<'s>(seeded: bool, site: &Site<'s>) -> Site<'s> {
        if seeded { site.drawing_by_pass() } else { *site }
    }
}

/// Makes the failure of an element from the message and the traceback of an exception. The user's function is
/// to blame, unless the exception states that a value does not suit its declaration.
pub fn raised(said: String, traceback: String) -> ExecError {
    let (kind, said) = match said.strip_prefix(UNSUITED) {
        Some(said) => (ErrorKind::Value, said.to_owned()),
        None => (ErrorKind::UserFunction, said),
    };
    ExecError::new(kind, NAME, said).with_traceback(traceback)
}

impl PythonParams {
    /// Encodes the parameters for the definition of a dataset.
    pub fn to_params(&self) -> Params {
        let spec = self.output.to_bytes();
        // A spec has at most 64 KiB, so its length fits into 32 bits.
        let mut bytes = (spec.len() as u32).to_le_bytes().to_vec();
        bytes.extend_from_slice(&spec);
        bytes.extend_from_slice(&self.code);
        Params::from_bytes(bytes)
    }

    /// Decodes the parameters from the definition of a dataset.
    ///
    /// # Errors
    ///
    /// The error message names the fault.
    pub fn from_params(params: &Params) -> Result<PythonParams, String> {
        let short = || "its parameters are truncated".to_owned();
        let (length, rest) = params
            .as_bytes()
            .split_first_chunk::<LENGTH_BYTES>()
            .ok_or_else(short)?;
        let (spec, code) = rest
            .split_at_checked(u32::from_le_bytes(*length) as usize)
            .ok_or_else(short)?;
        let output = ElementSpec::from_bytes(spec).map_err(|error| error.to_string())?;
        Ok(PythonParams {
            output,
            code: code.to_vec(),
        })
    }

    /// Returns the header of the code. Fails if the header is invalid, or if `interpreter` cannot run the
    /// code.
    pub(super) fn header(&self, interpreter: &Interpreter) -> Result<Header, String> {
        let end = self
            .code
            .iter()
            .position(|byte| *byte == b'\n')
            .unwrap_or_default();
        let header: Header = serde_json::from_slice(&self.code[..end]).map_err(|error| {
            format!("the header of its code is damaged, expected a line of JSON: {error}")
        })?;
        if let Some((implementation, python)) = &interpreter.version
            && (implementation, python) != (&header.implementation, &header.python)
        {
            return Err(format!(
                "the trainer runs {} {}, workers here run {implementation} {python}: pickled code needs the same version on both",
                header.implementation, header.python
            ));
        }
        let limits = &header.limits;
        if limits.deadline_s <= 0.0 {
            return Err(format!(
                "invalid deadline_s {}: expected a number above 0",
                limits.deadline_s
            ));
        }
        if limits.attempts == 0 || limits.processes > PROCESSES_MAX {
            return Err(format!(
                "invalid attempts {} or processes {}: expected at least 1 attempt, and at most {PROCESSES_MAX} processes",
                limits.attempts, limits.processes
            ));
        }
        Ok(header)
    }
}

#[cfg(test)]
mod tests {
    use millstream_element::{Dtype, TensorSpec};

    use super::*;

    fn params(header: &str) -> PythonParams {
        PythonParams {
            output: ElementSpec::single(TensorSpec::scalar(Dtype::I64)).unwrap(),
            code: format!("{header}\ncode").into_bytes(),
        }
    }

    #[test]
    fn an_unsuited_value_blames_the_element() {
        let unsuited = raised(format!("{UNSUITED}no int"), String::new());
        assert_eq!(
            (unsuited.kind(), &*unsuited.failure().message),
            (ErrorKind::Value, "no int")
        );
        let other = raised("ValueError: no int".to_owned(), String::new());
        assert_eq!(other.kind(), ErrorKind::UserFunction);
    }

    #[test]
    fn parameters_survive_and_damaged_ones_are_refused() {
        let sent = params("{}");
        let found = PythonParams::from_params(&sent.to_params()).unwrap();
        assert_eq!((found.output, found.code), (sent.output, sent.code));
        for damaged in [&b""[..], &[9, 0, 0, 0, 1]] {
            assert!(PythonParams::from_params(&Params::from_bytes(damaged.to_vec())).is_err());
        }
        let any = Interpreter::new("python3");
        assert!(params("no header").header(&any).unwrap_err().contains("damaged"));
    }

    #[test]
    fn another_version_is_refused_with_both_named() {
        let packed = params(r#"{"python": "2.7", "implementation": "cpython"}"#);
        let mut interpreter = Interpreter::new("python3");
        assert!(packed.header(&interpreter).is_ok());
        interpreter.version = Some(("cpython".to_owned(), "3.11".to_owned()));
        let refused = packed.header(&interpreter).unwrap_err();
        assert!(
            refused.contains("trainer runs cpython 2.7, workers here run cpython 3.11"),
            "{refused}"
        );
    }

    #[test]
    fn limits_have_defaults_and_impossible_ones_are_refused() {
        let any = Interpreter::new("python3");
        assert_eq!(params("{}").header(&any).unwrap().limits, Limits::default());
        let said = params(r#"{"limits": {"deadline_s": 2.5, "attempts": 1}}"#)
            .header(&any)
            .unwrap()
            .limits;
        assert_eq!((said.deadline(), said.attempts), (Duration::from_millis(2500), 1));
        for wrong in [
            r#"{"deadline_s": 0}"#,
            r#"{"attempts": 0}"#,
            r#"{"processes": 257}"#,
        ] {
            assert!(
                params(&format!(r#"{{"limits": {wrong}}}"#)).header(&any).is_err(),
                "{wrong}"
            );
        }
    }
}
