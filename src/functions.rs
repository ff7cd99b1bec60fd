//! The functions that every process of this build knows by name, and the service reader.

use millstream_pipeline::exec::Functions;

/// What is registered without a user's doing.
pub fn builtin() -> Functions {
    Functions::new()
}
