// A function that does what it should not, as its attribute `mode` says. Tests use it to see that
// whatever happens here ends as a code, and that the executor goes on.
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>

#include "flow_func/flow_func_log.h"
#include "flow_func/meta_flow_func.h"
#include "flow_func/out_options.h"

using namespace FlowFunc;

namespace {
using Messages = std::vector<std::shared_ptr<FlowMsg>>;

// Counts what does not hold, with a line each.
class Checks {
public:
    void That(bool holds, const char *what)
    {
        if (!holds) {
            ++failed_;
            FLOW_FUNC_LOG_ERROR("does not hold: %s", what);
        }
    }
    int32_t Failed() const
    {
        return failed_;
    }

private:
    int32_t failed_ = 0;
};
#define THAT(checks, what) (checks).That((what), #what)

// A message that the runtime has not made.
class Foreign : public FlowMsg {
public:
    MsgType GetMsgType() const override
    {
        return MsgType::MSG_TYPE_RAW_MSG;
    }
    Tensor *GetTensor() const override
    {
        return nullptr;
    }
    int32_t GetRetCode() const override
    {
        return 0;
    }
    void SetRetCode(int32_t) override {}
    void SetStartTime(uint64_t) override {}
    uint64_t GetStartTime() const override
    {
        return 0;
    }
    void SetEndTime(uint64_t) override {}
    uint64_t GetEndTime() const override
    {
        return 0;
    }
    void SetFlowFlags(uint32_t) override {}
    uint32_t GetFlowFlags() const override
    {
        return 0;
    }
    void SetRouteLabel(uint32_t) override {}
};

class Faulty : public MetaFlowFunc {
public:
    int32_t Init() override
    {
        AscendString mode;
        if (context_->GetAttr("mode", mode) != FLOW_FUNC_SUCCESS) {
            FLOW_FUNC_LOG_ERROR("no attribute mode");
            return FLOW_FUNC_ERR_PARAM_INVALID;
        }
        mode_ = mode.GetString();
        if (mode == "init-throws") {
            throw std::runtime_error("no weights at /nowhere");
        }
        if (mode == "init-code") {
            return FLOW_FUNC_ERR_USER_DEFINE_START + 7;
        }
        if (mode == "init-again") {
            return (++inits_ < 3) ? 144 : FLOW_FUNC_SUCCESS;
        }
        return (mode == "attrs") ? Attributes() : FLOW_FUNC_SUCCESS;
    }

    int32_t Proc(const Messages &inputMsgs) override
    {
        const std::shared_ptr<FlowMsg> &input = inputMsgs[0];
        const uint64_t id = input->GetTransactionId();
        if (mode_ == "proc-throws" && id % 2 == 1) {
            switch (id % 8) {
                case 1:
                    throw std::runtime_error("odd id");
                case 3:
                    throw 42;
                case 5:
                    throw "a bare text";
                default:
                    throw std::bad_alloc();
            }
        }
        if (mode_ == "proc-code" && id == 3) {
            return FLOW_FUNC_ERR_USER_DEFINE_START;
        }
        if (mode_ == "pending" && ++calls_ % 3 != 0) {
            return 145;
        }
        if (mode_ == "ret-code") {
            return Coded(input);
        }
        if (mode_ == "keeps") {
            return Keeps(inputMsgs);
        }
        if (mode_ == "messages") {
            return MessagesOf(input);
        }
        if (mode_ == "floods") {
            for (int i = 0; i < 2000; ++i) {
                FLOW_FUNC_LOG_WARN("line %d", i);
                FLOW_FUNC_RUN_LOG_ERROR("line %d", i);
            }
            std::thread([] { FLOW_FUNC_LOG_ERROR("bytes that are no text: %s", "\xff|\xc3"); })
                .join();
        }
        if (mode_ == "holds") {
            return HoldsAll(input);
        }
        return context_->SetOutput(0, input);
    }

private:
    int32_t Coded(const std::shared_ptr<FlowMsg> &input)
    {
        // On the input itself: it goes on with a head of its own, without a copy.
        input->SetRetCode(FLOW_FUNC_ERR_USER_DEFINE_END);
        input->SetStartTime(11);
        input->SetEndTime(22);
        input->SetFlowFlags(static_cast<uint32_t>(FlowFlag::FLOW_FLAG_EOS));
        input->SetRouteLabel(33);
        Checks checks;
        THAT(checks, input->GetRetCode() == FLOW_FUNC_ERR_USER_DEFINE_END);
        THAT(checks, input->GetStartTime() == 11 && input->GetEndTime() == 22);
        THAT(checks, input->GetFlowFlags() == 1);
        THAT(checks, input->GetTensor() != nullptr && input->GetTensor()->GetData() != nullptr);
        return (checks.Failed() != 0) ? FLOW_FUNC_FAILED : context_->SetOutput(0, input);
    }

    // A message can't be kept; what is tried with one says so and changes nothing.
    int32_t Keeps(const Messages &inputMsgs)
    {
        Checks checks;
        if (kept_ != nullptr) {
            THAT(checks, kept_->GetTensor() == nullptr);
            THAT(checks, keptTensor_->GetData() == nullptr);
            THAT(checks, kept_->GetRetCode() == FLOW_FUNC_FAILED);
            kept_->SetRetCode(FLOW_FUNC_ERR_USER_DEFINE_START);
            THAT(checks, context_->SetOutput(0, kept_) == FLOW_FUNC_ERR_PARAM_INVALID);
            THAT(checks, context_->SetOutput(0, keptOwn_) == FLOW_FUNC_ERR_PARAM_INVALID);
        }
        kept_ = inputMsgs[0];
        keptTensor_ = kept_->GetTensor();
        keptOwn_ = context_->AllocTensorMsg({1}, TensorDataType::DT_INT8);
        THAT(checks, keptOwn_ != nullptr);
        return (checks.Failed() != 0) ? FLOW_FUNC_FAILED : context_->SetOutput(0, inputMsgs[0]);
    }

    // More messages than the partition has blocks: this id fails, nothing else.
    int32_t HoldsAll(const std::shared_ptr<FlowMsg> &input)
    {
        Messages all;
        for (int i = 0; i < 64; ++i) {
            all.push_back(context_->AllocTensorMsg({1}, TensorDataType::DT_INT8));
            if (all.back() == nullptr) {
                return FLOW_FUNC_FAILED;
            }
        }
        return context_->SetOutput(0, input);
    }

    int32_t Attributes()
    {
        Checks checks;
        AscendString text;
        int64_t number = 0;
        float real = 0;
        bool truth = false;
        TensorDataType type = TensorDataType::DT_UNDEFINED;
        std::vector<AscendString> texts;
        std::vector<int64_t> numbers = {7};
        std::vector<std::vector<int64_t>> lists;
        std::vector<float> reals;
        std::vector<bool> truths;
        std::vector<TensorDataType> types;
        THAT(checks, context_->GetAttr("number", number) == 0 && number == -5);
        THAT(checks, context_->GetAttr("real", real) == 0 && real == 0.5F);
        THAT(checks, context_->GetAttr("truth", truth) == 0 && truth);
        THAT(checks, context_->GetAttr("type", type) == 0 && type == TensorDataType::DT_INT8);
        THAT(checks, context_->GetAttr("texts", texts) == 0 && texts.size() == 2U &&
                         texts[0] == "north" && texts[1] == "");
        THAT(checks, context_->GetAttr("numbers", numbers) == 0 &&
                         numbers == std::vector<int64_t>({7, 1, 2, 3}));
        THAT(checks, context_->GetAttr("lists", lists) == 0 && lists.size() == 2U &&
                         lists[0] == std::vector<int64_t>({1, 2}) && lists[1].empty());
        THAT(checks, context_->GetAttr("reals", reals) == 0 && reals.size() == 2U);
        THAT(checks, context_->GetAttr("truths", truths) == 0 &&
                         truths == std::vector<bool>({true, false}));
        THAT(checks, context_->GetAttr("types", types) == 0 && types.size() == 2U &&
                         types[1] == TensorDataType::DT_BF16);
        reals.clear();
        THAT(checks, context_->GetAttr("nothing-in-it", reals) == 0 && reals.empty());
        // Wrong names and wrong kinds.
        THAT(checks, context_->GetAttr("no-such", number) == FLOW_FUNC_ERR_ATTR_NOT_EXITS);
        THAT(checks, context_->GetAttr("no-such") == nullptr);
        THAT(checks, context_->GetAttr(nullptr) == nullptr);
        THAT(checks, context_->GetAttr("number", real) == FLOW_FUNC_ERR_ATTR_TYPE_MISMATCH);
        THAT(checks, context_->GetAttr("number", text) == FLOW_FUNC_ERR_ATTR_TYPE_MISMATCH);
        THAT(checks, context_->GetAttr("numbers", number) == FLOW_FUNC_ERR_ATTR_TYPE_MISMATCH);
        THAT(checks, context_->GetAttr("numbers", reals) == FLOW_FUNC_ERR_ATTR_TYPE_MISMATCH);
        THAT(checks, number == -5 && text.GetLength() == 0 && reals.empty());
        int32_t code = 0;
        uint64_t user = 0;
        THAT(checks, !context_->GetException(code, user));
        THAT(checks, context_->GetUserData(&user, sizeof(user)) == FLOW_FUNC_FAILED);
        THAT(checks, std::strlen(context_->GetWorkPath()) == 0);
        return (checks.Failed() != 0) ? FLOW_FUNC_ERR_USER_DEFINE_START : FLOW_FUNC_SUCCESS;
    }

    // Edge cases 4, 5, 8, 10, 11, 12 of udf §7.2 as far as a single function can see them.
    int32_t MessagesOf(const std::shared_ptr<FlowMsg> &input)
    {
        Checks checks;
        const std::vector<int64_t> deep(33, 1);
        const TensorDataType type = TensorDataType::DT_INT32;
        THAT(checks, context_->AllocTensorMsg(deep, type) == nullptr);
        THAT(checks, context_->AllocTensorMsg({1, -2, 3}, type) == nullptr);
        THAT(checks, context_->AllocTensorMsg({1}, TensorDataType::DT_UNDEFINED) == nullptr);
        for (const uint32_t align : {0U, 1U, 16U, 48U, 65U, 2048U}) {
            THAT(checks, context_->AllocTensorMsgWithAlign({1}, type, align) == nullptr);
        }
        for (const uint32_t align : {32U, 64U, 128U, 256U, 512U, 1024U}) {
            auto aligned = context_->AllocTensorMsgWithAlign({1}, type, align);
            THAT(checks, aligned != nullptr);
            THAT(checks, reinterpret_cast<uintptr_t>(aligned->GetTensor()->GetData()) % align == 0);
        }
        for (const MsgType other : {MsgType::MSG_TYPE_RAW_MSG, MsgType::MSG_TYPE_TENSOR_LIST}) {
            THAT(checks, context_->AllocEmptyDataMsg(other) == nullptr);
        }
        auto empty = context_->AllocEmptyDataMsg(MsgType::MSG_TYPE_TENSOR_DATA);
        THAT(checks, empty != nullptr && empty->GetTensor() == nullptr &&
                         empty->GetTensorList().empty());
        Shapes(checks);
        UserData(checks, input->GetTransactionId());
        Outputs(checks, input);
        auto result = context_->AllocTensorMsg({}, type);
        *static_cast<int32_t *>(result->GetTensor()->GetData()) = checks.Failed();
        void *raw = nullptr;
        uint64_t size = 0;
        THAT(checks, result->GetRawData(raw, size) == 0 && size == 1024 + 4);
        THAT(checks, result->GetTransactionId() == input->GetTransactionId());
        return (checks.Failed() != 0) ? FLOW_FUNC_FAILED : context_->SetOutput(0, result);
    }

    void Shapes(Checks &checks)
    {
        auto message = context_->AllocTensorMsg({1, 2, 9}, TensorDataType::DT_INT16);
        Tensor *tensor = message->GetTensor();
        THAT(checks, tensor->GetElementCnt() == 18 && tensor->GetDataSize() == 36);
        THAT(checks, tensor->GetDataBufferSize() >= 36);
        std::vector<int64_t> many(32, 1);
        many[31] = 18;
        for (const std::vector<int64_t> &shape :
             {std::vector<int64_t>({9, 2, 1}), {18}, {2, 3, 1, 3}, many}) {
            THAT(checks, tensor->Reshape(shape) == 0 && tensor->GetShape() == shape);
        }
        many.push_back(1);
        for (const std::vector<int64_t> &shape :
             {many, std::vector<int64_t>({3, 2}), {3, 2, 3, 3}, {3, -2, -3}}) {
            THAT(checks, tensor->Reshape(shape) == FLOW_FUNC_ERR_PARAM_INVALID);
        }
        THAT(checks, tensor->GetShape().size() == 32U);
        message->SetRetCode(5);
        THAT(checks, message->GetRetCode() == 5);
        message->SetTransactionId(77);
        THAT(checks, message->GetTransactionId() == 77);
        message->SetMsgType(MsgType::MSG_TYPE_USER_DEFINE_START);
        THAT(checks, message->GetMsgType() == MsgType::MSG_TYPE_USER_DEFINE_START);
        THAT(checks, message->GetTensor() == nullptr);
        auto loose = FlowBufferFactory::AllocTensor({4}, TensorDataType::DT_UINT2);
        THAT(checks, loose != nullptr && loose->GetDataSize() == 1);
        THAT(checks, FlowBufferFactory::AllocTensor({4}, TensorDataType::DT_INT8, 3) == nullptr);
        const Foreign foreign;
        THAT(checks, foreign.GetTransactionId() == UINT64_MAX);
        void *raw = nullptr;
        uint64_t size = 0;
        THAT(checks, foreign.GetRawData(raw, size) == FLOW_FUNC_ERR_NOT_SUPPORT);
    }

    void UserData(Checks &checks, uint64_t id)
    {
        uint8_t bytes[64];
        uint64_t word = 0;
        const int32_t bad = FLOW_FUNC_ERR_PARAM_INVALID;
        THAT(checks, context_->GetUserData(nullptr, 0) == bad);
        THAT(checks, context_->GetUserData(bytes, 0) == bad);
        THAT(checks, context_->GetUserData(bytes, 4, 64) == bad);
        THAT(checks, context_->GetUserData(bytes, 64, 1) == bad);
        THAT(checks, context_->GetUserData(bytes, 64) == 0);
        THAT(checks, context_->GetUserData(&word, 8) == 0 && word == id);
        THAT(checks, context_->GetUserData(&word, 8, 8) == 0 && word == 0);
    }

    void Outputs(Checks &checks, const std::shared_ptr<FlowMsg> &input)
    {
        const int32_t bad = FLOW_FUNC_ERR_PARAM_INVALID;
        Messages none;
        THAT(checks, context_->SetOutput(9, input) == bad);
        THAT(checks, context_->SetOutput(0, nullptr) == 0);
        THAT(checks, context_->SetOutput(0, std::make_shared<Foreign>()) == bad);
        THAT(checks, context_->RunFlowModel(nullptr, none, none, 1) == bad);
        THAT(checks, context_->RunFlowModel("nn", none, none, 1) == FLOW_FUNC_ERR_NOT_SUPPORT);
        OutOptions options;
        THAT(checks, options.GetBalanceConfig() == nullptr);
        options.MutableBalanceConfig()->SetAffinityPolicy(AffinityPolicy::ROW_AFFINITY);
        OutOptions copy = options;
        THAT(checks, copy.GetBalanceConfig()->GetAffinityPolicy() == AffinityPolicy::ROW_AFFINITY);
        THAT(checks, context_->SetOutput(0, input, options) == FLOW_FUNC_ERR_NOT_SUPPORT);
        THAT(checks, context_->SetMultiOutputs(0, {input}, copy) == FLOW_FUNC_ERR_NOT_SUPPORT);
        context_->RaiseException(1, 2);
        int32_t refused = 0;
        std::thread([&] { refused = context_->SetOutput(0, input); }).join();
        THAT(checks, refused == bad);
        THAT(checks, ResetFlowFuncState() == FLOW_FUNC_ERR_NOT_SUPPORT);
    }

    std::string mode_;
    int inits_ = 0;
    int calls_ = 0;
    std::shared_ptr<FlowMsg> kept_;
    std::shared_ptr<FlowMsg> keptOwn_;
    Tensor *keptTensor_ = nullptr;
};

class ThrowsAtOnce : public Faulty {
public:
    ThrowsAtOnce()
    {
        throw std::logic_error("born wrong");
    }
};

const bool g_null = RegisterFlowFunc("null", [] { return std::shared_ptr<MetaFlowFunc>(); });
const bool g_refused = !RegisterFlowFunc(nullptr, [] { return std::make_shared<Faulty>(); }) &&
                       !RegisterFlowFunc("no-creator", nullptr);
}  // namespace

REGISTER_FLOW_FUNC("faulty", Faulty);
REGISTER_FLOW_FUNC("throws-at-once", ThrowsAtOnce);
