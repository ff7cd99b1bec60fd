//! The encoding of a shared value, which equals the encoding of the value itself.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::sync::Arc;

use minicbor::decode::{Decode, Decoder, Error as DecodeError};
use minicbor::encode::{Encode, Encoder, Error as EncodeError, Write};

pub(crate) fn encode<C, T: Encode<C>, W: Write>(
    value: &Arc<T>,
    encoder: &mut Encoder<W>,
    context: &mut C,
) -> Result<(), EncodeError<W::Error>> {
    value.as_ref().encode(encoder, context)
}

pub(crate) fn decode<'b, C, T: Decode<'b, C>>(
    decoder: &mut Decoder<'b>,
    context: &mut C,
) -> Result<Arc<T>, DecodeError> {
    T::decode(decoder, context).map(Arc::new)
}
