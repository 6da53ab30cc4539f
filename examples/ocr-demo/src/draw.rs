//! A page with its lines' boxes drawn on it, as a PNG file.

use image_file::{ImageFile, Layout};
use ocr::gather::Line;
use png::{BitDepth, ColorType, Compression, Encoder};

/// Most pixels of a page that is drawn on.
const PIXELS_MAX: u64 = 1 << 26;
/// Red, green, blue of a box.
const INK: [u8; 3] = [220, 30, 30];

/// The page of a file with the boxes of `lines`.
///
/// # Errors
/// A file that can't be decoded, in words.
pub fn boxes(file: &[u8], lines: &[Line]) -> Result<Vec<u8>, String> {
    let image = ImageFile::open(file, PIXELS_MAX).map_err(|error| error.to_string())?;
    let (width, height) = image.sides();
    let mut samples = Vec::new();
    let layout = image.read_samples(&mut samples).map_err(|error| error.to_string())?;
    let mut pixels: Vec<[u8; 3]> = match layout {
        Layout::Gray => samples.iter().map(|gray| [*gray; 3]).collect(),
        Layout::GrayAlpha => {
            samples.as_chunks::<2>().0.iter().map(|[gray, _]| [*gray; 3]).collect()
        }
        Layout::Rgb => samples.as_chunks::<3>().0.to_vec(),
        Layout::Rgba => {
            samples.as_chunks::<4>().0.iter().map(|[r, g, b, _]| [*r, *g, *b]).collect()
        }
    };
    let sides = (width as usize, height as usize);
    for line in lines {
        for (index, from) in line.corners.iter().enumerate() {
            stroke(&mut pixels, sides, *from, line.corners[(index + 1) % 4]);
        }
    }
    encode(width, height, pixels.as_flattened()).map_err(|error| format!("PNG encoder: {error}"))
}

/// A line one pixel wide; what lies outside of the page is left out.
fn stroke(pixels: &mut [[u8; 3]], (width, height): (usize, usize), from: [f32; 2], to: [f32; 2]) {
    let (dx, dy) = (to[0] - from[0], to[1] - from[1]);
    let steps = dx.abs().max(dy.abs()).ceil().clamp(1.0, 1e5);
    let mut step = 0.0;
    while step <= steps {
        let place = [from[0] + dx * step / steps, from[1] + dy * step / steps].map(f32::round);
        if place[0] >= 0.0 && place[1] >= 0.0 {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked")]
            let [x, y] = place.map(|place| place as usize);
            // A corner may lie on the border itself, one pixel behind the last.
            pixels[y.min(height - 1) * width + x.min(width - 1)] = INK;
        }
        step += 1.0;
    }
}

fn encode(width: u32, height: u32, samples: &[u8]) -> Result<Vec<u8>, png::EncodingError> {
    let mut file = Vec::new();
    let mut encoder = Encoder::new(&mut file, width, height);
    encoder.set_color(ColorType::Rgb);
    encoder.set_depth(BitDepth::Eight);
    encoder.set_compression(Compression::Fast);
    encoder.write_header()?.write_image_data(samples)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_is_drawn_on_its_corners() {
        let blank = encode(8, 6, &[255; 8 * 6 * 3]).expect("a file");
        let corners = [[1.0, 1.0], [8.0, 1.0], [8.0, 4.0], [1.0, 4.0]];
        let line = Line { confidence: 1.0, corners, text: String::new() };
        let drawn = boxes(&blank, &[line]).expect("drawn");
        let mut samples = Vec::new();
        let image = ImageFile::open(&drawn, 48).expect("a file");
        assert_eq!(image.sides(), (8, 6));
        image.read_samples(&mut samples).expect("decodes");
        let inked: Vec<usize> = (0..48).filter(|at| samples[3 * at..][..3] == INK).collect();
        let rows = |y: usize| (8 * y + 1..8 * y + 8).collect::<Vec<_>>();
        let expected = [rows(1), vec![17, 23, 25, 31], rows(4)].concat();
        assert_eq!(inked, expected);
        assert_eq!(boxes(&blank, &[]).expect("drawn"), blank, "nothing to draw");
        assert!(boxes(b"no image", &[]).expect_err("refused").contains("not a readable"));
    }
}
