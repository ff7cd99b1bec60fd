//! Memory that the two processes of a yardstick share: words, and bells that a process sleeps at.
//!
//! It is a sealed memory file. The reader makes it; the producer, its child, opens it as a descriptor of its
//! parent, so that it has no name and goes with the processes.
#![expect(
    unsafe_code,
    reason = "a futex is a word of 32 bits, and shared memory is seen as words of 64"
)]

use std::fs::OpenOptions;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use millstream::dataplane::transport::shm::map::PAGE_BYTES;
use millstream::dataplane::transport::shm::{Mapping, Words};
use rustix::io::Errno;
use rustix::thread::futex;

/// How long a bell may stay silent: far longer than a busy machine keeps a process from running, and than the
/// lowest `--rate` takes.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// The memory.
#[derive(Debug)]
pub(crate) struct Area {
    mapping: Mapping,
}

impl Area {
    /// Fresh memory of at least so many words, and what keeps it open for [`Area::open`].
    pub(crate) fn create(words: usize) -> Result<(Self, OwnedFd), String> {
        let created = Mapping::create("bench-transfer", size_bytes(words));
        let (fd, mapping) = created.map_err(|error| format!("no shared memory: {error}"))?;
        Ok((Self { mapping }, fd))
    }

    /// How a child process finds it.
    pub(crate) fn path(fd: &OwnedFd) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), fd.as_raw_fd())
    }

    /// The memory that the parent created with so many words.
    pub(crate) fn open(path: &str, words: usize) -> Result<Self, String> {
        let file = OpenOptions::new().read(true).write(true).open(path);
        let file = file.map_err(|error| format!("{path}: {error}"))?;
        let mapping = Mapping::open(file, size_bytes(words) as u64);
        let mapping = mapping.map_err(|error| error.to_string())?;
        Ok(Self { mapping })
    }

    /// The bell at this word.
    pub(crate) fn bell(&self, at: usize) -> Bell<'_> {
        let word = &self.words()[at];
        // SAFETY: the word lives as long as `self` and has the alignment and more than the size of 32 bits.
        // It is used in no other way: both processes take it for a bell.
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

/// A count of rings that a process can sleep at: a bare futex.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bell<'a> {
    count: &'a AtomicU32,
}

impl Bell<'_> {
    /// Returns how often it rang. Ask before looking for what it rings for.
    pub(crate) fn heard(self) -> u32 {
        self.count.load(Ordering::Acquire)
    }

    /// Wakes the process that sleeps at it.
    pub(crate) fn ring(self) -> Result<(), String> {
        self.count.fetch_add(1, Ordering::Release);
        let woken = futex::wake(self.count, futex::Flags::empty(), 1);
        woken.map(drop).map_err(|error| error.to_string())
    }

    /// Sleeps until it has rung since [`Bell::heard`].
    pub(crate) fn wait(self, heard: u32) -> Result<(), String> {
        let timeout = SILENCE_MAX.try_into().map_err(|_| "a time out of range")?;
        while self.heard() == heard {
            match futex::wait(self.count, futex::Flags::empty(), heard, Some(&timeout)) {
                Ok(()) | Err(Errno::AGAIN | Errno::INTR) => {}
                Err(Errno::TIMEDOUT) => {
                    return Err(format!("the other process was silent for {SILENCE_MAX:?}"));
                }
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
    }
}
