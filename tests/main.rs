//! The integration tests: a table of contents.
//!
//! - `tidy`: the rules of the house, checked on the tree itself; `source` reads the tree for it
//! - `commands`: the program, as a user runs it
//! - `command_line`: its reference page, completions and manual pages
//! - `service_reader`: a dataset that goes on in the trainer
//! - `nested_services`: services that read services, and functions that do
//! - `transport_conformance`: what every transport must do, run for each mechanism
//! - `static_sharding`: datasets divided among a fixed list of workers
//! - `target_workers`: workers of this process and others, and who reads which
//! - `metadata`: what is known of a dataset by its id, and what ids and names mean
//! - `visitation`: every element as often as the policy promises, over random shapes of services
//! - `several_sources`: zip, concatenate, sample, choose and interleave over splits
//! - `conformance`: what the tf.data service's own tests demand, row by row
//! - `shared_jobs`: readers that share a job, and what each gets of it
//! - `credits`: the bound on outstanding elements, counted at the workers
//! - `coordinated_reads`: consumers that advance in step, whatever dies or comes late
//! - `cross_trainer_cache`: trainers that share what the workers have computed
//! - `cut_connections`: connections that break while all processes live
//! - `dead_readers`: readers of a shared job that are killed
//! - `dispatcher_away`: dispatchers that are cut off or dead for a while
//! - `failure`: processes that die, stall or were never there; keys and addresses that do not fit
//! - `waits`: what is waited for, said while it lasts and named when it ends
//! - `remote_files`: files of stores
//! - `persistence`: dispatchers that are killed and start again, with a work directory and without
//! - `leaving`: workers that leave in good order
//! - `status`: what a service says of itself, for people and programs
//! - `shared_memory`: readers of the workers' host
//! - `shared_memory_deaths`: readers and workers of one host that are killed or stopped at any instant
//! - `shutdown`: the end of a whole service, and of the processes that wait for one
//! - `compression`: a worker that compresses
//! - `quotas`: peers that ask for more than their share
//! - `key_rotation`, `revocation`: keys that are replaced or refused while a service runs
//! - `allowed_paths`: files that a service may read
//! - `secrets`: keys and credentials, looked for where they do not belong
//! - `bad_input`: errors that name the thing, from a service that goes on
//! - `hostile_peers`: peers that break the protocol, over real QUIC
//! - `support`: elements to send, links to send them over, whole services, processes, a watchdog

mod allowed_paths;
mod bad_input;
mod command_line;
mod commands;
mod compression;
mod conformance;
mod coordinated_reads;
mod credits;
mod cross_trainer_cache;
mod cut_connections;
mod dead_readers;
mod dispatcher_away;
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
mod transport_conformance;
mod visitation;
mod waits;
