//! The blocks of one open file, in memory or in flight. The number of blocks is limited, and the least
//! recently used blocks are dropped first.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::task::AbortHandle;

use crate::exec::{Cancel, ErrorKind};

use super::failure::Failure;
use super::memory::{Charge, Memory};

/// The blocks of one open file.
#[derive(Debug)]
pub(super) struct Blocks {
    state: Mutex<State>,
    changed: Condvar,
    memory: Arc<Memory>,
    blocks_max: usize,
}

#[derive(Debug, Default)]
struct State {
    blocks: BTreeMap<u64, Block>,
    /// The number of uses so far, which orders the blocks by their last use.
    uses: u64,
}

#[derive(Debug)]
struct Block {
    content: Content,
    /// The number of the duty that fetches, or fetched, the block.
    duty: u64,
    used: u64,
    /// The number of readers that wait for the block.
    waiting: u32,
    /// The memory charge, which is held as long as the block.
    _charge: Charge,
}

#[derive(Debug)]
enum Content {
    Loading(AbortHandle),
    Ready(Bytes),
    Failed(Failure),
}

/// The duty to fetch a block. If the duty is dropped before it is fulfilled, the waiting readers receive an
/// error.
#[derive(Debug)]
pub(super) struct Duty {
    blocks: Arc<Blocks>,
    index: u64,
    number: u64,
    is_done: bool,
}

impl Blocks {
    /// Makes an empty set of blocks. The number of blocks is limited to `blocks_max`, except for blocks in
    /// flight.
    pub(super) fn new(memory: Arc<Memory>, blocks_max: usize) -> Arc<Blocks> {
        Arc::new(Blocks {
            state: Mutex::default(),
            changed: Condvar::new(),
            memory,
            blocks_max,
        })
    }

    /// Stores block `index`, whose bytes have arrived.
    pub(super) fn put(&self, index: u64, bytes: Bytes) {
        let mut state = self.state.lock();
        let block = Block {
            duty: 0,
            used: state.next_use(),
            waiting: 0,
            _charge: self.memory.take_anyway(bytes.len() as u64),
            content: Content::Ready(bytes),
        };
        state.blocks.insert(index, block);
    }

    /// Returns block `wanted`, and whether the caller had to wait for it. Blocks.
    ///
    /// Starts fetching the block if it is missing, and the blocks `ahead` as far as memory allows. `bring`
    /// must start a fetch and return immediately. `size` returns the length of a block in bytes.
    ///
    /// # Errors
    /// The error of the fetch. The next call fetches the block again.
    pub(super) fn get(
        self: &Arc<Blocks>,
        wanted: u64,
        ahead: Range<u64>,
        cancel: Option<&Cancel>,
        size: &dyn Fn(u64) -> u64,
        bring: &dyn Fn(Duty) -> AbortHandle,
    ) -> Result<(Bytes, bool), Failure> {
        // The hook takes the lock, so that a thread about to wait either sees the cancellation or is woken.
        // The hook must be registered without the lock, because registration may call the hook immediately.
        let blocks = Arc::clone(self);
        let wake = move || {
            let _state = blocks.state.lock();
            blocks.changed.notify_all();
        };
        let mut hook = None;
        let mut wake = Some(wake);
        loop {
            let mut state = self.state.lock();
            let has_waited = hook.is_some();
            if !state.blocks.contains_key(&wanted) {
                let charge = self.memory.take_anyway(size(wanted));
                self.begin(&mut state, wanted, charge, bring);
            }
            state.touch(wanted);
            self.begin_ahead(&mut state, wanted, ahead.clone(), size, bring);
            if let Some(answer) = state.answer(wanted) {
                return answer.map(|bytes| (bytes, has_waited));
            }
            if let (Some(cancel), Some(wake)) = (cancel, wake.take()) {
                drop(state);
                hook = Some(cancel.on_cancel(wake));
                continue;
            }
            return self
                .wait_for(&mut state, wanted, cancel)
                .map(|bytes| (bytes, true));
        }
    }

    /// Drops all blocks before block `index`, and cancels their fetches.
    pub(super) fn drop_before(&self, index: u64) {
        let mut state = self.state.lock();
        let kept = state.blocks.split_off(&index);
        let gone = std::mem::replace(&mut state.blocks, kept);
        drop(state);
        gone.into_values().for_each(Block::give_up);
    }

    /// Drops all blocks, and cancels their fetches.
    pub(super) fn clear(&self) {
        self.drop_before(u64::MAX);
    }

    /// Starts fetching the blocks `ahead`, as far as the limits on blocks and memory allow.
    fn begin_ahead(
        self: &Arc<Blocks>,
        state: &mut State,
        wanted: u64,
        ahead: Range<u64>,
        size: &dyn Fn(u64) -> u64,
        bring: &dyn Fn(Duty) -> AbortHandle,
    ) {
        state.make_room(self.blocks_max, wanted);
        for index in ahead {
            if state.blocks.contains_key(&index) {
                state.touch(index);
                continue;
            }
            state.make_room(self.blocks_max - 1, wanted);
            if state.blocks.len() >= self.blocks_max {
                return;
            }
            let Some(charge) = self.memory.take(size(index)) else {
                return;
            };
            self.begin(state, index, charge, bring);
        }
    }

    fn begin(
        self: &Arc<Blocks>,
        state: &mut State,
        index: u64,
        charge: Charge,
        bring: &dyn Fn(Duty) -> AbortHandle,
    ) {
        let used = state.next_use();
        // The fetching thread cannot fulfil the duty yet, because it needs the lock.
        let task = bring(Duty {
            blocks: Arc::clone(self),
            index,
            number: used,
            is_done: false,
        });
        let block = Block {
            duty: used,
            used,
            waiting: 0,
            _charge: charge,
            content: Content::Loading(task),
        };
        state.blocks.insert(index, block);
    }

    /// Waits until block `index`, which is in flight, has arrived. The duty to fetch the block always ends:
    /// it is fulfilled, or reports a failure when it is dropped.
    fn wait_for(
        &self,
        state: &mut MutexGuard<'_, State>,
        index: u64,
        cancel: Option<&Cancel>,
    ) -> Result<Bytes, Failure> {
        state.waits(index, 1);
        let answer = loop {
            if cancel.is_some_and(Cancel::is_cancelled) {
                break Err(Failure::new(ErrorKind::Cancelled, "the task was cancelled"));
            }
            self.changed.wait(state);
            if let Some(answer) = state.answer(index) {
                break answer;
            }
        };
        state.waits(index, -1);
        answer
    }
}

impl State {
    fn next_use(&mut self) -> u64 {
        self.uses += 1;
        self.uses
    }

    fn touch(&mut self, index: u64) {
        let used = self.next_use();
        if let Some(block) = self.blocks.get_mut(&index) {
            block.used = used;
        }
    }

    fn waits(&mut self, index: u64, more: i32) {
        if let Some(block) = self.blocks.get_mut(&index) {
            block.waiting = block.waiting.saturating_add_signed(more);
        }
    }

    /// Returns block `index` if it has arrived, or the error of its fetch; `None` while the block is in
    /// flight.
    fn answer(&mut self, index: u64) -> Option<Result<Bytes, Failure>> {
        match self.blocks.get(&index).map(|block| &block.content) {
            Some(Content::Loading(_)) => None,
            Some(Content::Ready(bytes)) => Some(Ok(bytes.clone())),
            Some(Content::Failed(failure)) => {
                let failure = failure.clone();
                self.blocks.remove(&index);
                Some(Err(failure))
            }
            // Another reader has received the error, and removed the block.
            None => Some(Err(Failure::new(
                ErrorKind::Peer,
                "another reader of the file failed at the same bytes",
            ))),
        }
    }

    /// Drops the least recently used blocks until at most `blocks_max` are left. Keeps the block `wanted`,
    /// blocks with waiting readers, and blocks in flight.
    fn make_room(&mut self, blocks_max: usize, wanted: u64) {
        while self.blocks.len() > blocks_max {
            let idle = self.blocks.iter().filter(|(index, block)| {
                let is_here = !matches!(block.content, Content::Loading(_));
                **index != wanted && block.waiting == 0 && is_here
            });
            let Some(index) = idle.min_by_key(|(_, block)| block.used).map(|(index, _)| *index) else {
                return;
            };
            self.blocks.remove(&index);
        }
    }
}

impl Block {
    /// Drops the block, and cancels its fetch if the block is in flight.
    fn give_up(self) {
        if let Content::Loading(task) = self.content {
            task.abort();
        }
    }
}

impl Duty {
    /// Returns the index of the block to fetch.
    pub(super) fn index(&self) -> u64 {
        self.index
    }

    /// Fulfils the duty with the bytes of the block, or with the error of the fetch.
    pub(super) fn fulfil(mut self, outcome: Result<Bytes, Failure>) {
        self.is_done = true;
        self.tell(outcome);
    }

    fn tell(&self, outcome: Result<Bytes, Failure>) {
        let mut state = self.blocks.state.lock();
        // The block may have been dropped in the meantime, and fetched again under another duty.
        if let Some(block) = state.blocks.get_mut(&self.index)
            && block.duty == self.number
            && let Content::Loading(_) = block.content
        {
            block.content = match outcome {
                Ok(bytes) => Content::Ready(bytes),
                Err(failure) => Content::Failed(failure),
            };
        }
        drop(state);
        self.blocks.changed.notify_all();
    }
}

impl Drop for Duty {
    fn drop(&mut self) {
        if !self.is_done {
            let reason = "the request was cancelled because storage is closing";
            self.tell(Err(Failure::new(ErrorKind::Cancelled, reason)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().build().unwrap()
    }

    #[test]
    fn a_given_up_request_spares_its_successor() {
        let (runtime, blocks) = (runtime(), Blocks::new(Memory::new(1 << 20), 4));
        let duties = RefCell::new(Vec::new());
        let bring = |duty| {
            duties.borrow_mut().push(duty);
            runtime.spawn(async {}).abort_handle()
        };
        let cancel = Cancel::new();
        cancel.cancel();
        let ask = || blocks.get(7, 8..9, Some(&cancel), &|_| 1, &bring);
        assert_eq!(ask().unwrap_err().kind, ErrorKind::Cancelled);
        blocks.drop_before(8);
        assert!(ask().is_err());
        let [old, ahead, new] = <[Duty; 3]>::try_from(duties.take()).unwrap();
        assert_eq!([old.index(), ahead.index(), new.index()], [7, 8, 7]);
        drop(old);
        new.fulfil(Ok(Bytes::from_static(b"7")));
        assert_eq!(ask().unwrap().0, "7");
        drop(ahead);
        let failed = blocks.get(8, 9..9, None, &|_| 1, &bring).unwrap_err();
        assert!(failed.reason.contains("cancelled"), "{failed}");
    }

    #[test]
    fn the_blocks_in_memory_are_limited() {
        let (runtime, blocks) = (runtime(), Blocks::new(Memory::new(1 << 20), 3));
        let brought = RefCell::new(Vec::new());
        let bring = |duty: Duty| {
            brought.borrow_mut().push(duty.index());
            // The duty is fulfilled on another thread, because this thread holds the lock.
            std::thread::spawn(move || duty.fulfil(Ok(Bytes::new())));
            runtime.spawn(async {}).abort_handle()
        };
        for index in [0, 1, 2, 0, 3, 0, 1] {
            blocks.get(index, 0..0, None, &|_| 1, &bring).unwrap();
        }
        assert_eq!(*brought.borrow(), [0, 1, 2, 3, 1]);
        assert!(blocks.state.lock().blocks.len() <= 3 + 1);
    }
}
