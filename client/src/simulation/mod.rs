//! The whole service in one thread under virtual time, from one seed: dispatcher, workers and trainers, with
//! processes that die, stall and come back, and messages that are delayed, repeated, overtaken and lost.
//!
//! What decides is the production code: the dispatcher's machine and its records; the worker's data plane
//! (buffers, subscriptions, sessions) and books of splits; the reader (intake, credits, links, cursor,
//! reports) with what it was told. What carries is modelled: the dispatcher's loop and disk, connections, the
//! agent's order of events, pipelines. `docs/design/simulation.md` says why it stands here.
//!
//! | file | what it owns |
//! |---|---|
//! | `world` | everything there is, and the loop that makes it happen |
//! | `clock`, `chance` | virtual time and the futures in it; what is drawn |
//! | `center`, `worker`, `trainer` | the three kinds of processes |
//! | `session`, `road` | how they are connected: with the dispatcher, with each other |
//! | `task`, `flow` | a worker's task; what tasks compute |
//! | `faults` | what goes wrong |
//! | `oracle` | what was promised |
//! | `bugs` | defects on purpose, and what finds them |
//! | `runs` | the tests |

mod bugs;
mod center;
mod chance;
mod clock;
mod faults;
mod flow;
mod oracle;
mod road;
mod runs;
mod session;
mod task;
mod trainer;
mod worker;
mod world;
