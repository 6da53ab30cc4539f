//! Labels: places in streams of a model that tasks jump to.
//!
//! Ids are given out in a line: 64 stand in it at first, each that is taken adds the next fresh
//! one, and one that is given back stands at its end.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, Weak};

use crate::codes::{
    Error, INTERNAL_ERROR, LABEL_CONTEXT, MODEL_CONTEXT, PARAM_INVALID, Result, refuse,
};
use crate::context::Context;
use crate::lock::lock;
use crate::memory::Memory;
use crate::model::{Graph, Model};
use crate::sqe::{Sqe, task};
use crate::stream::{Core, Stream};
use crate::table::Name;

/// Labels of a device, of all models.
pub(crate) const LABELS_MAX: u32 = 1 << 17;

/// Ids of one allocator.
pub(crate) const IDS_MAX: u32 = 65_535;

const FIRST_IDS: u32 = 64;

/// Bytes of a label's descriptor: model, stream, label, 10 bytes that are not used.
const DESCRIPTOR_BYTES: usize = 16;

/// Gives out ids of labels.
#[derive(Debug)]
pub(crate) struct Ids {
    line: VecDeque<u16>,
    used: Box<[bool]>,
    fresh: u32,
}

impl Ids {
    pub(crate) fn new(capacity: u32) -> Self {
        let first = FIRST_IDS.min(capacity);
        let line = (0..first).filter_map(|id| u16::try_from(id).ok()).collect();
        Self { line, used: vec![false; capacity as usize].into(), fresh: first }
    }

    pub(crate) fn take(&mut self) -> Result<u16> {
        let Some(id) = self.line.pop_front() else {
            return refuse(INTERNAL_ERROR, format!("all {} label ids are used", self.used.len()));
        };
        if let Some(fresh) = u16::try_from(self.fresh).ok().filter(|_| self.fresh < self.capacity())
        {
            self.line.push_back(fresh);
            self.fresh += 1;
        }
        self.used[usize::from(id)] = true;
        Ok(id)
    }

    pub(crate) fn give_back(&mut self, id: u16) -> Result<()> {
        match self.used.get_mut(usize::from(id)) {
            Some(used) if *used => *used = false,
            _ => return refuse(INTERNAL_ERROR, format!("label id {id} is not used")),
        }
        self.line.push_back(id);
        Ok(())
    }

    fn capacity(&self) -> u32 {
        u32::try_from(self.used.len()).unwrap_or(u32::MAX)
    }
}

/// What tasks know of a label.
#[derive(Debug)]
pub(crate) struct Mark {
    /// Number on the device.
    place: Name,
    id: u16,
    /// Its model, if it has one.
    graph: Option<Weak<Graph>>,
    context: u32,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Where it was set.
    target: Option<(Arc<Core>, u64)>,
    /// Its descriptor: in a list's memory.
    descriptor: Option<(Memory, u32)>,
}

impl Mark {
    pub(crate) fn target(&self) -> Option<(Arc<Core>, u64)> {
        lock(&self.state).target.clone()
    }

    /// Its model ends.
    pub(crate) fn detach(&self) {
        *lock(&self.state) = State::default();
    }

    fn model(&self) -> Option<Arc<Graph>> {
        self.graph.as_ref().and_then(Weak::upgrade)
    }
}

/// A label of a context, or of one model of it. It is there until [`Label::destroy`].
#[derive(Clone, Debug)]
pub struct Label {
    mark: Arc<Mark>,
    context: Context,
}

impl Label {
    pub(crate) fn create(context: &Context, model: Option<&Model>) -> Result<Self> {
        let device = context.device();
        let id = match model {
            Some(model) if model.context.id() != context.id() => {
                return refuse(
                    MODEL_CONTEXT,
                    format!("model {} is of another context", model.id()),
                );
            }
            Some(model) => model.graph.take_label_id()?,
            None => lock(&device.label_ids).take()?,
        };
        let graph = model.map(|model| Arc::downgrade(&model.graph));
        let (context_id, state) = (context.id(), Mutex::default());
        let make = |place| Mark { place, id, graph, context: context_id, state };
        let mark = device.labels.insert(make);
        let mark = mark.ok_or_else(|| Error::new(INTERNAL_ERROR, "all labels are used"))?;
        if let Some(model) = model {
            model.graph.keep_label(&mark);
        }
        Ok(Self { mark, context: context.clone() })
    }

    /// Its id within its model, or within the device.
    #[must_use]
    pub fn id(&self) -> u16 {
        self.mark.id
    }

    /// Ends it. Of a model that has ended already it only goes away.
    ///
    /// # Errors
    /// 507000 when it was destroyed before.
    pub fn destroy(&self) -> Result<()> {
        let device = self.context.device();
        let graph = self.mark.model();
        if device.labels.remove_named(self.mark.place.word()).is_none() {
            return refuse(INTERNAL_ERROR, format!("label {} was destroyed before", self.id()));
        }
        self.mark.detach();
        match (&self.mark.graph, graph) {
            (Some(_), Some(graph)) => graph.drop_label(&self.mark),
            (Some(_), None) => Ok(()),
            (None, _) => lock(&device.label_ids).give_back(self.mark.id),
        }
    }

    fn of_stream(&self, stream: &Stream) -> Result<Arc<Graph>> {
        if self.mark.context != stream.core.context {
            let what =
                format!("label {} and stream {} are of two contexts", self.id(), stream.id());
            return refuse(LABEL_CONTEXT, what);
        }
        let wrong = |what: &str| Error::new(INTERNAL_ERROR, what.to_owned());
        let graph = stream.core.graph().ok_or_else(|| wrong("labels need a stream of a model"))?;
        if self.mark.graph.is_some()
            && !self.mark.model().is_some_and(|own| Arc::ptr_eq(&own, &graph))
        {
            return Err(wrong("the label is another model's"));
        }
        Ok(graph)
    }
}

/// Labels of one switch, with their descriptors in the device's memory.
#[derive(Clone, Debug)]
pub struct LabelList {
    list: Arc<List>,
    context: Context,
}

/// What tasks know of a list.
#[derive(Debug)]
pub(crate) struct List {
    place: Name,
    labels: Box<[Arc<Mark>]>,
    memory: Memory,
}

impl List {
    pub(crate) fn label(&self, index: u64) -> Option<&Arc<Mark>> {
        self.labels.get(usize::try_from(index).ok()?)
    }
}

impl LabelList {
    pub(crate) fn create(context: &Context, labels: &[Label]) -> Result<Self> {
        if labels.is_empty() || labels.len() > IDS_MAX as usize {
            return refuse(PARAM_INVALID, format!("{} labels: 1 to {IDS_MAX}", labels.len()));
        }
        let memory = context.allocate(labels.len() * DESCRIPTOR_BYTES)?;
        memory.write(|bytes| bytes.fill(0xFF));
        for (index, label) in (0..).zip(labels) {
            let mut state = lock(&label.mark.state);
            if state.descriptor.is_some() {
                drop(state);
                for before in &labels[..index as usize] {
                    lock(&before.mark.state).descriptor = None;
                }
                memory.free();
                let what = format!("label {} is in a list already", label.id());
                return refuse(INTERNAL_ERROR, what);
            }
            state.descriptor = Some((memory.clone(), index * 16));
        }
        let marks = labels.iter().map(|label| label.mark.clone()).collect();
        let list_memory = memory.clone();
        let make = |place| List { place, labels: marks, memory: list_memory };
        let list = context.device().lists.insert(make);
        let list = list.ok_or_else(|| Error::new(INTERNAL_ERROR, "all label lists are used"))?;
        Ok(Self { list, context: context.clone() })
    }

    /// The descriptors: of each label 16 bytes, all ones until it is set.
    #[must_use]
    pub fn descriptors(&self) -> &Memory {
        &self.list.memory
    }

    /// Ends it; its labels can be in another one.
    pub fn destroy(self) {
        self.context.device().lists.remove_named(self.list.place.word());
        for label in &self.list.labels {
            lock(&label.state).descriptor = None;
        }
        self.list.memory.clone().free();
    }
}

impl Stream {
    /// Sets a label here. Its list was made before.
    ///
    /// # Errors
    /// 507000 when the stream is not of the label's model, when the label has no list, or is set
    /// already; 507031 for a label of another context; else as [`Stream::nop`].
    pub fn set_label(&self, label: &Label) -> Result<u16> {
        let graph = label.of_stream(self)?;
        let mut state = lock(&label.mark.state);
        if state.target.is_some() {
            return refuse(INTERNAL_ERROR, format!("label {} is set already", label.id()));
        }
        let Some((memory, offset)) = state.descriptor.clone() else {
            return refuse(INTERNAL_ERROR, format!("label {} is in no list yet", label.id()));
        };
        let mut sqe = Sqe::place_holder(task::LABEL_SET);
        sqe.payload[0] = label.mark.place.word();
        let placed = self.core.submit(self.context.device(), sqe)?;
        let words = [graph.id(), self.id(), u32::from(label.id()), 0];
        memory.write(|bytes| {
            let slot = bytes.iter_mut().skip(offset as usize);
            let ids = words[..3].iter().flat_map(|word| word.to_le_bytes().into_iter().take(2));
            slot.zip(ids).for_each(|(to, byte)| *to = byte);
        });
        state.target = Some((placed.stream, placed.position));
        Ok(placed.task)
    }

    /// Goes on at a label; this stream ends here if it is in another one.
    ///
    /// # Errors
    /// As [`Stream::set_label`], but the label may be set later.
    pub fn go_to(&self, label: &Label) -> Result<u16> {
        label.of_stream(self)?;
        let mut sqe = Sqe::place_holder(task::LABEL_GOTO);
        sqe.payload[0] = label.mark.place.word();
        self.put(sqe)
    }

    /// Goes on at the label whose index stands in memory, 32 bits; beyond `count` at the last one.
    ///
    /// # Errors
    /// 107000 unless `count` is 1 to the number of labels and the index lies in the memory; else as
    /// [`Stream::set_label`].
    pub fn switch_by_index(
        &self,
        index: (&Memory, u32),
        count: u32,
        list: &LabelList,
    ) -> Result<u16> {
        self.switch_by_index_at(index.0.check(index.1, 4)?, count, list)
    }

    /// The same for an index at a device address.
    ///
    /// # Errors
    /// As [`Stream::switch_by_index`].
    pub fn switch_by_index_at(&self, address: u64, count: u32, list: &LabelList) -> Result<u16> {
        let labels = list.list.labels.len();
        if count == 0 || count as usize > labels {
            return refuse(PARAM_INVALID, format!("switch over {count} of {labels} labels"));
        }
        if self.core.graph().is_none() {
            return refuse(INTERNAL_ERROR, "labels need a stream of a model");
        }
        let mut sqe = Sqe::place_holder(task::LABEL_SWITCH_BY_INDEX);
        sqe.payload[..3].copy_from_slice(&[address, u64::from(count), list.list.place.word()]);
        self.put(sqe)
    }
}

impl Mark {
    pub(crate) fn id(&self) -> u16 {
        self.id
    }
}

#[cfg(test)]
mod tests {
    use super::Ids;

    #[test]
    fn v7_11_label_ids() {
        let mut ids = Ids::new(65_535);
        let first: Vec<u16> = (0..64).map(|_| ids.take().unwrap()).collect();
        assert_eq!(first, (0..64).collect::<Vec<u16>>());
        assert_eq!(ids.take().unwrap(), 64);
        ids.give_back(3).unwrap();
        // 65 to 128 stand in the line before it.
        let next: Vec<u16> = (0..64).map(|_| ids.take().unwrap()).collect();
        assert_eq!(next, (65..129).collect::<Vec<u16>>());
        assert_eq!(ids.take().unwrap(), 3);
        ids.give_back(7).unwrap();
        assert_eq!(ids.give_back(7).unwrap_err().code().0, 507_000);
        assert_eq!(ids.give_back(65_534).unwrap_err().code().0, 507_000);
        assert_eq!(ids.give_back(65_535).unwrap_err().code().0, 507_000);
        let mut small = Ids::new(1024);
        assert!((0..1024).all(|_| small.take().is_ok()));
        assert_eq!(small.take().unwrap_err().code().0, 507_000);
    }
}
