// Order of virtual functions, values of enumerations and codes, sizes: what a compiled user library
// has built into it. Ends with the number of things that differ from the tables (udf §1).
#include <cstdio>
#include <cstring>
#include <type_traits>

#include "flow_func/flow_func_log.h"
#include "flow_func/meta_flow_func.h"
#include "flow_func/meta_params.h"

using namespace FlowFunc;

namespace {
int g_wrong = 0;

// Place in the virtual table, by the Itanium C++ ABI (and its variant for Arm).
template<typename F>
size_t Slot(F function)
{
    struct {
        uintptr_t ptr;
        ptrdiff_t adjust;
    } raw = {0, 0};
    static_assert(sizeof(function) == sizeof(raw), "pointer to member");
    std::memcpy(&raw, &function, sizeof(raw));
#if defined(__aarch64__) || defined(__arm__)
    return ((raw.adjust & 1) == 1) ? raw.ptr / sizeof(void *) : SIZE_MAX;
#else
    return ((raw.ptr & 1) == 1) ? (raw.ptr - 1) / sizeof(void *) : SIZE_MAX;
#endif
}

void Expect(size_t found, size_t expected, const char *what)
{
    if (found != expected) {
        ++g_wrong;
        std::printf("%s: found %zu, expected %zu\n", what, found, expected);
    }
}

// Two places are the destructor's.
#define SLOT(number, type, what) Expect(Slot<type>(&what), (number) + 1, #what)
#define VALUE(what, number) \
    Expect(static_cast<size_t>(what), static_cast<size_t>(number), #what)

void AttrSlots()
{
#define GET(number, ...) \
    Expect(Slot<int32_t (AttrValue::*)(__VA_ARGS__ &) const>(&AttrValue::GetVal), (number) + 1, \
           #__VA_ARGS__)
    GET(1, AscendString);
    GET(2, std::vector<AscendString>);
    GET(3, int64_t);
    GET(4, std::vector<int64_t>);
    GET(5, std::vector<std::vector<int64_t>>);
    GET(6, float);
    GET(7, std::vector<float>);
    GET(8, bool);
    GET(9, std::vector<bool>);
    GET(10, TensorDataType);
    GET(11, std::vector<TensorDataType>);
    using Params = std::shared_ptr<const AttrValue> (MetaParams::*)(const char *) const;
    SLOT(1, const char *(MetaParams::*)() const, MetaParams::GetName);
    SLOT(2, Params, MetaParams::GetAttr);
    SLOT(3, size_t (MetaParams::*)() const, MetaParams::GetInputNum);
    SLOT(4, size_t (MetaParams::*)() const, MetaParams::GetOutputNum);
    SLOT(5, const char *(MetaParams::*)() const, MetaParams::GetWorkPath);
    SLOT(6, int32_t (MetaParams::*)() const, MetaParams::GetRunningDeviceId);
    SLOT(7, int32_t (MetaParams::*)() const, MetaParams::GetRunningInstanceId);
    SLOT(8, int32_t (MetaParams::*)() const, MetaParams::GetRunningInstanceNum);
}

void MessageSlots()
{
    using Shape = std::vector<int64_t>;
    SLOT(1, const Shape &(Tensor::*)() const, Tensor::GetShape);
    SLOT(2, TensorDataType (Tensor::*)() const, Tensor::GetDataType);
    SLOT(3, void *(Tensor::*)() const, Tensor::GetData);
    SLOT(4, uint64_t (Tensor::*)() const, Tensor::GetDataSize);
    SLOT(5, int64_t (Tensor::*)() const, Tensor::GetElementCnt);
    SLOT(6, int32_t (Tensor::*)(const Shape &), Tensor::Reshape);
    SLOT(7, uint64_t (Tensor::*)() const, Tensor::GetDataBufferSize);
    SLOT(1, MsgType (FlowMsg::*)() const, FlowMsg::GetMsgType);
    SLOT(2, Tensor *(FlowMsg::*)() const, FlowMsg::GetTensor);
    SLOT(3, int32_t (FlowMsg::*)() const, FlowMsg::GetRetCode);
    SLOT(4, void (FlowMsg::*)(int32_t), FlowMsg::SetRetCode);
    SLOT(5, void (FlowMsg::*)(uint64_t), FlowMsg::SetStartTime);
    SLOT(6, uint64_t (FlowMsg::*)() const, FlowMsg::GetStartTime);
    SLOT(7, void (FlowMsg::*)(uint64_t), FlowMsg::SetEndTime);
    SLOT(8, uint64_t (FlowMsg::*)() const, FlowMsg::GetEndTime);
    SLOT(9, void (FlowMsg::*)(uint32_t), FlowMsg::SetFlowFlags);
    SLOT(10, uint32_t (FlowMsg::*)() const, FlowMsg::GetFlowFlags);
    SLOT(11, void (FlowMsg::*)(uint32_t), FlowMsg::SetRouteLabel);
    SLOT(12, uint64_t (FlowMsg::*)() const, FlowMsg::GetTransactionId);
    SLOT(13, const std::vector<Tensor *> (FlowMsg::*)() const, FlowMsg::GetTensorList);
    using Raw = int32_t (FlowMsg::*)(void *&, uint64_t &) const;
    SLOT(14, Raw, FlowMsg::GetRawData);
    SLOT(15, void (FlowMsg::*)(MsgType), FlowMsg::SetMsgType);
    SLOT(16, void (FlowMsg::*)(uint64_t), FlowMsg::SetTransactionId);
}

// GetMsgType and the like are reached by place only: a wrong place calls another function.
class Context : public MetaContext {
public:
    using Message = std::shared_ptr<FlowMsg>;
    using List = std::vector<Message>;
    using Shape = std::vector<int64_t>;
    static void Slots()
    {
        using Alloc = Message (MetaContext::*)(const Shape &, TensorDataType);
        SLOT(1, Alloc, MetaContext::AllocTensorMsg);
        using Set = int32_t (MetaContext::*)(uint32_t, Message);
        SLOT(2, Set, MetaContext::SetOutput);
        using Get = std::shared_ptr<const AttrValue> (MetaContext::*)(const char *) const;
        SLOT(3, Get, MetaContext::GetAttr);
        SLOT(4, size_t (MetaContext::*)() const, MetaContext::GetInputNum);
        SLOT(5, size_t (MetaContext::*)() const, MetaContext::GetOutputNum);
        SLOT(6, Message (MetaContext::*)(MsgType), MetaContext::AllocEmptyDataMsg);
        using Run = int32_t (MetaContext::*)(const char *, const List &, List &, int32_t);
        SLOT(7, Run, MetaContext::RunFlowModel);
        SLOT(8, const char *(MetaContext::*)() const, MetaContext::GetWorkPath);
        SLOT(9, int32_t (MetaContext::*)() const, MetaContext::GetRunningDeviceId);
        using User = int32_t (MetaContext::*)(void *, size_t, size_t) const;
        SLOT(10, User, MetaContext::GetUserData);
        using SetWith = int32_t (MetaContext::*)(uint32_t, Message, const OutOptions &);
        SLOT(11, SetWith, MetaContext::SetOutput);
        using SetMany = int32_t (MetaContext::*)(uint32_t, const List &, const OutOptions &);
        SLOT(12, SetMany, MetaContext::SetMultiOutputs);
        using Aligned = Message (MetaContext::*)(const Shape &, TensorDataType, uint32_t);
        SLOT(13, Aligned, MetaContext::AllocTensorMsgWithAlign);
        using Raise = void (MetaContext::*)(int32_t, uint64_t);
        SLOT(14, Raise, MetaContext::RaiseException);
        using Catch = bool (MetaContext::*)(int32_t &, uint64_t &);
        SLOT(15, Catch, MetaContext::GetException);
        SLOT(1, int32_t (MetaFlowFunc::*)(), MetaFlowFunc::Init);
        SLOT(2, int32_t (MetaFlowFunc::*)(const List &), MetaFlowFunc::Proc);
        SLOT(3, int32_t (MetaFlowFunc::*)(), MetaFlowFunc::ResetFlowFuncState);
    }
};

void OtherSlots()
{
    SLOT(1, void (BalanceConfig::*)(AffinityPolicy), BalanceConfig::SetAffinityPolicy);
    SLOT(2, AffinityPolicy (BalanceConfig::*)() const, BalanceConfig::GetAffinityPolicy);
    SLOT(3, void (BalanceConfig::*)(const BalanceWeight &), BalanceConfig::SetBalanceWeight);
    SLOT(4, const BalanceWeight &(BalanceConfig::*)() const, BalanceConfig::GetBalanceWeight);
    using Positions = std::vector<std::pair<int32_t, int32_t>>;
    SLOT(5, void (BalanceConfig::*)(const Positions &), BalanceConfig::SetDataPos);
    SLOT(6, const Positions &(BalanceConfig::*)() const, BalanceConfig::GetDataPos);
    SLOT(1, bool (FlowFuncLogger::*)(FlowFuncLogLevel), FlowFuncLogger::IsLogEnable);
    using Line = void (FlowFuncLogger::*)(const char *, ...);
    SLOT(2, Line, FlowFuncLogger::Error);
    SLOT(3, Line, FlowFuncLogger::Warn);
    SLOT(4, Line, FlowFuncLogger::Info);
    SLOT(5, Line, FlowFuncLogger::Debug);
}

void Values()
{
    const TensorDataType types[] = {
        TensorDataType::DT_FLOAT,  TensorDataType::DT_FLOAT16, TensorDataType::DT_INT8,
        TensorDataType::DT_INT32,  TensorDataType::DT_UINT8,   TensorDataType::DT_INT16,
        TensorDataType::DT_UINT16, TensorDataType::DT_UINT32,  TensorDataType::DT_INT64,
        TensorDataType::DT_UINT64, TensorDataType::DT_DOUBLE,  TensorDataType::DT_BOOL,
        TensorDataType::DT_QINT8,  TensorDataType::DT_QINT16,  TensorDataType::DT_QINT32,
        TensorDataType::DT_QUINT8, TensorDataType::DT_QUINT16, TensorDataType::DT_DUAL,
        TensorDataType::DT_BF16,   TensorDataType::DT_INT4,    TensorDataType::DT_UINT1,
        TensorDataType::DT_INT2,   TensorDataType::DT_UINT2,   TensorDataType::DT_UNDEFINED};
    const size_t numbers[] = {0,  1,  2,  3,  4,  6,  7,  8,  9,  10, 11, 12,
                              18, 19, 20, 21, 22, 25, 27, 29, 30, 31, 32, 33};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); ++i) {
        Expect(static_cast<size_t>(types[i]), numbers[i], "TensorDataType");
    }
    VALUE(MsgType::MSG_TYPE_TENSOR_DATA, 0);
    VALUE(MsgType::MSG_TYPE_RAW_MSG, 1);
    VALUE(MsgType::MSG_TYPE_TENSOR_LIST, 2);
    VALUE(MsgType::MSG_TYPE_USER_DEFINE_START, 1024);
    VALUE(FlowFlag::FLOW_FLAG_EOS, 1);
    VALUE(FlowFlag::FLOW_FLAG_SEG, 2);
    VALUE(AffinityPolicy::NO_AFFINITY, 0);
    VALUE(AffinityPolicy::ROW_AFFINITY, 1);
    VALUE(AffinityPolicy::COL_AFFINITY, 2);
    VALUE(FlowFuncLogType::DEBUG_LOG, 0);
    VALUE(FlowFuncLogType::RUN_LOG, 1);
    VALUE(FlowFuncLogLevel::DEBUG, 0);
    VALUE(FlowFuncLogLevel::INFO, 1);
    VALUE(FlowFuncLogLevel::WARN, 2);
    VALUE(FlowFuncLogLevel::ERROR, 3);
    VALUE(FLOW_FUNC_SUCCESS, 0);
    VALUE(FLOW_FUNC_ERR_PARAM_INVALID, 164000);
    VALUE(FLOW_FUNC_ERR_ATTR_NOT_EXITS, 164001);
    VALUE(FLOW_FUNC_ERR_ATTR_TYPE_MISMATCH, 164002);
    VALUE(FLOW_FUNC_ERR_DATA_ALIGN_FAILED, 364000);
    VALUE(FLOW_FUNC_FAILED, 564000);
    VALUE(FLOW_FUNC_ERR_TIME_OUT_ERROR, 564001);
    VALUE(FLOW_FUNC_ERR_NOT_SUPPORT, 564002);
    VALUE(FLOW_FUNC_STATUS_REDEPLOYING, 564003);
    VALUE(FLOW_FUNC_STATUS_EXIT, 564004);
    VALUE(FLOW_FUNC_ERR_DRV_ERROR, 564100);
    VALUE(FLOW_FUNC_ERR_MEM_BUF_ERROR, 564101);
    VALUE(FLOW_FUNC_ERR_QUEUE_ERROR, 564102);
    VALUE(FLOW_FUNC_ERR_EVENT_ERROR, 564103);
    VALUE(FLOW_FUNC_ERR_USER_DEFINE_START, 9900000);
    VALUE(FLOW_FUNC_ERR_USER_DEFINE_END, 9999999);
    VALUE(sizeof(BalanceWeight), 16);
    VALUE(sizeof(AscendString), sizeof(std::shared_ptr<int>));
    VALUE(sizeof(OutOptions), sizeof(std::shared_ptr<int>));
    VALUE(sizeof(MetaFlowFunc), 2 * sizeof(void *));
    static_assert(std::is_same<std::underlying_type<MsgType>::type, uint16_t>::value, "MsgType");
    static_assert(std::is_same<std::underlying_type<FlowFlag>::type, uint32_t>::value, "FlowFlag");
    static_assert(!std::is_copy_constructible<AttrValue>::value, "AttrValue is no value");
    static_assert(!std::is_abstract<FlowFuncLogLevel>::value, "an enumeration");
}

// Edge case 2 of udf §7.2.
void Texts()
{
    const AscendString none;
    const AscendString also;
    const AscendString text("abc");
    const AscendString empty("");
    VALUE(none == also && !(none < also) && !(none > also) && none <= also && none >= also, true);
    VALUE(none < text && none < empty && empty > none && none != empty, true);
    VALUE(AscendString(nullptr, 1).GetLength(), 0);
    VALUE(AscendString("strcmp1", 6) == AscendString("strcmp2", 6), true);
    const AscendString bytes("abc\0def", 7);
    VALUE(bytes.GetLength(), 7);
    VALUE(AscendString(bytes.GetString(), bytes.GetLength()) == bytes, true);
    VALUE(bytes > text && text == "abc" && text != "abd", true);
    VALUE(std::strlen(none.GetString()), 0);
    AscendString copy(text);
    copy = bytes;
    VALUE(copy.GetLength() == 7 && text.GetLength() == 3, true);
}
}  // namespace

int main()
{
    AttrSlots();
    MessageSlots();
    Context::Slots();
    OtherSlots();
    Values();
    Texts();
    return g_wrong;
}
