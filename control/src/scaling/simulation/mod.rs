//! Tests of the policy with a simulated service, which knows the number of workers that it really needs.
//!
//! | file | contents |
//! |---|---|
//! | `service` | the simulated readers, workers and storage |
//! | `loads` | more and less work for the same readers |
//! | `lifetimes` | readers and workers that come and go |
//! | `experience` | what failed steps teach the policy |
//! | `random` | properties of random services |

mod experience;
mod lifetimes;
mod loads;
mod random;
mod service;
