// Bodies of the classes that users see: defaults of virtual functions, texts, options.
#include <cstring>
#include <string>

#include "flow_func/flow_func_log.h"
#include "flow_func/meta_flow_func.h"
#include "flow_func/meta_params.h"

namespace FlowFunc {
struct AscendString::Text {
    std::string bytes;
};

AscendString::AscendString() = default;

AscendString::AscendString(const char *const text)
    : AscendString(text, (text == nullptr) ? 0 : std::strlen(text))
{
}

AscendString::AscendString(const char *const text, size_t length)
{
    if (text != nullptr) {
        text_ = std::make_shared<Text>();
        text_->bytes.assign(text, length);
    }
}

const char *AscendString::GetString() const
{
    return (text_ == nullptr) ? "" : text_->bytes.c_str();
}

size_t AscendString::GetLength() const
{
    return (text_ == nullptr) ? 0 : text_->bytes.size();
}

bool AscendString::operator<(const AscendString &other) const
{
    if (text_ == nullptr || other.text_ == nullptr) {
        return text_ == nullptr && other.text_ != nullptr;
    }
    return text_->bytes < other.text_->bytes;
}

bool AscendString::operator==(const AscendString &other) const
{
    return !(*this < other) && !(other < *this);
}

bool AscendString::operator>(const AscendString &other) const
{
    return other < *this;
}

bool AscendString::operator<=(const AscendString &other) const
{
    return !(other < *this);
}

bool AscendString::operator>=(const AscendString &other) const
{
    return !(*this < other);
}

bool AscendString::operator!=(const AscendString &other) const
{
    return !(*this == other);
}

int32_t Tensor::Reshape(const std::vector<int64_t> &)
{
    return FLOW_FUNC_ERR_NOT_SUPPORT;
}

uint64_t Tensor::GetDataBufferSize() const
{
    return 0;
}

uint64_t FlowMsg::GetTransactionId() const
{
    return UINT64_MAX;
}

const std::vector<Tensor *> FlowMsg::GetTensorList() const
{
    return {};
}

int32_t FlowMsg::GetRawData(void *&, uint64_t &) const
{
    return FLOW_FUNC_ERR_NOT_SUPPORT;
}

void FlowMsg::SetMsgType(MsgType)
{
    FLOW_FUNC_LOG_ERROR("not supported by this kind of message");
}

void FlowMsg::SetTransactionId(uint64_t) {}

int32_t MetaParams::GetRunningInstanceId() const
{
    return -1;
}

int32_t MetaParams::GetRunningInstanceNum() const
{
    return -1;
}

int32_t MetaContext::SetOutput(uint32_t, std::shared_ptr<FlowMsg>, const OutOptions &)
{
    return FLOW_FUNC_ERR_NOT_SUPPORT;
}

int32_t MetaContext::SetMultiOutputs(uint32_t, const std::vector<std::shared_ptr<FlowMsg>> &,
                                     const OutOptions &)
{
    return FLOW_FUNC_ERR_NOT_SUPPORT;
}

std::shared_ptr<FlowMsg> MetaContext::AllocTensorMsgWithAlign(const std::vector<int64_t> &,
                                                              TensorDataType, uint32_t)
{
    return nullptr;
}

void MetaContext::RaiseException(int32_t, uint64_t) {}

bool MetaContext::GetException(int32_t &, uint64_t &)
{
    return false;
}

int32_t MetaFlowFunc::ResetFlowFuncState()
{
    return FLOW_FUNC_ERR_NOT_SUPPORT;
}

namespace {
class BalanceSettings final : public BalanceConfig {
public:
    void SetAffinityPolicy(AffinityPolicy affinityPolicy) override
    {
        policy_ = affinityPolicy;
    }
    AffinityPolicy GetAffinityPolicy() const override
    {
        return policy_;
    }
    void SetBalanceWeight(const BalanceWeight &balanceWeight) override
    {
        weight_ = balanceWeight;
    }
    const BalanceWeight &GetBalanceWeight() const override
    {
        return weight_;
    }
    void SetDataPos(const std::vector<std::pair<int32_t, int32_t>> &dataPos) override
    {
        positions_ = dataPos;
    }
    const std::vector<std::pair<int32_t, int32_t>> &GetDataPos() const override
    {
        return positions_;
    }

private:
    AffinityPolicy policy_ = AffinityPolicy::NO_AFFINITY;
    BalanceWeight weight_;
    std::vector<std::pair<int32_t, int32_t>> positions_;
};
}  // namespace

class OutOptionsImpl {
public:
    std::unique_ptr<BalanceSettings> balance;
};

OutOptions::OutOptions() : impl_(std::make_shared<OutOptionsImpl>()) {}

OutOptions::~OutOptions() = default;

BalanceConfig *OutOptions::MutableBalanceConfig()
{
    if (impl_->balance == nullptr) {
        impl_->balance.reset(new BalanceSettings());
    }
    return impl_->balance.get();
}

const BalanceConfig *OutOptions::GetBalanceConfig() const
{
    return impl_->balance.get();
}
}  // namespace FlowFunc
