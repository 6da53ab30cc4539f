// Log lines: formatted on the stack, made UTF-8, handed to the executor, which adds node and id and
// counts what its limits drop.
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "runtime.h"

namespace dflow {
namespace {
constexpr size_t LINE_BYTES = 2048;

// Bytes of the UTF-8 character at `text`; 0 when there is none. Overlong forms and surrogates are
// told apart by the second byte.
size_t CharBytes(const unsigned char *text, size_t left)
{
    const unsigned char first = text[0];
    size_t size = 0;
    unsigned char low = 0x80;
    unsigned char high = 0xbf;
    if (first < 0x80) {
        return 1;
    } else if (first >= 0xc2 && first <= 0xdf) {
        size = 2;
    } else if (first >= 0xe0 && first <= 0xef) {
        size = 3;
        low = (first == 0xe0) ? 0xa0 : low;
        high = (first == 0xed) ? 0x9f : high;
    } else if (first >= 0xf0 && first <= 0xf4) {
        size = 4;
        low = (first == 0xf0) ? 0x90 : low;
        high = (first == 0xf4) ? 0x8f : high;
    }
    if (size == 0 || size > left || text[1] < low || text[1] > high) {
        return 0;
    }
    for (size_t i = 2; i < size; ++i) {
        if ((text[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    return size;
}

// Replaces bytes that are no UTF-8, and drops line ends at the end; the length that remains.
size_t Clean(char *text, size_t len, bool cut)
{
    size_t at = 0;
    while (at < len) {
        const size_t size = CharBytes(reinterpret_cast<unsigned char *>(text) + at, len - at);
        if (size == 0) {
            // The last character of a line that was cut may be cut, too.
            if (cut && len - at < 4) {
                len = at;
                break;
            }
            text[at] = '?';
        }
        at += (size == 0) ? 1 : size;
    }
    while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r')) {
        --len;
    }
    return len;
}

class Logger final : public FlowFunc::FlowFuncLogger {
public:
    explicit Logger(bool run) : run_(run) {}

    bool IsLogEnable(FlowFuncLogLevel level) override
    {
        const Runtime *runtime = Runtime::Current();
        return runtime == nullptr || static_cast<uint32_t>(level) >= runtime->Api()->log_level;
    }
    void Error(const char *fmt, ...) override __attribute__((format(printf, 2, 3)));
    void Warn(const char *fmt, ...) override __attribute__((format(printf, 2, 3)));
    void Info(const char *fmt, ...) override __attribute__((format(printf, 2, 3)));
    void Debug(const char *fmt, ...) override __attribute__((format(printf, 2, 3)));

private:
    void Write(FlowFuncLogLevel level, const char *fmt, va_list args)
    {
        if (IsLogEnable(level)) {
            WriteLine(Runtime::Current(), run_, static_cast<uint32_t>(level), fmt, args);
        }
    }

    bool run_;
};

#define DFLOW_LOG_VERB(verb, level)                   \
    void Logger::verb(const char *fmt, ...)           \
    {                                                 \
        va_list args;                                 \
        va_start(args, fmt);                          \
        Write(FlowFuncLogLevel::level, fmt, args);    \
        va_end(args);                                 \
    }

DFLOW_LOG_VERB(Error, ERROR)
DFLOW_LOG_VERB(Warn, WARN)
DFLOW_LOG_VERB(Info, INFO)
DFLOW_LOG_VERB(Debug, DEBUG)
}  // namespace

void WriteLine(Runtime *runtime, bool run, uint32_t level, const char *format, va_list args)
{
    static const char *const NAMES[] = {"DEBUG", "INFO", "WARN", "ERROR"};
    char line[LINE_BYTES];
    const int wanted = std::vsnprintf(line, sizeof(line), format, args);
    if (wanted < 0) {
        return;
    }
    const bool cut = static_cast<size_t>(wanted) >= sizeof(line);
    const size_t len = Clean(line, cut ? sizeof(line) - 1 : static_cast<size_t>(wanted), cut);
    if (runtime == nullptr) {
        // Before an instance exists: a constructor of the library. stderr is the node's log.
        std::fprintf(stderr, "libflow_func: %s %.*s\n", NAMES[level & 3], static_cast<int>(len),
                     line);
        return;
    }
    const ApiV1 *api = runtime->Api();
    if (run && api->size >= sizeof(ApiV1)) {
        api->log_run(runtime->Ctx(), level, line, len);
    } else {
        api->log(runtime->Ctx(), level, line, len);
    }
}
}  // namespace dflow

namespace FlowFunc {
FlowFuncLogger &FlowFuncLogger::GetLogger(FlowFuncLogType type)
{
    // Never destroyed: a thread of a function may write to the end.
    static dflow::Logger *const debug = new dflow::Logger(false);
    static dflow::Logger *const run = new dflow::Logger(true);
    return (type == FlowFuncLogType::RUN_LOG) ? *run : *debug;
}

const char *FlowFuncLogger::GetLogExtHeader()
{
    static thread_local char header[32] = {0};
    if (header[0] == '\0') {
        std::snprintf(header, sizeof(header), "[tid:%ld]", syscall(SYS_gettid));
    }
    return header;
}
}  // namespace FlowFunc
