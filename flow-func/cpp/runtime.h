// What the parts of libflow_func.so share: one Runtime for each instance of a function, its
// messages, and its log lines.
//
// R1. The executor calls an instance from one thread at a time, and the table is used from that
//     thread during a call only (abi I2): everything that needs it asks Runtime::Usable() first.
// R2. A message belongs to the call in which it was made. When that call ends the executor takes
//     back what is left (abi I4); a message that is still held is dead from then on (Alive()).
// R3. Messages and their reference counts come out of pools that are filled at creation, so that a
//     call allocates nothing of its own.
#ifndef DFLOW_FLOW_FUNC_RUNTIME_H
#define DFLOW_FLOW_FUNC_RUNTIME_H

#include <pthread.h>

#include <atomic>
#include <cstdarg>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "abi.h"
#include "flow_func/flow_func_log.h"
#include "flow_func/flow_msg.h"
#include "flow_func/meta_context.h"

namespace dflow {
using FlowFunc::FlowFuncLogLevel;
using FlowFunc::FlowMsg;
using FlowFunc::Tensor;
using FlowFunc::TensorDataType;

class Message;

// The executor's side of one instance, as its functions see it. Counted, because messages can
// outlive the instance.
class Runtime {
public:
    Runtime(const ApiV1 *api, ContextV1 *ctx, const char *function);
    Runtime(const Runtime &) = delete;
    Runtime &operator=(const Runtime &) = delete;

    // The runtime of the call that this thread is in; otherwise the newest one, or null.
    static Runtime *Current();
    // The runtime of the call that this thread is in, or null.
    static Runtime *Inside();

    // True inside a call, on its thread.
    bool Usable() const
    {
        return inside_.load(std::memory_order_acquire) && pthread_equal(thread_, pthread_self());
    }
    // Number of the call under way.
    uint64_t Call() const
    {
        return call_.load(std::memory_order_acquire);
    }

    const ApiV1 *Api() const
    {
        return api_;
    }
    ContextV1 *Ctx() const
    {
        return ctx_;
    }
    const std::string &Function() const
    {
        return function_;
    }
    const ParamsV1 &Params() const
    {
        return *api_->get_params(ctx_);
    }

    // A line of the runtime's own about this function.
    void Say(FlowFuncLogLevel level, const char *format, ...) __attribute__((format(printf, 3, 4)));

    // The message behind `input`, which lives as long as the call.
    std::shared_ptr<FlowMsg> Input(const MsgV1 *input);
    // The message of a handle of this call.
    std::shared_ptr<FlowMsg> Handle(const MsgV1 &handle);

    // Notes a failed allocation: what the id is answered with when Proc then gives up.
    void NoteFailure(int32_t code)
    {
        failure_ = code;
    }
    int32_t Failure() const
    {
        return failure_;
    }

    // Nodes for reference counts.
    void *TakeNode(size_t size);
    void GiveNode(void *node, size_t size);
    // A message that nobody holds any more.
    void Recycle(Message *message);

    // One owner less.
    void Drop();

    // Sets the scene for one call of the function.
    class Scope {
    public:
        explicit Scope(Runtime *runtime);
        ~Scope();
        Scope(const Scope &) = delete;
        Scope &operator=(const Scope &) = delete;

    private:
        Runtime *runtime_;
        Runtime *before_;
    };

private:
    static constexpr size_t NODE_BYTES = 64;
    static constexpr size_t POOLED = 64;

    ~Runtime();
    std::shared_ptr<FlowMsg> Share(Message *message);
    Message *TakeMessage();

    const ApiV1 *api_;
    ContextV1 *ctx_;
    std::string function_;
    pthread_t thread_;
    std::atomic<bool> inside_;
    std::atomic<uint64_t> call_;
    std::atomic<size_t> owners_;
    int32_t failure_;
    std::mutex lock_;
    std::vector<std::unique_ptr<Message>> messages_;
    std::vector<Message *> free_messages_;
    std::vector<void *> free_nodes_;
};

// Gives reference counts out of a Runtime's pool.
template<typename T>
class NodeAllocator {
public:
    using value_type = T;
    explicit NodeAllocator(Runtime *runtime) : runtime_(runtime) {}
    template<typename U>
    NodeAllocator(const NodeAllocator<U> &other) : runtime_(other.runtime()) {}
    T *allocate(size_t count)
    {
        return static_cast<T *>(runtime_->TakeNode(count * sizeof(T)));
    }
    void deallocate(T *node, size_t count)
    {
        runtime_->GiveNode(node, count * sizeof(T));
    }
    Runtime *runtime() const
    {
        return runtime_;
    }
    template<typename U>
    bool operator==(const NodeAllocator<U> &other) const
    {
        return runtime_ == other.runtime();
    }
    template<typename U>
    bool operator!=(const NodeAllocator<U> &other) const
    {
        return !(*this == other);
    }

private:
    Runtime *runtime_;
};

// One tensor of a message.
class MessageTensor final : public Tensor {
public:
    explicit MessageTensor(Message *message);
    const std::vector<int64_t> &GetShape() const override;
    TensorDataType GetDataType() const override;
    void *GetData() const override;
    uint64_t GetDataSize() const override;
    int64_t GetElementCnt() const override;
    int32_t Reshape(const std::vector<int64_t> &shape) override;
    uint64_t GetDataBufferSize() const override;

    // The first tensor of a message.
    void Show(const MsgV1 &view);
    // The member of a tensor list at `offset` of `area`: its size with the descriptor, 0 when it is
    // malformed.
    uint64_t ShowMember(const uint8_t *area, uint64_t area_size, uint64_t offset);

private:
    Message *message_;
    std::vector<int64_t> shape_;
    TensorDataType type_;
    uint8_t *data_;
    uint64_t size_;
    uint64_t capacity_;
    int64_t count_;
    bool described_;
    bool first_;
};

// A message: a view of an input, or a handle. What is set on an input is set on a handle of its
// own, which then stands for it.
class Message final : public FlowMsg {
public:
    explicit Message(Runtime *runtime);
    FlowFunc::MsgType GetMsgType() const override;
    Tensor *GetTensor() const override;
    int32_t GetRetCode() const override;
    void SetRetCode(int32_t code) override;
    void SetStartTime(uint64_t time) override;
    uint64_t GetStartTime() const override;
    void SetEndTime(uint64_t time) override;
    uint64_t GetEndTime() const override;
    void SetFlowFlags(uint32_t flags) override;
    uint32_t GetFlowFlags() const override;
    void SetRouteLabel(uint32_t label) override;
    uint64_t GetTransactionId() const override;
    const std::vector<Tensor *> GetTensorList() const override;
    int32_t GetRawData(void *&data, uint64_t &size) const override;
    void SetMsgType(FlowFunc::MsgType type) override;
    void SetTransactionId(uint64_t id) override;

    // Becomes the message of `input`, or of `handle`.
    void Begin(const MsgV1 *input, const MsgV1 *handle);
    // Gives its handle back, where it has one that is still its own.
    void End();
    // True during the call that it was made in.
    bool Alive() const;
    // What stands for it now; of a living message only.
    const MsgV1 &View() const
    {
        return owns_ ? handle_ : *input_;
    }
    // A handle that stands for it, which may be changed; null and a line in the log otherwise.
    MsgV1 *Own(const char *what);
    // The view has changed.
    void Refresh();
    Runtime *Of() const
    {
        return runtime_;
    }

private:
    void Set(const char *what, uint32_t field, uint64_t value);
    uint64_t HeadWord(size_t index) const;

    Runtime *runtime_;
    uint64_t call_;
    const MsgV1 *input_;
    MsgV1 handle_;
    bool owns_;
    size_t tensors_;
    MessageTensor first_;
    std::vector<std::unique_ptr<MessageTensor>> rest_;
};

// The context of a function.
class Context final : public FlowFunc::MetaContext {
public:
    explicit Context(Runtime *runtime);
    std::shared_ptr<FlowMsg> AllocTensorMsg(const std::vector<int64_t> &shape,
                                            TensorDataType dataType) override;
    int32_t SetOutput(uint32_t outIdx, std::shared_ptr<FlowMsg> outMsg) override;
    std::shared_ptr<const FlowFunc::AttrValue> GetAttr(const char *attrName) const override;
    size_t GetInputNum() const override;
    size_t GetOutputNum() const override;
    std::shared_ptr<FlowMsg> AllocEmptyDataMsg(FlowFunc::MsgType msgType) override;
    int32_t RunFlowModel(const char *modelKey,
                         const std::vector<std::shared_ptr<FlowMsg>> &inputMsgs,
                         std::vector<std::shared_ptr<FlowMsg>> &outputMsgs,
                         int32_t timeout) override;
    const char *GetWorkPath() const override;
    int32_t GetRunningDeviceId() const override;
    int32_t GetUserData(void *data, size_t size, size_t offset) const override;
    int32_t SetOutput(uint32_t outIdx, std::shared_ptr<FlowMsg> outMsg,
                      const FlowFunc::OutOptions &options) override;
    int32_t SetMultiOutputs(uint32_t outIdx, const std::vector<std::shared_ptr<FlowMsg>> &outMsgs,
                            const FlowFunc::OutOptions &options) override;
    std::shared_ptr<FlowMsg> AllocTensorMsgWithAlign(const std::vector<int64_t> &shape,
                                                     TensorDataType dataType,
                                                     uint32_t align) override;
    void RaiseException(int32_t expCode, uint64_t userContextId) override;

private:
    Runtime *runtime_;
    std::string work_path_;
};

// A tensor message of `runtime`; null and a line in the log on failure.
std::shared_ptr<FlowMsg> AllocTensor(Runtime *runtime, const char *what,
                                     const std::vector<int64_t> &shape, TensorDataType type,
                                     uint32_t align);

// Writes one line: to the executor's log, or to stderr where there is none yet.
void WriteLine(Runtime *runtime, bool run, uint32_t level, const char *format, va_list args);
}  // namespace dflow

#endif
