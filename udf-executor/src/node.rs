//! What one function works with: the node of the shared loop ([`executor_rt::node`]), and what its
//! calls need beside it: handles and copies of the inputs.
//!
//! All of it is used by the one worker thread. Between calls the loop uses it; inside a call the
//! function does, through [`crate::api`].

use core::ops::{Deref, DerefMut};

use executor_core::error::{AllocError, Code};
use executor_core::mbuf::Mbuf;
use executor_rt::log::Logger;
use executor_rt::node;
use executor_rt::node::reader::Reader;

use crate::control::Control;
use crate::handles::Handles;

/// Which message a view stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// The input of this port, as the function sees it.
    Input(usize),
    /// The handle of this number.
    Handle(usize),
}

fn find<'n>(
    reader: &'n Reader,
    copies: &'n [Option<Mbuf>],
    handles: &'n Handles,
    source: Source,
) -> Option<&'n Mbuf> {
    match source {
        Source::Input(port) => match copies.get(port) {
            Some(Some(copy)) => Some(copy),
            _ => reader.get(port),
        },
        Source::Handle(index) => {
            let handle = handles.get(index)?;
            handle.reshaped.as_ref().or(handle.mbuf.as_ref())
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Node {
    /// The loop's part.
    pub(crate) shared: node::Node<Control>,
    pub(crate) handles: Handles,
    /// Copies of the inputs, for a node that asked for them; else none.
    pub(crate) copies: Box<[Option<Mbuf>]>,
}

impl Deref for Node {
    type Target = node::Node<Control>;

    fn deref(&self) -> &Self::Target {
        &self.shared
    }
}

impl DerefMut for Node {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.shared
    }
}

impl Node {
    /// Gives back what the function still holds (abi I4).
    pub(crate) fn release_handles(&mut self) {
        while let Some(index) = self.handles.any() {
            self.release(index);
        }
    }

    /// Gives one handle back.
    pub(crate) fn release(&mut self, index: usize) {
        self.handles.remove(index).into_iter().flatten().for_each(|mbuf| self.shared.free(mbuf));
    }

    /// Gives the copies of the inputs back.
    pub(crate) fn release_copies(&mut self) {
        for index in 0..self.copies.len() {
            if let Some(mbuf) = self.copies.get_mut(index).and_then(Option::take) {
                self.shared.free(mbuf);
            }
        }
    }

    /// A second reference on an mbuf, waiting as an allocation does.
    pub(crate) fn copy_ref(&mut self, source: Source, logger: &Logger) -> Result<Mbuf, Code> {
        let Node { shared, handles, copies } = self;
        shared.obtain(0, logger, |shared| {
            let node::Node { worker, reader, .. } = shared;
            let mbuf = find(reader, copies, handles, source).ok_or(AllocError::Invalid)?;
            worker.copy_ref(mbuf)
        })
    }

    /// The mbuf of a view that the function passed.
    pub(crate) fn find(&self, source: Source) -> Option<&Mbuf> {
        find(&self.shared.reader, &self.copies, &self.handles, source)
    }
}
