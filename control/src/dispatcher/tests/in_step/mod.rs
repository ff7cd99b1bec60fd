//! Coordinated reads under virtual time: workers come, go and are cut off; consumers miss messages; a
//! dispatcher restarts; and every group that is handed over is recorded.
//!
//! | file | what it owns |
//! |---|---|
//! | `consumer` | a naive consumer: its rounds, and what it makes of each task |
//! | `world` | the machine, workers, consumers, and what passes between them |
//! | `promises` | the properties |

mod consumer;
mod promises;
mod world;
