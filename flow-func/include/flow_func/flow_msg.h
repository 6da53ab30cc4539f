// Messages and the tensors in them.
#ifndef FLOW_FUNC_FLOW_MSG_H
#define FLOW_FUNC_FLOW_MSG_H

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "flow_func_defines.h"
#include "tensor_data_type.h"

namespace FlowFunc {
enum class MsgType : uint16_t {
    MSG_TYPE_TENSOR_DATA = 0,
    MSG_TYPE_RAW_MSG = 1,
    MSG_TYPE_TENSOR_LIST = 2,
    MSG_TYPE_USER_DEFINE_START = 1024
};

// Bits of the flags word.
enum class FlowFlag : uint32_t {
    FLOW_FLAG_EOS = 1U,
    FLOW_FLAG_SEG = 2U
};

// A tensor inside a message; it lives as long as the message does.
class FLOW_FUNC_VISIBILITY Tensor {
public:
    Tensor() = default;
    virtual ~Tensor() = default;

    virtual const std::vector<int64_t> &GetShape() const = 0;
    // DT_UNDEFINED where the message has no descriptor.
    virtual TensorDataType GetDataType() const = 0;
    // The payload. That of an input is read-only memory.
    virtual void *GetData() const = 0;
    // Bytes of the payload.
    virtual uint64_t GetDataSize() const = 0;
    // Elements; -1 where unknown.
    virtual int64_t GetElementCnt() const = 0;
    // New dimensions with the same number of elements; 0, or a code and nothing has changed.
    virtual int32_t Reshape(const std::vector<int64_t> &shape);
    // Bytes usable at GetData(), at least GetDataSize().
    virtual uint64_t GetDataBufferSize() const;
};

class FLOW_FUNC_VISIBILITY FlowBufferFactory {
public:
    // A tensor in shared memory that belongs to no message yet; null on failure. Inside Init and
    // Proc only. `align` is one of 32, 64, 128, 256, 512, 1024.
    static std::shared_ptr<Tensor> AllocTensor(const std::vector<int64_t> &shape,
                                               TensorDataType dataType, uint32_t align = 512U);
};

// A message. One that a function still holds when Proc has returned is dead: it has no tensor and
// can't be sent.
class FLOW_FUNC_VISIBILITY FlowMsg {
public:
    FlowMsg() = default;
    virtual ~FlowMsg() = default;

    virtual MsgType GetMsgType() const = 0;
    // The first tensor; null in raw and empty messages.
    virtual Tensor *GetTensor() const = 0;
    virtual int32_t GetRetCode() const = 0;
    virtual void SetRetCode(int32_t retCode) = 0;
    virtual void SetStartTime(uint64_t startTime) = 0;
    virtual uint64_t GetStartTime() const = 0;
    virtual void SetEndTime(uint64_t endTime) = 0;
    virtual uint64_t GetEndTime() const = 0;
    // Replaces the whole word.
    virtual void SetFlowFlags(uint32_t flags) = 0;
    virtual uint32_t GetFlowFlags() const = 0;
    // 0 = none.
    virtual void SetRouteLabel(uint32_t routeLabel) = 0;
    virtual uint64_t GetTransactionId() const;
    virtual const std::vector<Tensor *> GetTensorList() const;
    // The whole data area; in tensor messages with the descriptor of 1024 bytes.
    virtual int32_t GetRawData(void *&dataPtr, uint64_t &dataSize) const;
    virtual void SetMsgType(MsgType msgType);
    // 0 = the id of the current input.
    virtual void SetTransactionId(uint64_t transactionId);
};
}  // namespace FlowFunc

#endif
