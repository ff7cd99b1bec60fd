//! Parameters of registered functions and constants embedded in a graph: bytes that this crate stores, bounds
//! and hands over, and never looks into.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::ElementSpec;
use minicbor::decode::{self, Decode, Decoder};
use minicbor::encode::{self, Encode, Encoder, Write};

/// The parameters a registered function or source receives: opaque bytes, by custom a CBOR value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Params(Vec<u8>);

impl Params {
    /// No parameters: empty bytes.
    pub fn none() -> Params {
        Params::default()
    }

    /// Parameters that are exactly these bytes.
    pub fn from_bytes(bytes: impl Into<Vec<u8>>) -> Params {
        Params(bytes.into())
    }

    /// The CBOR encoding of `value`. `None` if the value refuses to be encoded.
    pub fn encode<T: Encode<()>>(value: &T) -> Option<Params> {
        minicbor::to_vec(value).ok().map(Params)
    }

    /// Reads the parameters as CBOR.
    ///
    /// # Errors
    /// The reason, as text, when the bytes are not the encoding of a `T`.
    pub fn decode<'b, T: Decode<'b, ()>>(&'b self) -> Result<T, String> {
        minicbor::decode(&self.0).map_err(|error| error.to_string())
    }

    /// The bytes as they were given.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl<C> Encode<C> for Params {
    fn encode<W: Write>(&self, e: &mut Encoder<W>, _: &mut C) -> Result<(), encode::Error<W::Error>> {
        e.bytes(&self.0)?;
        Ok(())
    }
}

impl<'b, C> Decode<'b, C> for Params {
    fn decode(d: &mut Decoder<'b>, _: &mut C) -> Result<Params, decode::Error> {
        Ok(Params(d.bytes()?.to_vec()))
    }
}

/// An [`ElementSpec`] as a field of a graph: its own encoding, nested as bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct SpecField(pub ElementSpec);

impl<C> Encode<C> for SpecField {
    fn encode<W: Write>(&self, e: &mut Encoder<W>, _: &mut C) -> Result<(), encode::Error<W::Error>> {
        e.bytes(&self.0.to_bytes())?;
        Ok(())
    }
}

impl<'b, C> Decode<'b, C> for SpecField {
    fn decode(d: &mut Decoder<'b>, _: &mut C) -> Result<SpecField, decode::Error> {
        let at = d.position();
        ElementSpec::from_bytes(d.bytes()?)
            .map(SpecField)
            .map_err(|error| decode::Error::message(format!("element spec: {error}")).at(at))
    }
}
