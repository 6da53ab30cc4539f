// The C ABI between udf-executor and a library of functions: flow-func/src/abi.rs in C++.
//
// What each field means is written there. A test (flow-func/tests/layouts.rs) compares the
// LAYOUT lines below with that file; the compiler compares them with the structs.
#ifndef DFLOW_FLOW_FUNC_ABI_H
#define DFLOW_FLOW_FUNC_ABI_H

#include <cstddef>
#include <cstdint>

extern "C" {
namespace dflow {
constexpr uint64_t LIBRARY_MAGIC = 0x31464455574c4644;  // "DFLWUDF1"
constexpr uint64_t API_MAGIC = 0x31495041574c4644;      // "DFLWAPI1"
constexpr uint32_t ABI_VERSION = 1;
constexpr uint32_t PANIC_UNWIND = 0;

constexpr uint16_t ACCESS_OWNED = 2;
constexpr uint16_t ACCESS_NULL_DATA = 4;

enum Field : uint32_t {
    FIELD_RET_CODE = 0,
    FIELD_FLAGS = 1,
    FIELD_TRANS_ID = 2,
    FIELD_MSG_TYPE = 3,
    FIELD_START_TIME = 4,
    FIELD_END_TIME = 5,
    FIELD_ROUTE_LABEL = 6
};

enum Kind : uint32_t {
    KIND_STR = 0,
    KIND_STR_LIST = 1,
    KIND_INT = 2,
    KIND_INT_LIST = 3,
    KIND_INT_LIST_LIST = 4,
    KIND_FLOAT = 5,
    KIND_FLOAT_LIST = 6,
    KIND_BOOL = 7,
    KIND_BOOL_LIST = 8,
    KIND_DATA_TYPE = 9,
    KIND_DATA_TYPE_LIST = 10
};

constexpr uint32_t LEVEL_ERROR = 3;

// Codes that only this side answers, docs/codes.md.
constexpr int32_t INIT_AGAIN = 144;
constexpr int32_t PROC_PENDING = 145;
constexpr int32_t UDF_PANIC = 14614531;
constexpr int32_t NO_MBUF = 14614539;
constexpr int32_t TOO_LARGE = 14614540;

struct ContextV1;
struct InstanceV1;

struct StrV1 {
    const char *ptr;
    uint64_t len;
};

struct IntsV1 {
    const int64_t *ptr;
    uint64_t len;
};

struct AttrV1 {
    const void *data;
    uint64_t count;
};

struct ParamsV1 {
    StrV1 name;
    StrV1 work_path;
    uint32_t input_count;
    uint32_t output_count;
    int32_t device_id;
    int32_t instance_id;
    int32_t instance_num;
    uint32_t reserved;
};

struct MsgV1 {
    const uint64_t *head;
    const void *desc;
    uint8_t *data;
    uint64_t data_size;
    uint64_t capacity;
    const uint8_t *area;
    uint64_t area_size;
    const int64_t *dims;
    int64_t element_count;
    uint64_t trans_id;
    int32_t ret_code;
    uint32_t flags;
    int32_t data_type;
    uint32_t rank;
    uint16_t msg_type;
    uint16_t access;
    uint32_t tensor_count;
    uint64_t internal[3];
};

struct ApiV1 {
    uint64_t magic;
    uint32_t abi_version;
    uint32_t size;
    uint32_t log_level;
    uint32_t reserved;
    const ParamsV1 *(*get_params)(ContextV1 *ctx);
    int32_t (*get_attr)(ContextV1 *ctx, const char *name, uint64_t name_len, uint32_t kind,
                        AttrV1 *out);
    int32_t (*alloc_tensor)(ContextV1 *ctx, const int64_t *dims, uint32_t rank, int32_t data_type,
                            uint32_t align, MsgV1 *out);
    int32_t (*alloc_raw)(ContextV1 *ctx, uint64_t size, uint32_t align, MsgV1 *out);
    int32_t (*alloc_empty)(ContextV1 *ctx, uint16_t msg_type, MsgV1 *out);
    int32_t (*copy_ref)(ContextV1 *ctx, const MsgV1 *msg, MsgV1 *out);
    void (*release)(ContextV1 *ctx, MsgV1 *msg);
    int32_t (*reshape)(ContextV1 *ctx, MsgV1 *msg, const int64_t *dims, uint32_t rank);
    int32_t (*set_info)(ContextV1 *ctx, MsgV1 *msg, uint32_t field, uint64_t value);
    int32_t (*set_output)(ContextV1 *ctx, uint32_t index, const MsgV1 *msg);
    int32_t (*get_user_data)(ContextV1 *ctx, uint8_t *out, uint64_t size, uint64_t offset);
    void (*log)(ContextV1 *ctx, uint32_t level, const char *text, uint64_t len);
    void (*log_run)(ContextV1 *ctx, uint32_t level, const char *text, uint64_t len);
};

struct FuncV1 {
    const char *name;
    uint64_t name_len;
    InstanceV1 *(*create)(const ApiV1 *api, ContextV1 *ctx);
    int32_t (*init)(InstanceV1 *instance, ContextV1 *ctx);
    int32_t (*proc)(InstanceV1 *instance, ContextV1 *ctx, const MsgV1 *const *inputs,
                    uint32_t input_count);
    void (*destroy)(InstanceV1 *instance);
    int32_t (*reset)(InstanceV1 *instance, ContextV1 *ctx);
    uint64_t reserved;
};

struct LibraryV1 {
    uint64_t magic;
    uint32_t abi_version;
    uint32_t size;
    uint32_t panic_strategy;
    uint32_t func_count;
    const char *name;
    uint64_t name_len;
    const FuncV1 *funcs;
    uint32_t func_size;
    uint32_t reserved[3];
};
}  // namespace dflow
}

#define LAYOUT(type, field, at) \
    static_assert(offsetof(dflow::type, field) == (at), "layout of " #type "." #field)
#define SIZE(type, bytes) static_assert(sizeof(dflow::type) == (bytes), "size of " #type)

SIZE(StrV1, 16);
LAYOUT(StrV1, ptr, 0);
LAYOUT(StrV1, len, 8);
SIZE(IntsV1, 16);
LAYOUT(IntsV1, ptr, 0);
LAYOUT(IntsV1, len, 8);
SIZE(AttrV1, 16);
LAYOUT(AttrV1, data, 0);
LAYOUT(AttrV1, count, 8);
SIZE(ParamsV1, 56);
LAYOUT(ParamsV1, name, 0);
LAYOUT(ParamsV1, work_path, 16);
LAYOUT(ParamsV1, input_count, 32);
LAYOUT(ParamsV1, output_count, 36);
LAYOUT(ParamsV1, device_id, 40);
LAYOUT(ParamsV1, instance_id, 44);
LAYOUT(ParamsV1, instance_num, 48);
LAYOUT(ParamsV1, reserved, 52);
SIZE(MsgV1, 128);
LAYOUT(MsgV1, head, 0);
LAYOUT(MsgV1, desc, 8);
LAYOUT(MsgV1, data, 16);
LAYOUT(MsgV1, data_size, 24);
LAYOUT(MsgV1, capacity, 32);
LAYOUT(MsgV1, area, 40);
LAYOUT(MsgV1, area_size, 48);
LAYOUT(MsgV1, dims, 56);
LAYOUT(MsgV1, element_count, 64);
LAYOUT(MsgV1, trans_id, 72);
LAYOUT(MsgV1, ret_code, 80);
LAYOUT(MsgV1, flags, 84);
LAYOUT(MsgV1, data_type, 88);
LAYOUT(MsgV1, rank, 92);
LAYOUT(MsgV1, msg_type, 96);
LAYOUT(MsgV1, access, 98);
LAYOUT(MsgV1, tensor_count, 100);
LAYOUT(MsgV1, internal, 104);
SIZE(ApiV1, 128);
LAYOUT(ApiV1, magic, 0);
LAYOUT(ApiV1, abi_version, 8);
LAYOUT(ApiV1, size, 12);
LAYOUT(ApiV1, log_level, 16);
LAYOUT(ApiV1, reserved, 20);
LAYOUT(ApiV1, get_params, 24);
LAYOUT(ApiV1, get_attr, 32);
LAYOUT(ApiV1, alloc_tensor, 40);
LAYOUT(ApiV1, alloc_raw, 48);
LAYOUT(ApiV1, alloc_empty, 56);
LAYOUT(ApiV1, copy_ref, 64);
LAYOUT(ApiV1, release, 72);
LAYOUT(ApiV1, reshape, 80);
LAYOUT(ApiV1, set_info, 88);
LAYOUT(ApiV1, set_output, 96);
LAYOUT(ApiV1, get_user_data, 104);
LAYOUT(ApiV1, log, 112);
LAYOUT(ApiV1, log_run, 120);
SIZE(FuncV1, 64);
LAYOUT(FuncV1, name, 0);
LAYOUT(FuncV1, name_len, 8);
LAYOUT(FuncV1, create, 16);
LAYOUT(FuncV1, init, 24);
LAYOUT(FuncV1, proc, 32);
LAYOUT(FuncV1, destroy, 40);
LAYOUT(FuncV1, reset, 48);
LAYOUT(FuncV1, reserved, 56);
SIZE(LibraryV1, 64);
LAYOUT(LibraryV1, magic, 0);
LAYOUT(LibraryV1, abi_version, 8);
LAYOUT(LibraryV1, size, 12);
LAYOUT(LibraryV1, panic_strategy, 16);
LAYOUT(LibraryV1, func_count, 20);
LAYOUT(LibraryV1, name, 24);
LAYOUT(LibraryV1, name_len, 32);
LAYOUT(LibraryV1, funcs, 40);
LAYOUT(LibraryV1, func_size, 48);
LAYOUT(LibraryV1, reserved, 52);

#undef LAYOUT
#undef SIZE

#endif
