//! The simulation of the state machine under virtual time. Workers, clients, deaths, partitions, restarts
//! and retries happen at random, and an oracle records every delivery.
//!
//! | file | contents |
//! |---|---|
//! | `world` | the machine, its store, time, and the connected processes |
//! | `actors` | naive workers and clients |
//! | `moves` | the possible steps, one at a time |
//! | `promises` | the properties |
//! | `poison` | splits that end their workers |
//! | `oracle` | the conditions for every delivery, and at the end |

mod actors;
mod moves;
mod oracle;
mod poison;
mod promises;
mod world;
