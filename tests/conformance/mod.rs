//! Requirements of the tf.data service's own tests: one test for each row that applies, named
//! `<file>__<row>`.
//!
//! `rows.txt` names all rows. README.md lists the rows that are left out, each with its reason, and the rows
//! of upstream's unit tests with their counterparts. `complete` checks that no row is forgotten.
//!
//! - `harness`: a dataset that behaves like upstream's dataset objects
//! - `mixed`: a service with local and remote workers
//! - `record_files`: the files that upstream's tests read
//! - the other modules: the rows of one upstream file each
#![expect(
    non_snake_case,
    reason = "two underscores separate the file from the row in a test's name"
)]

mod auto_shard;
mod complete;
mod coordinated_reads;
mod cross_trainer_cache;
mod data_service_ops;
mod data_service_ops_datasets;
mod data_service_ops_unused;
mod dynamic_sharding;
mod fault_tolerance;
mod harness;
mod local_workers;
mod metadata;
mod mixed;
mod record_files;
mod server_lib;
mod worker_tags;
