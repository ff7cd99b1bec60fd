//! The yardstick of `--touch` without a service: one process, in which one thread writes every byte and
//! another thread reads every byte.
//!
//! Buffers of one unit travel back and forth through channels, so a transfer counts in units, like packs. The
//! service uses the same loops for writing and reading.

use std::sync::mpsc::{self, Receiver, SyncSender};

use super::{Meter, buffers};
use crate::args::Load;
use crate::stamp::{self, Checker, Pace};
use crate::tally::{Tallied, Tally, look_every};

/// Writes and reads until the meter is complete.
pub(crate) fn measure(load: &Load, element_bytes: u64, meter: Meter) -> Result<Tallied, String> {
    let fresh = buffers(element_bytes);
    let (to_reader, full) = mpsc::sync_channel(fresh.len());
    let (to_writer, empty) = mpsc::sync_channel(fresh.len());
    for buffer in fresh {
        to_writer.send(buffer).map_err(|error| error.to_string())?;
    }
    let tally = Tally::new(load, element_bytes, meter)?;
    std::thread::scope(|scope| {
        scope.spawn(|| write(load.rate, element_bytes, empty, to_reader));
        read(element_bytes, tally, full, to_writer)
    })
}

/// Writes elements until the reader ends.
fn write(rate: Option<u64>, element_bytes: u64, empty: Receiver<Vec<u8>>, full: SyncSender<Vec<u8>>) {
    let (pace, look_every) = (Pace::new(rate), look_every(element_bytes, rate));
    let (mut place, mut produced_ns) = (0, 0);
    for mut buffer in empty {
        for element in buffer.chunks_exact_mut(element_bytes as usize) {
            pace.wait(place);
            if place % look_every == 0 {
                produced_ns = stamp::now_ns();
            }
            stamp::write(element, 0, place, produced_ns, true);
            place += 1;
        }
        if full.send(buffer).is_err() {
            return;
        }
    }
}

fn read(
    element_bytes: u64,
    mut tally: Tally,
    full: Receiver<Vec<u8>>,
    empty: SyncSender<Vec<u8>>,
) -> Result<Tallied, String> {
    let mut checker = Checker::new(1, true);
    for buffer in full {
        for element in buffer.chunks_exact(element_bytes as usize) {
            let produced_ns = checker.check_bytes(element)?;
            if let Some(tallied) = tally.count(produced_ns) {
                return Ok(tallied);
            }
        }
        empty.send(buffer).map_err(|error| error.to_string())?;
    }
    Err("the writer ended early".to_owned())
}
