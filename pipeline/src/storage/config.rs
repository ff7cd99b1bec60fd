//! The settings of storage, which do not depend on the stores that a build contains.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// The settings of a [`Storage`](super::Storage). All settings except `allowed` affect only files on other
/// machines.
#[derive(Clone)]
pub struct StorageConfig {
    /// The settings of the stores, by the names of their environment variables, such as `AWS_ENDPOINT_URL`,
    /// `GOOGLE_SERVICE_ACCOUNT` or `AZURE_STORAGE_ACCOUNT_NAME`. The settings here take precedence over the
    /// environment.
    pub options: BTreeMap<String, String>,
    /// The number of bytes in one request, 64 KiB to 1 GiB; the default is 4 MiB. A busy store needs a few
    /// round trips to transfer the default size.
    pub block_bytes: u64,
    /// The maximum number of blocks of a file that are prefetched, 1 to 64; the default is 8. The number of
    /// blocks grows up to the maximum for a sequential reader that has to wait.
    pub ahead_blocks: u64,
    /// The number of bytes that all open files may hold in memory together; the default is 256 MiB. Every
    /// open file may hold one block more, so that each reader can continue.
    pub memory_bytes: u64,
    /// The maximum number of attempts for a request that fails for a temporary reason; the default is 5.
    pub attempts: u32,
    /// The maximum time without data from a server within an answer; the default is 20 s.
    pub stall: Duration,
    /// The timeout for opening a connection; the default is 5 s.
    pub connect: Duration,
    /// The timeout for a block, or for a page of a listing, including all attempts; the default is 2 minutes.
    pub deadline: Duration,
    /// The maximum number of bytes of a file that is fetched whole into a temporary file; the default is 16
    /// GiB. Only servers that do not support ranges need temporary files.
    pub spool_bytes: u64,
    /// The cache on a local disk; the default is no cache.
    pub cache: Option<CacheConfig>,
    /// The files that may be read: files below these folders, and URLs that begin with these prefixes. An
    /// empty list, the default, allows all files. An exception is made for servers that give cloud machines
    /// their credentials.
    pub allowed: Vec<String>,
}

/// The settings of the cache of blocks. Several processes may share a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheConfig {
    /// The directory, which only the cache uses. A missing directory is created with mode 0700. The files in
    /// the directory may be deleted at any time.
    pub directory: PathBuf,
    /// The limit on the total length of the files in the directory; at least 64 MiB. The least recently used
    /// blocks are deleted first.
    ///
    /// If several processes share the directory, each may exceed the limit by a sixteenth before it notices
    /// the writes of the other processes.
    pub limit_bytes: u64,
}

/// The smallest limit of a cache, in bytes.
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
    /// Checks the settings; the error names an invalid setting.
    pub(super) fn check(&self) -> Result<(), String> {
        if !(64 << 10..=1 << 30).contains(&self.block_bytes) {
            return Err(format!(
                "invalid block_bytes: expected 64 KiB to 1 GiB, found blocks of {} bytes",
                self.block_bytes
            ));
        }
        if !(1..=64).contains(&self.ahead_blocks) {
            return Err(format!(
                "invalid ahead_blocks: expected 1 to 64 blocks, found {}",
                self.ahead_blocks
            ));
        }
        if self.attempts == 0 {
            return Err("invalid attempts: expected at least 1, found 0".to_owned());
        }
        if self.stall.is_zero() || self.connect.is_zero() || self.deadline.is_zero() {
            return Err("invalid timeout: expected stall, connect and deadline above 0, found 0".to_owned());
        }
        match &self.cache {
            Some(cache) if cache.limit_bytes < CACHE_BYTES_MIN => Err(format!(
                "invalid limit_bytes: expected a cache of at least {CACHE_BYTES_MIN} bytes, found {}",
                cache.limit_bytes
            )),
            Some(_) if !cfg!(feature = "storage") => Err(
                "invalid cache: this build reads no remote files, build with the feature \"storage\""
                    .to_owned(),
            ),
            Some(_) | None => Ok(()),
        }
    }
}

/// Prints the settings without the values of `options`, which may be secret.
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
        assert!(refused(|config| config.ahead_blocks = 65).contains("found 65"));
        assert!(refused(|config| config.attempts = 0).contains("invalid attempts"));
        assert!(refused(|config| config.stall = Duration::ZERO).contains("invalid timeout"));
        let small = |config: &mut StorageConfig| {
            config.cache = Some(CacheConfig {
                directory: PathBuf::from("/nowhere"),
                limit_bytes: 1,
            });
        };
        assert!(refused(small).contains("found 1"));
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
