//! A limit on the bytes that a thread reads ahead. A queue that counts rows would hold as many large rows as
//! small rows.

use parking_lot::{Condvar, Mutex};

/// A limited number of bytes that one thread takes and another thread gives back.
#[derive(Debug)]
pub(crate) struct Room {
    bytes_max: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    taken: usize,
    is_closed: bool,
}

impl Room {
    pub(crate) fn new(bytes_max: usize) -> Room {
        Room {
            bytes_max,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Blocks until `bytes` bytes are available, and takes these bytes. A row larger than the limit is taken
    /// when nothing else is held. Returns `false` once the room is closed.
    pub(crate) fn take(&self, bytes: usize) -> bool {
        let mut state = self.state.lock();
        while !state.is_closed && state.taken > 0 && state.taken.saturating_add(bytes) > self.bytes_max {
            self.changed.wait(&mut state);
        }
        state.taken = state.taken.saturating_add(bytes);
        !state.is_closed
    }

    pub(crate) fn give_back(&self, bytes: usize) {
        let mut state = self.state.lock();
        state.taken = state.taken.saturating_sub(bytes);
        self.changed.notify_one();
    }

    /// Ends the wait of the thread that takes bytes.
    pub(crate) fn close(&self) {
        self.state.lock().is_closed = true;
        self.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn large_rows_wait_for_room_in_bytes() {
        let room = Arc::new(Room::new(100));
        assert!(room.take(40) && room.take(60));
        let taker = Arc::clone(&room);
        let thread = std::thread::spawn(move || taker.take(1000));
        for _ in 0..4 {
            room.give_back(20);
            assert!(!thread.is_finished(), "1020 of 100 bytes");
        }
        room.give_back(20);
        assert!(thread.join().unwrap(), "alone, it may be larger");
        assert_eq!(room.state.lock().taken, 1000);
    }

    #[test]
    fn a_closed_room_keeps_nobody_waiting() {
        let room = Arc::new(Room::new(10));
        assert!(room.take(10));
        let taker = Arc::clone(&room);
        let thread = std::thread::spawn(move || taker.take(1));
        room.close();
        assert!(!thread.join().unwrap());
    }
}
