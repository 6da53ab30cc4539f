//! A walk over protobuf wire bytes that builds nothing.
//!
//! WHY: an empty sub-message is two bytes on the wire and several hundred in memory, so a hostile
//! message far below the size limit could ask for gigabytes. Counting the large repeated fields
//! first costs one pass and bounds what the real decoder can allocate.

/// The bytes are no protobuf message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// How often the field at `path` (field numbers from the outside in) occurs in `bytes`.
///
/// # Errors
/// [`Malformed`] for bytes that end inside a field or use a wire type that proto3 does not have.
pub fn count(bytes: &[u8], path: &[u32]) -> Result<usize, Malformed> {
    let Some((first, rest)) = path.split_first() else { return Ok(1) };
    let mut left = bytes;
    let mut found = 0_usize;
    while !left.is_empty() {
        let (number, content) = field(&mut left)?;
        if number == u64::from(*first) {
            found = found.saturating_add(match content {
                Some(inner) => count(inner, rest)?,
                None => usize::from(rest.is_empty()),
            });
        }
    }
    Ok(found)
}

/// Takes one field off `left`: its number, and its content if it is length-delimited.
fn field<'a>(left: &mut &'a [u8]) -> Result<(u64, Option<&'a [u8]>), Malformed> {
    let key = varint(left)?;
    let number = key >> 3;
    let content = match key & 7 {
        0 => {
            varint(left)?;
            None
        }
        1 => {
            take(left, 8)?;
            None
        }
        2 => {
            let len = varint(left)?;
            Some(take(left, len)?)
        }
        5 => {
            take(left, 4)?;
            None
        }
        _ => return Err(Malformed),
    };
    Ok((number, content))
}

fn take<'a>(left: &mut &'a [u8], len: u64) -> Result<&'a [u8], Malformed> {
    let len = usize::try_from(len).map_err(|_| Malformed)?;
    let (taken, rest) = left.split_at_checked(len).ok_or(Malformed)?;
    *left = rest;
    Ok(taken)
}

fn varint(left: &mut &[u8]) -> Result<u64, Malformed> {
    let mut value = 0_u64;
    for shift in (0..70).step_by(7) {
        let (byte, rest) = left.split_first().ok_or(Malformed)?;
        *left = rest;
        if shift < 64 {
            value |= u64::from(byte & 0x7f) << shift;
        }
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Malformed)
}

#[cfg(test)]
mod tests {
    use super::{Malformed, count};

    #[test]
    fn counts_nested_fields() {
        // 2 { 5 {} 5 {} 7: 1 } 2 { 5 {} } 10: 3
        let bytes = [0x12, 6, 0x2a, 0, 0x2a, 0, 0x38, 1, 0x12, 2, 0x2a, 0, 0x50, 3];
        assert_eq!(count(&bytes, &[2]), Ok(2));
        assert_eq!(count(&bytes, &[2, 5]), Ok(3));
        assert_eq!(count(&bytes, &[10]), Ok(1));
        assert_eq!(count(&bytes, &[9]), Ok(0));
        assert_eq!(count(&[], &[2]), Ok(0));
    }

    #[test]
    fn refuses_what_ends_early() {
        assert_eq!(count(&[0x12, 6, 0], &[2]), Err(Malformed));
        assert_eq!(count(&[0x12], &[2]), Err(Malformed));
        assert_eq!(count(&[0x13], &[2]), Err(Malformed), "groups are not proto3");
        assert_eq!(count(&[0xff; 11], &[2]), Err(Malformed), "a varint has at most ten bytes");
        assert_eq!(count(&[0x09, 1, 2], &[2]), Err(Malformed));
    }
}
