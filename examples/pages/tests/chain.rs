//! The four functions on rendered pages, through the ABI, in this process.

use flow_func::testing::{LocalMsg, LocalRunner};
use pages::{Measure, codes};
use pages_render::{A4_200_DPI, Face, PageSpec, Renderer, standard_set};
use std::time::{Duration, Instant};

const FUNCTIONS: [&str; 4] = ["decode", "deskew", "binarise", "measure"];

struct Chain {
    runners: Vec<LocalRunner>,
    times: [Duration; 4],
}

impl Chain {
    fn new() -> Self {
        let build = |name| LocalRunner::builder(pages::flow_library(), name).build().expect(name);
        Chain { runners: FUNCTIONS.map(build).into(), times: [Duration::ZERO; 4] }
    }

    fn run(&mut self, file: LocalMsg) -> LocalMsg {
        let mut msg = file;
        for (runner, time) in self.runners.iter_mut().zip(&mut self.times) {
            let start = Instant::now();
            let outputs = runner.run(&[&msg]).expect("a page never ends the process");
            *time += start.elapsed();
            assert_eq!(outputs[0].len(), 1);
            msg = outputs[0][0].clone();
            assert_eq!(runner.open_handles(), 0);
        }
        msg
    }

    fn measure(&mut self, file: &[u8]) -> Measure {
        let len = i64::try_from(file.len()).expect("a file");
        let out = self.run(LocalMsg::tensor(&[len], file).expect("bytes"));
        assert_eq!(out.info().ret_code, 0);
        Measure::from_record(out.data::<f64>().expect("a record")).expect("twelve values")
    }
}

fn renderer() -> Renderer {
    Renderer::new().unwrap_or_else(|error| panic!("{error}"))
}

fn spec(skew_degrees: f64) -> PageSpec {
    let (width, height) = (827, 1170);
    PageSpec { face: Face::Sans, width, height, text_px: 20.0, skew_degrees, noise: 12, seed: 7 }
}

#[test]
fn known_skew_is_found_in_every_font_and_size() {
    let (renderer, mut chain) = (renderer(), Chain::new());
    let mut worst = 0.0_f64;
    for spec in standard_set(28) {
        let page = renderer.render(&spec);
        let found = chain.measure(&page.to_png().expect("png"));
        let error = (found.skew_degrees() - spec.skew_degrees).abs();
        worst = worst.max(error);
        assert!(error <= 0.3, "{}: {:.2}", spec.file_name(), found.skew_degrees());
        assert_eq!((found.width, found.height), (spec.width.into(), spec.height.into()));
        assert!((0.01..0.25).contains(&found.ink_ratio()), "{}", found.ink_ratio());
        let lines = found.lines.abs_diff(page.lines as u64);
        assert!(lines <= 1, "{}: {} lines of {}", spec.file_name(), found.lines, page.lines);
    }
    println!("worst skew error {worst:.3} degrees");
}

#[test]
fn skew_is_found_up_to_ten_degrees() {
    let (renderer, mut chain) = (renderer(), Chain::new());
    for degrees in [-10.0, -9.3, -0.15, 0.0, 0.37, 3.21, 9.99] {
        let found = chain.measure(&renderer.render(&spec(degrees)).to_png().expect("png"));
        assert!((found.skew_degrees() - degrees).abs() <= 0.3, "{degrees}: {found:?}");
    }
}

#[test]
fn a_picture_without_lines_counts_as_level() {
    use pages::page::Gray;
    let mut state = 1_u32;
    let mut noise = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        u8::try_from(state >> 24).expect("a byte")
    };
    let pixels: Vec<u8> = (0..300 * 200).map(|_| noise()).collect();
    let picture = Gray::new(300, 200, &pixels).expect("a picture");
    assert_eq!(pages::skew::SkewFinder::default().estimate(&picture, 10), 0);
    let paper = vec![255; 300 * 200];
    let paper = Gray::new(300, 200, &paper).expect("a picture");
    assert_eq!(pages::skew::SkewFinder::default().estimate(&paper, 10), 0);
    let bitmap = pages::binarise(&paper);
    let found = pages::measure(&Gray::new(300, 200, &bitmap).expect("a picture"), 0);
    assert_eq!((found.ink, found.bounds, found.lines), (0, [0; 4], 0));
}

#[test]
fn checksums_are_stable() {
    let png = renderer().render(&spec(2.5)).to_png().expect("png");
    assert_eq!(png, renderer().render(&spec(2.5)).to_png().expect("png"), "rendering is stable");
    let (mut one, mut two) = (Chain::new(), Chain::new());
    let first = one.measure(&png);
    assert_eq!(first, two.measure(&png));
    one.measure(&renderer().render(&spec(-3.0)).to_png().expect("png"));
    assert_eq!(first, one.measure(&png), "no state is left over from another page");
    assert_eq!(Measure::from_record(&first.to_record()), Some(first));
}

#[test]
fn raw_bytes_and_plain_calls_agree_with_the_functions() {
    use pages::page::Gray;
    let png = renderer().render(&spec(1.0)).to_png().expect("png");
    let raw = Chain::new().run(LocalMsg::raw(&png));
    let by_tensor = Chain::new().measure(&png);
    assert_eq!(Measure::from_record(raw.data::<f64>().expect("record")), Some(by_tensor));

    let (width, height, pixels) = pages::decode(&png).expect("a page");
    let mut level = vec![0; pixels.len()];
    pages::stretch_contrast(&pixels, &mut level);
    let page = Gray::new(width, height, &level).expect("a page");
    let skew = pages::skew::SkewFinder::default().estimate(&page, 10);
    let mut turned = vec![0; level.len()];
    pages::rotate_level(&page, skew, 255, &mut turned);
    let bitmap = pages::binarise(&Gray::new(width, height, &turned).expect("a page"));
    let plain = pages::measure(&Gray::new(width, height, &bitmap).expect("a page"), skew);
    assert_eq!(plain, by_tensor);
}

fn jpeg(pixels: &[u8], width: u32, height: u32, color: jpeg_encoder::ColorType) -> Vec<u8> {
    let mut file = Vec::new();
    let (width, height) = (width.try_into().expect("small"), height.try_into().expect("small"));
    let encoder = jpeg_encoder::Encoder::new(&mut file, 92);
    encoder.encode(pixels, width, height, color).expect("jpeg");
    file
}

#[test]
fn jpeg_files_are_pages_too() {
    use jpeg_encoder::ColorType::{Cmyk, Luma, Rgb};
    let page = renderer().render(&spec(2.5));
    let rgb: Vec<u8> = page.pixels.iter().flat_map(|&pixel| [pixel; 3]).collect();
    let cmyk: Vec<u8> = page.pixels.iter().flat_map(|&pixel| [0, 0, 0, 255 - pixel]).collect();
    let (width, height) = (page.width, page.height);
    let mut chain = Chain::new();
    let by_png = chain.measure(&page.to_png().expect("png"));
    for (pixels, color) in [(&page.pixels, Luma), (&rgb, Rgb), (&cmyk, Cmyk)] {
        let file = jpeg(pixels, width, height, color);
        let found = chain.measure(&file);
        assert!((found.skew_degrees() - 2.5).abs() <= 0.3, "{color:?}: {found:?}");
        let ratio = found.ink_ratio() / by_png.ink_ratio();
        assert!((0.9..1.1).contains(&ratio), "{color:?}: ink {ratio}");
        let cut = chain.run(LocalMsg::raw(&file[..file.len() / 2]));
        assert_eq!(cut.info().ret_code, codes::BAD_IMAGE, "{color:?} cut in half");
    }
}

#[test]
fn png_files_of_every_colour_are_pages() {
    use png::{BitDepth, ColorType};
    let gray: Vec<u8> = (0..64 * 32).map(|index: u32| (index % 251) as u8).collect();
    let file = |color: ColorType, depth: BitDepth, data: &[u8]| {
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, 64, 32);
        encoder.set_color(color);
        encoder.set_depth(depth);
        if color == ColorType::Indexed {
            encoder.set_palette((0..=255_u8).flat_map(|value| [value; 3]).collect::<Vec<u8>>());
        }
        let mut writer = encoder.write_header().expect("header");
        writer.write_image_data(data).expect("data");
        writer.finish().expect("end");
        file
    };
    let wide = |samples: &[u8]| -> Vec<u8> { samples.iter().flat_map(|&v| [v, 7]).collect() };
    let with = |count: usize, alpha: bool| -> Vec<u8> {
        let samples = |&v: &u8| [vec![v; count], vec![255; usize::from(alpha)]].concat();
        gray.iter().flat_map(samples).collect()
    };
    for (color, samples) in [
        (ColorType::Grayscale, with(1, false)),
        (ColorType::GrayscaleAlpha, with(1, true)),
        (ColorType::Rgb, with(3, false)),
        (ColorType::Rgba, with(3, true)),
    ] {
        for (depth, data) in
            [(BitDepth::Eight, samples.clone()), (BitDepth::Sixteen, wide(&samples))]
        {
            let (width, height, pixels) = pages::decode(&file(color, depth, &data)).expect("png");
            assert_eq!((width, height), (64, 32));
            assert!(pixels == gray, "{color:?} {depth:?}");
        }
    }
    let indexed = pages::decode(&file(ColorType::Indexed, BitDepth::Eight, &gray));
    assert!(indexed.expect("png").2 == gray, "palette");
    let clear: Vec<u8> = gray.iter().flat_map(|&v| [v, 0]).collect();
    let clear = pages::decode(&file(ColorType::GrayscaleAlpha, BitDepth::Eight, &clear));
    assert!(clear.expect("png").2.iter().all(|&pixel| pixel == 255), "clear shows paper");
    let bits: Vec<u8> = (0..64 * 32 / 8).map(|_| 0b1010_1010).collect();
    let bits = pages::decode(&file(ColorType::Grayscale, BitDepth::One, &bits)).expect("png").2;
    assert_eq!(bits[..4], [255, 0, 255, 0]);
}

#[test]
fn a_broken_page_fails_alone() {
    let png = renderer().render(&spec(1.0)).to_png().expect("png");
    let mut chain = Chain::new();
    let good = chain.measure(&png);
    let mut flipped = png.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 0x55;
    for broken in [&png[..png.len() / 3], &png[..20], b"no image at all", b"", &flipped] {
        let out = chain.run(LocalMsg::raw(broken).with_trans_id(5));
        let info = out.info();
        assert_eq!((info.ret_code, info.trans_id), (codes::BAD_IMAGE, 5), "{} bytes", broken.len());
        assert!(info.is_null_data());
    }
    assert_eq!(chain.measure(&png), good, "the next page is fine");
    let lines = chain.runners[0].take_logs();
    assert!(lines[0].text.contains("not a readable PNG or JPEG file"), "{lines:?}");
}

#[test]
fn wrong_types_and_shapes_are_codes() {
    let floats = LocalMsg::tensor(&[16, 16], &[0.0_f32; 256]).expect("a tensor");
    let flat = LocalMsg::tensor(&[256], &[0_u8; 256]).expect("a tensor");
    let small = LocalMsg::tensor(&[8, 32], &[0_u8; 256]).expect("a tensor");
    let bare = LocalMsg::tensor(&[16, 16], &[0_u8; 256]).expect("a tensor");
    let code = |name: &'static str, msg: &LocalMsg| {
        let mut runner = LocalRunner::builder(pages::flow_library(), name).build().expect(name);
        runner.run(&[msg]).expect("goes on")[0][0].info().ret_code
    };
    for name in FUNCTIONS {
        assert_eq!(code(name, &floats), codes::BAD_INPUT, "{name}");
        assert_eq!(code(name, &LocalMsg::empty(1234)), 1234, "{name} passes a code on");
    }
    for name in &FUNCTIONS[1..] {
        assert_eq!(code(name, &flat), codes::BAD_INPUT, "{name}");
        assert_eq!(code(name, &small), codes::TOO_SMALL, "{name}");
    }
    assert_eq!(code("deskew", &bare), 0, "the smallest page there is");
    assert_eq!(code("binarise", &bare), codes::BAD_INPUT, "no trailer");
    assert_eq!(code("measure", &bare), codes::BAD_INPUT, "no trailer");
}

#[test]
fn attributes_are_checked_and_used() {
    let build = |name, key: &str, value: flow_func::attrs::AttrValue| {
        LocalRunner::builder(pages::flow_library(), name).attr(key, value).build()
    };
    assert_eq!(build("binarise", "window", 30.into()).err(), Some(codes::BAD_INPUT));
    assert_eq!(build("binarise", "k", 2.0.into()).err(), Some(codes::BAD_INPUT));
    assert_eq!(build("deskew", "max_degrees", 90.0.into()).err(), Some(codes::BAD_INPUT));
    let wrong = build("decode", "max_pixels", "many".into()).err();
    assert_eq!(wrong, Some(flow_func::codes::ATTR_TYPE_MISMATCH));
    let png = renderer().render(&spec(0.0)).to_png().expect("png");
    let mut runner = build("decode", "max_pixels", 1000.into()).expect("decode");
    let out = runner.run(&[&LocalMsg::raw(&png)]).expect("goes on");
    assert_eq!(out[0][0].info().ret_code, codes::TOO_LARGE);
}

/// Prints the milliseconds of each function on an A4 page at 200 dpi: `cargo test --release --
/// --nocapture`.
#[test]
fn times_on_an_a4_page() {
    let (width, height) = A4_200_DPI;
    let spec = PageSpec { width, height, text_px: 36.0, ..spec(3.3) };
    let png = renderer().render(&spec).to_png().expect("png");
    let mut chain = Chain::new();
    chain.measure(&png);
    chain.times = [Duration::ZERO; 4];
    let rounds = if cfg!(debug_assertions) { 1 } else { 10 };
    for _ in 0..rounds {
        chain.measure(&png);
    }
    for (name, time) in FUNCTIONS.iter().zip(chain.times) {
        println!("{name:10} {:7.2} ms", time.as_secs_f64() * 1e3 / f64::from(rounds));
    }
}
