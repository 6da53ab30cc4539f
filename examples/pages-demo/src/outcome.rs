//! How a page ended: a record of numbers, or a code.

use dflow::{Event, Failure};
use pages::Measure;

/// How a page ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outcome {
    /// Bytes of the record that the last function sent.
    Row(Vec<u8>),
    /// A code instead.
    Coded {
        /// The code.
        code: i32,
        /// Node it came from, where known.
        node: Option<String>,
        /// What it means.
        reason: String,
    },
}

impl Outcome {
    /// A code, explained.
    pub(crate) fn coded(code: i32, node: Option<String>, reason: &str) -> Outcome {
        let own = (9_900_000..=9_999_999).contains(&code);
        let reason = if own { pages::codes::text(code) } else { reason };
        Outcome::Coded { code, node, reason: reason.to_owned() }
    }

    /// What was fetched.
    pub(crate) fn of(event: &Event) -> Outcome {
        match &event.outcome {
            Ok(output) if output.is_null() => Outcome::coded(0, None, "a message without data"),
            Ok(output) => Outcome::Row(output.bytes().to_vec()),
            Err(Failure { code, node, reason }) => {
                Outcome::coded(i32::try_from(code.0).unwrap_or(i32::MAX), node.clone(), reason)
            }
        }
    }

    /// The same bytes, or the same code.
    pub(crate) fn agrees(&self, other: &Outcome) -> bool {
        match (self, other) {
            (Outcome::Row(one), Outcome::Row(two)) => one == two,
            (Outcome::Coded { code: one, .. }, Outcome::Coded { code: two, .. }) => one == two,
            _ => false,
        }
    }

    /// The numbers of a record.
    pub(crate) fn measure(&self) -> Option<Measure> {
        let Outcome::Row(bytes) = self else { return None };
        let (values, rest) = bytes.as_chunks::<8>();
        let values: Vec<f64> = values.iter().map(|bytes| f64::from_ne_bytes(*bytes)).collect();
        if rest.is_empty() { Measure::from_record(&values) } else { None }
    }

    /// One line about what went wrong.
    pub(crate) fn text(&self) -> String {
        match self {
            Outcome::Row(bytes) if self.measure().is_none() => {
                format!("{} bytes that are no record", bytes.len())
            }
            Outcome::Row(_) => "a record".to_owned(),
            Outcome::Coded { code, node: Some(node), reason } => {
                format!("{node}: {reason} [{code}]")
            }
            Outcome::Coded { code, node: None, reason } => format!("{reason} [{code}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_compared_bit_for_bit() {
        let measure =
            Measure { width: 20, height: 30, checksum: u64::MAX - 5, ..Measure::default() };
        let bytes: Vec<u8> = measure.to_record().iter().flat_map(|v| v.to_ne_bytes()).collect();
        let row = Outcome::Row(bytes.clone());
        assert_eq!(row.measure(), Some(measure));
        assert!(row.agrees(&Outcome::Row(bytes.clone())));
        let mut other = bytes;
        other[95] ^= 1;
        assert!(!row.agrees(&Outcome::Row(other)));
        let coded = Outcome::coded(pages::codes::BAD_IMAGE, Some("decode".to_owned()), "");
        assert!(coded.agrees(&Outcome::coded(pages::codes::BAD_IMAGE, None, "")));
        assert!(!coded.agrees(&row) && !row.agrees(&coded));
        assert_eq!(coded.text(), "decode: not a readable PNG or JPEG file [9900001]");
    }
}
