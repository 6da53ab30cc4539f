//! Numbered expected values of the exchange (executor-deployer §9.1 and device-runtime §7), over a
//! real group.

mod support;

use std::thread;
use std::time::{Duration, Instant};

use executor_core::abi::{DataType, MsgInfo, RuntimeTensorDesc, TENSOR_DESC_SIZE};
use executor_core::error::Code;
use executor_core::layout::PoolConfig;
use executor_core::owner::{QueueId, SlotId};
use executor_core::queue::Rights;
use executor_rt::exchange::{
    Buffer, ControlInfo, Deploy, Exchange, QueueAttr, Received, read_user_data, write_user_data,
};
use executor_rt::payload;
use support::{code, pair, plain, rig, rig_with, until_parked};

const CUSTOM: u8 = 2;

fn custom(trans_id: u64) -> ControlInfo {
    ControlInfo::with_info(MsgInfo { trans_id, data_flag: CUSTOM, ..MsgInfo::default() })
}

#[test]
fn v9_1_queue_name_127_128() {
    let rig = rig(1);
    let mut exchange = rig.member(0, 0);
    let name = "n".repeat(127);
    let queue = exchange.create_queue(&name, &QueueAttr::default()).unwrap();
    assert_eq!(exchange.find_queue(&name), Ok(queue));
    let long = "n".repeat(128);
    assert_eq!(code(exchange.create_queue(&long, &QueueAttr::default())), Code::PARAM_INVALID);
    assert_eq!(code(exchange.find_queue(&long)), Code::INVALID_VALUE);
    assert_eq!(code(exchange.create_queue(&name, &QueueAttr::default())), Code::REPEATED_INIT);
}

#[test]
fn v9_1_custom_trans_ids() {
    let rig = rig(2);
    let (mut producer, mut consumer, queue) = pair(&rig, QueueAttr::new(8));
    assert_eq!(producer.enqueue(queue, b"1", &custom(1)), Ok(1));
    assert_eq!(producer.enqueue(queue, b"auto", &custom(0)), Ok(2));
    assert_eq!(producer.enqueue(queue, b"big", &custom(u64::from(u32::MAX))), Ok(0xFFFF_FFFF));
    assert_eq!(code(producer.enqueue(queue, b"small", &custom(100))), Code::PARAM_INVALID);
    assert_eq!(producer.enqueue(queue, b"same", &custom(u64::from(u32::MAX))), Ok(0xFFFF_FFFF));
    for id in [1, 2, 0xFFFF_FFFF, 0xFFFF_FFFF] {
        let mut control = plain();
        consumer.dequeue(queue, &mut [0; 8], &mut control).unwrap();
        assert_eq!(control.msg_info.unwrap().trans_id, id);
    }
    assert_eq!(rig.usage().entries, 0);
}

#[test]
fn v9_1_custom_trans_id_max() {
    let rig = rig(2);
    let (mut producer, _consumer, queue) = pair(&rig, QueueAttr::new(8));
    assert_eq!(code(producer.enqueue(queue, b"x", &custom(u64::MAX))), Code::PARAM_INVALID);
    assert_eq!(producer.query(queue).unwrap().size, 0);
}

#[test]
fn v9_1_custom_trans_id_max_minus_one_then_auto() {
    let rig = rig(2);
    let (mut producer, _consumer, queue) = pair(&rig, QueueAttr::new(8));
    assert_eq!(producer.enqueue(queue, b"x", &custom(u64::MAX - 1)), Ok(u64::MAX - 1));
    assert_eq!(code(producer.enqueue(queue, b"x", &custom(0))), Code::FAILED);
    producer.reset_queue_info(queue).unwrap();
    assert_eq!(producer.enqueue(queue, b"x", &custom(0)), Ok(1), "ids start again");
}

#[test]
fn v9_1_id_without_custom_flag() {
    let rig = rig(2);
    let (mut producer, mut consumer, queue) = pair(&rig, QueueAttr::new(8));
    let control = ControlInfo::with_info(MsgInfo { trans_id: 100, ..MsgInfo::default() });
    assert_eq!(producer.enqueue(queue, b"x", &control), Ok(1));
    // No message information: the head's is zero, and no id is used up.
    assert_eq!(producer.enqueue(queue, b"x", &plain()), Ok(0));
    assert_eq!(producer.enqueue(queue, b"x", &control), Ok(2));
    // The client path takes any id for the user's when it gathers.
    producer.set_deploy(queue, Deploy::Client).unwrap();
    assert_eq!(producer.enqueue_gather(queue, &[Buffer::from(&b"x"[..])], &control), Ok(100));
    for id in [1, 0, 2, 100] {
        let mut control = plain();
        consumer.dequeue(queue, &mut [0; 1], &mut control).unwrap();
        assert_eq!(control.msg_info.unwrap().trans_id, id);
    }
}

#[test]
fn v9_1_head_of_63_bytes() {
    let rig = rig(2);
    let (mut producer, mut consumer, queue) = pair(&rig, QueueAttr::new(8));
    let data = [Buffer::from(&b"data"[..])];
    let put = |exchange: &mut Exchange<'_>, len| {
        exchange.enqueue_buff(queue, &[7; 257][..len], 1, Some(&data), 0)
    };
    assert_eq!(code(put(&mut producer, 63)), Code::FAILED);
    assert_eq!(code(put(&mut producer, 257)), Code::INVALID_VALUE);
    assert_eq!(producer.query(queue).unwrap().size, 0);
    assert_eq!(put(&mut producer, 64), Ok(()));
    assert_eq!(put(&mut producer, 256), Ok(()));
    let mut head = [0; 256];
    consumer.dequeue_buff(queue, &mut head, &mut [&mut [0; 4]], 0).unwrap();
    assert_eq!(head[..64], [7; 64]);
    assert_eq!(head[64..], [0; 192]);
}

#[test]
fn v9_1_dequeue_empty_timeout_0() {
    let rig = rig(2);
    let (_producer, mut consumer, queue) = pair(&rig, QueueAttr::new(8));
    assert_eq!(code(consumer.dequeue(queue, &mut [0; 8], &mut plain())), Code::QUEUE_EMPTY);
    assert_eq!(code(consumer.dequeue_mbuf(queue, 0)), Code::QUEUE_EMPTY);
}

#[test]
fn v9_1_client_enqueue_full() {
    let rig = rig(2);
    let attr = QueueAttr { deploy: Deploy::Client, ..QueueAttr::new(2) };
    let (mut producer, mut consumer, queue) = pair(&rig, attr);
    let data = [Buffer { data: None, len: 0 }, Buffer::from(&b"abc"[..]), Buffer::from(&b"d"[..])];
    let mut control = plain();
    for _ in 0..2 {
        assert_eq!(producer.enqueue_gather(queue, &data, &control), Ok(0));
    }
    assert_eq!(code(producer.enqueue_gather(queue, &data, &control)), Code::QUEUE_FULL);
    control.timeout_ms = 20;
    let start = Instant::now();
    assert_eq!(code(producer.enqueue_gather(queue, &data, &control)), Code::QUEUE_FULL);
    assert!(start.elapsed() >= Duration::from_millis(20));
    let held = [Buffer { data: None, len: 4 }];
    assert_eq!(code(producer.enqueue_gather(queue, &held, &control)), Code::PARAM_INVALID);
    let mut out = [0; 4];
    assert_eq!(consumer.dequeue(queue, &mut out, &mut plain()), Ok(4));
    assert_eq!(&out, b"abcd");
    assert_eq!(rig.usage().entries, 1, "what was refused was freed");
}

#[test]
fn v9_1_gather_all_lengths_0() {
    let rig = rig(2);
    let (mut producer, _consumer, queue) = pair(&rig, QueueAttr::new(8));
    let nothing = [Buffer { data: None, len: 0 }, Buffer::from(&b""[..])];
    assert_eq!(code(producer.enqueue_gather(queue, &nothing, &plain())), Code::FAILED);
    assert_eq!(code(producer.enqueue_gather(queue, &[], &plain())), Code::FAILED);
}

#[test]
fn v9_1_payload_of_50_mib() {
    const SIZE: usize = 50 << 20;
    let rig = rig_with(2, &[PoolConfig { block_size: SIZE as u64, block_count: 2 }]);
    let (mut producer, mut consumer, queue) = pair(&rig, QueueAttr::new(2));
    let data: Vec<u8> = (0..SIZE).map(|i| (i ^ (i >> 8) ^ (i >> 16)).to_le_bytes()[0]).collect();
    producer.enqueue(queue, &data, &plain()).unwrap();
    let halves = data.split_at(SIZE / 2 - 1);
    let halves = [Buffer::from(halves.0), Buffer::from(halves.1)];
    producer.enqueue_gather(queue, &halves, &plain()).unwrap();
    let mut out = vec![0; SIZE];
    for _ in 0..2 {
        out.fill(0);
        assert_eq!(consumer.dequeue(queue, &mut out, &mut plain()), Ok(SIZE));
        assert!(out == data, "identical after the copies");
    }
}

#[test]
fn v9_1_eos_head() {
    let rig = rig(2);
    let (mut producer, mut consumer, queue) = pair(&rig, QueueAttr::new(8));
    let mbuf = producer.alloc(8, 0).unwrap();
    let message = producer.worker().of(&mbuf);
    message.set_data_len(8);
    message.set_eos(true);
    message.update_msg_info(|info| info.ret_code = 9);
    producer.enqueue_mbuf(queue, mbuf, 0).unwrap();
    let mut out = [7; 8];
    let mut control = plain();
    assert_eq!(consumer.dequeue(queue, &mut out, &mut control), Ok(0));
    assert!(control.end_of_sequence);
    assert_eq!((out, control.msg_info), ([7; 8], None), "output untouched");
    // The flag is cleared by the next message, and enqueuing data never sets the byte.
    producer.enqueue(queue, b"x", &control).unwrap();
    assert_eq!(consumer.dequeue(queue, &mut out, &mut control), Ok(1));
    assert!(!control.end_of_sequence);
}

#[test]
fn v9_1_head_ret_code() {
    let rig = rig(2);
    let (mut producer, mut consumer, queue) = pair(&rig, QueueAttr::new(8));
    let info = MsgInfo { ret_code: 9999, trans_id: 5, data_flag: CUSTOM, ..MsgInfo::default() };
    let control = ControlInfo { user_data: [3; 64], ..ControlInfo::with_info(info) };
    producer.enqueue(queue, b"data", &control).unwrap();
    let (mut out, mut control) = ([7; 4], plain());
    assert_eq!(code(consumer.dequeue(queue, &mut out, &mut control)), Code(9999));
    assert_eq!((out, control.user_data), ([7; 4], [3; 64]), "the head is out, the data is not");
    assert_eq!(control.msg_info, Some(info));
    assert_eq!(rig.usage().entries, 0);
}

#[test]
fn v9_1_skip_size() {
    let rig = rig(2);
    let (mut producer, mut consumer, queue) = pair(&rig, QueueAttr::new(8));
    let mut out = [0; 8];
    for skip_size in [4, 5, usize::MAX] {
        producer.enqueue(queue, b"data", &plain()).unwrap();
        let mut control = ControlInfo { skip_size, ..plain() };
        assert_eq!(code(consumer.dequeue(queue, &mut out, &mut control)), Code::PARAM_INVALID);
    }
    producer.enqueue(queue, b"data", &plain()).unwrap();
    let mut control = ControlInfo { skip_size: 3, ..plain() };
    assert_eq!(consumer.dequeue(queue, &mut out, &mut control), Ok(1));
    assert_eq!(out[0], b'a');
    producer.enqueue(queue, b"data", &plain()).unwrap();
    assert_eq!(consumer.dequeue(queue, &mut out[..2], &mut plain()), Ok(2));
    assert_eq!(&out[..2], b"da");
}

fn send_tensor(exchange: &mut Exchange<'_>, queue: QueueId, desc: &RuntimeTensorDesc, data: &[u8]) {
    let size = TENSOR_DESC_SIZE + data.len();
    let mut mbuf = exchange.alloc(size as u64, 0).expect("an mbuf");
    assert!(payload::set_tensor_desc(exchange.worker(), &mut mbuf, desc));
    let buffer = payload::buffer_mut(exchange.worker(), &mut mbuf).expect("sole owner");
    buffer[TENSOR_DESC_SIZE..].copy_from_slice(data);
    exchange.worker().of(&mbuf).set_data_len(size as u64);
    exchange.enqueue_mbuf(queue, mbuf, 0).expect("room");
}

#[test]
fn v9_1_33_dims() {
    let rig = rig(2);
    let (mut producer, mut consumer, queue) = pair(&rig, QueueAttr::new(8));
    let good = RuntimeTensorDesc::new(DataType::INT32, &[1, 2]).unwrap();
    for rank in [33, -1, i64::MAX] {
        let mut bad = good;
        bad.shape[0] = rank;
        send_tensor(&mut producer, queue, &bad, &[0; 8]);
        assert_eq!(code(consumer.dequeue_tensor(queue, &mut plain())), Code::UNSUPPORTED);
        bad = good;
        bad.original_shape[0] = rank;
        send_tensor(&mut producer, queue, &bad, &[0; 8]);
        assert_eq!(code(consumer.dequeue_mbuf_tensor(queue, &mut plain())), Code::UNSUPPORTED);
    }
    assert_eq!(rig.usage().entries, 0);
}

/// A message of one tensor, byte for byte, as the consumer has it.
#[test]
fn a_tensor_message_has_golden_bytes() {
    let rig = rig(2);
    let (mut producer, mut consumer, queue) = pair(&rig, QueueAttr::new(8));
    let mut desc = RuntimeTensorDesc::new(DataType::INT32, &[2, 3]).unwrap();
    desc.original_shape = desc.shape;
    let data: Vec<u8> = (1..=24).collect();
    send_tensor(&mut producer, queue, &desc, &data);
    let mbuf = consumer.dequeue_mbuf(queue, 0).unwrap();
    let mut want = [0u8; 1024 + 24];
    want[16] = 3;
    for shape in [24, 288] {
        (want[shape], want[shape + 8], want[shape + 16]) = (2, 2, 3);
    }
    want[552] = 2;
    want[568] = 24;
    want[1024..].copy_from_slice(&data);
    assert_eq!(payload::bytes_of(consumer.worker().of(&mbuf), &mbuf), want);
    consumer.free(mbuf);
}

#[test]
fn tensors_are_checked_and_copied() {
    let rig = rig(2);
    let (mut producer, mut consumer, queue) = pair(&rig, QueueAttr::new(8));
    let good = RuntimeTensorDesc::new(DataType::INT32, &[1, 2]).unwrap();
    let data = [1, 2, 3, 4, 5, 6, 7, 8];
    send_tensor(&mut producer, queue, &good, &data);
    let Ok(Received::Tensor(tensor)) = consumer.dequeue_tensor(queue, &mut plain()) else {
        panic!("a tensor")
    };
    assert_eq!((tensor.data(), tensor.data().as_ptr().addr() % 64), (&data[..], 0));
    assert_eq!(tensor.desc.original_shape, tensor.desc.shape, "no original shape: a copy");
    send_tensor(&mut producer, queue, &good, &data);
    let Ok(Received::Tensor(tensor)) = consumer.dequeue_mbuf_tensor(queue, &mut plain()) else {
        panic!("a tensor")
    };
    assert_eq!(consumer.tensor_data(&tensor.desc, &tensor.mbuf), data);
    consumer.free(tensor.mbuf);
    // The declared size does not fit; there is no descriptor; there is no data.
    let large = RuntimeTensorDesc { data_size: 9, ..good };
    send_tensor(&mut producer, queue, &large, &data);
    assert_eq!(code(consumer.dequeue_tensor(queue, &mut plain())), Code::FAILED);
    producer.enqueue(queue, &[0; 1023], &plain()).unwrap();
    assert_eq!(code(consumer.dequeue_tensor(queue, &mut plain())), Code::FAILED);
    let null = ControlInfo::with_info(MsgInfo { data_flag: 1, ..MsgInfo::default() });
    producer.enqueue(queue, &[], &null).unwrap();
    assert!(matches!(consumer.dequeue_tensor(queue, &mut plain()), Ok(Received::Null)));
    assert_eq!(rig.usage().entries, 0);
}

#[test]
fn v9_1_waiter_with_infinite_timeout() {
    let rig = rig(2);
    let (mut producer, mut consumer, queue) = pair(&rig, QueueAttr::new(2));
    let memory = producer.memory();
    let consumer = thread::spawn(move || {
        let mut control = ControlInfo { timeout_ms: -1, ..plain() };
        let mut out = [0; 4];
        let got = consumer.dequeue(queue, &mut out, &mut control);
        (got, out)
    });
    until_parked(&memory, 1, 0);
    producer.enqueue(queue, b"woke", &plain()).unwrap();
    assert_eq!(consumer.join().unwrap(), (Ok(4), *b"woke"));
}

#[test]
fn a_producer_that_waits_for_room_is_woken() {
    let rig = rig(2);
    let (mut producer, mut consumer, queue) = pair(&rig, QueueAttr::new(2));
    for _ in 0..2 {
        producer.enqueue(queue, b"x", &plain()).unwrap();
    }
    let memory = consumer.memory();
    let producer = thread::spawn(move || {
        producer.enqueue(queue, b"y", &ControlInfo { timeout_ms: -1, ..plain() })
    });
    until_parked(&memory, 0, 0);
    consumer.dequeue(queue, &mut [0; 1], &mut plain()).unwrap();
    assert_eq!(producer.join().unwrap(), Ok(0));
}

#[test]
fn v21_depth_and_name() {
    let rig = rig(1);
    let mut exchange = rig.member(0, 0);
    for depth in [0, 1] {
        let created = exchange.create_queue("shallow", &QueueAttr::new(depth));
        assert_eq!(code(created), Code::INVALID_VALUE);
    }
    assert!(exchange.create_queue("two", &QueueAttr::new(2)).is_ok());
    assert_eq!(code(exchange.create_queue("", &QueueAttr::new(2))), Code::INVALID_VALUE);
    assert_eq!(executor_rt::exchange::ACL_DEPTH_DEFAULT, 8);
}

#[test]
fn v22_third_enqueue_and_empty_dequeue() {
    let rig = rig(2);
    let (mut producer, mut consumer, queue) = pair(&rig, QueueAttr::new(2));
    assert_eq!(code(consumer.dequeue_mbuf(queue, 0)), Code::QUEUE_EMPTY);
    for _ in 0..2 {
        let mbuf = producer.alloc(8, 0).unwrap();
        producer.enqueue_mbuf(queue, mbuf, 0).unwrap();
    }
    let mbuf = producer.alloc(8, 0).unwrap();
    let entry = mbuf.entry();
    let back = producer.enqueue_mbuf(queue, mbuf, 0).unwrap_err();
    assert_eq!((back.refused.code, back.mbuf.entry()), (Code::QUEUE_FULL, entry));
    producer.free(back.mbuf);
    assert_eq!(rig.usage().entries, 2);
}

#[test]
fn v23_query_statuses() {
    let rig = rig(2);
    let (mut producer, _consumer, queue) = pair(&rig, QueueAttr::new(2));
    for (size, status) in [(0, 1), (1, 0), (2, 2)] {
        let info = producer.query(queue).unwrap();
        assert_eq!((info.size, info.status, info.depth), (size, status, 2));
        if size < 2 {
            producer.enqueue(queue, b"x", &plain()).unwrap();
        }
    }
    assert_eq!(code(producer.query(QueueId(11))), Code::INVALID_VALUE);
    assert_eq!(code(producer.query(QueueId(12))), Code::INVALID_VALUE);
}

#[test]
fn v24_peek() {
    let rig = rig(2);
    let (mut producer, mut consumer, queue) = pair(&rig, QueueAttr::new(2));
    assert_eq!(code(consumer.peek(queue, 0)), Code::QUEUE_EMPTY);
    let start = Instant::now();
    assert_eq!(code(consumer.peek(queue, 50)), Code::QUEUE_EMPTY);
    assert!(start.elapsed() >= Duration::from_millis(50));
    producer.enqueue(queue, b"12345", &plain()).unwrap();
    assert_eq!((consumer.peek(queue, 0), consumer.peek(queue, -1)), (Ok(5), Ok(5)));
    assert_eq!(consumer.query(queue).unwrap().size, 1);
}

#[test]
fn v25_enqueue_buff() {
    let rig = rig(2);
    let (mut producer, mut consumer, queue) = pair(&rig, QueueAttr::new(4));
    let bytes: Vec<u8> = (0..200).collect();
    let pieces: Vec<Buffer<'_>> = bytes.chunks(1).map(Buffer::from).collect();
    producer.enqueue_buff(queue, &[], 200, Some(&pieces), 0).unwrap();
    assert_eq!(consumer.peek(queue, 0), Ok(200), "one data area");
    let (mut first, mut second) = ([0; 50], [0; 150]);
    let mut to: [&mut [u8]; 2] = [&mut first, &mut second];
    assert_eq!(consumer.dequeue_buff(queue, &mut [], &mut to, 0), Ok(200));
    assert_eq!([&first[..], &second[..]].concat(), bytes);
    let none = producer.enqueue_buff(queue, &[], 1, None, 0);
    assert_eq!(code(none), Code::INVALID_VALUE);
    let empty = vec![Buffer { data: None, len: 0 }; 129];
    let sent = producer.enqueue_buff(queue, &[], 129, Some(&empty), 0);
    assert_eq!(code(sent), Code::INVALID_VALUE);
    // A message that does not fit stays.
    producer.enqueue_buff(queue, &[], 1, Some(&[Buffer::from(&b"12345"[..])]), 0).unwrap();
    let small = consumer.dequeue_buff(queue, &mut [], &mut [&mut [0; 4]], 0);
    assert_eq!(code(small), Code::INVALID_VALUE);
    assert_eq!(consumer.peek(queue, 0), Ok(5));
}

#[test]
fn v26_init_attach_and_grants() {
    let rig = rig(3);
    let (mut owner, mut reader, queue) = pair(&rig, QueueAttr::new(2));
    assert_eq!(owner.init(), Ok(()));
    assert_eq!(code(owner.init()), Code::REPEATED_INIT);
    // Without a grant: fails at the timeout.
    let mut other = rig.member(2, 0);
    let start = Instant::now();
    assert_eq!(code(other.attach(queue, 30)), Code::REPORT_TIMEOUT);
    assert!(start.elapsed() >= Duration::from_millis(30));
    // Read only: no enqueue.
    assert_eq!(reader.attach(queue, 0), Ok(Rights::READ));
    assert_eq!(code(reader.enqueue(queue, b"x", &plain())), Code::OPER_NOT_PERMITTED);
    assert_eq!(code(reader.grant(queue, SlotId(1), Rights::WRITE)), Code::OPER_NOT_PERMITTED);
    assert_eq!(code(owner.grant(queue, SlotId(9), Rights::READ)), Code::INVALID_VALUE);
    // A grant wakes who waits for it.
    let memory = owner.memory();
    let other = thread::spawn(move || {
        let rights = other.attach(queue, -1);
        (rights, other.enqueue(queue, b"late", &plain()))
    });
    until_parked(&memory, 2, 0);
    owner.grant(queue, SlotId(2), Rights::WRITE).unwrap();
    assert_eq!(other.join().unwrap(), (Ok(Rights::WRITE), Ok(0)));
    assert_eq!(reader.peek(queue, 0), Ok(4));
}

#[test]
fn v29_user_data() {
    let rig = rig(1);
    let mut exchange = rig.member(0, 0);
    let mbuf = exchange.alloc(8, 0).unwrap();
    let message = exchange.worker().of(&mbuf);
    assert_eq!(write_user_data(&message, 0, &[9; 96]), Ok(()));
    assert_eq!(code(write_user_data(&message, 1, &[9; 96])), Code::INVALID_VALUE);
    assert_eq!(code(read_user_data(&message, 97, &mut [])), Code::INVALID_VALUE);
    let mut back = [0; 95];
    read_user_data(&message, 1, &mut back).unwrap();
    assert_eq!(back, [9; 95]);
    message.set_eos(true);
    message.set_msg_info(&MsgInfo { trans_id: 0x11, ..MsgInfo::default() });
    let head = message.head_bytes();
    assert_eq!((head[128], head[192]), (0x5A, 0x11));
    exchange.free(mbuf);
}

#[test]
fn v31_acl_poll() {
    let rig = rig(2);
    let (mut producer, mut consumer, queue) = pair(&rig, QueueAttr::new(2));
    let start = Instant::now();
    assert_eq!(code(consumer.acl_dequeue(queue, 30)), Code::ACL_FAILURE);
    assert!(start.elapsed() >= Duration::from_millis(30));
    for _ in 0..2 {
        producer.enqueue(queue, b"x", &plain()).unwrap();
    }
    let mbuf = producer.alloc(8, 0).unwrap();
    let start = Instant::now();
    let back = producer.acl_enqueue(queue, mbuf, 30).unwrap_err();
    assert!(start.elapsed() >= Duration::from_millis(30));
    assert_eq!(back.refused.code, Code::ACL_FAILURE);
    // Any other code comes at once, however long the timeout.
    let mbuf = producer.alloc(8, 0).unwrap();
    let back_too = producer.acl_enqueue(QueueId(5), mbuf, -1).unwrap_err();
    assert_eq!(back_too.refused.code, Code::OPER_NOT_PERMITTED);
    producer.free(back.mbuf);
    producer.free(back_too.mbuf);
}

#[test]
fn overwriting_drops_the_oldest() {
    let rig = rig(2);
    let attr = QueueAttr { overwrite: true, ..QueueAttr::new(2) };
    let (mut producer, mut consumer, queue) = pair(&rig, attr);
    for byte in 0..5u8 {
        producer.enqueue(queue, &[byte], &custom(0)).unwrap();
    }
    assert_eq!(producer.query(queue).unwrap().drops, 3);
    let mut out = [0];
    for byte in 3..5u8 {
        consumer.dequeue(queue, &mut out, &mut plain()).unwrap();
        assert_eq!(out, [byte]);
    }
    assert_eq!(rig.usage().entries, 0);
}

#[test]
fn a_shared_queue_wakes_whoever_may_read() {
    let rig = rig(3);
    let attr = QueueAttr { shared: true, ..QueueAttr::new(4) };
    let (mut producer, _first, queue) = pair(&rig, attr);
    producer.grant(queue, SlotId(2), Rights::READ).unwrap();
    let (mut second, memory) = (rig.member(2, 0), producer.memory());
    let second = thread::spawn(move || {
        let mut control = ControlInfo { timeout_ms: -1, ..plain() };
        second.dequeue(queue, &mut [0; 4], &mut control)
    });
    until_parked(&memory, 2, 0);
    producer.enqueue(queue, b"any", &plain()).unwrap();
    assert_eq!(second.join().unwrap(), Ok(3));
}

#[test]
fn counts_begin_with_the_queue() {
    let rig = rig(2);
    let mut exchange = rig.member(0, 0);
    for _ in 0..3 {
        let queue = exchange.create_queue("again", &QueueAttr::new(4)).unwrap();
        exchange.grant(queue, SlotId(0), Rights::WRITE).unwrap();
        exchange.enqueue(queue, b"x", &custom(0)).unwrap();
        let info = exchange.query(queue).unwrap();
        assert_eq!((info.enqueued, info.high_water, info.size), (1, 1, 1));
        exchange.destroy_queue(queue).unwrap();
        assert_eq!(code(exchange.enqueue(queue, b"x", &plain())), Code::OPER_NOT_PERMITTED);
    }
    assert_eq!(rig.usage().entries, 0, "queued messages are freed");
}

#[test]
fn reset_empties_and_goes_on() {
    let rig = rig(2);
    let mut exchange = rig.member(0, 0);
    let queue = exchange.create_queue("r", &QueueAttr::new(2)).unwrap();
    exchange.grant(queue, SlotId(0), Rights::WRITE).unwrap();
    for _ in 0..2 {
        exchange.enqueue(queue, b"x", &custom(0)).unwrap();
    }
    exchange.reset(queue).unwrap();
    let info = exchange.query(queue).unwrap();
    assert_eq!((info.size, info.drops), (0, 2));
    assert_eq!(exchange.enqueue(queue, b"x", &custom(0)), Ok(3), "reset keeps the ids");
}

#[test]
fn destroying_wakes_and_tells_who_waits() {
    let rig = rig(2);
    let mut owner = rig.member(0, 0);
    let queue = owner.create_queue("d", &QueueAttr::new(2)).unwrap();
    owner.grant(queue, SlotId(1), Rights::WRITE).unwrap();
    let (mut producer, memory) = (rig.member(1, 0), owner.memory());
    let producer = thread::spawn(move || {
        let control = ControlInfo { timeout_ms: -1, ..plain() };
        (0..).find_map(|_| producer.enqueue(queue, b"x", &control).err())
    });
    until_parked(&memory, 1, 0);
    owner.destroy_queue(queue).unwrap();
    assert_eq!(producer.join().unwrap().unwrap().code, Code::OPER_NOT_PERMITTED);
}

#[test]
fn waiting_where_nobody_rings_is_refused() {
    let rig = rig(1);
    let mut exchange = rig.member(0, 0);
    let attr = QueueAttr { waiter: Some(3), ..QueueAttr::new(2) };
    let queue = exchange.create_queue("elsewhere", &attr).unwrap();
    assert_eq!(code(exchange.dequeue_mbuf(queue, 10)), Code::INVALID_VALUE);
    assert_eq!(code(exchange.dequeue_mbuf(queue, 0)), Code::QUEUE_EMPTY);
}
