//! The pixels of a baseline picture, decoded with any form of the kernel.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use crate::image::area::Area;
use crate::image::decoded::Decoded;

use super::header::Header;
use super::kernel::Kernel;
use super::{render, scan};

/// Decodes the pixels of `area` with 1 or 3 channels.
#[inline(always)]
pub(super) fn pixels<K: Kernel>(
    header: &Header<'_>,
    area: Area,
    wanted: u8,
) -> Result<Decoded, &'static str> {
    let planes = scan::decode::<K>(header, area, wanted)?;
    Ok(render::pixels::<K>(header, &planes, area, wanted))
}
