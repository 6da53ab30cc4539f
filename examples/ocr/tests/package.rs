//! Against numbers of OpenCV 4.12 and rapidocr-onnxruntime 1.4.4, written down once: no Python
//! here.

use flow_func::testing::{LocalMsg, LocalRunner};
use ocr::boxes::{self, Limits};
use ocr::gather;
use ocr::lines::Cutter;
use ocr::resize::Resizer;
use ocr::{codes, text};
use png::{BitDepth, ColorType, Encoder};

/// FNV-1a.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3)
    })
}

/// The picture that the numbers of scaling are of.
fn pattern(width: usize, height: usize, samples: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for y in 0..height {
        for x in 0..width {
            let sample = |k: usize| (x * 37 + y * 101 + x * y * 7 + k * 59).to_le_bytes()[0];
            out.extend((0..samples).map(sample));
        }
    }
    out
}

fn scaled<const N: usize>(source: (usize, usize), target: (usize, usize)) -> u64 {
    let (mut out, mut resizer) = (Vec::new(), Resizer::default());
    // Twice with the same buffers: nothing may be left over.
    for _ in 0..2 {
        out.clear();
        resizer.resize::<N>(&pattern(source.0, source.1, N), source, target, |y, row| {
            assert_eq!(y * row.len(), out.len());
            out.extend_from_slice(row);
        });
    }
    checksum(&out)
}

#[test]
fn scaling_is_that_of_opencv() {
    for (source, target, expected) in [
        ((23, 17), (8, 6), 0xF9C4_4B93_41F5_0135),
        ((5, 4), (13, 11), 0xDD79_A240_6EA9_1952),
        ((40, 30), (20, 15), 0x85D1_8CDF_68F4_4DA9),
        ((1, 1), (3, 2), 0xE18A_0ED8_7F0D_B46B),
        ((9, 9), (9, 9), 0xB3DD_75AF_97E7_12AE),
        ((200, 52), (184, 48), 0xF311_1CB5_09A6_6887),
        ((64, 96), (192, 48), 0x489F_CBED_BE56_FE69),
    ] {
        assert_eq!(scaled::<3>(source, target), expected, "{source:?} to {target:?}");
    }
    for (source, target, expected) in [
        ((40, 30), (20, 15), 0xED7E_A9D4_38CC_CB85),
        ((97, 31), (61, 48), 0x99B6_7A1B_C3E8_DBAF),
        ((384, 191), (736, 366), 0xEDA1_576D_C472_FE27),
    ] {
        assert_eq!(scaled::<1>(source, target), expected, "{source:?} to {target:?}");
    }
}

#[test]
fn lines_are_cut_out_as_by_the_package() {
    let mut page = Vec::new();
    for y in 0..80 {
        for x in 0..150 {
            let sample = |k| x * 3 + y * 5 + 40 * k + ((x / 7 + y / 5) % 2) * 60;
            page.extend((0..3).map(|k: u32| sample(k).to_le_bytes()[0]));
        }
    }
    let mut cutter = Cutter::default();
    for (corners, sides, expected) in [
        ([[10, 12], [110, 12], [110, 40], [10, 40]], (100, 28), 0x2D9C_0626_5A1E_2B2D),
        ([[5, 20], [120, 5], [124, 30], [9, 46]], (116, 26), 0xA046_BCA8_B3E0_9767),
        ([[0, 0], [149, 3], [147, 79], [2, 70]], (149, 76), 0x9F55_480E_2383_72C4),
        // Upright: laid down.
        ([[30, 5], [50, 8], [44, 75], [26, 72]], (67, 20), 0xD312_87F4_21DD_4E4A),
    ] {
        let corners = corners.map(|corner: [u8; 2]| corner.map(f32::from));
        cutter.cut(&page, 150, &corners);
        let (found, line) = cutter.line();
        assert_eq!((found, checksum(line)), (sides, expected), "{corners:?}");
    }
}

/// A map with bars of text: centre, direction, half a length along it and across.
fn map(width: i32, height: i32) -> Vec<f32> {
    let bars = [
        (60, 30, 1, 0, 40, 6),
        (200, 32, 40, 1, 2400, 240),
        (100, 90, 40, -3, 3200, 280),
        (250, 120, 4, 1, 200, 28),
        (40, 180, 1, 0, 3, 25),
        (160, 180, 1, 0, 60, 8),
        (160, 220, 1, 0, 1, 1),
        (280, 200, 20, -7, 500, 190),
        (3, 120, 1, 0, 20, 4),
    ];
    let mut map = Vec::new();
    for y in 0..height {
        for x in 0..width {
            let is_text = bars.iter().any(|(cx, cy, a, b, along, across)| {
                let (u, v) = ((x - cx) * a + (y - cy) * b, (y - cy) * a - (x - cx) * b);
                u.abs() <= *along && v.abs() <= *across
            });
            let noise = u8::try_from((x * 37 + y * 101) % 50).expect("below 50");
            map.push(if is_text { 0.7 } else { 0.01 } - f32::from(noise) / 400.0);
        }
    }
    map
}

#[test]
fn boxes_are_those_of_the_package() {
    let expected = [
        [[11, 15], [110, 15], [110, 46], [11, 46]],
        [[131, 15], [270, 18], [269, 49], [130, 46]],
        [[7, 79], [190, 64], [193, 101], [10, 116]],
        [[197, 88], [312, 118], [303, 152], [188, 122]],
        [[0, 111], [29, 111], [29, 130], [0, 130]],
        [[32, 150], [49, 150], [49, 211], [32, 211]],
        [[88, 159], [233, 159], [233, 200], [88, 200]],
        [[240, 192], [306, 169], [319, 208], [254, 231]],
    ];
    let found = boxes::find(&map(320, 240), 320, &Limits::default());
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (found, expected) in found.iter().zip(expected) {
        let expected = expected.map(|corner: [i16; 2]| corner.map(f32::from));
        assert_eq!(found.corners, expected);
    }
    let mut scores: Vec<f32> = found.iter().map(|found| found.score).collect();
    scores.sort_by(f32::total_cmp);
    let expected = [0.5301, 0.5400, 0.5405, 0.5408, 0.5469, 0.5626, 0.5819, 0.5953];
    for (score, expected) in scores.into_iter().zip(expected) {
        assert!((score - expected).abs() < 2e-3, "{score}, expected {expected}");
    }
    assert!(boxes::find(&[0.0; 64], 8, &Limits::default()).is_empty());
}

fn png(color: ColorType, width: u32, height: u32, samples: &[u8]) -> LocalMsg {
    let mut file = Vec::new();
    let mut encoder = Encoder::new(&mut file, width, height);
    encoder.set_color(color);
    encoder.set_depth(BitDepth::Eight);
    encoder.write_header().and_then(|mut to| to.write_image_data(samples)).expect("encodes");
    LocalMsg::raw(&file).with_trans_id(5)
}

fn runner(function: &'static str, ports: (u32, u32)) -> flow_func::testing::LocalBuilder {
    LocalRunner::builder(ocr::flow_library(), function).inputs(ports.0).outputs(ports.1)
}

/// What `lines` sends of a page whose map is given.
fn lines_of(map: &[f32]) -> Vec<Vec<LocalMsg>> {
    let sides = |runner: flow_func::testing::LocalBuilder| {
        runner.attr("width", 320_i64).attr("height", 240_i64)
    };
    let mut page = sides(runner("page", (1, 2))).build().expect("init");
    let file = png(ColorType::Grayscale, 160, 120, &pattern(160, 120, 1));
    let made = page.run(&[&file]).expect("goes on");
    let (tensor, page) = (&made[0][0], &made[1][0]);
    assert_eq!((tensor.shape(), page.shape()), (&[1, 3, 240, 320][..], &[240, 320, 3][..]));
    let pixel = |at: usize| f32::from(page.bytes()[at]);
    let values = tensor.data::<f32>().expect("values");
    assert!((values[12_345] - (pixel(3 * 12_345) / 255.0 - 0.5) / 0.5).abs() < 1e-6);
    // The head of what the detector makes is that of its input.
    let map = LocalMsg::tensor(&[1, 1, 240, 320], map).expect("a map").with_trans_id(5);
    let mut lines = runner("lines", (2, 2)).build().expect("init");
    lines.run(&[&map.with_user_data(&tensor.user_data()), page]).expect("goes on")
}

#[test]
fn a_page_becomes_its_lines_and_they_its_text_in_order() {
    let sent = lines_of(&map(320, 240));
    assert_eq!((sent[0].len(), sent[1].len()), (8, 8));
    let mut turn = runner("turn", (2, 1)).build().expect("init");
    let mut gather = runner("gather", (1, 1)).attr("text_score", 0.5_f32).build().expect("init");
    let mut rows = Vec::new();
    for index in [3_usize, 0, 7, 6, 1, 2, 5, 4] {
        let (small, line) = (&sent[0][index], &sent[1][index]);
        assert_eq!(small.shape(), [1, 3, 48, 192]);
        assert_eq!(small.user_data(), line.user_data());
        assert_eq!(small.info().route_label as usize, index);
        let answer = |turned: f32| {
            let classes = LocalMsg::tensor(&[1, 2], &[1.0 - turned, turned]).expect("classes");
            classes.with_trans_id(5).with_user_data(&small.user_data())
        };
        let upright = turn.run(&[&answer(0.1), line]).expect("goes on")[0][0].clone();
        let turned = turn.run(&[&answer(0.95), line]).expect("goes on")[0][0].clone();
        assert_eq!(
            turn.run(&[&answer(0.89), line]).expect("goes on")[0][0].bytes(),
            upright.bytes()
        );
        check_turn(line, &upright, &turned);
        let mut bytes = (if index == 6 { 0.25_f32 } else { 0.75 }).to_le_bytes().to_vec();
        bytes.extend(format!("line {index}\twith a tab").bytes());
        let shape = [i64::try_from(bytes.len()).expect("short")];
        let text = LocalMsg::tensor(&shape, &bytes).expect("text").with_trans_id(5);
        let sent = gather.run(&[&text.with_user_data(&upright.user_data())]).expect("goes on");
        rows.extend(sent[0].iter().map(|msg| String::from_utf8(msg.bytes().to_vec())));
    }
    let [Ok(rows)] = &rows[..] else { panic!("{rows:?}") };
    let lines = gather::read(rows).expect("rows");
    let texts: Vec<&str> = lines.iter().map(|line| &line.text[..6]).collect();
    assert_eq!(texts, ["line 0", "line 1", "line 2", "line 3", "line 4", "line 5", "line 7"]);
    // The canvas is twice as large as the file.
    assert_eq!(lines[0].corners, [[5.5, 7.5], [55.0, 7.5], [55.0, 23.0], [5.5, 23.0]]);
}

/// Upright and turned are the line with the last pixel first, and nothing behind it.
fn check_turn(line: &LocalMsg, upright: &LocalMsg, turned: &LocalMsg) {
    let width = usize::try_from(line.shape()[1]).expect("positive");
    let [upright, turned] = [upright, turned].map(|msg| msg.data::<f32>().expect("values"));
    assert_eq!(upright.len(), 3 * 48 * 1024);
    for (y, x) in [(0, 0), (7, width / 2), (47, width - 1)] {
        for colour in 0..3 {
            let pixel = f32::from(line.bytes()[3 * (y * width + x) + colour]);
            let expected = (pixel / 255.0 - 0.5) / 0.5;
            let at = |y: usize, x: usize| (colour * 48 + y) * 1024 + x;
            assert_eq!(upright[at(y, x)].to_bits(), expected.to_bits());
            assert_eq!(turned[at(47 - y, width - 1 - x)].to_bits(), expected.to_bits());
            assert!(width == 1024 || upright[at(y, width)] == 0.0 && turned[at(y, width)] == 0.0);
        }
    }
}

#[test]
fn a_page_without_a_line_and_a_broken_one_end_too() {
    let sent = lines_of(&[0.1; 320 * 240]);
    assert_eq!((sent[0].len(), sent[1].len()), (1, 1));
    let none = &sent[0][0];
    assert!(none.info().is_null_data() && none.info().ret_code == 0);
    let mut turn = runner("turn", (2, 1)).build().expect("init");
    let passed = turn.run(&[none, &sent[1][0]]).expect("goes on")[0][0].clone();
    let mut gather = runner("gather", (1, 1)).build().expect("init");
    let rows = gather.run(&[&passed]).expect("goes on")[0][0].clone();
    assert_eq!(rows.bytes(), format!("{}\n", gather::HEADER).as_bytes());

    let mut page = runner("page", (1, 2)).attr("max_pixels", 100_i64).build().expect("init");
    let large = png(ColorType::Grayscale, 20, 20, &pattern(20, 20, 1));
    for (file, code) in [(large, codes::TOO_LARGE), (LocalMsg::raw(b"text"), codes::BAD_IMAGE)] {
        let sent = page.run(&[&file]).expect("goes on");
        let [tensor, page] = [&sent[0][0], &sent[1][0]];
        assert_eq!([tensor.info().ret_code, page.info().ret_code], [code; 2]);
        let mut lines = runner("lines", (2, 2)).build().expect("init");
        let sent = lines.run(&[tensor, page]).expect("goes on");
        let passed = turn.run(&[&sent[0][0], &sent[1][0]]).expect("goes on");
        let end = gather.run(&[&passed[0][0]]).expect("goes on");
        assert_eq!(end[0][0].info().ret_code, code);
        assert!(codes::text(code) != codes::text(0));
    }
}

#[test]
fn a_line_with_a_code_fails_its_page_once_and_old_pages_are_given_up() {
    let marks: Vec<[u8; 64]> =
        lines_of(&map(320, 240))[0].iter().map(LocalMsg::user_data).collect();
    let line = |id: u64, index: usize, code: i32| {
        let text = LocalMsg::tensor(&[5], b"\0\0\x80\x3Fx").expect("text");
        let msg = if code == 0 { text } else { LocalMsg::empty(code) };
        msg.with_trans_id(id).with_user_data(&marks[index])
    };
    let mut gather = runner("gather", (1, 1)).attr("max_open", 2_i64).build().expect("init");
    let mut run = |msg: LocalMsg| {
        let sent = gather.run(&[&msg]).expect("goes on");
        sent[0].iter().map(|msg| (msg.info().trans_id, msg.info().ret_code)).collect::<Vec<_>>()
    };
    for index in 0..8 {
        let expected = if index == 2 { vec![(1, 77)] } else { Vec::new() };
        assert_eq!(run(line(1, index, if index == 2 { 77 } else { 0 })), expected, "{index}");
    }
    assert_eq!((run(line(2, 0, 0)), run(line(3, 0, 0))), (vec![], vec![]));
    assert_eq!(run(line(4, 0, 0)), [(2, codes::INCOMPLETE)]);
    for index in 1..8 {
        let expected = if index == 7 { vec![(4, 0)] } else { Vec::new() };
        assert_eq!(run(line(4, index, 0)), expected);
    }
    assert!(text::read(b"abc").is_err() && text::read(b"\0\0\0\0\xFF").is_err());
}
