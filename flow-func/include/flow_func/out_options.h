// Options of an output.
#ifndef FLOW_FUNC_OUT_OPTIONS_H
#define FLOW_FUNC_OUT_OPTIONS_H

#include <memory>

#include "balance_config.h"
#include "flow_func_defines.h"

namespace FlowFunc {
class OutOptionsImpl;

// Copies share their state.
class FLOW_FUNC_VISIBILITY OutOptions {
public:
    OutOptions();
    ~OutOptions();

    // Made by the first call; never null.
    BalanceConfig *MutableBalanceConfig();
    // Null when none was made.
    const BalanceConfig *GetBalanceConfig() const;

private:
    std::shared_ptr<OutOptionsImpl> impl_;
};
}  // namespace FlowFunc

#endif
