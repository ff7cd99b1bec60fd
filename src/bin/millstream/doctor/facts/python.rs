//! The facts of the Python interpreter that a worker on this machine uses: its version, and its package.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::worker::interpreter;

/// The time within which Python must import the package.
const IMPORT_MAX: Duration = Duration::from_secs(8);
/// The interval between two checks whether Python has ended.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// The maximum length of Python's answer, in bytes.
const ANSWER_BYTES_MAX: u64 = 16 << 10;
/// The program that answers. Each of its lines begins with a word for the answer's kind.
const PROGRAM: &str = "\
import sys
print('version %d.%d.%d' % sys.version_info[:3], flush=True)
try:
    import millstream
    print('package', millstream.__version__)
except BaseException as error:
    print('error', (type(error).__name__ + ': ' + ' '.join(str(error).split()))[:300])
";

/// The facts of an interpreter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct PythonFacts {
    /// The program that a worker starts.
    pub(in super::super) program: PathBuf,
    /// The answer of the program, or the reason why it gave none.
    pub(in super::super) answer: Result<PythonAnswer, String>,
}

/// The answer of an interpreter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct PythonAnswer {
    /// The version of Python: major, minor, patch.
    pub(in super::super) version: (u32, u32, u32),
    /// The version of the package millstream, or the error of its import.
    pub(in super::super) package: Result<String, String>,
}

/// Starts the interpreter of a worker with the environment of users' code, and asks it to import the package.
pub(in super::super) fn python(flag: Option<&Path>) -> PythonFacts {
    let interpreter = interpreter(flag);
    let mut command = Command::new(&interpreter.program);
    interpreter.environment.apply(&mut command);
    command
        // The current directory may contain another package of the same name. Old versions do not know -P.
        .env("PYTHONSAFEPATH", "1")
        .args(["-c", PROGRAM])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let answer = match command.spawn() {
        Ok(child) => answer(child),
        Err(error) => Err(format!("it cannot be started: {error}")),
    };
    PythonFacts {
        program: interpreter.program,
        answer,
    }
}

/// Waits for the end of Python, and kills it after the time limit.
fn answer(mut child: Child) -> Result<PythonAnswer, String> {
    let until = Instant::now() + IMPORT_MAX;
    while matches!(child.try_wait(), Ok(None)) && Instant::now() < until {
        std::thread::sleep(LOOK_EVERY);
    }
    let ended = matches!(child.try_wait(), Ok(Some(_)));
    if !ended {
        let _ = child.kill();
        let _ = child.wait();
        return Err(format!(
            "it did not import millstream within {} s",
            IMPORT_MAX.as_secs()
        ));
    }
    let mut text = Vec::new();
    if let Some(output) = child.stdout.take() {
        let _ = output.take(ANSWER_BYTES_MAX).read_to_end(&mut text);
    }
    parsed(&String::from_utf8_lossy(&text)).ok_or_else(|| "it ended without an answer".to_owned())
}

/// Parses the answer of the program.
fn parsed(text: &str) -> Option<PythonAnswer> {
    let value = |word: &str| {
        let mut lines = text.lines();
        lines.find_map(|line| line.strip_prefix(word)?.strip_prefix(' '))
    };
    let mut numbers = value("version")?.split('.').map(str::parse);
    let mut number = || numbers.next()?.ok();
    let version = (number()?, number()?, number()?);
    let package = match (value("package"), value("error")) {
        (Some(version), _) => Ok(version.to_owned()),
        (None, Some(error)) => Err(error.to_owned()),
        (None, None) => Err("the import ended the interpreter".to_owned()),
    };
    Some(PythonAnswer { version, package })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_parsed() {
        let answer = |package| PythonAnswer {
            version: (3, 11, 4),
            package,
        };
        let text = "version 3.11.4\nnoise\npackage 0.1.0\n";
        assert_eq!(parsed(text), Some(answer(Ok("0.1.0".to_owned()))));
        let error = "ModuleNotFoundError: no";
        let text = format!("version 3.11.4\nerror {error}\n");
        assert_eq!(parsed(&text), Some(answer(Err(error.to_owned()))));
        assert!(parsed("version 3.11.4\n").unwrap().package.is_err());
        assert_eq!(parsed("usage: not Python\n"), None);
        assert_eq!(parsed("version x\n"), None);
    }

    #[test]
    fn a_missing_interpreter_is_a_fact() {
        let facts = python(Some(Path::new("/nonexistent/python")));
        let error = facts.answer.unwrap_err();
        assert!(error.contains("cannot be started"), "{error}");
        let not_python = python(Some(Path::new("/bin/true")));
        assert_eq!(not_python.answer, Err("it ended without an answer".to_owned()));
    }
}
