//! The simulation of coordinated reads under virtual time. Workers start, leave and are cut off, consumers
//! miss messages, and the dispatcher restarts. The simulation records every group that is handed over.
//!
//! | file | contents |
//! |---|---|
//! | `consumer` | a naive consumer: its rounds, and its view of each task |
//! | `world` | the machine, the workers, the consumers, and their messages |
//! | `splits` | the splits of jobs under `dynamic`: leases, reports and their ledger |
//! | `promises` | the properties |

mod consumer;
mod promises;
mod splits;
mod world;
