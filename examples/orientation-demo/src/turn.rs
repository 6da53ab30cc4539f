//! Quarter turns of an image file: samples change their places and nothing else.

use image_file::{ImageFile, Layout};
use png::{BitDepth, ColorType, Compression, Encoder};

/// Most pixels of a file that is turned.
const PIXELS_MAX: u64 = 1 << 26;

/// Turns a file clockwise by `quarters` · 90° and encodes it as PNG, which loses nothing.
///
/// # Errors
/// A file that can't be decoded, in words.
pub fn turned(file: &[u8], quarters: u8) -> Result<Vec<u8>, String> {
    let image = ImageFile::open(file, PIXELS_MAX).map_err(|error| error.to_string())?;
    let (width, height) = image.sides();
    let mut samples = Vec::new();
    let layout = image.read_samples(&mut samples).map_err(|error| error.to_string())?;
    let sides = (width as usize, height as usize);
    let pixels = match layout {
        Layout::Gray => turn::<1>(&samples, sides, quarters),
        Layout::GrayAlpha => turn::<2>(&samples, sides, quarters),
        Layout::Rgb => turn::<3>(&samples, sides, quarters),
        Layout::Rgba => turn::<4>(&samples, sides, quarters),
    };
    let (width, height) = if quarters % 2 == 1 { (height, width) } else { (width, height) };
    encode(layout, width, height, &pixels).map_err(|error| format!("PNG encoder: {error}"))
}

fn turn<const N: usize>(samples: &[u8], sides: (usize, usize), quarters: u8) -> Vec<u8> {
    let (pixels, (width, height)) = (samples.as_chunks::<N>().0, sides);
    let columns = move |x: usize| (0..height).map(move |y| y * width + x);
    let order: Box<dyn Iterator<Item = usize>> = match quarters % 4 {
        0 => Box::new(0..pixels.len()),
        1 => Box::new((0..width).flat_map(move |x| columns(x).rev())),
        2 => Box::new((0..pixels.len()).rev()),
        _ => Box::new((0..width).rev().flat_map(columns)),
    };
    order.flat_map(|index| pixels[index]).collect()
}

fn encode(
    layout: Layout,
    width: u32,
    height: u32,
    samples: &[u8],
) -> Result<Vec<u8>, png::EncodingError> {
    let mut file = Vec::new();
    let mut encoder = Encoder::new(&mut file, width, height);
    encoder.set_color(match layout {
        Layout::Gray => ColorType::Grayscale,
        Layout::GrayAlpha => ColorType::GrayscaleAlpha,
        Layout::Rgb => ColorType::Rgb,
        Layout::Rgba => ColorType::Rgba,
    });
    encoder.set_depth(BitDepth::Eight);
    encoder.set_compression(Compression::Fast);
    encoder.write_header()?.write_image_data(samples)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_turn_is_clockwise_and_four_are_none() {
        // 0 1 2      3 0
        // 3 4 5  →   4 1
        //            5 2
        let samples = [0, 1, 2, 3, 4, 5];
        assert_eq!(turn::<1>(&samples, (3, 2), 1), [3, 0, 4, 1, 5, 2]);
        assert_eq!(turn::<1>(&samples, (3, 2), 2), [5, 4, 3, 2, 1, 0]);
        assert_eq!(turn::<1>(&samples, (3, 2), 3), [2, 5, 1, 4, 0, 3]);
        assert_eq!(turn::<3>(&samples, (2, 1), 2), [3, 4, 5, 0, 1, 2]);
        let file = encode(Layout::GrayAlpha, 3, 1, &samples).expect("a file");
        let back = turned(&turned(&file, 1).expect("turned"), 3).expect("turned back");
        assert_eq!(turned(&file, 0).expect("as it is"), back);
        assert!(turned(b"no image", 1).expect_err("refused").contains("not a readable"));
    }
}
