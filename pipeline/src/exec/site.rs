//! The site at which a registered function or source is called, passed together with the element. Refuses to
//! know how functions use it.

use super::cancel::Cancel;
use super::random::{Seeds, mix};

/// The site at which a function is called or a source is opened.
#[derive(Debug, Clone, Copy)]
pub struct Site<'s> {
    /// The number from which random draws are derived. The number is a function of seed, epoch and position,
    /// so that workers with one seed draw the same. Without a seed, the number also depends on the task.
    pub draw: u64,
    /// A number that combines the epoch and the operation's pass within the epoch. The number does not depend
    /// on seed, task or position, so all tasks know it.
    pub pass: u64,
    /// The flag that is raised when nobody waits for the outcome any more. Every wait must observe the flag,
    /// and end with an error of kind `Cancelled`.
    pub cancel: &'s Cancel,
}

impl<'s> Site<'s> {
    /// Returns the site of the element at `position` in pass `pass` of an operation with the seeds `seeds`.
    pub(crate) fn new(seeds: &Seeds, pass: u64, position: u64, cancel: &'s Cancel) -> Site<'s> {
        Site {
            draw: seeds.draws(pass).number(position),
            pass: mix(seeds.epoch, pass),
            cancel,
        }
    }

    /// Returns a site for code that has a seed of its own. Draws at the site depend on the pass alone, so the
    /// code must distinguish its elements itself.
    #[must_use]
    pub fn drawing_by_pass(&self) -> Site<'s> {
        Site {
            draw: self.pass,
            ..*self
        }
    }
}
