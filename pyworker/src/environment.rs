//! The environment variables of a worker that users' code can see. This file does not know the submitter of
//! the code.
//!
//! Executors run code of other users, so a key or a cloud credential of the worker must not reach the code by
//! accident.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::process::Command;

/// The variable that names further allowed variables, separated by commas. `*` allows all variables except
/// the cluster's key.
const VARIABLE: &str = "MILLSTREAM_PYTHON_ENV";
/// The variable that contains the cluster's key. No setting allows this variable.
const KEY: &str = "MILLSTREAM_KEY";
/// Allowed variables for directories, languages and the interpreter's own settings.
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
/// Prefixes of the variables that the interpreter, numerical libraries and frameworks read.
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
/// Parts of names that indicate a secret. A variable with such a name is not allowed by its prefix.
const SECRETS: [&str; 6] = ["AUTH", "CREDENTIAL", "KEY", "PASS", "SECRET", "TOKEN"];

/// The selection of environment variables that executors see.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExecutorEnvironment {
    named: BTreeSet<OsString>,
    is_all: bool,
}

impl ExecutorEnvironment {
    /// Returns the default selection plus the variables that `MILLSTREAM_PYTHON_ENV` names.
    pub fn from_environment() -> ExecutorEnvironment {
        let names = std::env::var_os(VARIABLE).unwrap_or_default();
        let mut environment = ExecutorEnvironment::default();
        for name in names.to_string_lossy().split(',') {
            environment.allow(name.trim());
        }
        environment
    }

    /// Allows a variable; `*` allows all variables. The cluster's key is never allowed.
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

    /// Sets a command's environment to the allowed variables of this process.
    pub fn apply(&self, command: &mut Command) {
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
