//! A simulation of whole exactly-once epochs under virtual time, from one seed. Workers, trainers and the
//! dispatcher die, stall and return; messages are lost, delayed, repeated and reordered.
//!
//! Production code makes the decisions that the simulation checks: the dispatcher's state machine and its
//! records, the order of elements ([`Sequence`](super::sequence::Sequence)), and the positions of trainers
//! ([`Place`](super::place::Place)). The surroundings are models: connections, the dispatcher's loop and
//! disk, most pipelines, and the reader's links.
//!
//! | file | what it owns |
//! |---|---|
//! | `world` | everything there is, and the loop that makes it happen |
//! | `dataset`, `pipelines` | the elements of each split, some of them from the real executor |
//! | `center`, `worker`, `trainer` | the three kinds of processes |
//! | `session` | requests and pushes between a process and the dispatcher |
//! | `group` | the trainers of an epoch, their saved states, and how they resume |
//! | `ledger` | the plan of each trainer, and what it received |
//! | `faults` | what goes wrong |
//! | `defects` | defects on purpose |
//! | `runs` | the tests |

mod center;
mod dataset;
mod defects;
mod faults;
mod group;
mod ledger;
mod pipelines;
mod runs;
mod session;
mod trainer;
mod worker;
mod world;
