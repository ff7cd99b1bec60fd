//! A simulation of the whole service in one thread under virtual time, from one seed. Dispatcher, workers and
//! trainers die, stall and return; messages are delayed, repeated, reordered and lost.
//!
//! All decisions are made by production code. The dispatcher contributes its state machine and its records.
//! The worker contributes its data plane (buffers, subscriptions, sessions) and its split feed. The reader
//! contributes its intake, credits, links, cursor and reports.
//!
//! The surroundings are models: the dispatcher's loop and disk, connections, the agent's order of events, and
//! pipelines. `docs/design/simulation.md` explains why the simulation is part of this crate.
//!
//! | file | what it owns |
//! |---|---|
//! | `world` | everything there is, and the loop that makes it happen |
//! | `clock` | virtual time and the futures in it |
//! | `center`, `worker`, `trainer` | the three kinds of processes |
//! | `session`, `road` | how they are connected: with the dispatcher, with each other |
//! | `task`, `flow` | a worker's task; what tasks compute |
//! | `faults` | what goes wrong |
//! | `oracle` | what was promised |
//! | `bugs` | defects on purpose, and what finds them |
//! | `runs` | the tests |

mod bugs;
mod center;
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
