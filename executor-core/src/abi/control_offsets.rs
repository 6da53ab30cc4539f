//! Size, alignment and every offset of the structs of the control segment, asserted when it is
//! compiled. A field that is not listed here does not compile either. `docs/layout.md` repeats the
//! table, and a test compares them.

use core::mem::offset_of;

use static_assertions::const_assert_eq;

use super::control::{
    BlockDesc, Entry, HeadCtl, Header, Journal, LaneCtl, PoolDesc, QueueCtl, SlotCtl, SlotDesc,
    SlotShared, SlotStatus, StatusCtl, WaiterCtl,
};

macro_rules! layouts {
    ($($ty:ident $size:literal $align:literal { $($field:ident = $offset:literal),+ })+) => {
        $(
            const_assert_eq!(size_of::<$ty>(), $size);
            const_assert_eq!(align_of::<$ty>(), $align);
            $(const_assert_eq!(offset_of!($ty, $field), $offset);)+
            // All fields, by name.
            const _: fn(&$ty) = |$ty { $($field: _),+ }| {};
        )+
        /// Name, size, fields with their offsets.
        #[cfg(test)]
        const ALL: &[(&str, usize, &[(&str, usize)])] =
            &[$((stringify!($ty), $size, &[$((stringify!($field), $offset)),+])),+];
    };
}

layouts! {
    Header 128 8 {
        magic = 0, abi_version = 8, header_size = 12, layout_hash = 16, control_len = 24,
        arena_len = 32, slots = 40, workers = 44, lanes = 48, heads = 52, ring_words = 56, queues
        = 60, entries = 64, pools = 68, name = 72, reserved = 104
    }
    SlotDesc 40 8 {
        first_pool = 0, pool_count = 4, first_entry = 8, block_count = 12, extra_count = 16,
        reserved = 20, partition_offset = 24, partition_len = 32
    }
    PoolDesc 16 8 { first_block = 0, block_count = 4, block_size = 8 }
    BlockDesc 24 8 { offset = 0, size = 8, slot = 16, reserved = 20 }
    StatusCtl 64 64 { sequence = 0, phase = 4, sweeps = 8, suspects = 16, swept = 24 }
    SlotStatus 64 64 {
        generation = 0, state = 4, restarts = 8, exit_kind = 12, exit_value = 16, pid = 20,
        started_ns = 24, sweeps = 32
    }
    QueueCtl 768 64 {
        state = 0, generation = 4, depth = 8, flags = 12, consumer = 16, consumer_waiter = 20,
        lane_count = 24, ready_bit = 28, lock = 32, full_waiting = 40, faults = 48, drops = 56,
        name = 64, manage = 192, read = 200, write = 208, drop_first = 216, drop_last = 224,
        quarantined = 232, reserved = 240, lanes = 256, shared_heads = 512, head_cells = 640
    }
    WaiterCtl 64 64 { sequence = 0, parked = 4, ready = 8 }
    SlotShared 64 64 { pool_waiting = 0, lane_lock = 8, member = 16 }
    Entry 320 64 {
        head = 0, owner = 256, count = 264, block = 272, generation = 276, data_len = 280,
        buffer_size = 288, chain_next = 296, chain_tail = 300, marks = 304, reserved = 308, set =
        312
    }
    SlotCtl 256 64 {
        pid = 0, generation = 4, state = 8, last_code = 12, set_taken = 16, set_delivered = 24,
        set_done = 32, committed = 40, attempts = 48, progress = 56, setup_allocations = 64,
        runtime_allocations = 72, user_allocations = 80, bytes_copied = 88, processed = 96,
        user_ns = 104, parks = 112, pool_waits = 120, coded = 128, trans_id = 136, late = 144,
        model = 152, reserved = 160
    }
    Journal 64 64 { operation = 0, detail = 8, done = 16 }
    LaneCtl 64 64 {
        tail = 0, high_water = 4, enqueued = 8, full = 16, generation = 24, reserved = 28
    }
    HeadCtl 64 64 { head = 0, generation = 4, dequeued = 8 }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::format;
    use std::string::String;
    use std::vec::Vec;

    use super::ALL;

    #[test]
    fn the_documented_offsets_are_these() {
        let document = include_str!("../../../docs/layout.md");
        for (name, size, fields) in ALL {
            let fields: Vec<String> =
                fields.iter().map(|(field, offset)| format!("{field} {offset}")).collect();
            let row = format!("| {name} | {size} | {} |", fields.join(", "));
            assert!(document.contains(&row), "docs/layout.md has no row\n{row}");
        }
    }
}
