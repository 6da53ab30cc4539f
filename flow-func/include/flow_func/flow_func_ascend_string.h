// A text that means the same in both string ABIs of libstdc++: no std::string shows.
#ifndef FLOW_FUNC_FLOW_FUNC_ASCEND_STRING_H
#define FLOW_FUNC_FLOW_FUNC_ASCEND_STRING_H

#include <cstddef>
#include <memory>

#include "flow_func_defines.h"

namespace FlowFunc {
// A value; copies share the bytes, which never change. The null state sorts below every text.
class FLOW_FUNC_VISIBILITY AscendString {
public:
    // The null state.
    AscendString();
    // Up to the zero byte; a null pointer gives the null state. Implicit, so that `attr == "x"`
    // compiles.
    AscendString(const char *const text);
    // Exactly `length` bytes, zero bytes included; a null pointer gives the null state.
    AscendString(const char *const text, size_t length);

    // Zero-terminated; "" in the null state.
    const char *GetString() const;
    // Bytes; 0 in the null state.
    size_t GetLength() const;

    bool operator<(const AscendString &other) const;
    bool operator>(const AscendString &other) const;
    bool operator<=(const AscendString &other) const;
    bool operator>=(const AscendString &other) const;
    bool operator==(const AscendString &other) const;
    bool operator!=(const AscendString &other) const;

private:
    struct Text;
    std::shared_ptr<Text> text_;
};
}  // namespace FlowFunc

#endif
