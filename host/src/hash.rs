//! Names of things that are kept by their content.

use std::fmt;

/// FNV-1a over 128 bits; each piece is told apart from its neighbours by its length.
#[derive(Debug)]
pub(crate) struct Hash(u128);

impl Hash {
    /// Of nothing.
    pub(crate) fn new() -> Self {
        Self(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }

    /// Adds a piece.
    pub(crate) fn add(&mut self, piece: &[u8]) {
        for byte in (piece.len() as u64).to_le_bytes().iter().chain(piece) {
            self.0 = (self.0 ^ u128::from(*byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b);
        }
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Hash;

    #[test]
    fn pieces_are_told_apart() {
        let of = |pieces: &[&str]| {
            let mut hash = Hash::new();
            pieces.iter().for_each(|piece| hash.add(piece.as_bytes()));
            hash.0
        };
        assert_eq!(of(&["a", "bc"]), of(&["a", "bc"]));
        assert_ne!(of(&["a", "bc"]), of(&["ab", "c"]));
        assert_ne!(of(&["a"]), of(&["a", ""]));
        assert_ne!(of(&["a"]), of(&["b"]));
    }
}
