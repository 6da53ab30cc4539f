// One instance's way to the executor, and the pools of its messages.
#include "runtime.h"

namespace dflow {
namespace {
thread_local Runtime *t_inside = nullptr;
std::atomic<Runtime *> g_newest{nullptr};

// Ends a message whose last holder is gone.
struct Recycler {
    void operator()(Message *message) const
    {
        message->End();
        message->Of()->Recycle(message);
    }
};
}  // namespace

Runtime::Runtime(const ApiV1 *api, ContextV1 *ctx, const char *function)
    : api_(api), ctx_(ctx), function_(function), thread_(pthread_self()), inside_(false), call_(0),
      owners_(1), failure_(0)
{
    messages_.reserve(POOLED);
    free_messages_.reserve(POOLED);
    free_nodes_.reserve(POOLED);
    for (size_t i = 0; i < POOLED; ++i) {
        messages_.emplace_back(new Message(this));
        free_messages_.push_back(messages_.back().get());
        free_nodes_.push_back(::operator new(NODE_BYTES));
    }
    g_newest.store(this, std::memory_order_release);
}

Runtime::~Runtime()
{
    for (void *node : free_nodes_) {
        ::operator delete(node);
    }
}

Runtime *Runtime::Current()
{
    return (t_inside != nullptr) ? t_inside : g_newest.load(std::memory_order_acquire);
}

Runtime *Runtime::Inside()
{
    return t_inside;
}

void Runtime::Say(FlowFuncLogLevel level, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    WriteLine(this, false, static_cast<uint32_t>(level), format, args);
    va_end(args);
}

Message *Runtime::TakeMessage()
{
    const std::lock_guard<std::mutex> guard(lock_);
    if (free_messages_.empty()) {
        // Room for every message in the list of free ones first: giving back never allocates.
        free_messages_.reserve(messages_.size() + 1);
        messages_.emplace_back(new Message(this));
        return messages_.back().get();
    }
    Message *message = free_messages_.back();
    free_messages_.pop_back();
    return message;
}

void Runtime::Recycle(Message *message)
{
    const std::lock_guard<std::mutex> guard(lock_);
    free_messages_.push_back(message);
}

void *Runtime::TakeNode(size_t size)
{
    owners_.fetch_add(1, std::memory_order_relaxed);
    if (size <= NODE_BYTES) {
        const std::lock_guard<std::mutex> guard(lock_);
        if (!free_nodes_.empty()) {
            void *node = free_nodes_.back();
            free_nodes_.pop_back();
            return node;
        }
        size = NODE_BYTES;
    }
    try {
        return ::operator new(size);
    } catch (...) {
        Drop();
        throw;
    }
}

void Runtime::GiveNode(void *node, size_t size)
{
    {
        const std::lock_guard<std::mutex> guard(lock_);
        if (size <= NODE_BYTES && free_nodes_.size() < free_nodes_.capacity()) {
            free_nodes_.push_back(node);
            node = nullptr;
        }
    }
    ::operator delete(node);
    Drop();
}

void Runtime::Drop()
{
    if (owners_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        Runtime *self = this;
        (void)g_newest.compare_exchange_strong(self, nullptr, std::memory_order_acq_rel);
        delete this;
    }
}

std::shared_ptr<FlowMsg> Runtime::Share(Message *message)
{
    // On a failure here the constructor runs the deleter.
    return std::shared_ptr<FlowMsg>(message, Recycler(), NodeAllocator<Message>(this));
}

std::shared_ptr<FlowMsg> Runtime::Input(const MsgV1 *input)
{
    Message *message = TakeMessage();
    message->Begin(input, nullptr);
    return Share(message);
}

std::shared_ptr<FlowMsg> Runtime::Handle(const MsgV1 &handle)
{
    Message *message = TakeMessage();
    message->Begin(nullptr, &handle);
    return Share(message);
}

Runtime::Scope::Scope(Runtime *runtime) : runtime_(runtime), before_(t_inside)
{
    runtime->thread_ = pthread_self();
    runtime->failure_ = 0;
    runtime->call_.fetch_add(1, std::memory_order_release);
    runtime->inside_.store(true, std::memory_order_release);
    t_inside = runtime;
}

Runtime::Scope::~Scope()
{
    t_inside = before_;
    runtime_->inside_.store(false, std::memory_order_release);
    runtime_->call_.fetch_add(1, std::memory_order_release);
}
}  // namespace dflow
