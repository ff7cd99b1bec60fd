//! What the tf.data service's own tests demand, each as `<file>__<row>`, with real servers.
//!
//! - `coordinated_reads`: consumers that read in step
#![expect(
    non_snake_case,
    reason = "a test is named after the file and the row that it stands for"
)]

mod coordinated_reads;
