//! The builder's methods for functions of pictures. `component` names the component that holds the picture;
//! the empty name means the only component.
//!
//! Pictures are computed on several threads, in order. [`Dataset::parallel`] after a function sets the
//! number.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use crate::graph::AUTO;
use crate::graph::dataset::Dataset;
use crate::graph::function::Function;

use super::{
    CenterCrop, CentralCrop, ColorJitter, Crop, DecodeImage, Flip, FlipAxis, Grayscale, HwcToChw,
    ImageFunction, Normalize, RandomCrop, RandomResizedCrop, Resize,
};

impl Dataset {
    /// Decodes the JPEG, PNG or WebP image in `component` into `u8[height, width, 3]`. A broken image is an
    /// error.
    ///
    /// Works as `tf.io.decode_image`.
    pub fn decode_image(self, component: impl Into<String>) -> Dataset {
        self.decode_image_with(DecodeImage::new(component))
    }

    /// Decodes an image with the parameters `decode`.
    pub fn decode_image_with(self, decode: DecodeImage) -> Dataset {
        self.image(ImageFunction::Decode(decode))
    }

    /// Resizes the image in `component` to `height` x `width` pixels, bilinearly with antialiasing.
    ///
    /// Works as `tf.image.resize` for `u8` or `f32` with 1 to 4 channels, but keeps the dtype.
    pub fn resize(self, component: impl Into<String>, height: u32, width: u32) -> Dataset {
        self.resize_with(Resize::new(component, height, width))
    }

    /// Resizes an image with the parameters `resize`.
    pub fn resize_with(self, resize: Resize) -> Dataset {
        self.image(ImageFunction::Resize(resize))
    }

    /// Crops the area of `height` x `width` pixels that begins at row `top` and column `left`. An image that
    /// does not contain the area is an error.
    ///
    /// Works as `tf.image.crop_to_bounding_box`.
    pub fn crop(self, component: impl Into<String>, top: u32, left: u32, height: u32, width: u32) -> Dataset {
        self.image(ImageFunction::Crop(Crop {
            component: component.into(),
            top,
            left,
            height,
            width,
        }))
    }

    /// Crops the image to this fraction of both sides, around the centre.
    ///
    /// Works as `tf.image.central_crop`. A fraction outside of 0 to 1 is refused.
    pub fn central_crop(self, component: impl Into<String>, fraction: f64) -> Dataset {
        self.image(ImageFunction::CentralCrop(CentralCrop {
            component: component.into(),
            fraction,
        }))
    }

    /// Crops `height` x `width` pixels around the centre. A smaller image is an error.
    ///
    /// Works as torchvision's `CenterCrop`, except that torchvision pads smaller images.
    pub fn center_crop(self, component: impl Into<String>, height: u32, width: u32) -> Dataset {
        self.image(ImageFunction::CenterCrop(CenterCrop {
            component: component.into(),
            height,
            width,
        }))
    }

    /// Crops `height` x `width` pixels at a random place. A smaller image is an error.
    ///
    /// Works as `tf.image.random_crop` for the first two dimensions.
    pub fn random_crop(
        self,
        component: impl Into<String>,
        height: u32,
        width: u32,
        seed: Option<u64>,
    ) -> Dataset {
        self.image(ImageFunction::RandomCrop(RandomCrop {
            component: component.into(),
            height,
            width,
            seed,
        }))
    }

    /// Crops a random area of the image in `component`, and resizes it to `height` x `width` pixels. The area
    /// has 8 % to 100 % of the image's pixels and an aspect ratio of 3:4 to 4:3.
    ///
    /// Works as torchvision's `RandomResizedCrop`.
    pub fn random_resized_crop(self, component: impl Into<String>, height: u32, width: u32) -> Dataset {
        self.random_resized_crop_with(RandomResizedCrop::new(component, height, width))
    }

    /// Crops and resizes an image with the parameters `crop`.
    pub fn random_resized_crop_with(self, crop: RandomResizedCrop) -> Dataset {
        self.image(ImageFunction::RandomResizedCrop(crop))
    }

    /// Mirrors every image, so that the first column becomes the last.
    ///
    /// Works as `tf.image.flip_left_right`.
    pub fn flip_left_right(self, component: impl Into<String>) -> Dataset {
        self.flip_with(flip(component, FlipAxis::LeftRight))
    }

    /// Turns every image upside down, so that the first row becomes the last.
    ///
    /// Works as `tf.image.flip_up_down`.
    pub fn flip_up_down(self, component: impl Into<String>) -> Dataset {
        self.flip_with(flip(component, FlipAxis::UpDown))
    }

    /// Mirrors each image with a probability of one half.
    ///
    /// Works as `tf.image.random_flip_left_right`.
    pub fn random_flip_left_right(self, component: impl Into<String>, seed: Option<u64>) -> Dataset {
        self.flip_with(Flip {
            probability: Some(0.5),
            seed,
            ..flip(component, FlipAxis::LeftRight)
        })
    }

    /// Turns each image upside down with a probability of one half.
    ///
    /// Works as `tf.image.random_flip_up_down`.
    pub fn random_flip_up_down(self, component: impl Into<String>, seed: Option<u64>) -> Dataset {
        self.flip_with(Flip {
            probability: Some(0.5),
            seed,
            ..flip(component, FlipAxis::UpDown)
        })
    }

    /// Mirrors images with the parameters `flip`.
    pub fn flip_with(self, flip: Flip) -> Dataset {
        self.image(ImageFunction::Flip(flip))
    }

    /// Changes the colours by random amounts.
    ///
    /// Works as torchvision's `ColorJitter` for `u8` with 3 channels. Invalid factors are refused.
    pub fn color_jitter(self, jitter: ColorJitter) -> Dataset {
        self.image(ImageFunction::ColorJitter(jitter))
    }

    /// Computes `(value / 255 - mean) / std` as `f32`, with one mean and deviation for each channel, or one
    /// for all.
    ///
    /// Works as torchvision's `ToTensor` and `Normalize`, but the channels stay last. A wrong number of means
    /// or deviations is an error; deviations of 0 are refused.
    pub fn normalize(
        self,
        component: impl Into<String>,
        mean: impl Into<Vec<f32>>,
        std: impl Into<Vec<f32>>,
    ) -> Dataset {
        self.normalize_with(Normalize {
            component: component.into(),
            scale: Normalize::UNIT_SCALE,
            mean: mean.into(),
            std: std.into(),
        })
    }

    /// Normalizes the pixels of images with the parameters `normalize`.
    pub fn normalize_with(self, normalize: Normalize) -> Dataset {
        self.image(ImageFunction::Normalize(normalize))
    }

    /// Converts an RGB image to shades of grey, with 1 channel or 3 equal channels.
    ///
    /// Works as `tf.image.rgb_to_grayscale`. An image whose number of channels is not 3 is an error.
    pub fn rgb_to_grayscale(self, component: impl Into<String>, channels: u8) -> Dataset {
        self.image(ImageFunction::Grayscale(Grayscale {
            component: component.into(),
            channels,
        }))
    }

    /// Moves the channels of an image to the first dimension, as torch expects.
    ///
    /// Works as `tf.transpose` with 2, 0, 1. A component that does not have three dimensions is refused.
    pub fn hwc_to_chw(self, component: impl Into<String>) -> Dataset {
        self.image(ImageFunction::HwcToChw(HwcToChw {
            component: component.into(),
        }))
    }

    /// Adds the map of a function of pictures, on as many threads as the tuner chooses. Such a function costs
    /// milliseconds, so a single thread would limit most datasets.
    fn image(self, function: ImageFunction) -> Dataset {
        self.function(Function::Image(function)).parallel(AUTO)
    }
}

fn flip(component: impl Into<String>, axis: FlipAxis) -> Flip {
    Flip {
        component: component.into(),
        axis,
        probability: None,
        seed: None,
    }
}
