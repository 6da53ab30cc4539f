// The context of a function, its attributes, and tensors without a message.
#include <cstring>

#include "runtime.h"

namespace dflow {
using FlowFunc::AscendString;
using FlowFunc::AttrValue;
using FlowFunc::FLOW_FUNC_ERR_ATTR_NOT_EXITS;
using FlowFunc::FLOW_FUNC_ERR_ATTR_TYPE_MISMATCH;
using FlowFunc::FLOW_FUNC_ERR_NOT_SUPPORT;
using FlowFunc::FLOW_FUNC_ERR_PARAM_INVALID;
using FlowFunc::FLOW_FUNC_FAILED;
using FlowFunc::FLOW_FUNC_SUCCESS;
using FlowFunc::MsgType;
using FlowFunc::OutOptions;

namespace {
constexpr uint32_t ALIGN_DEFAULT = 64;

// An attribute by its name; it is looked up by kind when it is read. Reads constant memory of the
// executor, so any thread may.
class Attr final : public AttrValue {
public:
    Attr(Runtime *runtime, const char *name) : runtime_(runtime), name_(name) {}

    int32_t GetVal(AscendString &value) const override
    {
        return One<StrV1>(KIND_STR, [&value](const StrV1 &text) { value = Text(text); });
    }
    int32_t GetVal(std::vector<AscendString> &value) const override
    {
        return Many<StrV1>(KIND_STR_LIST,
                           [&value](const StrV1 &text) { value.push_back(Text(text)); });
    }
    int32_t GetVal(int64_t &value) const override
    {
        return One<int64_t>(KIND_INT, [&value](int64_t number) { value = number; });
    }
    int32_t GetVal(std::vector<int64_t> &value) const override
    {
        return Many<int64_t>(KIND_INT_LIST, [&value](int64_t number) { value.push_back(number); });
    }
    int32_t GetVal(std::vector<std::vector<int64_t>> &value) const override
    {
        return Many<IntsV1>(KIND_INT_LIST_LIST, [&value](const IntsV1 &list) {
            value.emplace_back(list.ptr, list.ptr + list.len);
        });
    }
    int32_t GetVal(float &value) const override
    {
        return One<float>(KIND_FLOAT, [&value](float number) { value = number; });
    }
    int32_t GetVal(std::vector<float> &value) const override
    {
        return Many<float>(KIND_FLOAT_LIST, [&value](float number) { value.push_back(number); });
    }
    int32_t GetVal(bool &value) const override
    {
        return One<uint8_t>(KIND_BOOL, [&value](uint8_t truth) { value = truth != 0; });
    }
    int32_t GetVal(std::vector<bool> &value) const override
    {
        return Many<uint8_t>(KIND_BOOL_LIST,
                             [&value](uint8_t truth) { value.push_back(truth != 0); });
    }
    int32_t GetVal(TensorDataType &value) const override
    {
        return One<int32_t>(KIND_DATA_TYPE, [&value](int32_t number) {
            value = static_cast<TensorDataType>(number);
        });
    }
    int32_t GetVal(std::vector<TensorDataType> &value) const override
    {
        return Many<int32_t>(KIND_DATA_TYPE_LIST, [&value](int32_t number) {
            value.push_back(static_cast<TensorDataType>(number));
        });
    }

private:
    static AscendString Text(const StrV1 &text)
    {
        return (text.len == 0) ? AscendString("") : AscendString(text.ptr, text.len);
    }

    int32_t Find(uint32_t kind, AttrV1 &found) const
    {
        const size_t len = std::strlen(name_.GetString());
        return runtime_->Api()->get_attr(runtime_->Ctx(), name_.GetString(), len, kind, &found);
    }

    template<typename T, typename F>
    int32_t One(uint32_t kind, F take) const
    {
        AttrV1 found = {nullptr, 0};
        const int32_t code = Find(kind, found);
        if (code == 0) {
            take(*static_cast<const T *>(found.data));
        }
        return code;
    }

    template<typename T, typename F>
    int32_t Many(uint32_t kind, F take) const
    {
        AttrV1 found = {nullptr, 0};
        const int32_t code = Find(kind, found);
        if (code == FLOW_FUNC_ERR_ATTR_TYPE_MISMATCH) {
            // A list without elements has no kind of its own: it is one of every kind.
            return (Find(KIND_INT_LIST, found) == 0 && found.count == 0) ? 0 : code;
        }
        if (code != 0) {
            return code;
        }
        const T *values = static_cast<const T *>(found.data);
        for (uint64_t i = 0; i < found.count; ++i) {
            take(values[i]);
        }
        return 0;
    }

    Runtime *runtime_;
    AscendString name_;
};

// A message of the call under way, or null with a line in the log.
template<typename F>
std::shared_ptr<FlowMsg> Alloc(Runtime *runtime, const char *what, F call)
{
    if (!runtime->Usable()) {
        runtime->Say(FlowFuncLogLevel::ERROR,
                     "%s: only inside Init and Proc, on the thread that runs them", what);
        return nullptr;
    }
    MsgV1 view;
    const int32_t code = call(&view);
    if (code != 0) {
        runtime->NoteFailure(code);
        return nullptr;
    }
    return runtime->Handle(view);
}
}  // namespace

std::shared_ptr<FlowMsg> AllocTensor(Runtime *runtime, const char *what,
                                     const std::vector<int64_t> &shape, TensorDataType type,
                                     uint32_t align)
{
    std::shared_ptr<FlowMsg> msg = Alloc(runtime, what, [&](MsgV1 *view) -> int32_t {
        // More than 32 dimensions are refused by the executor, too.
        return runtime->Api()->alloc_tensor(runtime->Ctx(), shape.data(),
                                            static_cast<uint32_t>(shape.size()),
                                            static_cast<int32_t>(type), align, view);
    });
    if (msg == nullptr && runtime->Usable()) {
        runtime->Say(FlowFuncLogLevel::ERROR,
                     "%s: no message of %zu dimension(s), data type %d, alignment %u: code %d",
                     what, shape.size(), static_cast<int32_t>(type), align, runtime->Failure());
    }
    return msg;
}

Context::Context(Runtime *runtime) : runtime_(runtime)
{
    const StrV1 &path = runtime->Params().work_path;
    if (path.len != 0) {
        work_path_.assign(path.ptr, path.len);
    }
}

std::shared_ptr<FlowMsg> Context::AllocTensorMsg(const std::vector<int64_t> &shape,
                                                 TensorDataType dataType)
{
    return AllocTensor(runtime_, "AllocTensorMsg", shape, dataType, ALIGN_DEFAULT);
}

std::shared_ptr<FlowMsg> Context::AllocTensorMsgWithAlign(const std::vector<int64_t> &shape,
                                                          TensorDataType dataType, uint32_t align)
{
    return AllocTensor(runtime_, "AllocTensorMsgWithAlign", shape, dataType, align);
}

std::shared_ptr<FlowMsg> Context::AllocEmptyDataMsg(MsgType msgType)
{
    return Alloc(runtime_, "AllocEmptyDataMsg", [&](MsgV1 *view) -> int32_t {
        return runtime_->Api()->alloc_empty(runtime_->Ctx(), static_cast<uint16_t>(msgType), view);
    });
}

int32_t Context::SetOutput(uint32_t outIdx, std::shared_ptr<FlowMsg> outMsg)
{
    if (outIdx >= GetOutputNum()) {
        runtime_->Say(FlowFuncLogLevel::ERROR, "SetOutput: output %u of %zu", outIdx,
                      GetOutputNum());
        return FLOW_FUNC_ERR_PARAM_INVALID;
    }
    if (outMsg == nullptr) {
        return FLOW_FUNC_SUCCESS;
    }
    const Message *message = dynamic_cast<const Message *>(outMsg.get());
    const char *why = nullptr;
    if (message == nullptr) {
        why = "the message was not made by the runtime";
    } else if (message->Of() != runtime_ || !message->Alive()) {
        why = "the message is not of this call: messages can't be kept beyond Proc";
    } else if (!runtime_->Usable()) {
        why = "only inside Init and Proc, on the thread that runs them";
    }
    if (why != nullptr) {
        runtime_->Say(FlowFuncLogLevel::ERROR, "SetOutput: output %u: %s", outIdx, why);
        return FLOW_FUNC_ERR_PARAM_INVALID;
    }
    const int32_t code =
        runtime_->Api()->set_output(runtime_->Ctx(), outIdx, &message->View());
    if (code == NO_MBUF || code == TOO_LARGE) {
        runtime_->NoteFailure(code);
    }
    return code;
}

int32_t Context::SetOutput(uint32_t outIdx, std::shared_ptr<FlowMsg> outMsg,
                           const OutOptions &options)
{
    if (options.GetBalanceConfig() == nullptr) {
        return SetOutput(outIdx, std::move(outMsg));
    }
    runtime_->Say(FlowFuncLogLevel::ERROR,
                  "SetOutput: balance configurations are not supported by this version");
    return FLOW_FUNC_ERR_NOT_SUPPORT;
}

int32_t Context::SetMultiOutputs(uint32_t outIdx,
                                 const std::vector<std::shared_ptr<FlowMsg>> &outMsgs,
                                 const OutOptions &options)
{
    int32_t last = FLOW_FUNC_SUCCESS;
    for (const std::shared_ptr<FlowMsg> &message : outMsgs) {
        const int32_t code = SetOutput(outIdx, message, options);
        last = (code == FLOW_FUNC_SUCCESS) ? last : code;
    }
    return last;
}

std::shared_ptr<const AttrValue> Context::GetAttr(const char *attrName) const
{
    if (attrName == nullptr) {
        return nullptr;
    }
    AttrV1 found = {nullptr, 0};
    const int32_t code = runtime_->Api()->get_attr(runtime_->Ctx(), attrName,
                                                   std::strlen(attrName), KIND_STR, &found);
    if (code == FLOW_FUNC_ERR_ATTR_NOT_EXITS) {
        return nullptr;
    }
    return std::make_shared<Attr>(runtime_, attrName);
}

size_t Context::GetInputNum() const
{
    return runtime_->Params().input_count;
}

size_t Context::GetOutputNum() const
{
    return runtime_->Params().output_count;
}

const char *Context::GetWorkPath() const
{
    return work_path_.c_str();
}

int32_t Context::GetRunningDeviceId() const
{
    return runtime_->Params().device_id;
}

int32_t Context::GetUserData(void *data, size_t size, size_t offset) const
{
    if (data == nullptr) {
        return FLOW_FUNC_ERR_PARAM_INVALID;
    }
    if (!runtime_->Usable()) {
        return FLOW_FUNC_FAILED;
    }
    return runtime_->Api()->get_user_data(runtime_->Ctx(), static_cast<uint8_t *>(data), size,
                                          offset);
}

int32_t Context::RunFlowModel(const char *modelKey, const std::vector<std::shared_ptr<FlowMsg>> &,
                              std::vector<std::shared_ptr<FlowMsg>> &, int32_t)
{
    if (modelKey == nullptr) {
        return FLOW_FUNC_ERR_PARAM_INVALID;
    }
    runtime_->Say(FlowFuncLogLevel::ERROR,
                  "RunFlowModel: %s: invoked models are not supported by this version", modelKey);
    return FLOW_FUNC_ERR_NOT_SUPPORT;
}

void Context::RaiseException(int32_t expCode, uint64_t userContextId)
{
    runtime_->Say(FlowFuncLogLevel::ERROR,
                  "RaiseException: code %d, context %llu: not supported by this version, nothing "
                  "is raised; set a code on an output instead",
                  expCode, static_cast<unsigned long long>(userContextId));
}
}  // namespace dflow

namespace FlowFunc {
std::shared_ptr<Tensor> FlowBufferFactory::AllocTensor(const std::vector<int64_t> &shape,
                                                       TensorDataType dataType, uint32_t align)
{
    dflow::Runtime *runtime = dflow::Runtime::Inside();
    if (runtime == nullptr) {
        return nullptr;
    }
    std::shared_ptr<FlowMsg> message =
        dflow::AllocTensor(runtime, "FlowBufferFactory::AllocTensor", shape, dataType, align);
    return (message == nullptr) ? nullptr : std::shared_ptr<Tensor>(message, message->GetTensor());
}
}  // namespace FlowFunc
