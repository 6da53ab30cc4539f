// How several messages of one output are spread over instances. Declared for compilation: this
// version answers FLOW_FUNC_ERR_NOT_SUPPORT to outputs with a balance configuration.
#ifndef FLOW_FUNC_BALANCE_CONFIG_H
#define FLOW_FUNC_BALANCE_CONFIG_H

#include <cstdint>
#include <utility>
#include <vector>

#include "flow_func_defines.h"

namespace FlowFunc {
enum class AffinityPolicy : int32_t {
    NO_AFFINITY = 0,
    ROW_AFFINITY = 1,
    COL_AFFINITY = 2
};

#pragma pack(1)
struct BalanceWeight {
    int32_t rowNum = 0;
    int32_t colNum = 0;
    // rowNum * colNum values that the caller keeps alive; null = all ones.
    const int32_t *matrix = nullptr;
};
#pragma pack()

class FLOW_FUNC_VISIBILITY BalanceConfig {
public:
    BalanceConfig() = default;
    virtual ~BalanceConfig() = default;

    virtual void SetAffinityPolicy(AffinityPolicy affinityPolicy) = 0;
    virtual AffinityPolicy GetAffinityPolicy() const = 0;
    virtual void SetBalanceWeight(const BalanceWeight &balanceWeight) = 0;
    virtual const BalanceWeight &GetBalanceWeight() const = 0;
    // (row, column) of each message.
    virtual void SetDataPos(const std::vector<std::pair<int32_t, int32_t>> &dataPos) = 0;
    virtual const std::vector<std::pair<int32_t, int32_t>> &GetDataPos() const = 0;
};
}  // namespace FlowFunc

#endif
