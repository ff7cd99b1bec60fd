//! The machine under virtual time, with workers, clients, deaths, partitions, restarts and retries at random,
//! held against what was really delivered.
//!
//! | file | what it owns |
//! |---|---|
//! | `world` | the machine, its store, time, and the connected processes |
//! | `actors` | naive workers and clients |
//! | `moves` | what may happen, one step at a time |
//! | `promises` | the properties |
//! | `oracle` | what must be true of every delivery, and at the end |

mod actors;
mod moves;
mod oracle;
mod promises;
mod world;
