//! An operation with its place in the graph. The failures of the operation state the place. If the tree is
//! measured, its elements are counted and some of its calls are timed.

use std::sync::Arc;

use millstream_element::PackWriter;

use super::sampler::{Begun, Sampler};
use super::stage::Stage;
use crate::exec::error::ExecError;
use crate::exec::item::Item;
use crate::exec::iterate::{Filled, Further, Input, Iterate};
use crate::exec::state::{StateError, StateReader, StateWriter};

pub(crate) struct Staged {
    input: Input,
    /// The node of the operation in the graph as it was defined.
    node: u32,
    measured: Option<(Arc<Stage>, Sampler)>,
}

impl Staged {
    /// Returns the operation at `node`, measured if there is a `stage`.
    pub(crate) fn new(input: Input, node: u32, stage: Option<&Arc<Stage>>) -> Staged {
        Staged {
            input,
            node,
            measured: stage.map(|stage| (Arc::clone(stage), stage.take_sampler())),
        }
    }

    #[inline]
    fn begin(&mut self) -> Option<Begun> {
        let (_, sampler) = self.measured.as_mut()?;
        Some(sampler.begin())
    }

    /// Ends the call `begun`, which has yielded `elements` elements.
    #[inline]
    fn finish(&mut self, begun: Option<Begun>, elements: u64) {
        if let (Some((stage, sampler)), Some(begun)) = (&mut self.measured, begun) {
            if let Some(sample) = sampler.finish(begun) {
                stage.note(sample);
            }
            stage.count(elements);
        }
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if let Some((stage, sampler)) = &mut self.measured {
            stage.return_sampler(std::mem::take(sampler));
        }
    }
}

impl Iterate for Staged {
    #[inline]
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        // The code that makes an element moves it into the caller's place once, so this function must not
        // move the element.
        let begun = self.begin();
        let mut next = self.input.next();
        self.finish(begun, u64::from(matches!(next, Ok(Some(_)))));
        if let Err(error) = &mut next {
            error.stand_at(self.node);
        }
        next
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        let mut restarted = self.input.restart();
        if let Err(error) = &mut restarted {
            error.stand_at(self.node);
        }
        restarted
    }

    fn further(&self) -> Further {
        self.input.further()
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        self.input.save(state)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        self.input.restore(state)
    }

    fn fill_pack(
        &mut self,
        pack: &mut PackWriter,
        sequence: u64,
        limit: usize,
    ) -> Option<Result<Filled, ExecError>> {
        let begun = self.begin();
        let mut filled = self.input.fill_pack(pack, sequence, limit);
        let count = match &mut filled {
            Some(Ok(filled)) => filled.count as u64,
            Some(Err(error)) => {
                error.stand_at(self.node);
                0
            }
            None => 0,
        };
        self.finish(begun, count);
        filled
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::super::is_sampled;
    use super::*;

    /// An operation without elements that counts the calls that are samples.
    struct CountsSamples(Arc<AtomicU64>);

    impl Iterate for CountsSamples {
        fn next(&mut self) -> Result<Option<Item>, ExecError> {
            self.0.fetch_add(u64::from(is_sampled()), Ordering::Relaxed);
            Ok(None)
        }

        fn restart(&mut self) -> Result<(), ExecError> {
            Ok(())
        }

        fn further(&self) -> Further {
            Further::Nothing
        }

        fn save(&mut self, _: &mut StateWriter) -> Result<(), StateError> {
            Ok(())
        }

        fn restore(&mut self, _: &mut StateReader<'_>) -> Result<(), StateError> {
            Ok(())
        }
    }

    #[test]
    fn short_trees_share_one_sampler() {
        const TREES: u64 = 1000;
        let (stage, samples) = (Arc::new(Stage::new(false)), Arc::default());
        for _ in 0..TREES {
            let operation = Box::new(CountsSamples(Arc::clone(&samples)));
            let mut tree = Staged::new(operation, 0, Some(&stage));
            assert!(matches!(tree.next(), Ok(None)));
        }
        let samples = samples.load(Ordering::Relaxed);
        assert!(
            (1..TREES / 2).contains(&samples),
            "{samples} samples of {TREES} calls"
        );
    }
}
