//! The trait that native functions implement.

use millstream_element::ElementSpec;
use minicbor::{Decode, Encode};

/// A native function: its parameters and the checks and specs that follow from them.
pub(crate) trait NativeFunction: Encode<()> + for<'b> Decode<'b, ()> {
    /// Checks the parameters, without knowledge of the input.
    fn check(&self) -> Result<(), String>;

    /// Returns the spec of the output for elements of `input`. The error is the reason why the function
    /// refuses `input`.
    fn output(&self, input: &ElementSpec) -> Result<ElementSpec, String>;

    /// Returns the cargo feature that the function's calls need; `None` if they need no feature.
    fn feature(&self) -> Option<&'static str> {
        None
    }
}
