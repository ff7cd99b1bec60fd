//! Resizing of pictures.

use std::cell::RefCell;

use fast_image_resize::images::{CroppedImage, Image, ImageRef};
use fast_image_resize::{FilterType, PixelType, ResizeAlg, ResizeOptions, Resizer};

use crate::graph::ResizeMethod;

use super::area::Area;

/// The way in which the pixels of a resized picture are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Filter {
    pub(crate) method: ResizeMethod,
    pub(crate) antialias: bool,
}

/// The type of a channel's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Channel {
    U8,
    F32,
}

/// The pixels of a picture and their layout in memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source<'p> {
    pub(crate) pixels: &'p [u8],
    pub(crate) height: u32,
    pub(crate) width: u32,
    pub(crate) channel: Channel,
    /// The number of channels, from 1 to 4.
    pub(crate) channels: usize,
}

thread_local! {
    /// The resizer of this thread, which keeps its coefficients and row buffers from one picture to the next
    /// picture.
    static RESIZER: RefCell<Resizer> = RefCell::new(Resizer::new());
}

/// Resizes `area` of the picture to `height` x `width` pixels. Pixels outside of the area do not contribute
/// to the result.
///
/// # Errors
/// A text that states the reason, if sizes do not match.
pub(crate) fn resize(
    source: Source<'_>,
    area: Area,
    (height, width): (u32, u32),
    filter: Filter,
    destination: &mut [u8],
) -> Result<(), String> {
    let pixel_type = match (source.channel, source.channels) {
        (Channel::U8, 1) => PixelType::U8,
        (Channel::U8, 2) => PixelType::U8x2,
        (Channel::U8, 3) => PixelType::U8x3,
        (Channel::U8, 4) => PixelType::U8x4,
        (Channel::F32, 1) => PixelType::F32,
        (Channel::F32, 2) => PixelType::F32x2,
        (Channel::F32, 3) => PixelType::F32x3,
        (Channel::F32, 4) => PixelType::F32x4,
        (Channel::U8 | Channel::F32, channels) => {
            return Err(format!("{channels} channels cannot be resized"));
        }
    };
    // Numbers of four bytes can only be read at aligned addresses, and the caller's memory may be unaligned.
    let mut aligned = None;
    let view = match ImageRef::new(source.width, source.height, source.pixels, pixel_type) {
        Ok(view) => view,
        Err(_) => {
            let copy = aligned.insert(Image::new(source.width, source.height, pixel_type));
            filled(copy.buffer_mut(), source.pixels)?;
            ImageRef::new(source.width, source.height, copy.buffer(), pixel_type).map_err(text)?
        }
    };
    let area = CroppedImage::new(&view, area.left, area.top, area.width, area.height).map_err(text)?;
    let options = ResizeOptions::new()
        .resize_alg(filter.algorithm())
        .use_alpha(false);
    let run = |target: &mut Image<'_>| {
        RESIZER
            .with_borrow_mut(|resizer| resizer.resize(&area, target, &options))
            .map_err(text)
    };
    if let Ok(mut target) = Image::from_slice_u8(width, height, destination, pixel_type) {
        return run(&mut target);
    }
    let mut target = Image::new(width, height, pixel_type);
    run(&mut target)?;
    filled(destination, target.buffer())
}

impl Filter {
    fn algorithm(self) -> ResizeAlg {
        let kernel = match self.method {
            ResizeMethod::Nearest => return ResizeAlg::Nearest,
            ResizeMethod::Area => return ResizeAlg::Convolution(FilterType::Box),
            ResizeMethod::Bilinear => FilterType::Bilinear,
            ResizeMethod::Bicubic => FilterType::CatmullRom,
            ResizeMethod::Lanczos3 => FilterType::Lanczos3,
        };
        if self.antialias {
            ResizeAlg::Convolution(kernel)
        } else {
            ResizeAlg::Interpolation(kernel)
        }
    }
}

fn filled(to: &mut [u8], from: &[u8]) -> Result<(), String> {
    if to.len() != from.len() {
        return Err(format!(
            "expected {1} bytes of pixels, found {0}",
            from.len(),
            to.len()
        ));
    }
    to.copy_from_slice(from);
    Ok(())
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use millstream_testkit::rounds;
    use proptest::prelude::*;

    use super::*;

    /// Returns the value of a method's kernel at `x`, and the radius of the kernel.
    fn kernel(method: ResizeMethod, x: f64) -> (f64, f64) {
        let sinc = |x: f64| {
            if x == 0.0 {
                1.0
            } else {
                (x * std::f64::consts::PI).sin() / (x * std::f64::consts::PI)
            }
        };
        let ax = x.abs();
        match method {
            ResizeMethod::Nearest => (0.0, 0.0),
            ResizeMethod::Area => (f64::from(u8::from(x > -0.5 && x <= 0.5)), 0.5),
            ResizeMethod::Bilinear => ((1.0 - ax).max(0.0), 1.0),
            ResizeMethod::Bicubic if ax < 1.0 => (1.5 * ax.powi(3) - 2.5 * ax.powi(2) + 1.0, 2.0),
            ResizeMethod::Bicubic if ax < 2.0 => (-0.5 * ax.powi(3) + 2.5 * ax.powi(2) - 4.0 * ax + 2.0, 2.0),
            ResizeMethod::Bicubic => (0.0, 2.0),
            ResizeMethod::Lanczos3 if ax < 3.0 => (sinc(x) * sinc(x / 3.0), 3.0),
            ResizeMethod::Lanczos3 => (0.0, 3.0),
        }
    }

    /// Resizes one side. For each pixel of the result, returns the weights of the pixels that contribute to
    /// it.
    fn shares(from: usize, to: usize, filter: Filter) -> Vec<Vec<f64>> {
        let scale = from as f64 / to as f64;
        let wide = if filter.antialias { scale.max(1.0) } else { 1.0 };
        let of = |place: usize| {
            let centre = (place as f64 + 0.5) * scale;
            if filter.method == ResizeMethod::Nearest {
                let nearest = (centre.floor() as usize).min(from - 1);
                return (0..from).map(|at| f64::from(u8::from(at == nearest))).collect();
            }
            let weigh = |at: usize| kernel(filter.method, (at as f64 + 0.5 - centre) / wide).0;
            let weights: Vec<f64> = (0..from).map(weigh).collect();
            let sum: f64 = weights.iter().sum();
            weights.iter().map(|weight| weight / sum).collect()
        };
        (0..to).map(of).collect()
    }

    fn naive(
        pixels: &[f64],
        (height, width): (usize, usize),
        to: (usize, usize),
        filter: Filter,
    ) -> Vec<f64> {
        let (rows, columns) = (shares(height, to.0, filter), shares(width, to.1, filter));
        let mut all = Vec::new();
        for row in &rows {
            for column in &columns {
                let mut sum = 0.0;
                for (y, row) in row.iter().enumerate() {
                    for (x, column) in column.iter().enumerate() {
                        sum += row * column * pixels[y * width + x];
                    }
                }
                all.push(sum);
            }
        }
        all
    }

    fn filters() -> impl Strategy<Value = Filter> {
        let methods = [
            ResizeMethod::Nearest,
            ResizeMethod::Bilinear,
            ResizeMethod::Bicubic,
            ResizeMethod::Area,
            ResizeMethod::Lanczos3,
        ];
        (prop::sample::select(methods.to_vec()), any::<bool>()).prop_map(|(method, antialias)| Filter {
            method,
            // Nearest and area ignore antialiasing.
            antialias: antialias || matches!(method, ResizeMethod::Nearest | ResizeMethod::Area),
        })
    }

    proptest! {
        #![proptest_config(rounds(150))]

        #[test]
        fn resized_pixels_are_weighted_means(
            (height, width, to_height, to_width) in (1u32..12, 1u32..12, 1u32..12, 1u32..12),
            (top, left) in (0u32..3, 0u32..3),
            channels in 1usize..5,
            filter in filters(),
            seed in 0u32..80,
        ) {
            // If a result lies exactly between two pixels, either pixel is the nearest.
            let has_tie = |from: u32, to: u32| (0..to).any(|at| ((2 * at + 1) * from).is_multiple_of(2 * to));
            prop_assume!(
                filter.method != ResizeMethod::Nearest || !(has_tie(height, to_height) || has_tie(width, to_width))
            );
            let (full_height, full_width) = (height + top + 1, width + left + 1);
            // The picture is smooth, so that rounding and clamping between the two directions change little.
            let at = |y: u32, x: u32, channel: usize| {
                (seed + 5 * y + 3 * x + 10 * channel as u32) as u8
            };
            let mut pixels = Vec::new();
            for y in 0..full_height {
                for x in 0..full_width {
                    pixels.extend((0..channels).map(|channel| at(y, x, channel)));
                }
            }
            let area = Area { top, left, height, width };
            let source = Source {
                pixels: &pixels, height: full_height, width: full_width, channel: Channel::U8, channels,
            };
            let count = (to_height * to_width) as usize * channels;
            let mut bytes = vec![0; count];
            resize(source, area, (to_height, to_width), filter, &mut bytes).unwrap();
            let floats: Vec<u8> = pixels.iter().flat_map(|value| f32::from(*value).to_le_bytes()).collect();
            // The copy is shifted by one byte, so that no number is aligned.
            let moved = [&[0][..], &floats].concat();
            let source = Source { pixels: &moved[1..], channel: Channel::F32, ..source };
            let mut numbers = vec![0; count * 4 + 1];
            resize(source, area, (to_height, to_width), filter, &mut numbers[1..]).unwrap();
            for channel in 0..channels {
                let plane: Vec<f64> = (top..top + height)
                    .flat_map(|y| (left..left + width).map(move |x| (y, x)))
                    .map(|(y, x)| f64::from(at(y, x, channel)))
                    .collect();
                let size = (height as usize, width as usize);
                let expected = naive(&plane, size, (to_height as usize, to_width as usize), filter);
                for (place, expected) in expected.iter().enumerate() {
                    let item = place * channels + channel;
                    let found = f64::from(bytes[item]);
                    prop_assert!((found - expected.clamp(0.0, 255.0)).abs() <= 2.5, "{} for {}", found, expected);
                    let number: [u8; 4] = numbers[1 + item * 4..][..4].try_into().unwrap();
                    let number = f64::from(f32::from_le_bytes(number));
                    prop_assert!((number - expected).abs() <= 1e-2, "{} for {}", number, expected);
                }
            }
        }
    }
}
