//! A rectangular part of a picture.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

/// A rectangular part of a picture, in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Area {
    pub(crate) top: u32,
    pub(crate) left: u32,
    pub(crate) height: u32,
    pub(crate) width: u32,
}

impl Area {
    /// Returns the area that covers a whole picture.
    pub(crate) fn whole(height: u32, width: u32) -> Area {
        Area {
            top: 0,
            left: 0,
            height,
            width,
        }
    }

    /// Returns whether the area covers a whole picture of `height` x `width` pixels.
    pub(crate) fn is_whole(&self, height: u32, width: u32) -> bool {
        *self == Area::whole(height, width)
    }

    /// Returns whether the area is not empty and is within a picture of `height` x `width` pixels.
    pub(crate) fn fits(&self, height: u32, width: u32) -> bool {
        let within = |from: u32, length: u32, side: u32| {
            length > 0 && from.checked_add(length).is_some_and(|end| end <= side)
        };
        within(self.top, self.height, height) && within(self.left, self.width, width)
    }

    /// Returns the area of `height` x `width` pixels around the centre of a picture of at least this size.
    pub(crate) fn centred(height: u32, width: u32, of_height: u32, of_width: u32) -> Area {
        Area {
            top: of_height.saturating_sub(height) / 2,
            left: of_width.saturating_sub(width) / 2,
            height,
            width,
        }
    }

    /// Copies the rows of the area from `pixels` to `destination`. `pixels` has rows of `width` pixels with
    /// `pixel_bytes` bytes each, and must contain the area.
    pub(crate) fn copy(&self, pixels: &[u8], width: u32, pixel_bytes: usize, destination: &mut [u8]) {
        let (from_row, to_row) = (width as usize * pixel_bytes, self.width as usize * pixel_bytes);
        if to_row == 0 {
            return;
        }
        let rows = pixels.chunks_exact(from_row).skip(self.top as usize);
        let begin = self.left as usize * pixel_bytes;
        for (from, to) in rows.zip(destination.chunks_exact_mut(to_row)) {
            to.copy_from_slice(&from[begin..begin + to_row]);
        }
    }
}
