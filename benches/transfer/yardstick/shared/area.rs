//! Memory that the two processes of a yardstick share: words, and bells at which a process can sleep.
//!
//! The memory is a sealed memory file. The reader creates the file. The producer, a child of the reader,
//! opens the file through its parent's descriptor. The file thus needs no name, and disappears with the
//! processes.
#![expect(
    unsafe_code,
    reason = "a futex has 32 bits, and the shared memory consists of 64-bit words"
)]

use std::fs::OpenOptions;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use millstream::dataplane::transport::shm::map::PAGE_BYTES;
use millstream::dataplane::transport::shm::{Mapping, Words};
use rustix::io::Errno;
use rustix::thread::futex;

/// The time without a ring after which waiting fails. The time is far longer than a busy machine delays a
/// process, and longer than the interval of the lowest `--rate`.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// The shared memory.
#[derive(Debug)]
pub(crate) struct Area {
    mapping: Mapping,
}

impl Area {
    /// Creates memory of at least `words` words, and the descriptor for [`Area::open`].
    pub(crate) fn create(words: usize) -> Result<(Self, OwnedFd), String> {
        let created = Mapping::create("bench-transfer", size_bytes(words));
        let (fd, mapping) = created.map_err(|error| format!("cannot create shared memory: {error}"))?;
        Ok((Self { mapping }, fd))
    }

    /// Returns the path at which a child process opens the memory.
    pub(crate) fn path(fd: &OwnedFd) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), fd.as_raw_fd())
    }

    /// Opens the memory that the parent created with `words` words.
    pub(crate) fn open(path: &str, words: usize) -> Result<Self, String> {
        let file = OpenOptions::new().read(true).write(true).open(path);
        let file = file.map_err(|error| format!("{path}: {error}"))?;
        let mapping = Mapping::open(file, size_bytes(words) as u64);
        let mapping = mapping.map_err(|error| error.to_string())?;
        Ok(Self { mapping })
    }

    /// Returns the bell at this word.
    pub(crate) fn bell(&self, at: usize) -> Bell<'_> {
        let word = &self.words()[at];
        // SAFETY: the word lives as long as `self`, has the required alignment, and is larger than 32 bits.
        // Both processes use the word only as a bell.
        let count = unsafe { AtomicU32::from_ptr(word.as_ptr().cast()) };
        Bell { count }
    }
}

impl Words for Area {
    type Word = AtomicU64;

    #[inline]
    fn words(&self) -> &[AtomicU64] {
        self.mapping
            .words(0..self.mapping.size_bytes())
            .unwrap_or_default()
    }
}

fn size_bytes(words: usize) -> usize {
    (words * size_of::<u64>()).next_multiple_of(PAGE_BYTES)
}

/// A counter of rings at which a process can sleep: a bare futex.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bell<'a> {
    count: &'a AtomicU32,
}

impl Bell<'_> {
    /// Returns the number of rings so far. A process must read the number before checking the condition that
    /// the bell announces.
    pub(crate) fn heard(self) -> u32 {
        self.count.load(Ordering::Acquire)
    }

    /// Rings the bell, and wakes the process that sleeps at it.
    pub(crate) fn ring(self) -> Result<(), String> {
        self.count.fetch_add(1, Ordering::Release);
        let woken = futex::wake(self.count, futex::Flags::empty(), 1);
        woken.map(drop).map_err(|error| error.to_string())
    }

    /// Sleeps until the bell has rung since [`Bell::heard`] returned `heard`.
    pub(crate) fn wait(self, heard: u32) -> Result<(), String> {
        let timeout = SILENCE_MAX
            .try_into()
            .map_err(|_| "the timeout is out of range")?;
        while self.heard() == heard {
            match futex::wait(self.count, futex::Flags::empty(), heard, Some(&timeout)) {
                Ok(()) | Err(Errno::AGAIN | Errno::INTR) => {}
                Err(Errno::TIMEDOUT) => {
                    return Err(format!("the other process sent no wake-up for {SILENCE_MAX:?}"));
                }
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
    }
}
