//! The integration tests, by module:
//!
//! - `tidy`: the rules of the source tree; `source` reads the tree for these rules
//! - `commands`: the program, as a user runs it
//! - `up`: the supervisor of a service on one machine
//! - `autoscale`: workers that start and end as a service wants them
//! - `doctor`: the checks of a machine and a service
//! - `command_line`: the reference page, shell completions and manual pages
//! - `service_reader`: datasets with further operations in the trainer
//! - `nested_services`: services and functions that read other services
//! - `transport_conformance`: the requirements on every transport
//! - `static_sharding`: datasets divided among a fixed list of workers
//! - `target_workers`: the choice between workers in this process and other workers
//! - `metadata`: the properties of a dataset by its id, and the meaning of ids and names
//! - `visitation`: the number of visits that each policy promises for every element, for random services
//! - `several_sources`: zip, concatenate, sample, choose and interleave with splits
//! - `conformance`: the requirements of the tf.data service's own tests, row by row
//! - `shared_jobs`: the parts that readers of a shared job get
//! - `credits`: the bound on outstanding elements, counted at the workers
//! - `coordinated_reads`: consumers that advance in step, even if processes die or start late
//! - `cross_trainer_cache`: trainers that share computed elements
//! - `cut_connections`: connections that break while all processes live
//! - `dead_readers`: readers of a shared job that are killed
//! - `dispatcher_away`: dispatchers that are unreachable or dead for a while
//! - `failure`: processes that die, hang or never start; wrong keys and addresses
//! - `waits`: the reports about waiting
//! - `remote_files`: files in object stores
//! - `several_dispatchers`: leaders and members of etcd that are killed or paused, with the feature `etcd`
//! - `persistence`: dispatchers that are killed and start again, with and without a work directory
//! - `leaving`: workers that shut down gracefully
//! - `status`: the status of a service, for people and programs
//! - `shared_memory`: readers on the workers' host
//! - `shared_memory_deaths`: readers and workers on one host that are killed or stopped at any instant
//! - `shutdown`: the end of a whole service, and of processes that wait for a service
//! - `compression`: a worker that compresses
//! - `quotas`: peers that request more than their quota
//! - `key_rotation`, `revocation`: keys that are replaced or revoked while a service runs
//! - `causes`: causes outside of the service that the overview sentence names
//! - `admin`: what the admin port shows of a service
//! - `allowed_paths`: the files that a service may read
//! - `secrets`: searches for leaked keys and credentials
//! - `bad_input`: errors that name the faulty input, while the service continues
//! - `hostile_peers`: peers that break the protocol over real QUIC
//! - `traces`: the spans that a collector receives, with the feature `otlp`
//! - `support`: elements, links, whole services, processes and a watchdog for tests

mod admin;
mod allowed_paths;
#[cfg(target_os = "linux")]
mod autoscale;
mod bad_input;
mod causes;
mod command_line;
mod commands;
mod compression;
mod config;
mod conformance;
mod coordinated_reads;
mod credits;
mod cross_trainer_cache;
mod cut_connections;
mod dead_readers;
mod dispatcher_away;
mod doctor;
mod failure;
mod hostile_peers;
mod key_rotation;
mod leaving;
mod metadata;
mod nested_services;
mod persistence;
mod quotas;
mod remote_files;
mod revocation;
mod secrets;
mod service_reader;
#[cfg(feature = "etcd")]
mod several_dispatchers;
mod several_sources;
mod shared_jobs;
#[cfg(target_os = "linux")]
mod shared_memory;
#[cfg(target_os = "linux")]
mod shared_memory_deaths;
mod shutdown;
mod source;
mod static_sharding;
mod status;
mod support;
mod target_workers;
mod tidy;
#[cfg(feature = "otlp")]
mod traces;
mod transport_conformance;
mod up;
mod visitation;
mod waits;
