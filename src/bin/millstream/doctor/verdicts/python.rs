//! The verdict on the Python interpreter of a worker. Pure.

use super::super::facts::python::PythonFacts;
use super::super::finding::Finding;

/// The oldest supported version of Python: major and minor.
const OLDEST: (u32, u32) = (3, 11);

/// Judges the interpreter. Every fault is a warning, because only datasets with Python code need Python.
pub(in super::super) fn python(facts: &PythonFacts, own_version: &str) -> Finding {
    const CHECK: &str = "python";
    let program = facts.program.display();
    let answer = match &facts.answer {
        Ok(answer) => answer,
        Err(reason) => {
            return Finding::warning(
                CHECK,
                format!("a worker runs Python code with {program}, but {reason}"),
                "Name an interpreter of Python 3.11 or later with --python or MILLSTREAM_PYTHON, if datasets contain Python code.",
            );
        }
    };
    let (major, minor, patch) = answer.version;
    let found = format!("a worker runs Python code with {program}, Python {major}.{minor}.{patch}");
    if (major, minor) < OLDEST {
        return Finding::warning(
            CHECK,
            format!("{found}, which is too old"),
            "Name an interpreter of Python 3.11 or later with --python or MILLSTREAM_PYTHON.",
        );
    }
    match &answer.package {
        Err(error) => Finding::warning(
            CHECK,
            format!("{found}, which cannot import millstream: {error}"),
            format!(
                "Install the wheel of millstream for this interpreter (`{program} -m pip install WHEEL`), or name another one with --python."
            ),
        ),
        Ok(version) if version != own_version => Finding::warning(
            CHECK,
            format!("{found}, with millstream {version}; this program has the version {own_version}"),
            format!("Install millstream {own_version} for this interpreter."),
        ),
        Ok(version) => Finding::ok(CHECK, format!("{found}, with millstream {version}")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::facts::python::PythonAnswer;
    use super::super::super::finding::Level;
    use super::*;

    fn judged(answer: Result<PythonAnswer, String>) -> Finding {
        let program = "/env/bin/python3".into();
        python(&PythonFacts { program, answer }, "0.1.0")
    }

    #[test]
    fn python_needs_a_version_and_the_package() {
        let answer = |version, package: Result<&str, &str>| {
            Ok(PythonAnswer {
                version,
                package: package.map(str::to_owned).map_err(str::to_owned),
            })
        };
        let good = judged(answer((3, 13, 1), Ok("0.1.0")));
        assert_eq!((good.level, good.cure.as_str()), (Level::Ok, ""));
        assert!(good.found.contains("/env/bin/python3, Python 3.13.1"), "{good:?}");
        for (answer, said) in [
            (answer((3, 10, 0), Ok("0.1.0")), "too old"),
            (answer((3, 13, 1), Ok("0.0.9")), "millstream 0.0.9"),
            (
                answer((3, 13, 1), Err("No module named 'millstream'")),
                "No module named",
            ),
            (Err("it cannot be started".to_owned()), "cannot be started"),
        ] {
            let finding = judged(answer);
            assert_eq!(finding.level, Level::Warning);
            assert!(finding.found.contains(said), "{finding:?}");
            assert!(!finding.cure.is_empty());
        }
    }
}
