//! Weights in the layout of one kind of machine, beside those that every machine reads: PACKED
//! sections, and packing once at load where a file has none.
//!
//! A section begins with the number of its entries (u32, then u32 zero) and 24 bytes for each, in
//! the order of tasks: task u32, zero u32, offset u64, size u64 (as the task's op says). Weights
//! begin at multiples of 64, one behind another.
//!
//! What is packed says the same as the weights that it is made of: [`super::Om::open`] checks where
//! it lies, not its values, and a run reads it inside of its memory whatever they are.

use std::ops::Range;

use crate::aligned::{AlignedBytes, align_up};
use crate::isa;
use crate::ops::blocked::Fours;
use crate::program::open::{Om, Task};
use crate::program::records::{u32_at, u64_at};
use crate::program::section::{Contents, PACKED, size};
use crate::program::{OmError, Place, Section, write};
use crate::tensor::TensorInfo;

/// Layouts of the weights of quantised layers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layout {
    /// Pairs of 16 bits, in WEIGHTS: what every machine reads.
    #[default]
    Pairs,
    /// Fours of bytes, for machines with VNNI; as far as weights have no more than eight bits.
    Fours,
}

/// `isa` of a PACKED section with fours.
pub(super) const FOURS: u32 = 1;

/// Bytes before the entries of a section, and of an entry.
const HEAD: usize = 8;
const ENTRY: usize = 24;

impl Layout {
    /// What this machine reads best.
    #[must_use]
    pub fn native() -> Self {
        if isa::has_vnni(isa::best()) { Self::Fours } else { Self::Pairs }
    }
}

/// Name of the machines that a section of this number is for.
pub(super) fn isa_name(isa: u32) -> String {
    match isa {
        0 => "any".to_owned(),
        FOURS => "vnni".to_owned(),
        other => format!("{other} (unknown)"),
    }
}

/// Where the fours of tasks lie.
#[derive(Debug, Default)]
pub(super) struct Chosen {
    /// Of each task, in `own` or, without that, in the file; no task where there are none.
    places: Vec<Option<Range<usize>>>,
    own: Option<AlignedBytes>,
}

impl Chosen {
    /// The fours of a task.
    pub(super) fn of<'a>(&'a self, file: &'a [u8], task: usize) -> Option<&'a [u8]> {
        let place = self.places.get(task)?.clone()?;
        self.own.as_deref().unwrap_or(file).get(place)
    }

    /// Bytes that were packed at load.
    pub(super) fn own_bytes(&self) -> usize {
        self.own.as_deref().map_or(0, <[u8]>::len)
    }
}

/// How the weights of a task can be packed, and the tensor; its values may still not fit.
fn fours<B: AsRef<[u8]>>(om: &Om<B>, task: &Task) -> Option<(Fours, Range<usize>)> {
    let tensor = &om.tensors()[*task.operands.get(1)?];
    let Place::Weights(offset) = tensor.place else { return None };
    let infos: Vec<TensorInfo> =
        task.operands.iter().map(|operand| om.tensors()[*operand].info).collect();
    Some((task.op.fours(&infos)?, offset..offset + tensor.bytes))
}

/// Packs the weights of all tasks that can be. A file may name the same weights as often as it
/// likes: beyond twice its weights, nothing more is packed.
pub(super) fn pack<B: AsRef<[u8]>>(om: &Om<B>) -> Chosen {
    let weights = om.weights();
    let (mut places, mut all, mut end) = (Vec::new(), Vec::new(), 0);
    for task in om.tasks() {
        let own = fours(om, task).and_then(|(fours, from)| {
            let place = end..fours.bytes().checked_add(end)?;
            let pairs = weights.get(from).filter(|pairs| fours.fits(pairs))?;
            (align_up(place.end) <= 2 * weights.len()).then_some((fours, pairs, place))
        });
        places.push(own.as_ref().map(|(.., place)| place.clone()));
        if let Some((fours, pairs, place)) = own {
            end = align_up(place.end);
            all.push((fours, pairs, place));
        }
    }
    // Without memory for it, weights stay as they are.
    let Ok(mut own) = AlignedBytes::try_zeroed(end) else { return Chosen::default() };
    for (fours, pairs, place) in all {
        fours.pack(pairs, &mut own[place]);
    }
    Chosen { places, own: Some(own) }
}

/// The places of a section's weights in the file, after everything was checked.
pub(super) fn read<B: AsRef<[u8]>>(
    om: &Om<B>,
    file: &[u8],
    section: &Range<usize>,
) -> Result<Chosen, OmError> {
    let bytes = &file[section.clone()];
    let refuse = |entry: usize, what: String| Err(OmError::packed(FOURS, Some(entry), what));
    let head = bytes.get(..HEAD).filter(|head| u32_at(head, 4) == 0);
    let count = head.map_or(usize::MAX, |head| size(u64::from(u32_at(head, 0))));
    let index = count.checked_mul(ENTRY).and_then(|size| bytes.get(HEAD..)?.get(..size));
    let Some(index) = index else {
        let what = format!("{} bytes are no index of {count} entries", bytes.len());
        return Err(OmError::packed(FOURS, None, what));
    };
    let mut places = vec![None; om.tasks().len()];
    let (mut end, mut next) = (HEAD + index.len(), 0);
    for (entry, record) in index.chunks_exact(ENTRY).enumerate() {
        let task = size(u64::from(u32_at(record, 0)));
        let tasks = om.tasks();
        if task < next || task >= tasks.len() || u32_at(record, 4) != 0 {
            let last = tasks.len();
            return refuse(entry, format!("task {task}; expected {next} to {last}, zero behind"));
        }
        next = task + 1;
        let Some((fours, _)) = fours(om, &tasks[task]) else {
            let op = tasks[task].op.line().name;
            return refuse(entry, format!("task {task} ({op}) has no weights of this layout"));
        };
        let (offset, length) = (size(u64_at(record, 8)), size(u64_at(record, 16)));
        let (from, needed) = (align_up(end), fours.bytes());
        let inside = from.checked_add(needed).is_some_and(|end| end <= bytes.len());
        if offset != from || length != needed || !inside {
            let what = format!(
                "bytes {offset} + {length} of {}; task {task} expects {from} + {needed}",
                bytes.len()
            );
            return refuse(entry, what);
        }
        end = from + needed;
        places[task] = Some(section.start + from..section.start + end);
    }
    if end != bytes.len() {
        let what = format!("{} bytes; its entries end at {end}", bytes.len());
        return Err(OmError::packed(FOURS, None, what));
    }
    Ok(Chosen { places, own: None })
}

/// The bytes of a section, none of one without entries; `None` when it has too many to count.
fn section(chosen: &Chosen, file: &[u8]) -> Option<Vec<u8>> {
    let all = (0..chosen.places.len()).filter_map(|task| Some((task, chosen.of(file, task)?)));
    let all: Vec<(usize, &[u8])> = all.collect();
    if all.is_empty() {
        return Some(Vec::new());
    }
    let mut bytes = u32::try_from(all.len()).ok()?.to_le_bytes().to_vec();
    bytes.extend_from_slice(&[0; 4]);
    let mut end = HEAD + ENTRY * all.len();
    for (task, own) in &all {
        end = align_up(end);
        bytes.extend_from_slice(&(*task as u64).to_le_bytes());
        bytes.extend_from_slice(&(end as u64).to_le_bytes());
        bytes.extend_from_slice(&(own.len() as u64).to_le_bytes());
        end += own.len();
    }
    for (_, own) in all {
        bytes.resize(align_up(bytes.len()), 0);
        bytes.extend_from_slice(own);
    }
    Some(bytes)
}

/// A program's file with the sections for these layouts and for no other. The same bytes every
/// time. `None` when it has more of something than the format can count.
#[must_use]
pub fn with_layouts<B: AsRef<[u8]>>(om: &Om<B>, layouts: &[Layout]) -> Option<AlignedBytes> {
    let file = om.file();
    let mut contents: Vec<Contents<'_>> = Section::ALL
        .into_iter()
        .map(|section| Contents { kind: section.kind(), isa: 0, bytes: om.section(section) })
        .collect();
    let fours = layouts.contains(&Layout::Fours).then(|| pack(om));
    let fours = match &fours {
        Some(chosen) => section(chosen, file)?,
        None => Vec::new(),
    };
    if !fours.is_empty() {
        contents.push(Contents { kind: PACKED, isa: FOURS, bytes: &fours });
    }
    write::file(&contents, om.arena_bytes())
}
