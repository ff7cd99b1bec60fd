//! Which Python runs users' code. Refuses to know what it runs.

use std::path::PathBuf;

/// The variable that names the interpreter.
const VARIABLE: &str = "MILLSTREAM_PYTHON";
/// What is looked for on the `PATH` where none is named.
const DEFAULT: &str = "python3";

/// An interpreter, in which the package `millstream` must be installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interpreter {
    /// The program: a path, or a name that is looked for on the `PATH`.
    pub program: PathBuf,
    /// Where it looks for modules first; nothing = what its environment says.
    pub search_path: Option<String>,
    /// What it is, such as `("cpython", "3.11")`, where that is known: then code of another one is refused when its dataset is
    /// registered.
    pub version: Option<(String, String)>,
}

impl Interpreter {
    /// An interpreter of which nothing else is known.
    pub fn new(program: impl Into<PathBuf>) -> Interpreter {
        Interpreter {
            program: program.into(),
            search_path: None,
            version: None,
        }
    }

    /// What `MILLSTREAM_PYTHON` names, else `python3` on the `PATH`. It is started when there is code to run, and not before.
    pub fn from_environment() -> Interpreter {
        Interpreter::named().unwrap_or_else(|| Interpreter::new(DEFAULT))
    }

    /// What `MILLSTREAM_PYTHON` names, if it names one.
    pub fn named() -> Option<Interpreter> {
        let named = std::env::var_os(VARIABLE).filter(|name| !name.is_empty());
        named.map(Interpreter::new)
    }
}
