//! Tests of the books of tasks against the dispatcher that leases the splits, under virtual time.
//!
//! | file | contents |
//! |---|---|
//! | `world` | the dispatcher, its tasks and a reader |
//! | `leases` | tests of the splits that each task holds, and of the time at which all splits are read |
//! | `turns` | tests of the rate of readers in order |

mod leases;
mod turns;
mod world;
