//! What stands behind the opaque context that a function passes with every call.
//!
//! Shared by reference only: the executor's frame that calls the function and the calls that come
//! back out of it alternate, so what changes sits in cells.

use core::cell::RefCell;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};

use executor_core::abi::{
    DataFlag, DataType, MsgInfo, MsgType, RuntimeTensorDesc, TENSOR_DESC_SIZE, head,
};
use executor_core::error::Code;
use executor_core::mbuf::Mbuf;
use executor_rt::log::{Level, Logger, Stamp, Stream};
use executor_rt::node::{self, HeadOf, add, name_slot};
use executor_rt::payload;
use flow_func::abi::{ACCESS_OWNED, ACCESS_WRITE_DATA, MsgV1, ParamsV1, field};
use flow_func::attrs::AttrMap;
use flow_func::codes::{FAILED, PARAM_INVALID};

use crate::node::{Node, Source};
use crate::view::{self, TAG_HANDLE, TAG_INPUT};

/// Alignments that a function may ask for (udf §1.14).
const ALIGNMENTS: [u64; 6] = [32, 64, 128, 256, 512, 1024];
/// Misaligned blocks that are held aside while a better one is looked for.
const ASIDE_MAX: usize = 16;

/// The id of the set under way, for log lines of any thread. Ids are below `u64::MAX` (udf §9.1).
#[derive(Debug)]
pub(crate) struct LogId(AtomicU64);

impl LogId {
    const NONE: u64 = u64::MAX;

    /// Outside of a set.
    pub(crate) const fn new() -> LogId {
        LogId(AtomicU64::new(Self::NONE))
    }

    /// The id; `None` outside of a set.
    pub(crate) fn get(&self) -> Option<u64> {
        // Relaxed: a line of another thread may carry the id of a moment ago.
        Some(self.0.load(Ordering::Relaxed)).filter(|id| *id != Self::NONE)
    }

    /// Sets it.
    pub(crate) fn set(&self, id: Option<u64>) {
        self.0.store(id.unwrap_or(Self::NONE), Ordering::Relaxed);
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Context {
    /// Facts of the instance.
    pub(crate) params: ParamsV1,
    /// Attributes of the node.
    pub(crate) attrs: AttrMap,
    /// The log.
    pub(crate) logger: &'static Logger,
    /// Messages of other partitions are copied before they are sent on.
    pub(crate) copy_forwarded: bool,
    /// Id for the function's log lines; `None` outside of a set.
    pub(crate) log_id: LogId,
    /// Everything else.
    pub(crate) node: RefCell<Node>,
}

type Answer<T = ()> = Result<T, i32>;

fn refused(code: Code) -> i32 {
    code.to_ret_code()
}

/// Which message a view names.
fn source_of(view: &MsgV1) -> Option<Source> {
    let index = usize::try_from(view.private[1]).ok()?;
    match view.private[0] {
        TAG_INPUT => Some(Source::Input(index)),
        TAG_HANDLE => Some(Source::Handle(index)),
        _ => None,
    }
}

fn handle_of(view: &MsgV1) -> Answer<usize> {
    match source_of(view) {
        Some(Source::Handle(index)) => Ok(index),
        _ => Err(PARAM_INVALID),
    }
}

impl Context {
    fn with_node<T>(&self, call: impl FnOnce(&mut Node) -> Answer<T>) -> Answer<T> {
        call(&mut *self.node.try_borrow_mut().map_err(|_| FAILED)?)
    }

    /// A tensor message: descriptor written, payload as the block left it.
    pub(crate) fn alloc_tensor(&self, dims: &[i64], data_type: i32, align: u32) -> Answer<MsgV1> {
        let data_type = DataType(data_type);
        let bytes = data_type.byte_size(dims).ok_or(PARAM_INVALID)?;
        if dims.len() > executor_core::abi::MAX_DIMS || !ALIGNMENTS.contains(&u64::from(align)) {
            return Err(PARAM_INVALID);
        }
        self.with_node(|node| {
            let size = TENSOR_DESC_SIZE as u64 + bytes;
            let mbuf = self.alloc_aligned(node, size, u64::from(align))?;
            if !view::write_desc(&node.worker, &mbuf, data_type, dims, bytes) {
                node.free(mbuf);
                return Err(refused(Code::FLOW_FUNC_MEM_BUF_ERROR));
            }
            node.worker.of(&mbuf).update_msg_info(|info| fresh(info, MsgType::TENSOR_DATA, false));
            add_handle(node, mbuf, ACCESS_OWNED | ACCESS_WRITE_DATA)
        })
    }

    /// Blocks start on 64 bytes; for more, blocks are tried until one happens to be aligned.
    fn alloc_aligned(&self, node: &mut Node, size: u64, align: u64) -> Answer<Mbuf> {
        let mut aside: [Option<Mbuf>; ASIDE_MAX] = [const { None }; ASIDE_MAX];
        let mut found = Err(refused(Code::FLOW_FUNC_MEM_BUF_ERROR));
        for place in &mut aside {
            let mbuf = node.alloc(size, HeadOf::Input, self.logger).map_err(refused);
            let Ok(mbuf) = mbuf else {
                found = mbuf;
                break;
            };
            let start = node.worker.of(&mbuf).span().pointer.as_ptr().addr() as u64;
            if start.is_multiple_of(align) {
                found = Ok(mbuf);
                break;
            }
            *place = Some(mbuf);
        }
        aside.into_iter().flatten().for_each(|mbuf| node.free(mbuf));
        found
    }

    /// A raw message; the code is inherited (udf §1.14).
    pub(crate) fn alloc_raw(&self, size: u64) -> Answer<MsgV1> {
        self.with_node(|node| {
            let mbuf = node.alloc(size, HeadOf::Input, self.logger).map_err(refused)?;
            let access = node.worker.of(&mbuf);
            access.set_data_len(size);
            access.update_msg_info(|info| {
                let code = info.ret_code;
                fresh(info, MsgType::RAW_MSG, false);
                info.ret_code = code;
            });
            add_handle(node, mbuf, ACCESS_OWNED | ACCESS_WRITE_DATA)
        })
    }

    /// A message without data.
    pub(crate) fn alloc_empty(&self, msg_type: u16) -> Answer<MsgV1> {
        if msg_type != MsgType::TENSOR_DATA.0 {
            return Err(PARAM_INVALID);
        }
        self.with_node(|node| {
            let size = TENSOR_DESC_SIZE as u64;
            let mut mbuf = node.alloc(size, HeadOf::Input, self.logger).map_err(refused)?;
            payload::set_tensor_desc(&node.worker, &mut mbuf, &RuntimeTensorDesc::empty());
            let access = node.worker.of(&mbuf);
            access.set_data_len(size);
            access.update_msg_info(|info| fresh(info, MsgType::TENSOR_DATA, true));
            add_handle(node, mbuf, ACCESS_OWNED)
        })
    }

    /// Another handle on the same data.
    pub(crate) fn copy_ref(&self, of: &MsgV1) -> Answer<MsgV1> {
        let source = source_of(of).ok_or(PARAM_INVALID)?;
        self.with_node(|node| {
            node.find(source).ok_or(PARAM_INVALID)?;
            let mbuf = node.copy_ref(source, self.logger).map_err(refused)?;
            let mut view = add_handle(node, mbuf, ACCESS_OWNED)?;
            // A local shape that was not copied out yet goes along.
            let to = handle_of(&view)?;
            if let Source::Handle(from) = source
                && node.handles.get(from).is_some_and(|handle| handle.reshaped.is_none())
                && node.handles.copy_shape(from, to)
            {
                view::show_local_shape(&mut view, &node.handles, to);
            }
            Ok(view)
        })
    }

    /// Gives a handle back; an input or a dead handle is left alone.
    pub(crate) fn release(&self, of: &MsgV1) {
        let _done = self.with_node(|node| {
            node.release(handle_of(of)?);
            Ok(())
        });
    }

    /// New dimensions: in place when nobody else sees the block, else a local shape.
    pub(crate) fn reshape(&self, of: &MsgV1, dims: &[i64]) -> Answer<MsgV1> {
        let index = handle_of(of)?;
        let count = DataType::element_count(dims).and_then(|count| i64::try_from(count).ok());
        if of.desc.is_null() || count != Some(of.element_count) || of.element_count < 0 {
            return Err(PARAM_INVALID);
        }
        if dims.len() > executor_core::abi::MAX_DIMS {
            return Err(PARAM_INVALID);
        }
        self.with_node(|node| {
            let handle = node.handles.get_mut(index).ok_or(PARAM_INVALID)?;
            let stale = handle.reshaped.take();
            if let Some(mbuf) = stale {
                node.free(mbuf);
            }
            let mbuf = node.handles.get(index).and_then(|handle| handle.mbuf.as_ref());
            let mbuf = mbuf.ok_or(PARAM_INVALID)?;
            let in_place = view::write_dims(&node.worker, mbuf, dims);
            node.handles.set_shape(index, (!in_place).then_some(dims));
            refresh(node, index, of.access)
        })
    }

    /// One field of a handle's `MsgInfo`.
    pub(crate) fn set_info(&self, of: &MsgV1, number: u32, value: u64) -> Answer<MsgV1> {
        let index = handle_of(of)?;
        self.with_node(|node| {
            let handle = node.handles.get(index).ok_or(PARAM_INVALID)?;
            for mbuf in handle.mbuf.iter().chain(&handle.reshaped) {
                let access = node.worker.of(mbuf);
                if let Some(offset) = user_data_offset(number) {
                    access.write_head(offset, &value.to_le_bytes());
                    continue;
                }
                let mut info = access.msg_info();
                set_field(&mut info, number, value)?;
                if number == field::RET_CODE {
                    name_slot(&mut info, node.worker.slot());
                }
                access.set_msg_info(&info);
            }
            refresh(node, index, of.access)
        })
    }

    /// Sends a message to every destination of output `port`.
    pub(crate) fn set_output(&self, port: u32, of: &MsgV1) -> Answer {
        let source = source_of(of).ok_or(PARAM_INVALID)?;
        self.with_node(|node| {
            let ports = node.writer.ports.get(port as usize).cloned().ok_or(PARAM_INVALID)?;
            node.find(source).ok_or(PARAM_INVALID)?;
            if let Source::Handle(index) = source {
                self.copy_out_shape(node, index)?;
            }
            let is_foreign = |mbuf| !node.worker.is_home(mbuf);
            let copies = self.copy_forwarded && node.find(source).is_some_and(is_foreign);
            if !copies || ports.is_empty() {
                return push(node, ports, |node| node.copy_ref(source, self.logger));
            }
            let copy = self.copy_payload(node, source)?;
            let copy_ref = |node: &mut Node| {
                node.shared.obtain(0, self.logger, |shared| shared.worker.copy_ref(&copy))
            };
            let pushed = push(node, ports, copy_ref);
            node.free(copy);
            pushed
        })
    }

    /// Copies the payload of a handle with a local shape into the own partition, once for each
    /// shape.
    fn copy_out_shape(&self, node: &mut Node, index: usize) -> Answer {
        let Some((shape, rank)) = node.handles.shape(index) else { return Ok(()) };
        if node.handles.get(index).is_none_or(|handle| handle.reshaped.is_some()) {
            return Ok(());
        }
        let copy = self.copy_payload(node, Source::Handle(index))?;
        let mut dims = [0i64; executor_core::abi::MAX_DIMS];
        for (to, dim) in dims.iter_mut().zip(shape) {
            *to = dim.load(Ordering::Relaxed);
        }
        view::write_dims(&node.worker, &copy, dims.get(..rank as usize).unwrap_or(&[]));
        match node.handles.get_mut(index) {
            Some(handle) => handle.reshaped = Some(copy),
            None => node.free(copy),
        }
        Ok(())
    }

    /// Copies head and payload of a message into the own partition; counted.
    pub(crate) fn copy_payload(&self, node: &mut Node, source: Source) -> Answer<Mbuf> {
        let size = node.find(source).map(|mbuf| node.worker.of(mbuf).data_len());
        let size = size.ok_or(PARAM_INVALID)?;
        let mut copy = node.alloc(size, HeadOf::Nothing, self.logger).map_err(refused)?;
        let from = node.find(source).map(|mbuf| node.worker.of(mbuf));
        let copied = from.is_some_and(|from| {
            node.worker.of(&copy).copy_head_from(&from);
            payload::write(&node.worker, &mut copy, payload::bytes(&from))
        });
        if !copied {
            node.free(copy);
            return Err(refused(Code::FLOW_FUNC_MEM_BUF_ERROR));
        }
        add(&node.ctl().bytes_copied, size);
        Ok(copy)
    }

    /// Bytes of the current input's user data (udf §1.14).
    pub(crate) fn user_data(&self, offset: u64, size: u64) -> Answer<[u8; 64]> {
        let limit = head::USER_DATA_SIZE as u64;
        if size == 0 || offset >= limit || size > limit - offset {
            return Err(PARAM_INVALID);
        }
        self.with_node(|node| {
            let input = node.reader.first().ok_or(FAILED)?;
            let input = node.worker.of(input);
            let mut bytes = [0; 64];
            for (index, chunk) in bytes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                *chunk = input.head_word(index).to_le_bytes();
            }
            let offset = usize::try_from(offset).unwrap_or(0);
            bytes.rotate_left(offset);
            Ok(bytes)
        })
    }

    /// A line of the function's log; any thread may call.
    pub(crate) fn log(&self, stream: Stream, level: u32, text: &str) {
        let level = Level::from_number(level).unwrap_or(Level::Error);
        let id = self.log_id.get();
        self.logger.log(stream, level, Stamp::now(), id, format_args!("{text}"));
    }
}

/// Lays a reference for each destination out to be sent.
fn push(
    node: &mut Node,
    destinations: Range<usize>,
    mut copy_ref: impl FnMut(&mut Node) -> Result<Mbuf, Code>,
) -> Answer {
    for destination in destinations {
        let mbuf = copy_ref(node).map_err(refused)?;
        let access = node.worker.of(&mbuf);
        if access.msg_info().trans_id == 0 {
            let trans_id = node.trans_id;
            access.update_msg_info(|info| info.trans_id = trans_id);
        }
        let node::Node { writer, worker, .. } = &mut node.shared;
        writer.push(worker, destination, mbuf);
    }
    Ok(())
}

fn fresh(info: &mut MsgInfo, msg_type: MsgType, null_data: bool) {
    info.msg_type = msg_type;
    info.ret_code = 0;
    info.data_flag &= !DataFlag::NULL_DATA.bits();
    if null_data {
        info.data_flag |= DataFlag::NULL_DATA.bits();
    }
}

fn add_handle(node: &mut Node, mbuf: Mbuf, access: u16) -> Answer<MsgV1> {
    match node.handles.add(mbuf) {
        Ok(index) => refresh(node, index, access),
        Err(mbuf) => {
            node.free(mbuf);
            Err(refused(Code::NO_MBUF))
        }
    }
}

fn refresh(node: &Node, index: usize, access: u16) -> Answer<MsgV1> {
    let mbuf = node.handles.get(index).and_then(|handle| handle.mbuf.as_ref());
    let access = access & (ACCESS_OWNED | ACCESS_WRITE_DATA);
    let mbuf = mbuf.ok_or(PARAM_INVALID)?;
    let shared = if node.worker.is_sole_owner(mbuf) { 0 } else { ACCESS_WRITE_DATA };
    let mut view = view::view(&node.worker, mbuf, (TAG_HANDLE, index), access & !shared);
    view::show_local_shape(&mut view, &node.handles, index);
    Ok(view)
}

/// Where in the head the word of user data is that `number` stands for; `None` for other fields.
fn user_data_offset(number: u32) -> Option<usize> {
    let word = usize::try_from(number.checked_sub(field::USER_DATA)?).ok()?;
    Some(8 * word).filter(|offset| *offset < head::USER_DATA_SIZE)
}

#[allow(clippy::cast_possible_truncation, reason = "fields are narrower than the ABI's word")]
fn set_field(info: &mut MsgInfo, number: u32, value: u64) -> Answer {
    match number {
        field::RET_CODE => info.ret_code = (value as u32).cast_signed(),
        field::FLAGS => info.flags = value as u32,
        field::TRANS_ID => {
            info.trans_id = value;
            info.data_flag &= !DataFlag::CUSTOM_TRANS_ID.bits();
            if value != 0 {
                info.data_flag |= DataFlag::CUSTOM_TRANS_ID.bits();
            }
        }
        field::MSG_TYPE => info.msg_type = MsgType(value as u16),
        field::START_TIME => info.start_time = value,
        field::END_TIME => info.end_time = value,
        field::ROUTE_LABEL => info.route_label = value as u32,
        field::DATA_LABEL => info.data_label = value as u32,
        _ => return Err(PARAM_INVALID),
    }
    Ok(())
}
