//! A hostile function: it writes random words into every shared page that its process can write.
//!
//! Attributes: `seed`, `from` (id from which it scribbles), `words` (a call), `part`: the shared
//! section (`shared`), its own private part (`private`), its own partition (`partition`), or `all`.
//! Its output is a copy, so that messages of its partition are under way.
#![allow(unsafe_code, reason = "scribbling is the point")]

use flow_func::{Context, FlowFunc, InitContext, Msg, Result, codes};

/// See the module.
#[derive(Default)]
pub(crate) struct Scribble {
    state: u64,
    from: u64,
    words: u64,
    ranges: Vec<(usize, usize)>,
}

impl Scribble {
    fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    fn write_some(&mut self) {
        let total: u64 = self.ranges.iter().map(|(start, end)| (end - start) as u64 / 8).sum();
        if total == 0 {
            return;
        }
        for _ in 0..self.words {
            let mut at = self.next() % total;
            // Small values and single bits hit more checks than noise does.
            let value = match self.next() % 4 {
                0 => self.next(),
                1 => self.next() % 64,
                2 => 1 << (self.next() % 64),
                _ => 0,
            };
            for (start, end) in &self.ranges {
                let words = (end - start) as u64 / 8;
                if at < words {
                    let word = start + usize::try_from(at).unwrap_or(0) * 8;
                    // SAFETY: inside a mapping that /proc/self/maps called writable; the damage is
                    // intended.
                    unsafe {
                        core::ptr::with_exposed_provenance_mut::<u64>(word).write_volatile(value)
                    };
                    break;
                }
                at -= words;
            }
        }
    }
}

/// Writable mappings of the memory file `name`, in the order of their addresses.
fn writable(name: &str) -> Vec<(usize, usize)> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let lines = maps.lines().filter(|line| line.contains("rw-s") && line.contains(name));
    lines
        .filter_map(|line| {
            let (start, rest) = line.split_once('-')?;
            let (end, _) = rest.split_once(' ')?;
            Some((usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?))
        })
        .collect()
}

/// The places of a part. Of the control segment an executor can write the shared section and,
/// behind it, its private part.
fn places(part: &str) -> Result<Vec<(usize, usize)>> {
    let mut control = writable("dflow-control");
    let mut arena = writable("dflow-arena");
    if control.len() != 2 || arena.is_empty() {
        return Err(codes::FAILED);
    }
    match part {
        "shared" => control.truncate(1),
        "private" => drop(control.remove(0)),
        "partition" => return Ok(arena),
        "all" => control.append(&mut arena),
        _ => return Err(codes::PARAM_INVALID),
    }
    Ok(control)
}

impl FlowFunc for Scribble {
    fn init(&mut self, ctx: &InitContext<'_>) -> Result {
        let number = |name, default| -> Result<u64> {
            let value: i64 = ctx.attr_or(name, default)?;
            u64::try_from(value).map_err(|_| codes::PARAM_INVALID)
        };
        self.state = number("seed", 1)?.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        self.from = number("from", 0)?;
        self.words = number("words", 8)?;
        self.ranges = places(ctx.attr_or("part", "all")?)?;
        Ok(())
    }

    fn proc(&mut self, ctx: &mut Context<'_>, inputs: &[Msg<'_>]) -> Result {
        let [input] = inputs else { return Err(codes::PARAM_INVALID) };
        if input.trans_id() >= self.from {
            self.write_some();
        }
        crate::pass(ctx, input)
    }
}

/// Writes one word of the shared section: `value` at byte `offset`, at id `at`; else as `forward`.
#[derive(Default)]
pub(crate) struct Poke {
    at: u64,
    offset: usize,
    value: u64,
    start: usize,
}

impl FlowFunc for Poke {
    fn init(&mut self, ctx: &InitContext<'_>) -> Result {
        self.at = ctx.attr::<i64>("at")?.cast_unsigned();
        self.value = ctx.attr::<i64>("value")?.cast_unsigned();
        let offset: i64 = ctx.attr("offset")?;
        self.offset = usize::try_from(offset).map_err(|_| codes::PARAM_INVALID)?;
        let shared = places("shared")?;
        let (start, end) = shared.first().copied().ok_or(codes::FAILED)?;
        self.start = start;
        if self.offset.is_multiple_of(8) && self.offset < end - start {
            Ok(())
        } else {
            Err(codes::PARAM_INVALID)
        }
    }

    fn proc(&mut self, ctx: &mut Context<'_>, inputs: &[Msg<'_>]) -> Result {
        let [input] = inputs else { return Err(codes::PARAM_INVALID) };
        ctx.set_output(0, input)?;
        if input.trans_id() == self.at {
            let word = core::ptr::with_exposed_provenance_mut::<u64>(self.start + self.offset);
            // SAFETY: inside the section (`init`); the damage is intended.
            unsafe { word.write_volatile(self.value) };
        }
        Ok(())
    }
}
