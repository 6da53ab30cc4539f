//! The characters that a recogniser knows: class 0 is the blank, then those of the model's
//! metadata, one a line, then a space.

use std::path::Path;

/// Characters in the order of classes, without the blank.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Characters(Vec<String>);

/// Field numbers of an ONNX file: `ModelProto.metadata_props`, and key and value of one.
const METADATA: u64 = 14;
const KEY: u64 = 1;
const VALUE: u64 = 2;

impl Characters {
    /// Reads those of an ONNX file.
    ///
    /// # Errors
    /// What is wrong with the file, in words.
    pub fn read(model: &Path) -> Result<Self, String> {
        let file = std::fs::read(model).map_err(|error| error.to_string())?;
        Self::of_model(&file)
    }

    fn of_model(file: &[u8]) -> Result<Self, String> {
        let mut fields = Fields(file);
        while let Some((number, bytes)) = fields.next_bytes()? {
            if number != METADATA {
                continue;
            }
            let (mut key, mut value, mut entry) = (&[][..], &[][..], Fields(bytes));
            while let Some((number, bytes)) = entry.next_bytes()? {
                match number {
                    KEY => key = bytes,
                    VALUE => value = bytes,
                    _ => {}
                }
            }
            if key == b"character" {
                let text = std::str::from_utf8(value).map_err(|error| error.to_string())?;
                return Ok(Self::of_list(text));
            }
        }
        Err("no `character` in the model's metadata".to_owned())
    }

    /// Those of a list, one a line.
    #[must_use]
    pub fn of_list(text: &str) -> Self {
        Characters(text.lines().chain([" "]).map(str::to_owned).collect())
    }

    /// Number of classes, the blank included.
    #[must_use]
    pub fn classes(&self) -> i64 {
        crate::to_i64(self.0.len() + 1)
    }

    /// Writes the characters of a line and returns how sure they are on average.
    pub fn decode(&self, values: &[f32], line: &mut String) -> f32 {
        line.clear();
        let (mut last, mut sum, mut count) = (0, 0.0, 0_u32);
        for column in values.chunks_exact(self.0.len() + 1) {
            let (class, value) = best(column);
            if class != last && class != 0 {
                line.push_str(&self.0[class - 1]);
                sum += f64::from(value);
                count += 1;
            }
            last = class;
        }
        #[expect(clippy::cast_possible_truncation, reason = "rounded once")]
        let mean = (sum / f64::from(count.max(1))) as f32;
        mean
    }
}

/// The first largest value.
fn best(column: &[f32]) -> (usize, f32) {
    let first = (0, column.first().copied().unwrap_or(0.0));
    column
        .iter()
        .copied()
        .enumerate()
        .fold(first, |best, one| if one.1 > best.1 { one } else { best })
}

/// Fields of a protobuf message that are bytes; others are passed over.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn next_bytes(&mut self) -> Result<Option<(u64, &'a [u8])>, String> {
        while !self.0.is_empty() {
            let tag = self.number()?;
            let skipped = match tag & 7 {
                0 => self.number().map(|_| 0)?,
                1 => 8,
                2 => {
                    let size = self.number()?;
                    return Ok(Some((tag >> 3, self.take(size)?)));
                }
                5 => 4,
                other => return Err(format!("no ONNX file: wire type {other}")),
            };
            self.take(skipped)?;
        }
        Ok(None)
    }

    fn number(&mut self) -> Result<u64, String> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            value |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("no ONNX file: a number without an end".to_owned())
    }

    fn take(&mut self, size: u64) -> Result<&'a [u8], String> {
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        let (taken, rest) = self.0.split_at_checked(size).ok_or("no ONNX file, or a cut one")?;
        self.0 = rest;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Probabilities whose best class in each column is given.
    fn columns(classes: &[usize], count: usize) -> Vec<f32> {
        let column = |class: usize| (0..count).map(move |at| if at == class { 0.75 } else { 0.0 });
        classes.iter().flat_map(|class| column(*class)).collect()
    }

    #[test]
    fn repetitions_count_once_and_a_blank_parts_them() {
        let characters = Characters::of_list("a\nb\n漢");
        assert_eq!(characters.classes(), 5);
        let mut line = String::new();
        for (classes, text) in [
            (&[0, 1, 1, 0, 1, 2, 2, 4, 3, 3, 0][..], "aab 漢"),
            (&[4, 4, 4], " "),
            (&[0, 0], ""),
            (&[], ""),
        ] {
            let confidence = characters.decode(&columns(classes, 5), &mut line);
            let expected = if text.is_empty() { 0.0 } else { 0.75 };
            assert_eq!((line.as_str(), confidence), (text, expected));
        }
        let values = [0.1, 0.4, 0.4, 0.1, 0.0, 0.2, 0.1, 0.1, 0.1, 0.5];
        assert!((characters.decode(&values, &mut line) - 0.45).abs() < 1e-6);
        assert_eq!(line, "a ", "the first of equal ones");
    }

    #[test]
    fn characters_are_found_in_the_metadata() {
        let field = |number: u8, bytes: &[u8]| {
            let mut field = vec![number << 3 | 2, u8::try_from(bytes.len()).expect("short")];
            field.extend(bytes);
            field
        };
        let entry = |key: &str, value: &str| {
            field(14, &[field(1, key.as_bytes()), field(2, value.as_bytes())].concat())
        };
        // ir_version 7, a graph, then two entries.
        let file = [vec![8, 7], field(7, b"graph"), entry("a", "b"), entry("character", "x\ny")];
        let file = file.concat();
        let found = Characters::of_model(&file).expect("there");
        assert_eq!(found, Characters::of_list("x\ny"));
        for (cut, reason) in [(file.len() - 1, "cut"), (9, "no `character`")] {
            let error = Characters::of_model(&file[..cut]).expect_err("refused");
            assert!(error.contains(reason), "{error}");
        }
        assert!(Characters::of_model(b"\xFF").is_err());
        assert!(Characters::of_model(b"\x0F").is_err());
    }
}
