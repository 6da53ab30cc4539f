// An attribute of a node, read by the type of the variable that takes it.
#ifndef FLOW_FUNC_DFLOW_ATTR_VALUE_H
#define FLOW_FUNC_DFLOW_ATTR_VALUE_H

#include <cstdint>
#include <vector>

#include "flow_func_ascend_string.h"
#include "flow_func_defines.h"
#include "tensor_data_type.h"

namespace FlowFunc {
// Each call answers 0, or FLOW_FUNC_ERR_ATTR_TYPE_MISMATCH and leaves `value` alone. Lists are
// appended to what `value` already holds.
class FLOW_FUNC_VISIBILITY AttrValue {
public:
    AttrValue() = default;
    virtual ~AttrValue() = default;
    AttrValue(const AttrValue &) = delete;
    AttrValue &operator=(const AttrValue &) = delete;
    AttrValue(AttrValue &&) = delete;
    AttrValue &operator=(AttrValue &&) = delete;

    virtual int32_t GetVal(AscendString &value) const = 0;
    virtual int32_t GetVal(std::vector<AscendString> &value) const = 0;
    virtual int32_t GetVal(int64_t &value) const = 0;
    virtual int32_t GetVal(std::vector<int64_t> &value) const = 0;
    virtual int32_t GetVal(std::vector<std::vector<int64_t>> &value) const = 0;
    virtual int32_t GetVal(float &value) const = 0;
    virtual int32_t GetVal(std::vector<float> &value) const = 0;
    virtual int32_t GetVal(bool &value) const = 0;
    virtual int32_t GetVal(std::vector<bool> &value) const = 0;
    virtual int32_t GetVal(TensorDataType &value) const = 0;
    virtual int32_t GetVal(std::vector<TensorDataType> &value) const = 0;
};
}  // namespace FlowFunc

#endif
