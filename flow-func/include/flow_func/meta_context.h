// What a function asks of the runtime.
#ifndef FLOW_FUNC_META_CONTEXT_H
#define FLOW_FUNC_META_CONTEXT_H

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "dflow_attr_value.h"
#include "flow_func_defines.h"
#include "flow_msg.h"
#include "out_options.h"
#include "tensor_data_type.h"

namespace FlowFunc {
// Used from the thread that calls Init and Proc, while it does so.
class FLOW_FUNC_VISIBILITY MetaContext {
public:
    MetaContext() = default;
    virtual ~MetaContext() = default;

    // A tensor message whose head is that of the current input; null on failure (the log says why).
    virtual std::shared_ptr<FlowMsg> AllocTensorMsg(const std::vector<int64_t> &shape,
                                                    TensorDataType dataType) = 0;
    // Sends a message: the runtime takes a reference of its own, nothing is copied. A null message
    // is silently fine, and a full queue is no error.
    virtual int32_t SetOutput(uint32_t outIdx, std::shared_ptr<FlowMsg> outMsg) = 0;
    // Null when there is no such attribute.
    virtual std::shared_ptr<const AttrValue> GetAttr(const char *attrName) const = 0;

    template<typename T>
    int32_t GetAttr(const char *attrName, T &value) const
    {
        const std::shared_ptr<const AttrValue> attr = GetAttr(attrName);
        return (attr == nullptr) ? FLOW_FUNC_ERR_ATTR_NOT_EXITS : attr->GetVal(value);
    }

    virtual size_t GetInputNum() const = 0;
    virtual size_t GetOutputNum() const = 0;
    // A message without data, of MSG_TYPE_TENSOR_DATA only.
    virtual std::shared_ptr<FlowMsg> AllocEmptyDataMsg(MsgType msgType) = 0;
    // Not in this version: FLOW_FUNC_ERR_NOT_SUPPORT.
    virtual int32_t RunFlowModel(const char *modelKey,
                                 const std::vector<std::shared_ptr<FlowMsg>> &inputMsgs,
                                 std::vector<std::shared_ptr<FlowMsg>> &outputMsgs,
                                 int32_t timeout) = 0;
    virtual const char *GetWorkPath() const = 0;
    virtual int32_t GetRunningDeviceId() const = 0;
    // Copies from the 64 bytes of user data of the current input.
    virtual int32_t GetUserData(void *data, size_t size, size_t offset = 0U) const = 0;
    virtual int32_t SetOutput(uint32_t outIdx, std::shared_ptr<FlowMsg> outMsg,
                              const OutOptions &options);
    virtual int32_t SetMultiOutputs(uint32_t outIdx,
                                    const std::vector<std::shared_ptr<FlowMsg>> &outMsgs,
                                    const OutOptions &options);
    // `align` is one of 32, 64, 128, 256, 512, 1024.
    virtual std::shared_ptr<FlowMsg> AllocTensorMsgWithAlign(const std::vector<int64_t> &shape,
                                                             TensorDataType dataType,
                                                             uint32_t align);
    // Not in this version: does nothing but a line in the log.
    virtual void RaiseException(int32_t expCode, uint64_t userContextId);
    // Not in this version: always false.
    virtual bool GetException(int32_t &expCode, uint64_t &userContextId);
};
}  // namespace FlowFunc

#endif
