// Facts about an instance that never change.
#ifndef FLOW_FUNC_META_PARAMS_H
#define FLOW_FUNC_META_PARAMS_H

#include <cstddef>
#include <cstdint>
#include <memory>

#include "dflow_attr_value.h"
#include "flow_func_defines.h"

namespace FlowFunc {
class FLOW_FUNC_VISIBILITY MetaParams {
public:
    MetaParams() = default;
    virtual ~MetaParams() = default;

    virtual const char *GetName() const = 0;
    // Null when there is no such attribute.
    virtual std::shared_ptr<const AttrValue> GetAttr(const char *attrName) const = 0;

    template<typename T>
    int32_t GetAttr(const char *attrName, T &value) const
    {
        const std::shared_ptr<const AttrValue> attr = GetAttr(attrName);
        return (attr == nullptr) ? FLOW_FUNC_ERR_ATTR_NOT_EXITS : attr->GetVal(value);
    }

    virtual size_t GetInputNum() const = 0;
    virtual size_t GetOutputNum() const = 0;
    virtual const char *GetWorkPath() const = 0;
    virtual int32_t GetRunningDeviceId() const = 0;
    virtual int32_t GetRunningInstanceId() const;
    virtual int32_t GetRunningInstanceNum() const;
};
}  // namespace FlowFunc

#endif
