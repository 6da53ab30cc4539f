//! Lines there and back, cutting, filtering, limiting.

use super::*;
use proptest::prelude::*;

const STAMP: Stamp = Stamp { wall_ns: 1_798_761_599_123_456_789, mono_ns: 1_234_567_890_123 };

fn head<'a>(node: &'a str, trans_id: Option<u64>) -> Head<'a> {
    Head { stamp: STAMP, level: Level::Warn, stream: Stream::Run, node, trans_id }
}

fn text_of(line: &Line) -> &str {
    core::str::from_utf8(line.as_bytes()).unwrap()
}

#[test]
fn golden_line() {
    let line = Line::new(&head("binarise", Some(42)), format_args!("ink {} %\nnext", 7));
    assert_eq!(
        text_of(&line),
        "2026-12-31T23:59:59.123456789Z 1234.567890123 WARN run binarise 42 | ink 7 %\\nnext\n"
    );
    let line = Line::new(&head("", None), format_args!(""));
    assert_eq!(text_of(&line), "2026-12-31T23:59:59.123456789Z 1234.567890123 WARN run - - | \n");
}

#[test]
fn long_text_is_cut_at_a_character_with_a_mark() {
    let text = "ä".repeat(4000);
    let line = Line::new(&head("n", Some(1)), format_args!("{text}"));
    assert!(line.as_bytes().len() <= LINE_BYTES_MAX);
    let parsed = LogLine::parse(text_of(&line)).unwrap();
    assert_eq!(parsed.text.len() + usize::try_from(parsed.cut).unwrap(), text.len());
    assert!(parsed.cut > 0 && text.starts_with(&parsed.text));
}

#[test]
fn long_node_is_cut_and_keeps_the_text() {
    let line = Line::new(&head(&"n".repeat(9000), None), format_args!("text"));
    let parsed = LogLine::parse(text_of(&line)).unwrap();
    assert_eq!((parsed.node.len(), parsed.text.as_str(), parsed.cut), (128, "text", 0));
}

#[test]
fn a_text_cannot_forge_a_line_or_a_mark() {
    let text = "x\t[cut 3]\n2026-12-31T23:59:59.123456789Z 1.000000000 ERROR rt n - | forged";
    let line = Line::new(&head("a | b", None), format_args!("{text}"));
    assert_eq!(text_of(&line).matches('\n').count(), 1);
    let parsed = LogLine::parse(text_of(&line)).unwrap();
    assert_eq!((parsed.node.as_str(), parsed.text.as_str(), parsed.cut), ("a | b", text, 0));
}

#[test]
fn foreign_output_is_no_line() {
    for text in ["", "hello", "a | b", "1970-01-01T00:00:00.000000000Z 1.0 WARN run n 1 | x"] {
        assert_eq!(LogLine::parse(text), None, "{text:?}");
    }
}

/// Counts its writes.
#[derive(Default)]
struct Writes(Vec<String>);

impl std::io::Write for Writes {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.push(String::from_utf8_lossy(bytes).into_owned());
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn one_write_per_line_and_the_drops_at_the_end() {
    let logger = Logger::new("n", Level::Info);
    let mut out = Writes::default();
    let run = (Stream::Run, Level::Info);
    logger.log_to(&mut out, (Stream::Debug, Level::Debug), STAMP, None, format_args!("off"));
    for i in 0..500 {
        logger.log_to(&mut out, run, STAMP, Some(i), format_args!("line"));
    }
    assert_eq!(out.0.len(), 401, "the burst and one warning");
    let warning = LogLine::parse(&out.0[400]).unwrap();
    assert_eq!((warning.level, warning.stream), (Level::Warn, Stream::Runtime));
    logger.report_dropped(&mut out, STAMP);
    assert!(out.0[401].contains("0 info, 0 warn, 0 error, 100 run lines"), "{}", out.0[401]);

    logger.set_level(Level::Error);
    assert!(!logger.is_enabled(Level::Warn) && logger.is_enabled(Level::Error));
    assert_eq!(Level::from_number(3), Some(Level::Error));
    assert_eq!(Level::from_number(4), None);
}

proptest! {
    #[test]
    fn there_and_back(
        node in "\\PC{1,20}",
        text in proptest::collection::vec(any::<char>(), 0..300),
        trans_id in any::<Option<u64>>(),
        mono_ns in any::<u64>(),
        wall_ns in any::<u64>(),
    ) {
        let text: String = text.into_iter().collect();
        let stamp = Stamp { wall_ns, mono_ns };
        let head = Head { stamp, ..head(&node, trans_id) };
        let line = Line::new(&head, format_args!("{text}"));
        let parsed = LogLine::parse(text_of(&line)).unwrap();
        prop_assert_eq!(parsed.stamp, stamp);
        prop_assert_eq!(parsed.trans_id, trans_id);
        prop_assert_eq!(parsed.node, node);
        prop_assert_eq!(parsed.text, text);
    }

    #[test]
    fn any_text_parses_or_not_without_panic(text in "\\PC{0,200}", cut in 0_usize..90) {
        let line = Line::new(&head("n", None), format_args!("{text}"));
        let whole = text_of(&line);
        let cut = whole.char_indices().map(|(at, _)| at).nth(cut).unwrap_or(whole.len());
        let _parsed = (LogLine::parse(&text), LogLine::parse(&whole[..cut]));
    }
}
