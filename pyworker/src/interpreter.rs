//! The Python interpreter that runs users' code. This file does not know the code.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::environment::ExecutorEnvironment;
use super::isolation::Isolation;

/// The environment variable that names the interpreter.
const VARIABLE: &str = "MILLSTREAM_PYTHON";
/// The command that is searched on the `PATH` if no interpreter is named.
const DEFAULT: &str = "python3";
/// The file names of interpreters in Python environments.
const IN_ENVIRONMENTS: [&str; 2] = ["python3", "python"];

/// A Python interpreter. The package `millstream` must be installed for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interpreter {
    /// The program: a path, or a name that is searched on the `PATH`.
    pub program: PathBuf,
    /// The directories that the interpreter searches first for modules; `None` uses its environment's search
    /// path.
    pub search_path: Option<String>,
    /// The implementation and version, such as `("cpython", "3.11")`, if known. If the version is known, code
    /// for another version is refused when its dataset is registered.
    pub version: Option<(String, String)>,
    /// The variables of this process's environment that users' code sees.
    pub environment: ExecutorEnvironment,
    /// The isolation of users' code from the rights of this process.
    pub isolation: Isolation,
}

impl Interpreter {
    /// Makes an interpreter with unknown version and search path. `MILLSTREAM_PYTHON_ENV` selects the
    /// variables that its code sees, and `MILLSTREAM_ISOLATION` selects its isolation.
    pub fn new(program: impl Into<PathBuf>) -> Interpreter {
        Interpreter {
            program: program.into(),
            search_path: None,
            version: None,
            environment: ExecutorEnvironment::from_environment(),
            isolation: Isolation::from_environment(),
        }
    }

    /// Returns the interpreter that `MILLSTREAM_PYTHON` names, or `python3` on the `PATH`. The interpreter is
    /// started only when a pipeline has code to run.
    pub fn from_environment() -> Interpreter {
        Interpreter::named().unwrap_or_else(|| Interpreter::new(DEFAULT))
    }

    /// Returns the interpreter that `MILLSTREAM_PYTHON` names; `None` if the variable is empty or unset.
    pub fn named() -> Option<Interpreter> {
        let named = std::env::var_os(VARIABLE).filter(|name| !name.is_empty());
        named.map(Interpreter::new)
    }

    /// Returns the interpreter in the directory of a command. A wheel installs the command into the same
    /// directory as its environment's interpreter.
    pub fn beside(command: &Path) -> Option<Interpreter> {
        let directory = command.parent()?;
        let programs = IN_ENVIRONMENTS.map(|name| directory.join(name));
        programs
            .into_iter()
            .find(|program| is_executable(program))
            .map(Interpreter::new)
    }
}

fn is_executable(program: &Path) -> bool {
    let executable_by_any = 0o111;
    program
        .metadata()
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & executable_by_any != 0)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn an_environments_interpreter_is_found_beside_commands() {
        let environment = tempfile::tempdir().unwrap();
        let bin = environment.path().join("bin");
        fs::create_dir(&bin).unwrap();
        let command = bin.join("millstream");
        assert_eq!(Interpreter::beside(&command), None);
        let make = |name: &str, mode: u32| {
            let path = bin.join(name);
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path
        };
        make("python3.11", 0o755);
        let nobody_runs = make("python3", 0o644);
        assert_eq!(Interpreter::beside(&command), None);
        let python = make("python", 0o755);
        assert_eq!(Interpreter::beside(&command), Some(Interpreter::new(python)));
        fs::remove_file(nobody_runs).unwrap();
        let python3 = make("python3", 0o755);
        assert_eq!(Interpreter::beside(&command), Some(Interpreter::new(python3)));
        assert_eq!(Interpreter::beside(Path::new("/")), None);
    }
}
