// Visibility of exported names and the return codes of user functions.
#ifndef FLOW_FUNC_FLOW_FUNC_DEFINES_H
#define FLOW_FUNC_FLOW_FUNC_DEFINES_H

#include <cstdint>

#define FLOW_FUNC_VISIBILITY __attribute__((visibility("default")))

namespace FlowFunc {
constexpr int32_t FLOW_FUNC_SUCCESS = 0;

// Mistakes of the caller.
constexpr int32_t FLOW_FUNC_ERR_PARAM_INVALID = 164000;
constexpr int32_t FLOW_FUNC_ERR_ATTR_NOT_EXITS = 164001;
constexpr int32_t FLOW_FUNC_ERR_ATTR_TYPE_MISMATCH = 164002;

// On an input that stands in for one that did not come in time.
constexpr int32_t FLOW_FUNC_ERR_DATA_ALIGN_FAILED = 364000;

// Failures of the runtime.
constexpr int32_t FLOW_FUNC_FAILED = 564000;
constexpr int32_t FLOW_FUNC_ERR_TIME_OUT_ERROR = 564001;
constexpr int32_t FLOW_FUNC_ERR_NOT_SUPPORT = 564002;
constexpr int32_t FLOW_FUNC_STATUS_REDEPLOYING = 564003;
constexpr int32_t FLOW_FUNC_STATUS_EXIT = 564004;
constexpr int32_t FLOW_FUNC_ERR_DRV_ERROR = 564100;
constexpr int32_t FLOW_FUNC_ERR_MEM_BUF_ERROR = 564101;
constexpr int32_t FLOW_FUNC_ERR_QUEUE_ERROR = 564102;
constexpr int32_t FLOW_FUNC_ERR_EVENT_ERROR = 564103;

// Codes of user functions: START to END, both included.
constexpr int32_t FLOW_FUNC_ERR_USER_DEFINE_START = 9900000;
constexpr int32_t FLOW_FUNC_ERR_USER_DEFINE_END = 9999999;
}  // namespace FlowFunc

#endif
