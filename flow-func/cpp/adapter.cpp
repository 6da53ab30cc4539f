// From registered classes to the records of the C ABI. Every exception of a function ends here: it
// becomes a code and a line that names the function and what(); none crosses into the executor.
#include <cxxabi.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <typeinfo>

#include "flow_func/meta_flow_func.h"
#include "runtime.h"

namespace dflow {
using FlowFunc::FLOW_FUNC_CREATOR_FUNC;
using FlowFunc::MetaFlowFunc;

namespace {
// Most functions of a process: each has functions of its own in a table.
constexpr size_t FUNCS_MAX = 256;

struct Registered {
    std::string name;
    FLOW_FUNC_CREATOR_FUNC create;
};

// What constructors of libraries have registered. Never destroyed.
std::deque<Registered> &Registry()
{
    static std::deque<Registered> *const registry = new std::deque<Registered>();
    return *registry;
}

void SayEarly(FlowFuncLogLevel level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

void SayEarly(FlowFuncLogLevel level, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    WriteLine(Runtime::Current(), false, static_cast<uint32_t>(level), format, args);
    va_end(args);
}

// One line about the exception that is being handled.
void Report(Runtime *runtime, const char *verb, const char *text)
{
    const std::type_info *type = abi::__cxa_current_exception_type();
    const char *raw = (type == nullptr) ? "an exception of unknown type" : type->name();
    int status = 0;
    char *name = (type == nullptr) ? nullptr : abi::__cxa_demangle(raw, nullptr, nullptr, &status);
    runtime->Say(FlowFuncLogLevel::ERROR, "function %s: %s threw %s%s%s",
                 runtime->Function().c_str(), verb, (name == nullptr) ? raw : name,
                 (text == nullptr) ? "" : ": ", (text == nullptr) ? "" : text);
    std::free(name);
}

// Runs `body` as one call of the function; what it throws becomes UDF_PANIC.
template<typename F>
int32_t Guarded(Runtime *runtime, const char *verb, F body) noexcept
{
    try {
        const Runtime::Scope scope(runtime);
        return body();
    } catch (const std::exception &thrown) {
        Report(runtime, verb, thrown.what());
    } catch (const char *text) {
        Report(runtime, verb, text);
    } catch (...) {
        Report(runtime, verb, nullptr);
    }
    return UDF_PANIC;
}

// One instance of a function.
struct Instance {
    explicit Instance(Runtime *of) : runtime(of), context(of) {}

    Runtime *runtime;
    Context context;
    std::shared_ptr<MetaFlowFunc> function;
    std::vector<std::shared_ptr<FlowMsg>> inputs;
};

Instance *From(InstanceV1 *instance)
{
    return reinterpret_cast<Instance *>(instance);
}

bool Fits(const ApiV1 *api)
{
    if (api != nullptr && api->magic == API_MAGIC && api->abi_version == ABI_VERSION &&
        api->size >= offsetof(ApiV1, log_run)) {
        return true;
    }
    SayEarly(FlowFuncLogLevel::ERROR,
             "the executor has ABI version %u, libflow_func.so has %u: install both from one "
             "build",
             (api == nullptr) ? 0 : api->abi_version, ABI_VERSION);
    return false;
}

void Destroy(InstanceV1 *instance) noexcept
{
    Instance *self = From(instance);
    Runtime *runtime = self->runtime;
    (void)Guarded(runtime, "the destructor", [self]() -> int32_t {
        self->inputs.clear();
        self->function.reset();
        return 0;
    });
    delete self;
    runtime->Drop();
}

InstanceV1 *Create(size_t index, const ApiV1 *api, ContextV1 *ctx) noexcept
{
    if (!Fits(api) || index >= Registry().size()) {
        return nullptr;
    }
    const Registered &registered = Registry()[index];
    try {
        Runtime *runtime = new Runtime(api, ctx, registered.name.c_str());
        Instance *self = new Instance(runtime);
        const int32_t code = Guarded(runtime, "the constructor", [&]() -> int32_t {
            self->inputs.reserve(runtime->Params().input_count);
            self->function = registered.create();
            return 0;
        });
        if (code == 0 && self->function != nullptr) {
            self->function->SetContext(&self->context);
            return reinterpret_cast<InstanceV1 *>(self);
        }
        if (code == 0) {
            runtime->Say(FlowFuncLogLevel::ERROR, "function %s: its creator returned null",
                         registered.name.c_str());
        }
        Destroy(reinterpret_cast<InstanceV1 *>(self));
    } catch (const std::exception &thrown) {
        SayEarly(FlowFuncLogLevel::ERROR, "function %s: no instance: %s", registered.name.c_str(),
                 thrown.what());
    }
    return nullptr;
}

int32_t Init(InstanceV1 *instance, ContextV1 *) noexcept
{
    Instance *self = From(instance);
    return Guarded(self->runtime, "Init", [self]() -> int32_t { return self->function->Init(); });
}

int32_t Proc(InstanceV1 *instance, ContextV1 *, const MsgV1 *const *inputs,
             uint32_t count) noexcept
{
    Instance *self = From(instance);
    Runtime *runtime = self->runtime;
    int32_t failure = 0;
    const int32_t code = Guarded(runtime, "Proc", [&]() -> int32_t {
        self->inputs.clear();
        for (uint32_t i = 0; i < count; ++i) {
            self->inputs.push_back(runtime->Input(inputs[i]));
        }
        const int32_t answer = self->function->Proc(self->inputs);
        // Inside the call still: handles that stand for inputs are given back now.
        self->inputs.clear();
        failure = runtime->Failure();
        return answer;
    });
    const bool gave_up = code != 0 && code != PROC_PENDING && code != UDF_PANIC;
    if (gave_up && (failure == NO_MBUF || failure == TOO_LARGE)) {
        runtime->Say(FlowFuncLogLevel::ERROR,
                     "function %s: Proc returned %d after an allocation had failed: only this id "
                     "is answered, with %d",
                     runtime->Function().c_str(), code, failure);
        return failure;
    }
    return code;
}

int32_t Reset(InstanceV1 *instance, ContextV1 *) noexcept
{
    Instance *self = From(instance);
    return Guarded(self->runtime, "ResetFlowFuncState",
                   [self]() -> int32_t { return self->function->ResetFlowFuncState(); });
}

template<size_t N>
InstanceV1 *CreateNumber(const ApiV1 *api, ContextV1 *ctx)
{
    return Create(N, api, ctx);
}

using Creator = InstanceV1 *(*)(const ApiV1 *, ContextV1 *);

// CreateNumber<0> to CreateNumber<N - 1>: the ABI tells `create` nothing of which record it is of.
template<size_t N>
struct Creators {
    static void Fill(std::array<Creator, FUNCS_MAX> &table)
    {
        table[N - 1] = CreateNumber<N - 1>;
        Creators<N - 1>::Fill(table);
    }
};

template<>
struct Creators<0> {
    static void Fill(std::array<Creator, FUNCS_MAX> &) {}
};

bool Register(const char *name, const FLOW_FUNC_CREATOR_FUNC &create)
{
    if (name == nullptr || create == nullptr) {
        SayEarly(FlowFuncLogLevel::ERROR, "RegisterFlowFunc: no name or no creator");
        return false;
    }
    for (const Registered &registered : Registry()) {
        if (registered.name == name) {
            SayEarly(FlowFuncLogLevel::ERROR,
                     "function %s is registered twice: the first one is kept", name);
            return true;
        }
    }
    if (Registry().size() == FUNCS_MAX) {
        SayEarly(FlowFuncLogLevel::ERROR, "function %s is not registered: more than %zu functions",
                 name, FUNCS_MAX);
        return false;
    }
    Registry().push_back(Registered{name, create});
    return true;
}
}  // namespace
}  // namespace dflow

namespace FlowFunc {
bool RegisterFlowFunc(const char *flowFuncName, const FLOW_FUNC_CREATOR_FUNC &func) noexcept
{
    try {
        return dflow::Register(flowFuncName, func);
    } catch (const std::exception &thrown) {
        dflow::SayEarly(FlowFuncLogLevel::ERROR, "RegisterFlowFunc: %s", thrown.what());
    } catch (...) {
        dflow::SayEarly(FlowFuncLogLevel::ERROR, "RegisterFlowFunc: an unknown exception");
    }
    return false;
}
}  // namespace FlowFunc

// The entry that the executor asks for, once the constructors of all libraries have run. A library
// of functions in C++ has none of its own, so the loader finds this one through it.
extern "C" FLOW_FUNC_VISIBILITY const dflow::LibraryV1 *dflow_library_v1() noexcept
{
    using namespace dflow;
    static const char name[] = "libflow_func";
    static std::array<Creator, FUNCS_MAX> creators;
    static std::array<FuncV1, FUNCS_MAX> records;
    static LibraryV1 library;
    Creators<FUNCS_MAX>::Fill(creators);
    const std::deque<Registered> &registry = Registry();
    for (size_t i = 0; i < registry.size(); ++i) {
        records[i] = FuncV1{registry[i].name.data(), registry[i].name.size(), creators[i], Init,
                            Proc, Destroy, Reset, 0};
    }
    library = LibraryV1{LIBRARY_MAGIC, ABI_VERSION, sizeof(LibraryV1), PANIC_UNWIND,
                        static_cast<uint32_t>(registry.size()), name, sizeof(name) - 1,
                        records.data(), sizeof(FuncV1), {0, 0, 0}};
    return &library;
}
