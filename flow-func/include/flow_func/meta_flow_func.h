// The base class of user functions, and their registration.
#ifndef FLOW_FUNC_META_FLOW_FUNC_H
#define FLOW_FUNC_META_FLOW_FUNC_H

#include <functional>
#include <memory>
#include <vector>

#include "flow_func_defines.h"
#include "flow_msg.h"
#include "meta_context.h"

namespace FlowFunc {
// One object for each process of a node; everything is called from one thread.
class FLOW_FUNC_VISIBILITY MetaFlowFunc {
public:
    MetaFlowFunc() = default;
    virtual ~MetaFlowFunc() = default;

    // Called by the runtime before Init.
    void SetContext(MetaContext *context)
    {
        context_ = context;
    }

    // Once before the first Proc: 0, or the process ends with the code.
    virtual int32_t Init() = 0;
    // One message for each input. A value other than 0 ends the process; to fail one message only,
    // set a code on an output and return FLOW_FUNC_SUCCESS.
    virtual int32_t Proc(const std::vector<std::shared_ptr<FlowMsg>> &inputMsgs) = 0;
    // Clears what was gathered; the default asks for a new object instead.
    virtual int32_t ResetFlowFuncState();

protected:
    MetaContext *context_ = nullptr;
};

using FLOW_FUNC_CREATOR_FUNC = std::function<std::shared_ptr<MetaFlowFunc>(void)>;

// False for a null name or an empty function. A second function of one name is not kept, which is
// logged and answered with true.
FLOW_FUNC_VISIBILITY bool RegisterFlowFunc(const char *flowFuncName,
                                           const FLOW_FUNC_CREATOR_FUNC &func) noexcept;
}  // namespace FlowFunc

// Registers class `clazz` (a plain identifier) under `name`; at namespace scope, followed by `;`.
#define REGISTER_FLOW_FUNC(name, clazz) REGISTER_FLOW_FUNC_INNER(name, clazz, __COUNTER__)

#define REGISTER_FLOW_FUNC_INNER(name, clazz, number) REGISTER_FLOW_FUNC_IMPL(name, clazz, number)

#define REGISTER_FLOW_FUNC_IMPL(name, clazz, number)                                     \
    static std::shared_ptr<::FlowFunc::MetaFlowFunc> FlowFuncCreate##clazz##number()     \
    {                                                                                    \
        return std::make_shared<clazz>();                                                \
    }                                                                                    \
    static const bool g_flowFuncRegistered##clazz##number __attribute__((used)) =        \
        ::FlowFunc::RegisterFlowFunc(name, FlowFuncCreate##clazz##number)

#endif
