//! The site of a registered function's or source's call, passed beside the element. Refuses to know its use.

use super::cancel::Cancel;
use super::random::{Seeds, mix};

/// Site at which a function is called or a source is opened.
#[derive(Debug, Clone, Copy)]
pub struct Site<'s> {
    /// A number to draw from: it follows from seed, epoch and position, so that workers with one seed draw
    /// the same; where there is no seed, from the task as well.
    pub draw: u64,
    /// The epoch, and the pass of the operation within it, as one number: without seed, task and position, so
    /// all tasks know it.
    pub pass: u64,
    /// Raised when nobody waits for the outcome any more: every wait listens to it, and ends with an error of
    /// kind `Cancelled`.
    pub cancel: &'s Cancel,
}

impl<'s> Site<'s> {
    /// Returns the site of the element at `position` in pass `pass` of an operation with these seeds.
    pub(crate) fn new(seeds: &Seeds, pass: u64, position: u64, cancel: &'s Cancel) -> Site<'s> {
        Site {
            draw: seeds.draws(pass).number(position),
            pass: mix(seeds.epoch, pass),
            cancel,
        }
    }

    /// Returns a site for code with a seed of its own, which draws by the pass and distinguishes its elements
    /// itself.
    #[must_use]
    pub fn drawing_by_pass(&self) -> Site<'s> {
        Site {
            draw: self.pass,
            ..*self
        }
    }
}
