/*
 * Devices, contexts, streams, what streams wait for, memory, models made of streams: see acl.h.
 */
#ifndef DFLOW_ACL_ACL_RT_H
#define DFLOW_ACL_ACL_RT_H

#include "acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Handles. They point nowhere. */
typedef void *aclrtContext;
typedef void *aclrtStream;
typedef void *aclrtEvent;
typedef void *aclrtNotify;
typedef void *aclrtLabel;
typedef void *aclrtLabelList;
typedef void *aclrtTaskGrp;
typedef void *aclmdlRI;
typedef void *aclmdlRITask;
typedef void *aclmdlRICondHandle;

/* A function of the caller's. It must not unwind. */
typedef void (*aclrtCallback)(void *userData);
typedef void (*aclrtHostFunc)(void *args);

/* Flags of streams: hints, and streams whose tasks stay, for models. */
#define ACL_STREAM_FAST_LAUNCH 0x00000001U
#define ACL_STREAM_FAST_SYNC 0x00000002U
#define ACL_STREAM_PERSISTENT 0x00000004U
#define ACL_STREAM_HUGE 0x00000008U
/* Streams of the device's CPU, for models: kernels of the CPU, notifies, starting others. */
#define ACL_STREAM_CPU_SCHEDULE 0x00000010U
/* Known, not offered: of the device only. */
#define ACL_STREAM_DEVICE_USE_ONLY 0x00000020U

/* Flags of events: can be reset, keeps the time of its last mark. */
#define ACL_EVENT_SYNC 0x00000001U
#define ACL_EVENT_TIME_LINE 0x00000008U
/* Known, not offered. */
#define ACL_EVENT_CAPTURE_STREAM_PROGRESS 0x00000002U
#define ACL_EVENT_DEVICE_USE_ONLY 0x00000010U
#define ACL_EVENT_EXTERNAL 0x00000020U
#define ACL_EVENT_IPC 0x00000040U

/* Of a stream of a model: it runs from the model's start, or when it is activated. */
#define ACL_MODEL_STREAM_FLAG_HEAD 0x00000000U
#define ACL_MODEL_STREAM_FLAG_DEFAULT 0x7FFFFFFFU

/* When a wait for a value ends: v - value >= 0, v == value, v & value, ~(v | value). */
#define ACL_VALUE_WAIT_GEQ 0x00000000U
#define ACL_VALUE_WAIT_EQ 0x00000001U
#define ACL_VALUE_WAIT_AND 0x00000002U
#define ACL_VALUE_WAIT_NOR 0x00000003U

/* Where memory is wanted; it is in the same place for all of them. */
typedef enum {
    ACL_MEM_MALLOC_HUGE_FIRST = 0,
    ACL_MEM_MALLOC_HUGE_ONLY = 1,
    ACL_MEM_MALLOC_NORMAL_ONLY = 2
} aclrtMemMallocPolicy;

/* From where to where a copy goes. */
typedef enum {
    ACL_MEMCPY_HOST_TO_HOST = 0,
    ACL_MEMCPY_HOST_TO_DEVICE = 1,
    ACL_MEMCPY_DEVICE_TO_HOST = 2,
    ACL_MEMCPY_DEVICE_TO_DEVICE = 3
} aclrtMemcpyKind;

/* Whether a stream's tasks are done. */
typedef enum {
    ACL_STREAM_STATUS_COMPLETE = 0,
    ACL_STREAM_STATUS_NOT_READY = 1
} aclrtStreamStatus;

/* Whether an event's last record has run. */
typedef enum {
    ACL_EVENT_RECORDED_STATUS_NOT_READY = 0,
    ACL_EVENT_RECORDED_STATUS_COMPLETE = 1
} aclrtEventRecordedStatus;

/* Whom a capture keeps from calls that would not be captured. */
typedef enum {
    ACL_MODEL_RI_CAPTURE_MODE_GLOBAL = 0,
    ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL = 1,
    ACL_MODEL_RI_CAPTURE_MODE_RELAXED = 2
} aclmdlRICaptureMode;

/* What a stream is to captures. */
typedef enum {
    ACL_MODEL_RI_CAPTURE_STATUS_NONE = 0,
    ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE = 1,
    ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED = 2
} aclmdlRICaptureStatus;

/* How a condition chooses: 0 when the cell is not 0, else 1; 0 while it is not 0; by number. */
typedef enum {
    ACL_MODEL_RI_COND_TYPE_IF = 0,
    ACL_MODEL_RI_COND_TYPE_WHILE = 1,
    ACL_MODEL_RI_COND_TYPE_SWITCH = 2
} aclmdlRICondType;

/* Whether a condition's cell is set to its default before each run. */
typedef enum {
    ACL_MODEL_RI_COND_HANDLE_FLAG_NONE = 0,
    ACL_MODEL_RI_COND_HANDLE_FLAG_RESET = 1
} aclmdlRICondHandleFlag;

/* What a task is. */
typedef enum {
    ACL_MODEL_RI_TASK_DEFAULT = 0,
    ACL_MODEL_RI_TASK_KERNEL = 1,
    ACL_MODEL_RI_TASK_EVENT_RECORD = 2,
    ACL_MODEL_RI_TASK_EVENT_WAIT = 3,
    ACL_MODEL_RI_TASK_EVENT_RESET = 4,
    ACL_MODEL_RI_TASK_VALUE_WRITE = 5,
    ACL_MODEL_RI_TASK_VALUE_WAIT = 6
} aclmdlRITaskType;

/* A condition's task: IF has 1 or 2 branches, WHILE 1, SWITCH 1 or more. */
typedef struct {
    aclmdlRICondHandle handle;
    aclmdlRICondType type;
    uint32_t size;
    /* Room for `size` branches, which the call writes. */
    aclmdlRI *modelRIArray;
} aclmdlRICondTaskParams;

/* A kernel: a program that is loaded. */
typedef struct {
    /* The number that loading gave: (void *)(uintptr_t)modelId. */
    void *funcHandle;
    void *cfg;
    /* Addresses of the inputs, then of the outputs, in the order of the program's. */
    void *args;
    uint32_t isHostArgs;
    /* Bytes of these addresses: 8 for each. */
    size_t argsSize;
    /* 1. */
    uint32_t numBlocks;
    uint32_t rsv;
} aclmdlRIKernelTaskParams;

/* A value that is written. */
typedef struct {
    void *devAddr;
    uint64_t value;
} aclmdlRIValueWriteTaskParams;

/* A value that is waited for, by one of ACL_VALUE_WAIT_*. */
typedef struct {
    void *devAddr;
    uint64_t value;
    uint32_t flag;
} aclmdlRIValueWaitTaskParams;

/* An event that is marked, waited for or reset; NULL when it was destroyed. */
typedef struct {
    aclrtEvent event;
    uint32_t flag;
} aclmdlRIEventTaskParams;

/* What a task is, in all. Its group and operator are not told: NULL and 0. */
typedef struct {
    aclmdlRITaskType type;
    uint32_t rsv0[3];
    aclrtTaskGrp taskGrp;
    void *opInfoPtr;
    size_t opInfoSize;
    uint8_t rsv1[32];
    union {
        uint8_t rsv2[128];
        aclmdlRIKernelTaskParams kernelTaskParams;
        aclmdlRIEventTaskParams eventTaskParams;
        aclmdlRIValueWriteTaskParams valueWriteTaskParams;
        aclmdlRIValueWaitTaskParams valueWaitTaskParams;
    } u;
} aclmdlRITaskParams;

/* What a kernel can be launched with, by the vendor's numbers. What 2 to 5 are of is not here. */
typedef enum {
    ACL_RT_LAUNCH_KERNEL_ATTR_SCHEM_MODE = 1,
    ACL_RT_LAUNCH_KERNEL_ATTR_DYN_UBUF_SIZE = 2,
    ACL_RT_LAUNCH_KERNEL_ATTR_ENGINE_TYPE = 3,
    ACL_RT_LAUNCH_KERNEL_ATTR_BLOCKDIM_OFFSET = 4,
    ACL_RT_LAUNCH_KERNEL_ATTR_BLOCK_TASK_PREFETCH = 5,
    ACL_RT_LAUNCH_KERNEL_ATTR_DATA_DUMP = 6,
    ACL_RT_LAUNCH_KERNEL_ATTR_TIMEOUT = 7
} aclrtLaunchKernelAttrId;

/* The value of one of them. */
typedef union {
    /* 0: as soon as a core is free. */
    uint8_t schemMode;
    /* 0: nothing is dumped. */
    uint8_t isDataDump;
    /* Seconds; 0: no limit. */
    uint16_t timeout;
    uint32_t rsv[4];
} aclrtLaunchKernelAttrValue;

/* ---- Devices and contexts ------------------------------------------------------------------ */

/* How many devices there are: 1. */
aclError aclrtGetDeviceCount(uint32_t *count);

/* Makes the device's first context this thread's; `deviceId` is 0 (else 107001). */
aclError aclrtSetDevice(int32_t deviceId);

/* Ends the context of aclrtSetDevice with all that is in it. */
aclError aclrtResetDevice(int32_t deviceId);

/* The device of this thread's context: 0. */
aclError aclrtGetDevice(int32_t *deviceId);

/* Waits for all streams of this thread's context; 107027 when one is captured. */
aclError aclrtSynchronizeDevice(void);

/* The same, of each stream at most `timeout` milliseconds, -1 for ever (then 507046). */
aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout);

/* A context with a default stream; it is this thread's now. */
aclError aclrtCreateContext(aclrtContext *context, int32_t deviceId);

/* Ends a context with all that is in it; runs of models are aborted. */
aclError aclrtDestroyContext(aclrtContext context);

/* Makes a context this thread's. */
aclError aclrtSetCurrentContext(aclrtContext context);

/* This thread's context; 107002 without one. */
aclError aclrtGetCurrentContext(aclrtContext *context);

/* ---- Memory -------------------------------------------------------------------------------- */

/* Memory of the device, zeroed, at a multiple of 64; 1 byte to 4 GiB. */
aclError aclrtMalloc(void **devPtr, size_t size, aclrtMemMallocPolicy policy);

/* Gives memory of aclrtMalloc back. Tasks that use it are done. */
aclError aclrtFree(void *devPtr);

/* Memory of the host that asynchronous copies may use in captures. */
aclError aclrtMallocHost(void **hostPtr, size_t size);

/* Gives memory of aclrtMallocHost back. */
aclError aclrtFreeHost(void *hostPtr);

/* Copies at once; 107000 when `count` is more than `destMax`, 107030 when a capture forbids it. */
aclError aclrtMemcpy(void *dst, size_t destMax, const void *src, size_t count,
                     aclrtMemcpyKind kind);

/* Fills at once with the low byte of `value`; codes as of aclrtMemcpy. */
aclError aclrtMemset(void *devPtr, size_t maxCount, int32_t value, size_t count);

/*
 * Copies as a task. Memory of the host that is not of aclrtMallocHost is 107041 while a capture
 * forbids it to this thread.
 */
aclError aclrtMemcpyAsync(void *dst, size_t destMax, const void *src, size_t count,
                          aclrtMemcpyKind kind, aclrtStream stream);

/*
 * Copies `height` rows of `width` bytes at once; rows begin every `dpitch` and `spitch` bytes.
 * 107000 when a row is longer than that, else codes as of aclrtMemcpy.
 */
aclError aclrtMemcpy2d(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
                       size_t height, aclrtMemcpyKind kind);

/* The same as tasks, one for each row; codes as of aclrtMemcpyAsync. */
aclError aclrtMemcpy2dAsync(void *dst, size_t dpitch, const void *src, size_t spitch,
                            size_t width, size_t height, aclrtMemcpyKind kind,
                            aclrtStream stream);

/* Fills as a task. */
aclError aclrtMemsetAsync(void *devPtr, size_t maxCount, int32_t value, size_t count,
                          aclrtStream stream);

/* Writes 64 bits at a multiple of 8; `flag` is 0. */
aclError aclrtValueWrite(void *devAddr, uint64_t value, uint32_t flag, aclrtStream stream);

/* Waits for 64 bits at a multiple of 8, by one of ACL_VALUE_WAIT_*; looks every millisecond. */
aclError aclrtValueWait(void *devAddr, uint64_t value, uint32_t flag, aclrtStream stream);

/* ---- Streams: a null stream is the context's default one, unless a comment says otherwise -- */

/* A stream of the lowest priority. */
aclError aclrtCreateStream(aclrtStream *stream);

/* A stream with a priority, 0 (most urgent) to 7, and flags; 207000 for those not offered. */
aclError aclrtCreateStreamWithConfig(aclrtStream *stream, uint32_t priority, uint32_t flag);

/* Ends a stream after its tasks; 107005 while it is bound, 107027 while it is captured. */
aclError aclrtDestroyStream(aclrtStream stream);

/* Waits for a stream; the code of its first task that failed, once. Not for a persistent one. */
aclError aclrtSynchronizeStream(aclrtStream stream);

/* The same, at most `timeout` milliseconds, -1 for ever (then 507046). */
aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout);

/* Whether a stream's tasks are done. */
aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus *status);

/* Stops the task a stream is at and drops the others; 207000 for a persistent one. Not null. */
aclError aclrtStreamAbort(aclrtStream stream);

/* The stream's number. */
aclError aclrtStreamGetId(aclrtStream stream, int32_t *streamId);

/* The flags it was made with. */
aclError aclrtStreamGetFlags(aclrtStream stream, uint32_t *flags);

/* As a task of `stream`: starts another stream of the same model. */
aclError aclrtActiveStream(aclrtStream activeStream, aclrtStream stream);

/* The default stream of this thread's context. */
aclError aclrtCtxGetCurrentDefaultStream(aclrtStream *stream);

/* As a task: calls `fn` on the host's thread; those behind it wait. It may call all of this. */
aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc fn, void *args);

/* ---- Events, notifies ---------------------------------------------------------------------- */

/* An event with ACL_EVENT_SYNC and ACL_EVENT_TIME_LINE. */
aclError aclrtCreateEvent(aclrtEvent *event);

/* An event with these flags; 207000 for those not offered. */
aclError aclrtCreateEventWithFlag(aclrtEvent *event, uint32_t flag);

/* Ends an event; a task that still names it fails. */
aclError aclrtDestroyEvent(aclrtEvent event);

/* The event's number. */
aclError aclrtGetEventId(aclrtEvent event, uint32_t *eventId);

/* As a task: marks the event. */
aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream);

/*
 * With flag 1: a model that is being captured marks the event for what is outside it, with every
 * run. 107029 outside a capture; 107000 in a branch, for an event that is in the model already or
 * is recorded otherwise; 207005 for the fifth. With 0 as aclrtRecordEvent.
 */
aclError aclrtRecordEventWithFlag(aclrtEvent event, aclrtStream stream, uint32_t flag);

/* As a task: as if the event's records had not run; 107000 without ACL_EVENT_SYNC. */
aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream);

/* As a task: waits for the event's last record so far; at once without one. */
aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event);

/*
 * With flag 1: every run of the model that is being captured waits for the event's last record
 * before it, outside the model; codes as of aclrtRecordEventWithFlag. With 0 as
 * aclrtStreamWaitEvent.
 */
aclError aclrtStreamWaitEventWithFlag(aclrtStream stream, aclrtEvent event, uint32_t flag);

/* Whether the event's last record has run; complete without one. */
aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus *status);

/* Waits on the host for the event's last record. */
aclError aclrtSynchronizeEvent(aclrtEvent event);

/* The same, at most `timeout` milliseconds, -1 for ever (then 507047). */
aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout);

/* Milliseconds between two marks; 107000 without ACL_EVENT_TIME_LINE or a mark. */
aclError aclrtEventElapsedTime(float *ms, aclrtEvent startEvent, aclrtEvent endEvent);

/* A notify; `flag` is 0. */
aclError aclrtCreateNotify(aclrtNotify *notify, uint64_t flag);

/* Ends a notify; a task that still names it fails. */
aclError aclrtDestroyNotify(aclrtNotify notify);

/* The notify's number. */
aclError aclrtGetNotifyId(aclrtNotify notify, uint32_t *notifyId);

/* As a task: sets the notify. */
aclError aclrtRecordNotify(aclrtNotify notify, aclrtStream stream);

/* As a task: waits until it is set, and clears it; 507012 after `timeout` s, 0 for ever. */
aclError aclrtWaitAndResetNotify(aclrtNotify notify, aclrtStream stream, uint32_t timeout);

/* ---- Labels: places in streams of models; all their errors are 507000 ---------------------- */

/* A label. */
aclError aclrtCreateLabel(aclrtLabel *label);

/* Ends a label. */
aclError aclrtDestroyLabel(aclrtLabel label);

/* As a task: the label is here. Its list was made before; once, in a stream of a model. */
aclError aclrtSetLabel(aclrtLabel label, aclrtStream stream);

/* The labels of a switch, 1 to 65535; each is in one list only. */
aclError aclrtCreateLabelList(aclrtLabel *labels, size_t num, aclrtLabelList *labelList);

/* Ends a list; its labels can be in another one. */
aclError aclrtDestroyLabelList(aclrtLabelList labelList);

/* As a task: goes on at the label whose 32-bit index is at `ptr`, at most `maxValue` - 1. */
aclError aclrtSwitchLabelByIndex(void *ptr, uint32_t maxValue, aclrtLabelList labelList,
                                 aclrtStream stream);

/* ---- Models that are built by hand --------------------------------------------------------- */

/* Begins a model; `flag` is 0. */
aclError aclmdlRIBuildBegin(aclmdlRI *modelRI, uint32_t flag);

/* Binds a persistent stream, which is in no model yet (107005). Not null. */
aclError aclmdlRIBindStream(aclmdlRI modelRI, aclrtStream stream, uint32_t flag);

/* Takes a stream out again; its tasks are gone. */
aclError aclmdlRIUnbindStream(aclmdlRI modelRI, aclrtStream stream);

/* As a task of a stream of the model: the run ends here. Exactly once (507000). */
aclError aclmdlRIEndTask(aclmdlRI modelRI, aclrtStream stream);

/* Completes the model; `reserve` is NULL. 107005 without a stream, 507011 without an end task. */
aclError aclmdlRIBuildEnd(aclmdlRI modelRI, void *reserve);

/* ---- All models ---------------------------------------------------------------------------- */

/*
 * Runs a model and waits, at most `timeout` milliseconds, -1 for ever. After it 507046, and the
 * run was aborted.
 */
aclError aclmdlRIExecute(aclmdlRI modelRI, int32_t timeout);

/* Runs a model as a task of a stream; whoever synchronises the stream gets its code. */
aclError aclmdlRIExecuteAsync(aclmdlRI modelRI, aclrtStream stream);

/* Stops the model's run, which ends with 507023. 207000 for one that was captured. */
aclError aclmdlRIAbort(aclmdlRI modelRI);

/* Ends a model that is not running; 107026 while it is captured, 107000 for a branch. */
aclError aclmdlRIDestroy(aclmdlRI modelRI);

/* Names a model, at most 511 bytes; the last name counts. */
aclError aclmdlRISetName(aclmdlRI modelRI, const char *name);

/* The name, "" before there is one; 107000 when `maxLen` has no room for it and its end. */
aclError aclmdlRIGetName(aclmdlRI modelRI, uint32_t maxLen, char *name);

/* The model's number. */
aclError aclmdlRIGetId(aclmdlRI modelRI, uint32_t *modelRIId);

/*
 * The model's streams, the newest first. Without an array only their number; with one,
 * `numStreams` says how much room it has, and is how many there are afterwards, also when that is
 * too small (107039).
 */
aclError aclmdlRIGetStreams(aclmdlRI modelRI, aclrtStream *streams, uint32_t *numStreams);

/* Has `func` called when the model has been destroyed. */
aclError aclmdlRIDestroyRegisterCallback(aclmdlRI modelRI, aclrtCallback func, void *userData);

/* Takes a callback back; 107000 when there is none. */
aclError aclmdlRIDestroyUnregisterCallback(aclmdlRI modelRI, aclrtCallback func);

/* Writes the model as Chrome trace JSON; `flags` 1 shows arguments of kernels too. */
aclError aclmdlRIDebugJsonPrint(aclmdlRI modelRI, const char *path, uint32_t flags);

/* Deprecated: the same on standard output. */
aclError aclmdlRIDebugPrint(aclmdlRI modelRI);

/* The tasks of a stream, in order; arguments as of aclmdlRIGetStreams. Not null. */
aclError aclmdlRIGetTasksByStream(aclrtStream stream, aclmdlRITask *tasks, uint32_t *numTasks);

/* A task's place among those of its stream. */
aclError aclmdlRITaskGetSeqId(aclmdlRITask task, uint32_t *id);

/* What a task is. */
aclError aclmdlRITaskGetType(aclmdlRITask task, aclmdlRITaskType *type);

/*
 * A task's parameters, as they are since the last aclmdlRIUpdate. `args` of a kernel points to
 * memory of this library that is good until the task's parameters are asked for again, or its
 * stream ends. 507009 for ACL_MODEL_RI_TASK_DEFAULT, and when the kernel's program was unloaded.
 */
aclError aclmdlRITaskGetParams(aclmdlRITask task, aclmdlRITaskParams *params);

/*
 * What a kernel was launched with. 507009 for a task of another type; 207000 for what this
 * device's cores do not have (ids 2 to 5), 107000 for other ids.
 */
aclError aclmdlRIKernelTaskGetAttribute(aclmdlRITask task, aclrtLaunchKernelAttrId attrId,
                                        aclrtLaunchKernelAttrValue *attrValue);

/*
 * From the next aclmdlRIUpdate on a task of a complete model has these parameters: a kernel, a
 * value written or waited for. `args` is read by this call. 507009 for another type than the
 * task's, or one that is not changed; 107000 for parameters that do not fit; 507011 before the
 * model is complete. Not by several threads at once for one model.
 */
aclError aclmdlRITaskSetParams(aclmdlRITask task, const aclmdlRITaskParams *params);

/*
 * A task of a complete model is nothing from the next aclmdlRIUpdate on, and stays so. 507009 for
 * one that others wait for or that ends the run; 507011 before the model is complete. Not by
 * several threads at once for one model.
 */
aclError aclmdlRITaskDisable(aclmdlRITask task);

/* Applies what was asked for of single tasks, between two runs; 107037 when a run does not end. */
aclError aclmdlRIUpdate(aclmdlRI modelRI);

/* ---- Captures: what is submitted to a stream becomes a model; streams are not null --------- */

/* Begins; 107027 when the stream is captured already, 107000 for a persistent one. */
aclError aclmdlRICaptureBegin(aclrtStream stream, aclmdlRICaptureMode mode);

/* Begins, into a branch of a condition. */
aclError aclmdlRICaptureToModelRIBegin(aclrtStream stream, aclmdlRI modelRI,
                                       aclmdlRICaptureMode mode);

/* What the stream is to captures, and its model (NULL without one); one of both may be NULL. */
aclError aclmdlRICaptureGetInfo(aclrtStream stream, aclmdlRICaptureStatus *status,
                                aclmdlRI *modelRI);

/*
 * Ends, in the stream and (unless relaxed) the thread that began: 107029, 107036, 107038 leave it
 * as it is. 507903, 107045, 107025: it is over and nothing came of it.
 */
aclError aclmdlRICaptureEnd(aclrtStream stream, aclmdlRI *modelRI);

/* Gives this thread another mode, and `mode` the old one. */
aclError aclmdlRICaptureThreadExchangeMode(aclmdlRICaptureMode *mode);

/* From here on, tasks of the captured stream are a group. */
aclError aclmdlRICaptureTaskGrpBegin(aclrtStream stream);

/* Ends the group, which lives as long as its model. */
aclError aclmdlRICaptureTaskGrpEnd(aclrtStream stream, aclrtTaskGrp *handle);

/* From here on, tasks of the stream, which is not captured, are to replace the group's. */
aclError aclmdlRICaptureTaskUpdateBegin(aclrtStream stream, aclrtTaskGrp handle);

/* Replaces them, between two runs; 107040 when number or kinds differ, and nothing is changed. */
aclError aclmdlRICaptureTaskUpdateEnd(aclrtStream stream);

/* A condition of a model that is being captured (else 107000); its cell, 64 bits, is 0. */
aclError aclmdlRICondHandleCreate(aclmdlRI modelRI, uint32_t defaultLaunchValue,
                                  aclmdlRICondHandleFlag flag, aclmdlRICondHandle *handle);

/* Where the cell is; it is freed with the model. */
aclError aclmdlRICondHandleGetCondPtr(aclmdlRICondHandle handle, uint64_t **condPtr);

/* As a task of a captured stream: runs a branch. `flags` is 0; a condition has one task. */
aclError aclmdlRIAddCondTask(aclmdlRICondTaskParams params, aclrtStream stream, uint32_t flags);

#ifdef __cplusplus
}
#endif

#endif
