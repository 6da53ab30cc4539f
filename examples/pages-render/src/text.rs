//! Words to fill pages with, and the random numbers that choose them.

/// SplitMix64: small, and the same everywhere.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x1234_5678_9ABC_DEF0)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit` (at most 2³²).
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        ((self.next() >> 32) * limit) >> 32
    }
}

const WORDS: &[&str] = &[
    "harbour", "a", "letter", "the", "quiet", "of", "engine", "between", "river", "and", "paper",
    "in", "morning", "every", "signal", "under", "stone", "copies", "without", "ink", "to",
    "measure", "light", "queue", "margin", "slowly", "page", "turned", "by", "hand", "winter",
    "archive", "on", "glass", "seven", "early", "printed", "column", "faded", "line", "is", "kept",
    "watch", "northern", "for", "years", "Johannes", "Über", "Café", "1987", "200",
];

/// One paragraph line at a time: the next word.
pub(crate) fn word(random: &mut Random) -> &'static str {
    let index = random.below(WORDS.len() as u64);
    WORDS[usize::try_from(index).unwrap_or(0)]
}
