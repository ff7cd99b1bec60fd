//! The definition of a native function.

use millstream_element::ElementSpec;
use minicbor::{Decode, Encode};

/// The definition of a native function.
pub(crate) trait NativeFunction: Encode<()> + for<'b> Decode<'b, ()> {
    /// Checks the errors of the parameters that no input can avoid.
    fn check(&self) -> Result<(), String>;

    /// Returns the spec of the output for elements of `input`, or the reason, as text, why it rejects them.
    fn output(&self, input: &ElementSpec) -> Result<ElementSpec, String>;

    /// The cargo feature that its calls need.
    fn feature(&self) -> Option<&'static str> {
        None
    }
}
