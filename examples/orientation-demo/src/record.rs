//! What the flow's last function sends of a page: 32 bytes, little-endian.
//!
//! ```text
//! off size meaning
//!   0    4 index of the class, i32; negative when a probability was no number
//!   4    4 its probability, f32
//!   8   24 its label, UTF-8, filled up with zero bytes
//! ```

/// Bytes of a record.
pub const LEN: usize = 32;

/// Label and confidence of a record.
///
/// # Errors
/// What was found instead.
pub fn read(bytes: &[u8]) -> Result<(String, f64), String> {
    let record: &[u8; LEN] = bytes
        .try_into()
        .map_err(|_| format!("{} bytes, expected a record of {LEN}", bytes.len()))?;
    let (numbers, text) = record.as_chunks::<4>().0.split_at(2);
    let (index, confidence) = (i32::from_le_bytes(numbers[0]), f32::from_le_bytes(numbers[1]));
    if index < 0 {
        return Err("a probability is no number".to_owned());
    }
    let text = text.as_flattened();
    let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
    match std::str::from_utf8(&text[..end]) {
        Ok(label) if !label.is_empty() => Ok((label.to_owned(), confidence.into())),
        _ => Err("a record without a label".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_a_label_or_a_reason() {
        let record = |index: i32, label: &str| {
            let mut bytes = [index.to_le_bytes(), 0.75_f32.to_le_bytes()].concat();
            bytes.extend(label.bytes());
            bytes.resize(LEN, 0);
            bytes
        };
        assert_eq!(read(&record(2, "180")), Ok(("180".to_owned(), 0.75)));
        let long = "a label of 24 byte, full";
        assert_eq!(read(&record(0, long)), Ok((long.to_owned(), 0.75)));
        assert!(read(&record(-1, "")).expect_err("no number").contains("no number"));
        assert!(read(&record(1, "")).expect_err("no label").contains("without a label"));
        assert!(read(&[0; 31]).expect_err("short").starts_with("31 bytes"));
    }
}
