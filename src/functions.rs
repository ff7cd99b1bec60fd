//! The functions that every process of this build knows by name, and the service reader.

use millstream_link::LoadedKey;
use millstream_pipeline::exec::Functions;

use crate::local::LocalWorkers;
use crate::service_reader;

/// What is registered without a user's doing. With a key, datasets may read from the services that it opens.
pub fn builtin(key: Option<&LoadedKey>) -> Functions {
    match key {
        Some(key) => {
            Functions::new().with_service(service_reader::opener(key.clone(), LocalWorkers::default()))
        }
        None => Functions::new(),
    }
}
