//! The encoding of a dtype.

use millstream_element::Dtype;
use minicbor::decode::{self, Decoder};
use minicbor::encode::{self, Encoder, Write};
use minicbor::{Decode, Encode};

/// A [`Dtype`] as a field of a graph, encoded as its code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DtypeField(pub Dtype);

impl<C> Encode<C> for DtypeField {
    fn encode<W: Write>(&self, e: &mut Encoder<W>, _: &mut C) -> Result<(), encode::Error<W::Error>> {
        e.u8(self.0.code())?;
        Ok(())
    }
}

impl<'b, C> Decode<'b, C> for DtypeField {
    fn decode(d: &mut Decoder<'b>, _: &mut C) -> Result<DtypeField, decode::Error> {
        let at = d.position();
        let code = d.u8()?;
        let unknown = || decode::Error::message(format!("unknown dtype {code}")).at(at);
        Dtype::from_code(code).map(DtypeField).ok_or_else(unknown)
    }
}
