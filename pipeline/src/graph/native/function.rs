//! What a native function says of itself.

use millstream_element::ElementSpec;
use minicbor::{Decode, Encode};

/// What a native function says of itself.
pub(crate) trait NativeFunction: Encode<()> + for<'b> Decode<'b, ()> {
    /// What parameters cannot be like, whatever comes in.
    fn check(&self) -> Result<(), String>;

    /// What it yields of elements of `input`; the reason, as text, why it takes none such.
    fn output(&self, input: &ElementSpec) -> Result<ElementSpec, String>;

    /// The cargo feature that its calls need.
    fn feature(&self) -> Option<&'static str> {
        None
    }
}
