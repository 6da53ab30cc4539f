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

/// Prints the milliseconds of each function on an A4 page at 200 dpi: `cargo test --release -- --nocapture`.
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
