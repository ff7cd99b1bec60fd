//! The interpreter that runs users' code. Does not know the code.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::environment::ExecutorEnvironment;
use super::isolation::Isolation;

/// The variable that names the interpreter.
const VARIABLE: &str = "MILLSTREAM_PYTHON";
/// The command that is looked for on the `PATH` where none is named.
const DEFAULT: &str = "python3";
/// The names that environments of Python give their interpreter.
const IN_ENVIRONMENTS: [&str; 2] = ["python3", "python"];

/// An interpreter, in which the package `millstream` must be installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interpreter {
    /// The program: a path, or a name that is looked for on the `PATH`.
    pub program: PathBuf,
    /// The folders in which it looks for modules first; `None` for those of its environment.
    pub search_path: Option<String>,
    /// The implementation and version, such as `("cpython", "3.11")`, where they are known. Code of another
    /// one is then refused when its dataset is registered.
    pub version: Option<(String, String)>,
    /// The variables of this process's environment that users' code sees.
    pub environment: ExecutorEnvironment,
    /// The isolation of users' code from the rights of this process.
    pub isolation: Isolation,
}

impl Interpreter {
    /// Returns an interpreter of which nothing else is known. Its code sees the variables that
    /// `MILLSTREAM_PYTHON_ENV` says, and is isolated as `MILLSTREAM_ISOLATION` says.
    pub fn new(program: impl Into<PathBuf>) -> Interpreter {
        Interpreter {
            program: program.into(),
            search_path: None,
            version: None,
            environment: ExecutorEnvironment::from_environment(),
            isolation: Isolation::from_environment(),
        }
    }

    /// Returns the interpreter that `MILLSTREAM_PYTHON` names, else `python3` on the `PATH`. It is started
    /// when there is code to run, and not before.
    pub fn from_environment() -> Interpreter {
        Interpreter::named().unwrap_or_else(|| Interpreter::new(DEFAULT))
    }

    /// Returns the interpreter that `MILLSTREAM_PYTHON` names, if it names one.
    pub fn named() -> Option<Interpreter> {
        let named = std::env::var_os(VARIABLE).filter(|name| !name.is_empty());
        named.map(Interpreter::new)
    }

    /// The one in the directory of a command: that of the environment into which a wheel has installed both.
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
