//! The fluent way to write functions of pictures. `component` is where the picture is; empty = the only
//! component.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use crate::graph::dataset::Dataset;
use crate::graph::function::Function;

use super::{
    CenterCrop, CentralCrop, ColorJitter, Crop, DecodeImage, Flip, FlipAxis, Grayscale, HwcToChw,
    ImageFunction, Normalize, RandomCrop, RandomResizedCrop, Resize,
};

impl Dataset {
    /// Decodes the JPEG, PNG or WebP image in `component` into `u8[height, width, 3]`; a broken one is an
    /// error.
    ///
    /// Works as `tf.io.decode_image`.
    pub fn decode_image(self, component: impl Into<String>) -> Dataset {
        self.decode_image_with(DecodeImage::new(component))
    }

    /// Decodes an image as `decode` says.
    pub fn decode_image_with(self, decode: DecodeImage) -> Dataset {
        self.image(ImageFunction::Decode(decode))
    }

    /// Resizes the image, bilinear with antialiasing.
    ///
    /// Works as `tf.image.resize`: `u8` or `f32` with 1 to 4 channels, to the same type and `height` x
    /// `width`.
    pub fn resize(self, component: impl Into<String>, height: u32, width: u32) -> Dataset {
        self.resize_with(Resize::new(component, height, width))
    }

    /// Resizes as `resize` says.
    pub fn resize_with(self, resize: Resize) -> Dataset {
        self.image(ImageFunction::Resize(resize))
    }

    /// The area of `height` x `width` pixels below row `top` and right of column `left`. An image that does
    /// not reach that far is an error.
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

    /// Crops to this fraction of both sides, around the centre.
    ///
    /// Works as `tf.image.central_crop`. A fraction outside of 0 to 1 is refused.
    pub fn central_crop(self, component: impl Into<String>, fraction: f64) -> Dataset {
        self.image(ImageFunction::CentralCrop(CentralCrop {
            component: component.into(),
            fraction,
        }))
    }

    /// `height` x `width` pixels around the centre. A smaller image is an error.
    ///
    /// Works as torchvision's `CenterCrop`, which pads.
    pub fn center_crop(self, component: impl Into<String>, height: u32, width: u32) -> Dataset {
        self.image(ImageFunction::CenterCrop(CenterCrop {
            component: component.into(),
            height,
            width,
        }))
    }

    /// `height` x `width` pixels at a random place. A smaller image is an error.
    ///
    /// Works as `tf.image.random_crop`, of the first two dimensions.
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

    /// Crops a random area of the image in `component`, with 8 % to 100 % of its pixels and an aspect ratio
    /// of 3:4 to 4:3; then resizes it.
    ///
    /// Works as torchvision's `RandomResizedCrop`.
    pub fn random_resized_crop(self, component: impl Into<String>, height: u32, width: u32) -> Dataset {
        self.random_resized_crop_with(RandomResizedCrop::new(component, height, width))
    }

    /// Crops and resizes as `crop` says.
    pub fn random_resized_crop_with(self, crop: RandomResizedCrop) -> Dataset {
        self.image(ImageFunction::RandomResizedCrop(crop))
    }

    /// Mirrors every image: the first column becomes the last.
    ///
    /// Works as `tf.image.flip_left_right`.
    pub fn flip_left_right(self, component: impl Into<String>) -> Dataset {
        self.flip_with(flip(component, FlipAxis::LeftRight))
    }

    /// Turns every image upside down: the first row becomes the last.
    ///
    /// Works as `tf.image.flip_up_down`.
    pub fn flip_up_down(self, component: impl Into<String>) -> Dataset {
        self.flip_with(flip(component, FlipAxis::UpDown))
    }

    /// Mirrors every other image, by chance.
    ///
    /// Works as `tf.image.random_flip_left_right`.
    pub fn random_flip_left_right(self, component: impl Into<String>, seed: Option<u64>) -> Dataset {
        self.flip_with(Flip {
            probability: Some(0.5),
            seed,
            ..flip(component, FlipAxis::LeftRight)
        })
    }

    /// Turns every other image upside down, by chance.
    ///
    /// Works as `tf.image.random_flip_up_down`.
    pub fn random_flip_up_down(self, component: impl Into<String>, seed: Option<u64>) -> Dataset {
        self.flip_with(Flip {
            probability: Some(0.5),
            seed,
            ..flip(component, FlipAxis::UpDown)
        })
    }

    /// Mirrors images as `flip` says.
    pub fn flip_with(self, flip: Flip) -> Dataset {
        self.image(ImageFunction::Flip(flip))
    }

    /// Changes the colours by chance.
    ///
    /// Works as torchvision's `ColorJitter`: `u8` with 3 channels; factors that cannot be are refused.
    pub fn color_jitter(self, jitter: ColorJitter) -> Dataset {
        self.image(ImageFunction::ColorJitter(jitter))
    }

    /// `(value / 255 - mean) / std` as `f32`: one mean and deviation a channel, or one for all.
    ///
    /// Works as torchvision's `ToTensor` and `Normalize`, channels last. Means and deviations of another
    /// number than channels are an error; deviations of 0 are refused.
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

    /// Scales values as `normalize` says.
    pub fn normalize_with(self, normalize: Normalize) -> Dataset {
        self.image(ImageFunction::Normalize(normalize))
    }

    /// Takes the colours out of an RGB image: 1 channel, or 3 equal ones.
    ///
    /// Works as `tf.image.rgb_to_grayscale`. Other channels than 3 are an error.
    pub fn rgb_to_grayscale(self, component: impl Into<String>, channels: u8) -> Dataset {
        self.image(ImageFunction::Grayscale(Grayscale {
            component: component.into(),
            channels,
        }))
    }

    /// Puts the channels of an image first, as torch wants them.
    ///
    /// Works as `tf.transpose` with 2, 0, 1; of three dimensions, or it is refused.
    pub fn hwc_to_chw(self, component: impl Into<String>) -> Dataset {
        self.image(ImageFunction::HwcToChw(HwcToChw {
            component: component.into(),
        }))
    }

    fn image(self, function: ImageFunction) -> Dataset {
        self.function(Function::Image(function))
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
