// Messages and tensors over the executor's views of them.
#include <cstring>

#include "runtime.h"

namespace dflow {
using FlowFunc::FLOW_FUNC_ERR_MEM_BUF_ERROR;
using FlowFunc::FLOW_FUNC_ERR_NOT_SUPPORT;
using FlowFunc::FLOW_FUNC_ERR_PARAM_INVALID;
using FlowFunc::FLOW_FUNC_ERR_USER_DEFINE_END;
using FlowFunc::FLOW_FUNC_ERR_USER_DEFINE_START;
using FlowFunc::FLOW_FUNC_FAILED;
using FlowFunc::FLOW_FUNC_SUCCESS;
using FlowFunc::MsgType;

namespace {
// The descriptor before each tensor, docs/layout.md.
constexpr uint64_t DESC_BYTES = 1024;
constexpr size_t DESC_DTYPE = 16;
constexpr size_t DESC_SHAPE = 24;
constexpr size_t DESC_DATA_SIZE = 568;
constexpr int64_t MAX_DIMS = 32;

// Words of the head.
constexpr size_t HEAD_START_TIME = 26;
constexpr size_t HEAD_END_TIME = 27;

int64_t DescWord(const uint8_t *desc, size_t offset)
{
    int64_t word = 0;
    std::memcpy(&word, desc + offset, sizeof(word));
    return word;
}

// Bits of an element; 0 for an unknown type.
uint64_t ElementBits(int64_t type)
{
    switch (static_cast<TensorDataType>(type)) {
        case TensorDataType::DT_UINT1:
            return 1;
        case TensorDataType::DT_INT2:
        case TensorDataType::DT_UINT2:
            return 2;
        case TensorDataType::DT_INT4:
            return 4;
        case TensorDataType::DT_INT8:
        case TensorDataType::DT_UINT8:
        case TensorDataType::DT_BOOL:
        case TensorDataType::DT_QINT8:
        case TensorDataType::DT_QUINT8:
            return 8;
        case TensorDataType::DT_FLOAT16:
        case TensorDataType::DT_BF16:
        case TensorDataType::DT_INT16:
        case TensorDataType::DT_UINT16:
        case TensorDataType::DT_QINT16:
        case TensorDataType::DT_QUINT16:
            return 16;
        case TensorDataType::DT_FLOAT:
        case TensorDataType::DT_INT32:
        case TensorDataType::DT_UINT32:
        case TensorDataType::DT_QINT32:
            return 32;
        case TensorDataType::DT_DUAL:
            return 40;
        case TensorDataType::DT_INT64:
        case TensorDataType::DT_UINT64:
        case TensorDataType::DT_DOUBLE:
            return 64;
        default:
            return 0;
    }
}

// Product of dimensions; -1 for a negative dimension or an overflow.
int64_t Elements(const std::vector<int64_t> &shape)
{
    int64_t count = 1;
    for (const int64_t dim : shape) {
        if (dim < 0 || __builtin_mul_overflow(count, dim, &count)) {
            return -1;
        }
    }
    return count;
}

// Bytes of so many elements; -1 where unknown.
int64_t Bytes(int64_t elements, int64_t type)
{
    const uint64_t bits = ElementBits(type);
    int64_t all = 0;
    if (elements < 0 || bits == 0 ||
        __builtin_mul_overflow(elements, static_cast<int64_t>(bits), &all)) {
        return -1;
    }
    return all / 8 + ((all % 8 != 0) ? 1 : 0);
}
}  // namespace

MessageTensor::MessageTensor(Message *message)
    : message_(message), type_(TensorDataType::DT_UNDEFINED), data_(nullptr), size_(0),
      capacity_(0), count_(-1), described_(false), first_(true)
{
    shape_.reserve(static_cast<size_t>(MAX_DIMS));
}

const std::vector<int64_t> &MessageTensor::GetShape() const
{
    return shape_;
}

TensorDataType MessageTensor::GetDataType() const
{
    return type_;
}

void *MessageTensor::GetData() const
{
    return message_->Alive() ? data_ : nullptr;
}

uint64_t MessageTensor::GetDataSize() const
{
    return size_;
}

int64_t MessageTensor::GetElementCnt() const
{
    return count_;
}

uint64_t MessageTensor::GetDataBufferSize() const
{
    return capacity_;
}

int32_t MessageTensor::Reshape(const std::vector<int64_t> &shape)
{
    if (shape.size() > static_cast<size_t>(MAX_DIMS)) {
        return FLOW_FUNC_ERR_PARAM_INVALID;
    }
    if (!described_ || !message_->Alive()) {
        return FLOW_FUNC_FAILED;
    }
    const int64_t count = Elements(shape);
    if (count < 0 || count != count_) {
        return FLOW_FUNC_ERR_PARAM_INVALID;
    }
    if (!first_) {
        message_->Of()->Say(FlowFuncLogLevel::ERROR,
                            "Reshape: only the first tensor of a list can get another shape");
        return FLOW_FUNC_ERR_NOT_SUPPORT;
    }
    MsgV1 *own = message_->Own("Reshape");
    if (own == nullptr) {
        return FLOW_FUNC_ERR_MEM_BUF_ERROR;
    }
    Runtime *runtime = message_->Of();
    const int32_t code = runtime->Api()->reshape(runtime->Ctx(), own, shape.data(),
                                                 static_cast<uint32_t>(shape.size()));
    if (code == 0) {
        message_->Refresh();
    }
    return code;
}

void MessageTensor::Show(const MsgV1 &view)
{
    first_ = true;
    described_ = view.desc != nullptr;
    shape_.assign(view.dims, view.dims + ((view.dims == nullptr) ? 0 : view.rank));
    type_ = static_cast<TensorDataType>(view.data_type);
    data_ = view.data;
    size_ = view.data_size;
    capacity_ = view.capacity;
    count_ = described_ ? view.element_count : -1;
}

uint64_t MessageTensor::ShowMember(const uint8_t *area, uint64_t area_size, uint64_t offset)
{
    if (offset > area_size || area_size - offset < DESC_BYTES) {
        return 0;
    }
    const uint8_t *desc = area + offset;
    const uint64_t padded = static_cast<uint64_t>(DescWord(desc, DESC_DATA_SIZE));
    if (padded > area_size - offset - DESC_BYTES) {
        return 0;
    }
    const int64_t rank = DescWord(desc, DESC_SHAPE);
    const bool ranked = rank >= 0 && rank <= MAX_DIMS;
    shape_.clear();
    for (int64_t i = 0; ranked && i < rank; ++i) {
        shape_.push_back(DescWord(desc, DESC_SHAPE + 8 * static_cast<size_t>(i + 1)));
    }
    const int64_t type = DescWord(desc, DESC_DTYPE);
    type_ = (ElementBits(type) != 0) ? static_cast<TensorDataType>(type)
                                     : TensorDataType::DT_UNDEFINED;
    count_ = ranked ? Elements(shape_) : -1;
    const int64_t logical = Bytes(count_, type);
    capacity_ = padded;
    size_ = (logical >= 0 && static_cast<uint64_t>(logical) < padded)
                ? static_cast<uint64_t>(logical)
                : padded;
    data_ = const_cast<uint8_t *>(desc + DESC_BYTES);
    described_ = true;
    first_ = false;
    return DESC_BYTES + padded;
}

Message::Message(Runtime *runtime)
    : runtime_(runtime), call_(0), input_(nullptr), handle_(), owns_(false), tensors_(0),
      first_(this)
{
}

void Message::Begin(const MsgV1 *input, const MsgV1 *handle)
{
    call_ = runtime_->Call();
    input_ = input;
    owns_ = handle != nullptr;
    if (owns_) {
        handle_ = *handle;
    }
    Refresh();
}

void Message::End()
{
    if (owns_ && Alive() && runtime_->Usable()) {
        runtime_->Api()->release(runtime_->Ctx(), &handle_);
    }
    owns_ = false;
    input_ = nullptr;
    call_ = 0;
}

bool Message::Alive() const
{
    return call_ == runtime_->Call();
}

void Message::Refresh()
{
    const MsgV1 &view = View();
    tensors_ = 0;
    const MsgType type = static_cast<MsgType>(view.msg_type);
    if ((view.access & ACCESS_NULL_DATA) != 0) {
        return;
    }
    if (type == MsgType::MSG_TYPE_TENSOR_DATA) {
        first_.Show(view);
        tensors_ = 1;
    } else if (type == MsgType::MSG_TYPE_TENSOR_LIST && view.tensor_count > 0) {
        first_.Show(view);
        uint64_t offset = DESC_BYTES + view.capacity;
        tensors_ = 1;
        while (tensors_ < view.tensor_count) {
            if (rest_.size() < tensors_) {
                rest_.emplace_back(new MessageTensor(this));
            }
            const uint64_t size =
                rest_[tensors_ - 1]->ShowMember(view.area, view.area_size, offset);
            if (size == 0) {
                break;
            }
            offset += size;
            ++tensors_;
        }
    }
}

MsgV1 *Message::Own(const char *what)
{
    if (!Alive() || !runtime_->Usable()) {
        runtime_->Say(FlowFuncLogLevel::ERROR,
                      "%s: the message is not of this call: messages can't be kept beyond Proc, "
                      "and belong to the thread that runs it", what);
        return nullptr;
    }
    if (!owns_) {
        const int32_t code = runtime_->Api()->copy_ref(runtime_->Ctx(), input_, &handle_);
        if (code != 0) {
            runtime_->NoteFailure(code);
            runtime_->Say(FlowFuncLogLevel::ERROR, "%s: no second reference on the input: code %d",
                          what, code);
            return nullptr;
        }
        owns_ = true;
        Refresh();
    }
    return &handle_;
}

void Message::Set(const char *what, uint32_t field, uint64_t value)
{
    MsgV1 *own = Own(what);
    if (own == nullptr) {
        return;
    }
    const int32_t code = runtime_->Api()->set_info(runtime_->Ctx(), own, field, value);
    if (code != 0) {
        runtime_->Say(FlowFuncLogLevel::ERROR, "%s: code %d", what, code);
    }
}

uint64_t Message::HeadWord(size_t index) const
{
    if (!Alive() || View().head == nullptr) {
        return 0;
    }
    return __atomic_load_n(View().head + index, __ATOMIC_RELAXED);
}

MsgType Message::GetMsgType() const
{
    return Alive() ? static_cast<MsgType>(View().msg_type) : MsgType::MSG_TYPE_TENSOR_DATA;
}

Tensor *Message::GetTensor() const
{
    return (Alive() && tensors_ > 0) ? const_cast<MessageTensor *>(&first_) : nullptr;
}

int32_t Message::GetRetCode() const
{
    return Alive() ? View().ret_code : FLOW_FUNC_FAILED;
}

void Message::SetRetCode(int32_t code)
{
    if (code != 0 &&
        (code < FLOW_FUNC_ERR_USER_DEFINE_START || code > FLOW_FUNC_ERR_USER_DEFINE_END)) {
        runtime_->Say(FlowFuncLogLevel::WARN,
                      "SetRetCode: %d is stored, but codes of functions are %d to %d", code,
                      FLOW_FUNC_ERR_USER_DEFINE_START, FLOW_FUNC_ERR_USER_DEFINE_END);
    }
    Set("SetRetCode", FIELD_RET_CODE, static_cast<uint64_t>(static_cast<int64_t>(code)));
}

void Message::SetStartTime(uint64_t time)
{
    Set("SetStartTime", FIELD_START_TIME, time);
}

uint64_t Message::GetStartTime() const
{
    return HeadWord(HEAD_START_TIME);
}

void Message::SetEndTime(uint64_t time)
{
    Set("SetEndTime", FIELD_END_TIME, time);
}

uint64_t Message::GetEndTime() const
{
    return HeadWord(HEAD_END_TIME);
}

void Message::SetFlowFlags(uint32_t flags)
{
    Set("SetFlowFlags", FIELD_FLAGS, flags);
}

uint32_t Message::GetFlowFlags() const
{
    return Alive() ? View().flags : 0;
}

void Message::SetRouteLabel(uint32_t label)
{
    Set("SetRouteLabel", FIELD_ROUTE_LABEL, label);
}

uint64_t Message::GetTransactionId() const
{
    return Alive() ? View().trans_id : UINT64_MAX;
}

const std::vector<Tensor *> Message::GetTensorList() const
{
    std::vector<Tensor *> tensors;
    if (!Alive() || tensors_ == 0) {
        return tensors;
    }
    tensors.reserve(tensors_);
    tensors.push_back(const_cast<MessageTensor *>(&first_));
    for (size_t i = 1; i < tensors_; ++i) {
        tensors.push_back(rest_[i - 1].get());
    }
    return tensors;
}

int32_t Message::GetRawData(void *&data, uint64_t &size) const
{
    if (!Alive()) {
        return FLOW_FUNC_ERR_MEM_BUF_ERROR;
    }
    data = const_cast<uint8_t *>(View().area);
    size = View().area_size;
    return FLOW_FUNC_SUCCESS;
}

void Message::SetMsgType(MsgType type)
{
    Set("SetMsgType", FIELD_MSG_TYPE, static_cast<uint64_t>(type));
    if (Alive()) {
        Refresh();
    }
}

void Message::SetTransactionId(uint64_t id)
{
    Set("SetTransactionId", FIELD_TRANS_ID, id);
}
}  // namespace dflow
