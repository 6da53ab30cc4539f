// Log lines of user functions: they go to the log of the node, with its name and the id that is
// being worked on. A flood is cut (INFO 1000 at once and 100 a second, WARN, ERROR and run lines
// 400 and 50); what was dropped is counted.
#ifndef FLOW_FUNC_FLOW_FUNC_LOG_H
#define FLOW_FUNC_FLOW_FUNC_LOG_H

#include "flow_func_defines.h"

namespace FlowFunc {
enum class FLOW_FUNC_VISIBILITY FlowFuncLogType {
    DEBUG_LOG = 0,
    RUN_LOG = 1
};

enum class FLOW_FUNC_VISIBILITY FlowFuncLogLevel {
    DEBUG = 0,
    INFO = 1,
    WARN = 2,
    ERROR = 3
};

class FLOW_FUNC_VISIBILITY FlowFuncLogger {
public:
    FlowFuncLogger() = default;
    virtual ~FlowFuncLogger() = default;

    static FlowFuncLogger &GetLogger(FlowFuncLogType type);
    // `[tid:<number>]` of the calling thread.
    static const char *GetLogExtHeader();

    virtual bool IsLogEnable(FlowFuncLogLevel level) = 0;
    virtual void Error(const char *fmt, ...) __attribute__((format(printf, 2, 3))) = 0;
    virtual void Warn(const char *fmt, ...) __attribute__((format(printf, 2, 3))) = 0;
    virtual void Info(const char *fmt, ...) __attribute__((format(printf, 2, 3))) = 0;
    virtual void Debug(const char *fmt, ...) __attribute__((format(printf, 2, 3))) = 0;
};
}  // namespace FlowFunc

#define FLOW_FUNC_LOG_WRITE(type, verb, mark, fmt, ...)                                      \
    ::FlowFunc::FlowFuncLogger::GetLogger(::FlowFunc::FlowFuncLogType::type)                 \
        .verb("[%s:%d][%s]%s" mark ": " fmt, __FILE__, __LINE__, __FUNCTION__,               \
              ::FlowFunc::FlowFuncLogger::GetLogExtHeader(), ##__VA_ARGS__)

#define FLOW_FUNC_LOG_WRITE_IF(type, level, verb, mark, fmt, ...)                            \
    do {                                                                                     \
        if (::FlowFunc::FlowFuncLogger::GetLogger(::FlowFunc::FlowFuncLogType::type)         \
                .IsLogEnable(::FlowFunc::FlowFuncLogLevel::level)) {                         \
            FLOW_FUNC_LOG_WRITE(type, verb, mark, fmt, ##__VA_ARGS__);                       \
        }                                                                                    \
    } while (0)

#define FLOW_FUNC_LOG_DEBUG(fmt, ...) \
    FLOW_FUNC_LOG_WRITE_IF(DEBUG_LOG, DEBUG, Debug, "", fmt, ##__VA_ARGS__)
#define FLOW_FUNC_LOG_INFO(fmt, ...) \
    FLOW_FUNC_LOG_WRITE_IF(DEBUG_LOG, INFO, Info, "", fmt, ##__VA_ARGS__)
#define FLOW_FUNC_LOG_WARN(fmt, ...) \
    FLOW_FUNC_LOG_WRITE_IF(DEBUG_LOG, WARN, Warn, "", fmt, ##__VA_ARGS__)
#define FLOW_FUNC_LOG_ERROR(fmt, ...)                                     \
    do {                                                                  \
        FLOW_FUNC_LOG_WRITE(DEBUG_LOG, Error, "", fmt, ##__VA_ARGS__);    \
    } while (0)
#define FLOW_FUNC_RUN_LOG_INFO(fmt, ...) \
    FLOW_FUNC_LOG_WRITE_IF(RUN_LOG, INFO, Info, "[RUN]", fmt, ##__VA_ARGS__)
#define FLOW_FUNC_RUN_LOG_ERROR(fmt, ...)                                 \
    do {                                                                  \
        FLOW_FUNC_LOG_WRITE(RUN_LOG, Error, "[RUN]", fmt, ##__VA_ARGS__); \
    } while (0)

#endif
