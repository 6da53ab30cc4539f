//! Header and section table: where things are in a file, checked against its size and checksums.

use std::fmt;
use std::ops::Range;

use crate::aligned::{ALIGNMENT, align_up};
use crate::checksum::checksum;
use crate::program::packed::isa_name;
use crate::program::records::{HEADER_SIZE, SECTION_SIZE, u32_at, u64_at};
use crate::program::{FORMAT_VERSION, MAGIC, OmError};

/// A part of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    /// What runs, in order.
    Tasks,
    /// Types, shapes and places.
    Tensors,
    /// Which tensors tasks read.
    Operands,
    /// Parameters of ops.
    Params,
    /// Inputs and outputs.
    Io,
    /// Names.
    Strings,
    /// Constants.
    Weights,
    /// What tasks begin after, of other streams.
    Events,
}

impl Section {
    /// All of them, in file order. Each is there exactly once; files of versions before 4 have no
    /// events.
    pub const ALL: [Self; 8] = [
        Self::Tasks,
        Self::Tensors,
        Self::Operands,
        Self::Params,
        Self::Io,
        Self::Strings,
        Self::Weights,
        Self::Events,
    ];

    /// Number in the section table.
    #[must_use]
    pub const fn kind(self) -> u32 {
        // 8 is [`PACKED`].
        self as u32 + if matches!(self, Self::Events) { 2 } else { 1 }
    }
}

/// Kind of a section with weights prepared for one kind of machine.
pub(super) const PACKED: u32 = 8;

/// What a section holds.
pub(super) struct Contents<'a> {
    pub(super) kind: u32,
    /// 0: for every machine.
    pub(super) isa: u32,
    pub(super) bytes: &'a [u8],
}

/// Most entries of the section table.
const SECTIONS_MAX: usize = 64;

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tasks => "TASKS",
            Self::Tensors => "TENSORS",
            Self::Operands => "OPERANDS",
            Self::Params => "PARAMS",
            Self::Io => "IO",
            Self::Strings => "STRINGS",
            Self::Weights => "WEIGHTS",
            Self::Events => "EVENTS",
        })
    }
}

/// Where the sections of a file are, and its header's numbers.
#[derive(Clone, Debug)]
pub(super) struct Map {
    pub(super) arena_bytes: usize,
    places: Places,
    /// Sections for one kind of machine each: `isa` and place.
    pub(super) packed: Packed,
}

type Places = [Range<usize>; Section::ALL.len()];
type Packed = Vec<(u32, Range<usize>)>;

impl Map {
    /// Place of a section in the file.
    pub(super) fn of(&self, section: Section) -> Range<usize> {
        self.places[section as usize].clone()
    }

    /// Reads and checks header, section table and all checksums.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, OmError> {
        let header = bytes.get(..HEADER_SIZE).ok_or(OmError::Truncated {
            what: "header",
            found: bytes.len(),
            expected: HEADER_SIZE,
        })?;
        if header[..8] != MAGIC {
            return Err(OmError::Magic);
        }
        let version = u32_at(header, 8);
        if version > FORMAT_VERSION {
            return Err(OmError::Newer { found: version });
        }
        if version == 0 {
            return Err(OmError::Header("format version 0".to_owned()));
        }
        let count = size(u64::from(u32_at(header, 12)));
        if count > SECTIONS_MAX {
            let what = format!("{count} sections; at most {SECTIONS_MAX}");
            return Err(OmError::Header(what));
        }
        let table_end = HEADER_SIZE + count * SECTION_SIZE;
        let short = |what, expected| OmError::Truncated { what, found: bytes.len(), expected };
        let table =
            bytes.get(HEADER_SIZE..table_end).ok_or_else(|| short("section table", table_end))?;
        if header_checksum(header, table) != u64_at(header, 56) {
            return Err(OmError::Checksum { section: None });
        }
        let expected = size(u64_at(header, 16));
        if bytes.len() < expected {
            return Err(short("sections", expected));
        }
        if bytes.len() > expected {
            let what = format!("{} bytes behind the end", bytes.len() - expected);
            return Err(OmError::Header(what));
        }
        if header[32..56].iter().any(|byte| *byte != 0) {
            return Err(OmError::Header("reserved bytes are not zero".to_owned()));
        }
        let arena_bytes = size(u64_at(header, 24));
        let (places, packed) = sections(bytes, table, table_end, version)?;
        Ok(Self { arena_bytes, places, packed })
    }
}

/// Checksum of a header, without its own field, and the section table.
pub(super) fn header_checksum(header: &[u8], table: &[u8]) -> u64 {
    checksum(&[&header[..56], &[0; 8], table].concat())
}

fn sections(
    bytes: &[u8],
    table: &[u8],
    table_end: usize,
    version: u32,
) -> Result<(Places, Packed), OmError> {
    let mut places: [Option<Range<usize>>; Section::ALL.len()] = Default::default();
    let mut packed = Packed::new();
    let mut end = table_end;
    for (index, entry) in table.chunks_exact(SECTION_SIZE).enumerate() {
        let refuse = |what: String| Err(OmError::Header(format!("section {index}: {what}")));
        let (kind, isa) = (u32_at(entry, 0), u32_at(entry, 4));
        let section = Section::ALL.into_iter().find(|section| section.kind() == kind);
        if !(section.is_some() && isa == 0 || kind == PACKED && isa != 0) {
            return refuse(format!("kind {kind} for isa {isa} is unknown"));
        }
        let (offset, length) = (size(u64_at(entry, 8)), size(u64_at(entry, 16)));
        let place = offset..offset.saturating_add(length);
        if offset != align_up(end) || place.end > bytes.len() {
            let (from, to) = (align_up(end), bytes.len());
            return refuse(format!("bytes {place:?}; expected to begin at {from}, end by {to}"));
        }
        // What lies between sections is in no checksum, so it has to be zero.
        if bytes[end..offset].iter().any(|byte| *byte != 0) {
            return refuse("bytes before it are not zero".to_owned());
        }
        end = place.end;
        if checksum(&bytes[place.clone()]) != u64_at(entry, 24) {
            let damaged = "damaged (checksum)".to_owned();
            return Err(match section {
                None => OmError::packed(isa, None, damaged),
                section => OmError::Checksum { section },
            });
        }
        let Some(section) = section else {
            if packed.iter().any(|(other, _)| *other == isa) {
                return refuse(format!("PACKED for isa {} is there twice", isa_name(isa)));
            }
            packed.push((isa, place));
            continue;
        };
        if places[section as usize].replace(place).is_some() {
            return refuse(format!("{section} is there twice"));
        }
    }
    if align_up(end) != bytes.len() || bytes[end..].iter().any(|byte| *byte != 0) {
        let what = format!("{} bytes behind the last section, {end}", bytes.len() - end);
        return Err(OmError::Header(what));
    }
    let mut own = Places::default();
    for (section, place) in Section::ALL.into_iter().zip(places) {
        let none = (section == Section::Events && version < 4).then_some(0..0);
        let absent = || OmError::Header(format!("section {section} is not there"));
        own[section as usize] = place.or(none).ok_or_else(absent)?;
    }
    Ok((own, packed))
}

/// A number of the file as a size of this machine; what is too large is larger than any file.
pub(super) fn size(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

const _: () = assert!(HEADER_SIZE == ALIGNMENT, "the section table begins at a multiple of 64");
