//! The variables of a worker's environment that users' code sees. Refuses to know who submitted the code.
//!
//! Code of another user runs in executors, so a key or a cloud credential of the worker must not reach it by
//! accident.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::process::Command;

/// The variable that names further variables, separated by commas; `*` names all but the cluster's key.
const VARIABLE: &str = "MILLSTREAM_PYTHON_ENV";
/// The variable that holds the cluster's key. No setting passes it on.
const KEY: &str = "MILLSTREAM_KEY";
/// Variables that name places, languages and the interpreter's own settings.
const ALLOWED: [&str; 20] = [
    "CONDA_PREFIX",
    "HOME",
    "HOSTNAME",
    "LANG",
    "LANGUAGE",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "LOGNAME",
    "MILLSTREAM_START_METHOD",
    "PATH",
    "SHELL",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TEMP",
    "TMP",
    "TMPDIR",
    "TZ",
    "USER",
    "VIRTUAL_ENV",
    "XDG_CACHE_HOME",
];
/// The beginnings of names that the interpreter, numerical libraries and frameworks read.
const FAMILIES: [&str; 20] = [
    "BLIS_",
    "CUDA_",
    "GOMP_",
    "HF_",
    "JAX_",
    "JE_",
    "KERAS_",
    "KMP_",
    "LC_",
    "MALLOC_",
    "MIMALLOC_",
    "MKL_",
    "NUMBA_",
    "NUMEXPR_",
    "NVIDIA_",
    "OMP_",
    "OPENBLAS_",
    "PYTHON",
    "TF_",
    "TORCH_",
];
/// Parts of names that tell a secret. A family does not allow such a variable.
const SECRETS: [&str; 6] = ["AUTH", "CREDENTIAL", "KEY", "PASS", "SECRET", "TOKEN"];

/// The choice of variables that executors see.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExecutorEnvironment {
    named: BTreeSet<OsString>,
    is_all: bool,
}

impl ExecutorEnvironment {
    /// Returns the choice that `MILLSTREAM_PYTHON_ENV` makes: the default one, and the variables it names.
    pub fn from_environment() -> ExecutorEnvironment {
        let names = std::env::var_os(VARIABLE).unwrap_or_default();
        let mut environment = ExecutorEnvironment::default();
        for name in names.to_string_lossy().split(',') {
            environment.allow(name.trim());
        }
        environment
    }

    /// Adds a variable; `*` adds all. The cluster's key stays out.
    pub fn allow(&mut self, name: &str) {
        match name {
            "" => {}
            "*" => self.is_all = true,
            name => {
                self.named.insert(name.into());
            }
        }
    }

    /// Returns whether executors see a variable.
    fn allows(&self, name: &OsStr) -> bool {
        if name == KEY {
            return false;
        }
        if self.is_all || self.named.contains(name) {
            return true;
        }
        let Some(name) = name.to_str() else {
            return false;
        };
        let is_of_family = FAMILIES.iter().any(|family| name.starts_with(family));
        let is_secret = SECRETS.iter().any(|secret| name.contains(secret));
        ALLOWED.contains(&name) || (is_of_family && !is_secret)
    }

    /// Gives a command the allowed variables of this process, and no others.
    pub(super) fn apply(&self, command: &mut Command) {
        command.env_clear();
        command.envs(std::env::vars_os().filter(|(name, _)| self.allows(name)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(environment: &ExecutorEnvironment, name: &str) -> bool {
        environment.allows(OsStr::new(name))
    }

    #[test]
    fn keys_and_credentials_stay_with_the_worker() {
        let environment = ExecutorEnvironment::default();
        for name in [
            "PATH",
            "HOME",
            "LC_ALL",
            "PYTHONPATH",
            "OMP_NUM_THREADS",
            "HF_HOME",
            "CUDA_VISIBLE_DEVICES",
        ] {
            assert!(allows(&environment, name), "{name}");
        }
        for name in [
            "MILLSTREAM_KEY",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_SESSION_TOKEN",
            "GOOGLE_SERVICE_ACCOUNT",
            "HF_TOKEN",
            "TF_API_KEY",
            "DATABASE_URL",
        ] {
            assert!(!allows(&environment, name), "{name}");
        }
    }

    #[test]
    fn named_variables_are_added_but_the_key() {
        let mut environment = ExecutorEnvironment::default();
        environment.allow("HF_TOKEN");
        environment.allow(KEY);
        assert!(allows(&environment, "HF_TOKEN") && !allows(&environment, KEY));
        assert!(!allows(&environment, "AWS_PROFILE"));
        environment.allow("*");
        assert!(allows(&environment, "AWS_PROFILE") && !allows(&environment, KEY));
    }
}
