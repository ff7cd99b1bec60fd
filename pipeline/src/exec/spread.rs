//! A stack of tensors whose rows several threads compute, each straight into its place. The caller computes
//! rows together with free threads of the pool, and waits only for rows that other threads have begun.
#![expect(unsafe_code, reason = "several threads write separate parts of one slice")]

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Condvar, Mutex};

use super::call::guarded;
use super::cancel::Cancel;
use super::error::{ErrorKind, ExecError};
use super::pool::Pool;
use super::value::{Fill, Tensor, TensorData};

/// Rows of one type and shape, of a fixed size, that several threads compute.
pub(crate) struct Spread {
    rows: Arc<[Tensor]>,
    pool: Arc<Pool>,
    cancel: Cancel,
}

/// The state of writing one stack once.
struct Writing {
    rows: Arc<[Tensor]>,
    cancel: Cancel,
    /// The address of the first row. The thread that has taken a row's number may write that row; no other
    /// thread may.
    place: *mut u8,
    row_bytes: usize,
    /// The number of the next row to take.
    next: AtomicUsize,
    written: Mutex<Written>,
    all: Condvar,
}

/// The progress of writing a stack.
#[derive(Default)]
struct Written {
    /// The number of rows that were written or failed.
    count: usize,
    /// The failure of the first failed row, with the row's number.
    failed: Option<(usize, ExecError)>,
}

impl Spread {
    /// Returns `stack` with its rows computed by the threads of `pool`. Returns `stack` unchanged unless it
    /// consists of rows with deferred computations.
    pub(crate) fn of(stack: Tensor, pool: &Arc<Pool>, cancel: &Cancel) -> Tensor {
        let TensorData::Rows(rows) = stack.data() else {
            return stack;
        };
        if !rows.iter().any(|row| matches!(row.data(), TensorData::Fill(_))) {
            return stack;
        }
        let spread = Spread {
            rows: Arc::clone(rows),
            pool: Arc::clone(pool),
            cancel: cancel.clone(),
        };
        // A stack of deferred rows has a fixed size.
        Tensor::deferred(stack.dtype(), stack.dims(), Arc::new(spread)).unwrap_or(stack)
    }
}

impl Fill for Spread {
    fn fill(&self, destination: &mut [u8]) -> Result<(), ExecError> {
        if destination.is_empty() {
            return Ok(());
        }
        if self.rows.is_empty() || !destination.len().is_multiple_of(self.rows.len()) {
            let message = "the number of rows does not divide the length of the destination";
            return Err(ExecError::new(ErrorKind::Internal, "write", message));
        }
        let writing = Arc::new(Writing {
            rows: Arc::clone(&self.rows),
            cancel: self.cancel.clone(),
            row_bytes: destination.len() / self.rows.len(),
            place: destination.as_mut_ptr(),
            next: AtomicUsize::new(0),
            written: Mutex::default(),
            all: Condvar::new(),
        });
        for _ in 1..self.rows.len().min(self.pool.threads() + 1) {
            let helped = Arc::clone(&writing);
            if !self.pool.offer(Box::new(move || helped.work())) {
                break;
            }
        }
        writing.work();
        writing.finished()
    }

    fn held_bytes(&self) -> usize {
        self.rows.iter().map(Tensor::held_bytes).sum()
    }

    fn is_certain(&self) -> bool {
        self.rows.iter().all(Tensor::is_certain)
    }
}

impl fmt::Debug for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spread")
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}

// SAFETY: only the thread that took a row's number writes that row through the pointer. The thread that lent
// the destination waits until all rows are counted: see `Writing::work`. The other fields are `Send`.
unsafe impl Send for Writing {}
// SAFETY: the reason above holds for shared access too. The other fields are `Sync`.
unsafe impl Sync for Writing {}

impl Writing {
    /// Takes rows and writes them until no rows are left. A thread that starts late finds no row and does
    /// nothing.
    fn work(&self) {
        loop {
            // Relaxed: the number only assigns rows to threads. A thread that locks `written` afterwards sees
            // the bytes that other threads wrote.
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(row) = self.rows.get(index) else { return };
            // SAFETY: the row is within the destination, because the number of rows divides its length, and
            // each number is taken once. The destination is lent to `fill`. `fill` does not touch the
            // destination and returns only when all rows are counted, and this row is counted below.
            let place = unsafe {
                std::slice::from_raw_parts_mut(self.place.add(index * self.row_bytes), self.row_bytes)
            };
            let outcome = guarded("batch", || {
                self.cancel.check("batch")?;
                row.write_to(place)
            });
            let mut written = self.written.lock();
            written.count += 1;
            if let Err(error) = outcome
                && written.failed.as_ref().is_none_or(|(first, _)| index < *first)
            {
                written.failed = Some((index, error));
            }
            if written.count == self.rows.len() {
                self.all.notify_all();
            }
        }
    }

    /// Waits for the rows that other threads have taken and are computing.
    fn finished(&self) -> Result<(), ExecError> {
        let mut written = self.written.lock();
        while written.count < self.rows.len() {
            self.all.wait(&mut written);
        }
        match written.failed.take() {
            Some((_, error)) => Err(error),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use millstream_element::Dtype;
    use proptest::prelude::*;

    use super::*;

    /// A row of equal bytes. Some numbers make the row fail.
    #[derive(Debug)]
    struct Row {
        byte: u8,
        meets: Option<Arc<Barrier>>,
    }

    impl Fill for Row {
        fn fill(&self, destination: &mut [u8]) -> Result<(), ExecError> {
            if let Some(meets) = &self.meets {
                meets.wait();
            }
            assert_ne!(self.byte, 254, "expected by the test");
            destination.fill(self.byte);
            if self.byte == 255 {
                return Err(ExecError::new(ErrorKind::Data, "row", "refused"));
            }
            Ok(())
        }

        fn held_bytes(&self) -> usize {
            1
        }
    }

    fn stack(bytes: &[u8], meets: Option<&Arc<Barrier>>) -> Tensor {
        let row = |byte: &u8| {
            let row = Row {
                byte: *byte,
                meets: meets.cloned(),
            };
            Tensor::deferred(Dtype::U8, &[3], Arc::new(row)).unwrap()
        };
        Tensor::stack(bytes.iter().map(row).collect()).unwrap()
    }

    proptest! {
        #[test]
        fn rows_are_written_as_one_after_the_other(
            bytes in prop::collection::vec(prop_oneof![20 => 0u8..254, 1 => Just(255)], 1..40), threads in 1usize..4,
        ) {
            let pool = Arc::new(Pool::new(threads).unwrap());
            let one = stack(&bytes, None);
            let many = Spread::of(one.clone(), &pool, &Cancel::new());
            prop_assert_eq!((many.dtype(), many.dims(), many.is_certain()), (one.dtype(), one.dims(), false));
            let (mut expected, mut found) = (vec![0; bytes.len() * 3], vec![0; bytes.len() * 3]);
            let outcomes = [one.write_to(&mut expected), many.write_to(&mut found)];
            let [one, many] = outcomes.map(|outcome| outcome.map_err(|error| error.to_string()));
            prop_assert_eq!(&one, &many);
            if one.is_ok() {
                prop_assert_eq!(expected, found);
            }
        }
    }

    #[test]
    fn pool_and_writer_work_at_once() {
        let pool = Arc::new(Pool::new(2).unwrap());
        // None of the three threads can continue without the two other threads.
        let meets = Arc::new(Barrier::new(3));
        let spread = Spread::of(stack(&[1, 2, 3], Some(&meets)), &pool, &Cancel::new());
        let mut found = [0; 9];
        spread.write_to(&mut found).unwrap();
        assert_eq!(found, [1, 1, 1, 2, 2, 2, 3, 3, 3]);
    }

    #[test]
    fn a_stack_is_written_without_pool_threads() {
        let pool = Arc::new(Pool::new(1).unwrap());
        let (hold, held) = crossbeam_channel::bounded::<()>(0);
        assert!(pool.offer(Box::new(move || _ = held.recv())));
        let mut found = [0; 6];
        let spread = Spread::of(stack(&[1, 2], None), &pool, &Cancel::new());
        spread.write_to(&mut found).unwrap();
        drop(spread);
        drop(hold);
        assert_eq!(found, [1, 1, 1, 2, 2, 2]);
    }

    #[test]
    fn panics_and_cancelled_rows_are_errors() {
        let pool = Arc::new(Pool::new(2).unwrap());
        let spread = Spread::of(stack(&[1, 254, 2], None), &pool, &Cancel::new());
        let error = spread.write_to(&mut [0; 9]).unwrap_err();
        assert!(error.to_string().contains("panicked: "), "{error}");
        let cancel = Cancel::new();
        cancel.cancel();
        let spread = Spread::of(stack(&[1, 2], None), &pool, &cancel);
        assert_eq!(
            spread.write_to(&mut [0; 6]).unwrap_err().kind(),
            ErrorKind::Cancelled
        );
    }
}
