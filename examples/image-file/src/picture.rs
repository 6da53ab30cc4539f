//! A file's samples → what models of the RapidAI packages take for colours: grey, or blue, green,
//! red.
//!
//! Alpha is treated as these Python packages do, odd as it is: grey pixels that are not wholly
//! transparent stay, and each gains its missing opacity; coloured pictures are *inverted*, unless
//! everything visible is black: then each pixel gains its missing opacity.

use crate::{FileError, ImageFile, Layout};

/// Samples of a pixel.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Colours {
    /// One, which stands for three equal ones.
    #[default]
    Gray,
    /// Blue, green, red.
    Bgr,
}

/// A decoded picture: rows of pixels without a gap. Its buffer serves one picture after the other.
#[derive(Debug, Default)]
pub struct Picture {
    /// Pixels a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// `width * height` pixels of [`Self::colours`].
    pub samples: Vec<u8>,
    /// Whether pixels have one sample or three.
    pub colours: Colours,
}

impl Picture {
    /// Decodes a file of at most `max_pixels`.
    ///
    /// # Errors
    /// As [`ImageFile`]'s; the picture is then unspecified.
    pub fn read(&mut self, file: &[u8], max_pixels: u64) -> Result<(), FileError> {
        let image = ImageFile::open(file, max_pixels)?;
        let (width, height) = image.sides();
        (self.width, self.height) = (width as usize, height as usize);
        let samples = &mut self.samples;
        self.colours = match image.read_samples(samples)? {
            Layout::Gray => Colours::Gray,
            Layout::GrayAlpha => {
                gray_over_alpha(samples);
                Colours::Gray
            }
            Layout::Rgb => {
                samples.as_chunks_mut::<3>().0.iter_mut().for_each(|pixel| pixel.reverse());
                Colours::Bgr
            }
            Layout::Rgba => {
                colours_over_alpha(samples);
                Colours::Bgr
            }
        };
        Ok(())
    }
}

fn gray_over_alpha(samples: &mut Vec<u8>) {
    let pixels = samples.len() / 2;
    for pixel in 0..pixels {
        let (gray, alpha) = (samples[2 * pixel], samples[2 * pixel + 1]);
        samples[pixel] = visible(gray, alpha).saturating_add(!alpha);
    }
    samples.truncate(pixels);
}

fn colours_over_alpha(samples: &mut Vec<u8>) {
    let all_black = samples
        .as_chunks::<4>()
        .0
        .iter()
        .all(|&[r, g, b, a]| [r, g, b].iter().all(|&colour| visible(colour, a) == 0));
    let pixels = samples.len() / 4;
    for pixel in 0..pixels {
        let [r, g, b, a] = std::array::from_fn(|sample| samples[4 * pixel + sample]);
        let seen = [b, g, r].map(|colour| if all_black { !a } else { !visible(colour, a) });
        samples[3 * pixel..][..3].copy_from_slice(&seen);
    }
    samples.truncate(3 * pixels);
}

fn visible(sample: u8, alpha: u8) -> u8 {
    if alpha == 0 { 0 } else { sample }
}
