// The last node of the page orientation flow: the most probable class of each row.
//
// Input: probabilities, float32 [N, C] (or [C], which counts as [1, C]).
// Attribute `labels`: C texts, the names of the classes, in UTF-8, of at most 23 bytes.
// Output: uint8 [N, 32], one record a row, little-endian:
//
//   byte 0   int32    index of the class
//   byte 4   float32  confidence: its probability
//   byte 8   char[24] its label, filled up with zero bytes
//
// Of several equal probabilities the first one counts, and a row with a value that is no number has
// the index -1, confidence 0 and an empty label. Codes on the output: that of the input, or 9900001
// when the input is no such tensor.
#include <cstring>

#include "flow_func/flow_func_log.h"
#include "flow_func/meta_flow_func.h"

namespace {
constexpr int32_t BAD_INPUT = 9900001;
constexpr size_t LABEL_BYTES = 24;

struct Record {
    int32_t index;
    float confidence;
    char label[LABEL_BYTES];
};
static_assert(sizeof(Record) == 32, "the layout above");

class Orientation : public FlowFunc::MetaFlowFunc {
public:
    int32_t Init() override
    {
        const int32_t ret = context_->GetAttr("labels", labels_);
        if (ret != FlowFunc::FLOW_FUNC_SUCCESS || labels_.empty()) {
            FLOW_FUNC_LOG_ERROR("attribute labels: a list of texts is needed (code %d)", ret);
            return FlowFunc::FLOW_FUNC_ERR_PARAM_INVALID;
        }
        for (const FlowFunc::AscendString &label : labels_) {
            if (label.GetLength() >= LABEL_BYTES) {
                FLOW_FUNC_LOG_ERROR("label %s: more than %zu bytes", label.GetString(),
                                    LABEL_BYTES - 1);
                return FlowFunc::FLOW_FUNC_ERR_PARAM_INVALID;
            }
        }
        return FlowFunc::FLOW_FUNC_SUCCESS;
    }

    int32_t Proc(const std::vector<std::shared_ptr<FlowFunc::FlowMsg>> &inputMsgs) override
    {
        if (inputMsgs.size() != 1U) {
            return FlowFunc::FLOW_FUNC_ERR_PARAM_INVALID;
        }
        const auto &input = inputMsgs[0];
        if (input->GetRetCode() != FlowFunc::FLOW_FUNC_SUCCESS) {
            return Answer(input->GetRetCode());
        }
        const FlowFunc::Tensor *tensor = input->GetTensor();
        if (tensor == nullptr || tensor->GetDataType() != FlowFunc::TensorDataType::DT_FLOAT) {
            FLOW_FUNC_LOG_ERROR("the input is no float32 tensor");
            return Answer(BAD_INPUT);
        }
        const std::vector<int64_t> &shape = tensor->GetShape();
        const int64_t classes = shape.empty() ? 0 : shape.back();
        const int64_t rows = (shape.size() == 2U) ? shape[0] : 1;
        const uint64_t bytes = static_cast<uint64_t>(tensor->GetElementCnt()) * sizeof(float);
        if (shape.empty() || shape.size() > 2U || tensor->GetDataSize() != bytes ||
            classes != static_cast<int64_t>(labels_.size())) {
            FLOW_FUNC_LOG_ERROR("%zu dimension(s), %ld classes, %lu bytes: %zu classes expected",
                                shape.size(), static_cast<long>(classes),
                                static_cast<unsigned long>(tensor->GetDataSize()), labels_.size());
            return Answer(BAD_INPUT);
        }
        auto output = context_->AllocTensorMsg({rows, static_cast<int64_t>(sizeof(Record))},
                                               FlowFunc::TensorDataType::DT_UINT8);
        if (output == nullptr) {
            return FlowFunc::FLOW_FUNC_FAILED;
        }
        const float *probabilities = static_cast<const float *>(tensor->GetData());
        uint8_t *to = static_cast<uint8_t *>(output->GetTensor()->GetData());
        for (int64_t row = 0; row < rows; ++row) {
            const Record record = Best(probabilities + row * classes, classes);
            std::memcpy(to + row * static_cast<int64_t>(sizeof(Record)), &record, sizeof(record));
        }
        return context_->SetOutput(0, output);
    }

private:
    Record Best(const float *row, int64_t classes) const
    {
        Record best = {0, row[0], {0}};
        for (int64_t i = 0; i < classes; ++i) {
            if (row[i] != row[i]) {
                return Record{-1, 0.0F, {0}};
            }
            if (row[i] > best.confidence) {
                best.index = static_cast<int32_t>(i);
                best.confidence = row[i];
            }
        }
        const FlowFunc::AscendString &label = labels_[static_cast<size_t>(best.index)];
        std::memcpy(best.label, label.GetString(), label.GetLength());
        return best;
    }

    int32_t Answer(int32_t code)
    {
        auto output = context_->AllocEmptyDataMsg(FlowFunc::MsgType::MSG_TYPE_TENSOR_DATA);
        if (output == nullptr) {
            return FlowFunc::FLOW_FUNC_FAILED;
        }
        output->SetRetCode(code);
        return context_->SetOutput(0, output);
    }

    std::vector<FlowFunc::AscendString> labels_;
};
}  // namespace

REGISTER_FLOW_FUNC("orientation", Orientation);
