//! Whether all of a model's file is there: its outermost fields are walked, and the one that leads
//! beyond the end is named. Looked at only once decoding has failed.

/// Numbers and names of the outermost fields that may be long.
pub(crate) type Fields = [(u64, &'static str); 3];

/// Those of an ONNX model.
pub(crate) const MODEL_PROTO: Fields = [(7, "graph"), (14, "metadata_props"), (25, "functions")];

/// Those of a graph of TensorFlow.
pub(crate) const GRAPH_DEF: Fields = [(1, "node"), (2, "library"), (4, "versions")];

/// What is missing of a file that ends too early; `None` of one that is whole, or no such file.
pub(crate) fn cut_short(file: &[u8], fields: &Fields) -> Option<String> {
    let mut rest = file;
    while !rest.is_empty() {
        let at = file.len() - rest.len();
        let cut =
            |what: &str| format!("truncated: the file ends in {what}, at byte {}", file.len());
        let Some(key) = varint(&mut rest) else {
            return (rest.len() < VARINT_MAX).then(|| cut("the number of a field"));
        };
        let (number, kind) = (key >> 3, key & 7);
        let name = fields.iter().find(|(own, _)| *own == number).map(|(_, name)| *name);
        let name = name.map_or(format!("field {number}"), |name| format!("field `{name}`"));
        let length = match kind {
            0 => {
                if varint(&mut rest).is_none() {
                    return (rest.len() < VARINT_MAX).then(|| cut(&name));
                }
                0
            }
            1 => 8,
            2 => match varint(&mut rest) {
                Some(length) => length,
                None => return (rest.len() < VARINT_MAX).then(|| cut(&name)),
            },
            5 => 4,
            _ => return None,
        };
        let there = rest.len();
        rest = match usize::try_from(length).ok().and_then(|length| rest.get(length..)) {
            Some(behind) => behind,
            None => {
                return Some(format!(
                    "truncated: {name} at byte {at} has {length} bytes, and {there} are there"
                ));
            }
        };
    }
    None
}

/// Bytes of the longest number.
const VARINT_MAX: usize = 10;

/// A number in groups of seven bits; `None` when it does not end, and nothing is taken then.
fn varint(from: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for (index, byte) in from.iter().take(VARINT_MAX).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            *from = &from[index + 1..];
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{D, Draft, FLOAT, noise};

    #[test]
    fn every_cut_of_a_model_is_named() {
        let own = Draft::new(13)
            .input("x", FLOAT, &[D::N(1), D::N(3)])
            .floats("w", &[3, 100], &noise(300, 1))
            .node("MatMul", &["x", "w"], "y")
            .output("y", FLOAT, None);
        let bytes = own.bytes();
        assert_eq!(cut_short(&bytes, &MODEL_PROTO), None);
        for end in 1..bytes.len() {
            let error = crate::import(bytes.slice(..end)).err().map(|error| error.to_string());
            let Some(error) = error else { continue };
            // Cut between two fields, a file is one of fewer fields.
            let between = ["there is no graph", "no opset"].iter().any(|own| error.contains(own));
            assert!(between || error.contains("truncated: "), "{end} of {}: {error}", bytes.len());
        }
        let error = crate::import(bytes.slice(..bytes.len() / 2)).unwrap_err().to_string();
        assert!(error.contains("field `graph` at byte "), "{error}");
        assert!(error.contains(" bytes, and "), "{error}");
    }

    #[test]
    fn what_is_no_model_is_not_called_cut() {
        for other in [&b"no model"[..], &[0xff; 40], b"\x0b", &[0x08, 0x80, 0x80, 0x01]] {
            assert_eq!(cut_short(other, &MODEL_PROTO), None, "{other:?}");
        }
    }
}
