//! Parameters of registered functions, and specs embedded in a graph. The crate stores the bytes of
//! parameters and hands them over without interpreting them.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::ElementSpec;
use minicbor::decode::{self, Decode, Decoder};
use minicbor::encode::{self, Encode, Encoder, Write};

/// The parameters that a registered function or source receives: opaque bytes, by convention a CBOR value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Params(Vec<u8>);

impl Params {
    /// Makes parameters without content, which are empty bytes.
    pub fn none() -> Params {
        Params::default()
    }

    /// Makes parameters of exactly these bytes.
    pub fn from_bytes(bytes: impl Into<Vec<u8>>) -> Params {
        Params(bytes.into())
    }

    /// Encodes `value` as CBOR; returns `None` if the encoding of the value fails.
    pub fn encode<T: Encode<()>>(value: &T) -> Option<Params> {
        minicbor::to_vec(value).ok().map(Params)
    }

    /// Decodes the parameters as CBOR.
    ///
    /// # Errors
    /// The reason, as text, when the bytes are not the encoding of a `T`.
    pub fn decode<'b, T: Decode<'b, ()>>(&'b self) -> Result<T, String> {
        minicbor::decode(&self.0).map_err(|error| error.to_string())
    }

    /// Returns the bytes of the parameters.
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

/// An [`ElementSpec`] as a field of a graph. The spec's own encoding is nested as bytes.
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
