//! Requests and responses, messages to and from queues.

use executor_core::abi::{MsgType, RuntimeTensorDesc, TENSOR_DESC_SIZE};
use executor_core::error::DequeueError;
use executor_core::mbuf::Mbuf;
use executor_core::pool::Head;
use executor_core::queue::{Consumer, Producer};
use executor_rt::proto::{ExecutorResponse, decode_response};
use executor_rt::{payload, port};

use crate::{Fetched, Rig, watchdog};

/// A descriptor's bytes (docs/layout.md).
fn bytes_of(desc: &RuntimeTensorDesc) -> Vec<u8> {
    let mut words = vec![desc.data_addr.cast_signed(), desc.data_offset_size, desc.dtype];
    words.extend(desc.shape);
    words.extend(desc.original_shape);
    words.extend([desc.format, desc.sub_format, desc.data_size.cast_signed()]);
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.extend(desc.reserved);
    bytes
}

impl Rig {
    fn mbuf(&mut self, bytes: &[u8]) -> Mbuf {
        let size = bytes.len().max(1) as u64;
        let (worker, waiter) = (&mut self.worker, &self.waiter);
        let mut mbuf = port::alloc(worker, waiter, size, Head::Zeroed, watchdog()).unwrap();
        assert!(payload::write(worker, &mut mbuf, bytes));
        mbuf
    }

    /// The next response; panics with the log when none comes.
    pub fn response(&mut self) -> ExecutorResponse {
        let got = port::dequeue(&mut self.worker, &mut self.responses, &self.waiter, watchdog());
        let mbuf = got.unwrap_or_else(|e| panic!("response: {e}\n{}", self.logs()));
        let response = decode_response(payload::bytes(&self.worker.of(&mbuf))).unwrap();
        port::free(&mut self.worker, mbuf);
        response
    }

    /// Takes the response to something that went well.
    pub fn expect_good(&mut self, message: &str) {
        let response = self.response();
        assert_eq!(response.error_code, 0, "{response:?}\n{}", self.logs());
        assert_eq!(response.error_message, message);
    }

    /// Sends bytes to the request queue.
    pub fn send(&mut self, msg_type: u16, bytes: &[u8]) {
        let mbuf = self.mbuf(bytes);
        self.worker.of(&mbuf).update_msg_info(|info| info.msg_type = MsgType(msg_type));
        port::enqueue(&mut self.worker, &mut self.requests, &self.waiter, mbuf, watchdog())
            .unwrap();
    }

    /// Tensors in one message, with the id in the user's part of its head, too.
    pub fn message(&mut self, id: u64, parts: &[(RuntimeTensorDesc, Vec<u8>)]) -> Mbuf {
        let parts = parts.iter().map(|(desc, values)| [bytes_of(desc), values.clone()].concat());
        let mbuf = self.mbuf(&parts.collect::<Vec<_>>().concat());
        let access = self.worker.of(&mbuf);
        access.update_msg_info(|info| info.trans_id = id);
        access.write_head(0, &id.to_le_bytes());
        mbuf
    }

    /// Feeds a message.
    pub fn enqueue(&mut self, input: &mut Producer<'static>, mbuf: Mbuf) {
        port::enqueue(&mut self.worker, input, &self.waiter, mbuf, watchdog()).unwrap();
    }

    /// The next message of an output; panics with the log when none comes.
    pub fn dequeue(&mut self, output: &mut Consumer<'static>) -> Fetched {
        let got = port::dequeue(&mut self.worker, output, &self.waiter, watchdog());
        let mbuf = got.unwrap_or_else(|e| panic!("queue {:?}: {e}\n{}", output.id(), self.logs()));
        let access = self.worker.of(&mbuf);
        let desc = payload::tensor_desc(&access);
        let fetched = Fetched {
            info: access.msg_info(),
            dims: desc.and_then(|desc| desc.dims().map(<[i64]>::to_vec)).unwrap_or_default(),
            values: payload::bytes(&access).get(TENSOR_DESC_SIZE..).unwrap_or(&[]).to_vec(),
            ends_sequence: access.is_eos(),
            user: access.head_word(0),
            home: self.host.group.memory.blocks[mbuf.block() as usize].slot,
        };
        port::free(&mut self.worker, mbuf);
        fetched
    }

    /// True when nothing is queued at an output now.
    pub fn is_empty(&mut self, output: &mut Consumer<'static>) -> bool {
        match output.dequeue(&mut self.worker) {
            Err(DequeueError::Empty) => true,
            Err(other) => panic!("{other}"),
            Ok((mbuf, _)) => {
                eprintln!("unexpected: {:?}", self.worker.of(&mbuf).msg_info());
                port::free(&mut self.worker, mbuf);
                false
            }
        }
    }
}
