//! The settings of storage, the same for every set of built-in stores.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// The settings of a [`Storage`](super::Storage). All but `allowed` concern files that are not of this
/// machine.
#[derive(Clone)]
pub struct StorageConfig {
    /// Settings of the stores, by the names that they have in the environment: `AWS_ENDPOINT_URL`,
    /// `GOOGLE_SERVICE_ACCOUNT`, `AZURE_STORAGE_ACCOUNT_NAME`. They go before those of the environment, from
    /// which everything else is taken.
    pub options: BTreeMap<String, String>,
    /// Bytes asked for at once, 64 KiB to 1 GiB; default 4 MiB, which takes a few round trips of a busy store
    /// to bring.
    pub block_bytes: u64,
    /// Blocks of a file that are asked for ahead of a reader, 1 to 64; default 8. Only a reader that goes
    /// straight on and has to wait gets as many.
    pub ahead_blocks: u64,
    /// Bytes held for all open files together; default 256 MiB. Every open file may hold one block beyond it,
    /// so that none stands still.
    pub memory_bytes: u64,
    /// How often a request is made that fails in a way that may pass; default 5.
    pub attempts: u32,
    /// How long a server may be silent within an answer; default 20 s.
    pub stall: Duration,
    /// How long a connection may take to be made; default 5 s.
    pub connect: Duration,
    /// How long a block, or a page of a listing, may take with all attempts; default 2 minutes.
    pub deadline: Duration,
    /// Bytes of a file that is fetched whole, to a temporary file, because its server answers no ranges;
    /// default 16 GiB.
    pub spool_bytes: u64,
    /// Keeps what was read on a local disk; default none.
    pub cache: Option<CacheConfig>,
    /// The only files that are read: below these folders, or with URLs that begin like these. Default none,
    /// which allows everything but servers by which clouds give machines their credentials.
    pub allowed: Vec<String>,
}

/// Settings of the cache of bytes that were read. Processes may share a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheConfig {
    /// A directory of its own, made if it is missing, with mode 0700. What lies in it may be deleted at any
    /// time.
    pub directory: PathBuf,
    /// Limit on the length of all files in the directory: at least 64 MiB. The least recently used go first.
    ///
    /// A process that shares the directory may exceed the limit by a sixteenth before it notices the writes
    /// of others.
    pub limit_bytes: u64,
}

/// The least a cache may have.
pub(super) const CACHE_BYTES_MIN: u64 = 64 << 20;

impl Default for StorageConfig {
    fn default() -> StorageConfig {
        StorageConfig {
            options: BTreeMap::new(),
            block_bytes: 4 << 20,
            ahead_blocks: 8,
            memory_bytes: 256 << 20,
            attempts: 5,
            stall: Duration::from_secs(20),
            connect: Duration::from_secs(5),
            deadline: Duration::from_secs(120),
            spool_bytes: 16 << 30,
            cache: None,
            allowed: Vec::new(),
        }
    }
}

impl StorageConfig {
    /// Checks the settings; the error tells the caller what is wrong.
    pub(super) fn check(&self) -> Result<(), String> {
        if !(64 << 10..=1 << 30).contains(&self.block_bytes) {
            return Err(format!(
                "blocks of {} bytes: 64 KiB to 1 GiB are possible",
                self.block_bytes
            ));
        }
        if !(1..=64).contains(&self.ahead_blocks) {
            return Err(format!(
                "{} blocks ahead: 1 to 64 are possible",
                self.ahead_blocks
            ));
        }
        if self.attempts == 0 {
            return Err("0 attempts: at least 1 is needed".to_owned());
        }
        if self.stall.is_zero() || self.connect.is_zero() || self.deadline.is_zero() {
            return Err("a wait of no time: every wait needs some".to_owned());
        }
        match &self.cache {
            Some(cache) if cache.limit_bytes < CACHE_BYTES_MIN => Err(format!(
                "a cache of {} bytes: at least {CACHE_BYTES_MIN} are needed",
                cache.limit_bytes
            )),
            Some(_) if !cfg!(feature = "storage") => Err(
                "a cache, for files that this build cannot read: build with the feature \"storage\""
                    .to_owned(),
            ),
            Some(_) | None => Ok(()),
        }
    }
}

/// Without the values of its options, which may be secret.
impl fmt::Debug for StorageConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StorageConfig")
            .field("options", &self.options.keys())
            .field("block_bytes", &self.block_bytes)
            .field("ahead_blocks", &self.ahead_blocks)
            .field("memory_bytes", &self.memory_bytes)
            .field("attempts", &self.attempts)
            .field("stall", &self.stall)
            .field("connect", &self.connect)
            .field("deadline", &self.deadline)
            .field("spool_bytes", &self.spool_bytes)
            .field("cache", &self.cache)
            .field("allowed", &self.allowed)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_settings_are_refused() {
        let refused = |change: fn(&mut StorageConfig)| {
            let mut config = StorageConfig::default();
            change(&mut config);
            config.check().unwrap_err()
        };
        assert!(refused(|config| config.block_bytes = 1).contains("blocks of 1 bytes"));
        assert!(refused(|config| config.ahead_blocks = 65).contains("65 blocks ahead"));
        assert!(refused(|config| config.attempts = 0).contains("0 attempts"));
        assert!(refused(|config| config.stall = Duration::ZERO).contains("no time"));
        let small = |config: &mut StorageConfig| {
            config.cache = Some(CacheConfig {
                directory: PathBuf::from("/nowhere"),
                limit_bytes: 1,
            });
        };
        assert!(refused(small).contains("a cache of 1 bytes"));
    }

    #[test]
    fn secrets_do_not_show_in_what_is_printed() {
        let mut config = StorageConfig::default();
        let option = ("AWS_SECRET_ACCESS_KEY".to_owned(), "hush".to_owned());
        config.options.extend([option]);
        let printed = format!("{config:?}");
        assert!(printed.contains("AWS_SECRET_ACCESS_KEY") && !printed.contains("hush"));
    }
}
