//! The functions that every process of this build knows by name, and the service reader.

use millstream_link::LoadedKey;
use millstream_pipeline::exec::Functions;

/// What is registered without a user's doing. With a key, datasets may read from services that the key opens.
pub fn builtin(key: Option<&LoadedKey>) -> Functions {
    let _ = key;
    Functions::new()
}
