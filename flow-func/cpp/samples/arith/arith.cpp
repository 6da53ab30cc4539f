// Two functions in one library: `identity` sends its input on, `add` adds two tensors.
//
// add: attribute `out_type` (data type, optional): float32, int64 or int32; both inputs must have
// it. Attribute `bias` (integer, optional) is added to each element. Bad inputs are answered with
// 9900001 and do not end anything.
#include <cstring>
#include <string>

#include "flow_func/flow_func_log.h"
#include "flow_func/meta_flow_func.h"

namespace FlowFunc {
constexpr int32_t BAD_INPUT = FLOW_FUNC_ERR_USER_DEFINE_START + 1;

class Identity : public MetaFlowFunc {
public:
    int32_t Init() override
    {
        return FLOW_FUNC_SUCCESS;
    }

    int32_t Proc(const std::vector<std::shared_ptr<FlowMsg>> &inputMsgs) override
    {
        for (size_t i = 0; i < inputMsgs.size() && i < context_->GetOutputNum(); ++i) {
            const int32_t ret = context_->SetOutput(i, inputMsgs[i]);
            if (ret != FLOW_FUNC_SUCCESS) {
                return ret;
            }
        }
        return FLOW_FUNC_SUCCESS;
    }
};

class AddFunc : public MetaFlowFunc {
public:
    int32_t Init() override
    {
        const int32_t ret = context_->GetAttr("out_type", outType_);
        if (ret != FLOW_FUNC_SUCCESS && ret != FLOW_FUNC_ERR_ATTR_NOT_EXITS) {
            FLOW_FUNC_LOG_ERROR("attribute out_type: %d", ret);
            return ret;
        }
        (void)context_->GetAttr("bias", bias_);
        bool catches = false;
        (void)context_->GetAttr("enableExceptionCatch", catches);
        FLOW_FUNC_RUN_LOG_INFO("inputs %zu, outputs %zu, bias %ld", context_->GetInputNum(),
                               context_->GetOutputNum(), static_cast<long>(bias_));
        return FLOW_FUNC_SUCCESS;
    }

    int32_t Proc(const std::vector<std::shared_ptr<FlowMsg>> &inputMsgs) override
    {
        int32_t code = 0;
        uint64_t userContext = 0;
        if (context_->GetException(code, userContext)) {
            return FLOW_FUNC_SUCCESS;
        }
        if (inputMsgs.size() != 2U) {
            FLOW_FUNC_LOG_ERROR("%zu inputs, expected 2", inputMsgs.size());
            return FLOW_FUNC_FAILED;
        }
        for (const auto &input : inputMsgs) {
            if (input->GetRetCode() != FLOW_FUNC_SUCCESS) {
                return Answer(input->GetRetCode());
            }
        }
        Tensor *left = inputMsgs[0]->GetTensor();
        Tensor *right = inputMsgs[1]->GetTensor();
        if (left == nullptr || right == nullptr || left->GetShape() != right->GetShape() ||
            left->GetDataType() != outType_ || right->GetDataType() != outType_) {
            FLOW_FUNC_LOG_WARN("inputs do not fit");
            return Answer(BAD_INPUT);
        }
        auto output = context_->AllocTensorMsg(left->GetShape(), outType_);
        if (output == nullptr) {
            return FLOW_FUNC_FAILED;
        }
        switch (outType_) {
            case TensorDataType::DT_FLOAT:
                Add<float>(left, right, output->GetTensor());
                break;
            case TensorDataType::DT_INT32:
                Add<int32_t>(left, right, output->GetTensor());
                break;
            case TensorDataType::DT_INT64:
                Add<int64_t>(left, right, output->GetTensor());
                break;
            default:
                return Answer(BAD_INPUT);
        }
        FLOW_FUNC_LOG_DEBUG("added %ld elements", static_cast<long>(left->GetElementCnt()));
        return context_->SetOutput(0, output);
    }

private:
    template<typename T>
    void Add(const Tensor *left, const Tensor *right, Tensor *sum) const
    {
        const T *a = static_cast<const T *>(left->GetData());
        const T *b = static_cast<const T *>(right->GetData());
        T *to = static_cast<T *>(sum->GetData());
        for (int64_t i = 0; i < sum->GetElementCnt(); ++i) {
            to[i] = a[i] + b[i] + static_cast<T>(bias_);
        }
    }

    int32_t Answer(int32_t code)
    {
        auto output = context_->AllocEmptyDataMsg(MsgType::MSG_TYPE_TENSOR_DATA);
        if (output == nullptr) {
            return FLOW_FUNC_FAILED;
        }
        output->SetRetCode(code);
        return context_->SetOutput(0, output);
    }

    TensorDataType outType_ = TensorDataType::DT_INT64;
    int64_t bias_ = 0;
};

REGISTER_FLOW_FUNC("identity", Identity);
REGISTER_FLOW_FUNC("add", AddFunc);
// A second one of a name is not kept, which the log says.
REGISTER_FLOW_FUNC("add", Identity);
}  // namespace FlowFunc
