//! JPEGs by libjpeg-turbo's decoder, as mozjpeg brings it: all kinds but those whose colours it does not turn into RGB. Rows above an
//! area and columns beside it are not transformed, rows below it not even read.
//!
//! The library reports what it does not like by a call that must not return: here it unwinds, through C that is compiled
//! for that, and is caught before anybody else sees it. Nothing it warns of is let pass.
#![expect(unsafe_code, reason = "the library is written in C")]

use std::ffi::c_int;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;

use mozjpeg_sys as library;

use crate::image::area::Area;
use crate::image::decoded::Decoded;

use super::bits::ends;
use super::other::SCANS_MAX;

/// Columns beside an area that colours at half the width are smoothed with.
const MARGIN: u32 = 2;
/// What the library's messages take at most (`JMSG_LENGTH_MAX`).
const MESSAGE_BYTES: usize = 200;

/// A JPEG whose header the library has read.
pub(in crate::image) struct Turbo<'b> {
    /// From a box; freed on drop and nowhere else.
    state: NonNull<State>,
    bytes: &'b [u8],
    /// The state points to itself and to `bytes`.
    lives: PhantomData<(State, &'b [u8])>,
}

/// What the library works with, at one place as long as it lives, since its parts point at each other.
struct State {
    decoder: library::jpeg_decompress_struct,
    errors: library::jpeg_error_mgr,
    progress: library::jpeg_progress_mgr,
}

/// What is thrown when the library refuses a picture.
struct Refused(String);

impl<'b> Turbo<'b> {
    /// Reads the header of `bytes`. `None` for colours that the library does not turn into RGB.
    ///
    /// # Errors
    /// What is wrong, as text.
    pub(super) fn open(bytes: &'b [u8]) -> Result<Option<Turbo<'b>>, String> {
        let turbo = Turbo {
            state: State::new()?,
            bytes,
            lives: PhantomData,
        };
        let state = turbo.state.as_ptr();
        let colours = guarded(|| {
            // SAFETY: the state is alive and nobody else's, `bytes` outlive it, and whatever the library throws unwinds to
            // `guarded`, past nothing but its own frames.
            unsafe {
                let decoder = &mut (*state).decoder;
                library::jpeg_mem_src(decoder, bytes.as_ptr(), bytes.len() as _);
                library::jpeg_read_header(decoder, 1);
                decoder.jpeg_color_space
            }
        })?;
        let is_known = matches!(
            colours,
            library::JCS_GRAYSCALE | library::JCS_YCbCr | library::JCS_RGB
        );
        Ok(is_known.then_some(turbo))
    }

    /// Height and width.
    pub(super) fn size(&self) -> (u32, u32) {
        // SAFETY: the state is alive, and nothing changes it meanwhile.
        let decoder = unsafe { &(*self.state.as_ptr()).decoder };
        (decoder.image_height, decoder.image_width)
    }

    /// The pixels of `area`, which lies within the picture, with 1 or 3 channels; 0 = as in the picture.
    ///
    /// # Errors
    /// What is corrupt, as text.
    pub(super) fn decode(self, area: Area, channels: u8) -> Result<Decoded, String> {
        let (_, width) = self.size();
        let state = self.state.as_ptr();
        // SAFETY: as in `size`.
        let components = unsafe { (*state).decoder.num_components };
        let channels = match channels {
            1 => 1,
            0 if components == 1 => 1,
            _ => 3,
        };
        let row_bytes = area.width as usize * usize::from(channels);
        // As many as the area has, which the limit on pixels bounds.
        let mut pixels = vec![0; area.height as usize * row_bytes];
        let left = area.left.saturating_sub(MARGIN);
        let right = (area.left + area.width + MARGIN).min(width);
        guarded(|| {
            // SAFETY: the state is alive and nobody else's, and its picture's header has been read; what is thrown unwinds as in
            // `open`. A row has the room that the library says it needs.
            unsafe {
                let decoder = &mut (*state).decoder;
                decoder.out_color_space = if channels == 1 {
                    library::JCS_GRAYSCALE
                } else {
                    library::JCS_RGB
                };
                library::jpeg_start_decompress(decoder);
                let (mut from, mut count) = (left, right - left);
                library::jpeg_crop_scanline(decoder, &mut from, &mut count);
                let mut row = vec![0u8; decoder.output_width as usize * usize::from(channels)];
                let begin = (area.left - from) as usize * usize::from(channels);
                library::jpeg_skip_scanlines(decoder, area.top);
                for out in pixels.chunks_exact_mut(row_bytes) {
                    let mut rows = [row.as_mut_ptr()];
                    library::jpeg_read_scanlines(decoder, rows.as_mut_ptr(), 1);
                    out.copy_from_slice(&row[begin..begin + row_bytes]);
                }
            }
        })?;
        if !self.is_complete() {
            return Err("the JPEG is corrupt: it is cut short".to_owned());
        }
        Ok(Decoded {
            height: area.height,
            width: area.width,
            channels,
            pixels,
        })
    }

    /// Whether the scan that was read last ends with a marker, be it read or not.
    fn is_complete(&self) -> bool {
        // SAFETY: the state is alive, and its source, which `open` set, lives as long.
        let left = unsafe { (*(*self.state.as_ptr()).decoder.src).bytes_in_buffer };
        // A marker that has been read is right in front.
        let from = self.bytes.len().saturating_sub(left).saturating_sub(2);
        ends(self.bytes.get(from..).unwrap_or_default())
    }
}

impl Drop for Turbo<'_> {
    fn drop(&mut self) {
        // SAFETY: the state came from a box, and this is the last that is heard of it. Destroying a decoder frees what it
        // took and refuses nothing.
        unsafe {
            let mut state = Box::from_raw(self.state.as_ptr());
            library::jpeg_destroy_decompress(&mut state.decoder);
        }
    }
}

impl State {
    /// A decoder that unwinds when it refuses something.
    fn new() -> Result<NonNull<State>, String> {
        // SAFETY: plain numbers and pointers, for all of which zeros are as good as nothing.
        let state = Box::new(unsafe { std::mem::zeroed::<State>() });
        let state = Box::into_raw(state);
        let created = guarded(|| {
            // SAFETY: the state is alive and nobody else's. Its parts stay where they are, so that they may point at each
            // other; the library is told the size of its own.
            unsafe {
                library::jpeg_std_error(&mut (*state).errors);
                (*state).errors.error_exit = Some(refuse);
                (*state).errors.emit_message = Some(warn);
                (*state).progress.progress_monitor = Some(watch);
                (*state).decoder.common.err = &raw mut (*state).errors;
                let size = size_of::<library::jpeg_decompress_struct>();
                library::jpeg_CreateDecompress(&raw mut (*state).decoder, library::JPEG_LIB_VERSION, size);
                (*state).decoder.common.progress = &raw mut (*state).progress;
            }
        });
        let owned = NonNull::new(state).ok_or("there is no memory for a decoder")?;
        match created {
            Ok(()) => Ok(owned),
            Err(reason) => {
                // SAFETY: from a box above, and given to nobody.
                drop(unsafe { Box::from_raw(state) });
                Err(reason)
            }
        }
    }
}

/// Runs what calls the library; what it refuses is an error.
fn guarded<T>(calls: impl FnOnce() -> T) -> Result<T, String> {
    // A decoder that refused something is destroyed and nothing else.
    catch_unwind(AssertUnwindSafe(calls)).map_err(|thrown| match thrown.downcast::<Refused>() {
        Ok(refused) => format!("the JPEG is corrupt: {}", refused.0),
        Err(panic) => resume_unwind(panic),
    })
}

/// Called by the library when it cannot go on.
unsafe extern "C-unwind" fn refuse(decoder: &mut library::jpeg_common_struct) {
    // No panic's message is printed: this is an everyday matter.
    resume_unwind(Box::new(Refused(message(decoder))));
}

/// Called by the library when it would go on with what is corrupt (level -1), or for tracing.
unsafe extern "C-unwind" fn warn(decoder: &mut library::jpeg_common_struct, level: c_int) {
    if level < 0 {
        resume_unwind(Box::new(Refused(message(decoder))));
    }
}

/// Called by the library now and then.
unsafe extern "C-unwind" fn watch(decoder: &mut library::jpeg_common_struct) {
    let decoder = (&raw mut *decoder).cast::<library::jpeg_decompress_struct>();
    // SAFETY: only decoders are made here, and this is what all of them begin with.
    let scans = unsafe { (*decoder).input_scan_number };
    if usize::try_from(scans).is_ok_and(|scans| scans > SCANS_MAX) {
        resume_unwind(Box::new(Refused(format!("it has more than {SCANS_MAX} scans"))));
    }
}

/// What the library has to say.
fn message(decoder: &mut library::jpeg_common_struct) -> String {
    type Format = unsafe extern "C-unwind" fn(*mut library::jpeg_common_struct, *mut u8);
    let mut text = [0u8; MESSAGE_BYTES];
    // SAFETY: errors are reported by decoders that have their handler. It writes a text of at most so many bytes, with a
    // zero behind it; as bound it is said to read 80 of them, so it is called as what it is in C.
    unsafe {
        if let Some(format) = (*decoder.err).format_message {
            let format = std::mem::transmute::<*const (), Format>(format as *const ());
            format(decoder, text.as_mut_ptr());
        }
    }
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::image::jpeg::picture::Jpeg;

    /// Pictures of 53 x 37 pixels, of all kinds.
    const PICTURES: [&[u8]; 8] = [
        include_bytes!("../../../tests/data/images/baseline-420.jpg"),
        include_bytes!("../../../tests/data/images/baseline-422.jpg"),
        include_bytes!("../../../tests/data/images/baseline-444.jpg"),
        include_bytes!("../../../tests/data/images/grey.jpg"),
        include_bytes!("../../../tests/data/images/low-quality.jpg"),
        include_bytes!("../../../tests/data/images/optimised.jpg"),
        include_bytes!("../../../tests/data/images/restarts.jpg"),
        include_bytes!("../../../tests/data/images/progressive.jpg"),
    ];
    const BASELINE: usize = 7;

    fn decoded(bytes: &[u8], area: Option<Area>, channels: u8) -> Result<Decoded, String> {
        let turbo = Turbo::open(bytes)?.ok_or("colours of its own")?;
        let (height, width) = turbo.size();
        if u64::from(height) * u64::from(width) > 100_000 {
            return Err("too large".to_owned());
        }
        let whole = Area::whole(height, width);
        let area = area.filter(|area| area.fits(height, width)).unwrap_or(whole);
        turbo.decode(area, channels)
    }

    fn areas() -> impl Strategy<Value = Area> {
        (0u32..37, 0u32..53).prop_flat_map(|(top, left)| {
            (1..=37 - top, 1..=53 - left).prop_map(move |(height, width)| Area {
                top,
                left,
                height,
                width,
            })
        })
    }

    proptest! {
        #[test]
        fn an_area_is_that_of_the_whole_and_to_the_bit_what_the_other_decoder_says(
            picture in 0..PICTURES.len(), area in areas(), channels in prop::sample::select(vec![0u8, 1, 3]),
        ) {
            let bytes = PICTURES[picture];
            let found = decoded(bytes, Some(area), channels).unwrap();
            prop_assert_eq!(&found, &decoded(bytes, None, channels).unwrap().cut(area));
            if picture < BASELINE {
                let Jpeg::Baseline(_) = Jpeg::open(bytes).unwrap() else {
                    return Err(TestCaseError::fail("a baseline picture goes to the decoder for these"));
                };
                prop_assert_eq!(found, Jpeg::open(bytes).unwrap().decode(area, channels).unwrap());
            }
        }

        #[test]
        fn a_mutated_picture_decodes_to_its_size_or_is_an_error(
            picture in 0..PICTURES.len(),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
            cut in prop::option::of(any::<prop::sample::Index>()),
            area in areas(),
            channels in prop::sample::select(vec![0u8, 1, 3]),
        ) {
            let mut bytes = PICTURES[picture].to_vec();
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            if let Some(cut) = cut {
                bytes.truncate(cut.index(bytes.len()));
            }
            if let Ok(found) = decoded(&bytes, Some(area), channels) {
                let pixels = found.height as usize * found.width as usize;
                prop_assert_eq!(found.pixels.len(), pixels * usize::from(found.channels));
            }
        }
    }

    #[test]
    fn a_picture_cut_short_anywhere_is_an_error_that_says_why() {
        for (number, bytes) in PICTURES.iter().enumerate() {
            for length in 0..bytes.len() - 1 {
                for area in [Area::whole(37, 53), Area::whole(1, 1)] {
                    let refused = decoded(&bytes[..length], Some(area), 0).unwrap_err();
                    assert!(
                        refused.starts_with("the JPEG is corrupt: "),
                        "{number} cut to {length}: {refused}"
                    );
                    assert!(refused.len() > 25, "{refused}");
                }
            }
        }
    }

    #[test]
    fn a_picture_of_more_scans_than_are_sensible_is_refused() {
        let progressive = PICTURES[BASELINE];
        // The first scan, which says more of the first coefficients, again and again.
        let scan = progressive
            .windows(2)
            .position(|two| two == [0xff, 0xda])
            .unwrap();
        let next = progressive[scan + 2..]
            .windows(2)
            .position(|two| two[0] == 0xff && two[1] >= 0xc0 && two[1] != 0xff);
        let end = scan + 2 + next.unwrap();
        let again = progressive[scan..end].repeat(SCANS_MAX + 1);
        let bytes = [&progressive[..scan], &again, &progressive[scan..]].concat();
        let refused = decoded(&bytes, None, 0).unwrap_err();
        assert!(
            refused.contains("scans") || refused.contains("progression"),
            "{refused}"
        );
    }
}
