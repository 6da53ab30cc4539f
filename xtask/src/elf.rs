//! As much of ELF as a size check needs: the writable part of an executable.

/// Bytes of the writable load segments of a 64-bit little-endian ELF file (its .data and .bss,
/// with what is read-only after relocation), or what is wrong with it.
pub(crate) fn writable_bytes(file: &[u8]) -> Result<u64, String> {
    const LOAD: u32 = 1;
    const WRITABLE: u32 = 2;
    if file.get(..6) != Some(&[0x7f, b'E', b'L', b'F', 2, 1]) {
        return Err("not a 64-bit little-endian ELF file".to_owned());
    }
    let table = number::<8>(file, 32)?;
    let (entry_size, count) = (number::<2>(file, 54)?, number::<2>(file, 56)?);
    let mut bytes = 0;
    for index in 0..count {
        let entry = table + index * entry_size;
        let (kind, flags) = (number::<4>(file, entry)?, number::<4>(file, entry + 4)?);
        if kind == u64::from(LOAD) && flags & u64::from(WRITABLE) != 0 {
            bytes += number::<8>(file, entry + 40)?;
        }
    }
    Ok(bytes)
}

fn number<const WIDTH: usize>(file: &[u8], offset: u64) -> Result<u64, String> {
    let start = usize::try_from(offset).map_err(|error| error.to_string())?;
    let field = file.get(start..start.saturating_add(WIDTH)).ok_or("the ELF file is cut short")?;
    Ok(field.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_this_very_program() {
        let file = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let bytes = writable_bytes(&file).unwrap();
        assert!(bytes > 0 && bytes < 64 << 20, "{bytes}");
    }

    #[test]
    fn refuses_other_files() {
        assert!(writable_bytes(b"#!/bin/sh").is_err());
        assert!(writable_bytes(&[0x7f, b'E', b'L', b'F', 2, 1, 1]).unwrap_err().contains("short"));
    }
}
