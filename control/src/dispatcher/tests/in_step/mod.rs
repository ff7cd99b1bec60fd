//! Coordinated reads under virtual time: workers that come, go and are cut off, consumers that miss what they are told, a
//! dispatcher that restarts, and every group that is handed over written down.
//!
//! | file | what it owns |
//! |---|---|
//! | `consumer` | a naive consumer: its rounds, and what it makes of each task |
//! | `world` | the machine, workers, consumers, and what passes between them |
//! | `promises` | the properties |

mod consumer;
mod promises;
mod world;
