/* Parameters of single tasks: asked for, changed, refused; events that are external to a model;
 * a model of streams of the device's CPU. */
#include <string.h>

#include "check.h"

#define ELEMENTS 16

static aclrtStream stream;

static aclmdlDataset *set_of(void *memory, size_t bytes)
{
    aclmdlDataset *set = aclmdlCreateDataset();
    OK(aclmdlAddDatasetBuffer(set, aclCreateDataBuffer(memory, bytes)));
    return set;
}

/* The tasks of a model with one stream. */
static uint32_t tasks_of(aclmdlRI model, aclmdlRITask *tasks, uint32_t room)
{
    aclrtStream inner;
    uint32_t count = 1;
    OK(aclmdlRIGetStreams(model, &inner, &count));
    OK(aclmdlRIGetTasksByStream(inner, tasks, &room));
    return room;
}

static void kernels(uint32_t program)
{
    const size_t bytes = ELEMENTS * sizeof(float);
    float *x, *y, *z;
    OK(aclrtMalloc((void **)&x, bytes, ACL_MEM_MALLOC_NORMAL_ONLY));
    OK(aclrtMalloc((void **)&y, bytes, ACL_MEM_MALLOC_NORMAL_ONLY));
    OK(aclrtMalloc((void **)&z, bytes, ACL_MEM_MALLOC_NORMAL_ONLY));
    aclmdlDataset *input = set_of(x, bytes), *output = set_of(y, bytes);
    aclmdlRI model;
    aclmdlRITask tasks[4];
    OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    OK(aclmdlExecuteAsync(program, input, output, stream));
    OK(aclmdlRICaptureEnd(stream, &model));
    EQUAL(tasks_of(model, tasks, 4), 2);
    aclmdlRITaskParams params, other;
    OK(aclmdlRITaskGetParams(tasks[0], &params));
    EQUAL(aclmdlRITaskGetParams(tasks[0], NULL), ACL_ERROR_INVALID_PARAM);
    EQUAL(aclmdlRITaskGetParams(tasks[1], &other), ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT);
    EQUAL(params.type, ACL_MODEL_RI_TASK_KERNEL);
    EQUAL(params.taskGrp == NULL && params.opInfoPtr == NULL && params.opInfoSize == 0, 1);
    EQUAL((uintptr_t)params.u.kernelTaskParams.funcHandle, program);
    EQUAL(params.u.kernelTaskParams.argsSize, 2 * sizeof(void *));
    EQUAL(params.u.kernelTaskParams.numBlocks, 1);
    void **args = params.u.kernelTaskParams.args;
    EQUAL(args[0] == x && args[1] == y, 1);

    /* What a kernel was launched with. */
    const aclrtLaunchKernelAttrId here[] = {ACL_RT_LAUNCH_KERNEL_ATTR_SCHEM_MODE,
                                            ACL_RT_LAUNCH_KERNEL_ATTR_DATA_DUMP,
                                            ACL_RT_LAUNCH_KERNEL_ATTR_TIMEOUT};
    for (size_t i = 0; i < sizeof here / sizeof *here; i++) {
        aclrtLaunchKernelAttrValue value;
        memset(&value, 0xff, sizeof value);
        OK(aclmdlRIKernelTaskGetAttribute(tasks[0], here[i], &value));
        EQUAL(value.schemMode == 0 && value.isDataDump == 0 && value.timeout == 0, 1);
        for (int word = 0; word < 4; word++) EQUAL(value.rsv[word], 0);
        EQUAL(aclmdlRIKernelTaskGetAttribute(tasks[0], here[i], NULL), ACL_ERROR_INVALID_PARAM);
        EQUAL(aclmdlRIKernelTaskGetAttribute(tasks[1], here[i], &value),
              ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT);
        EQUAL(aclmdlRIKernelTaskGetAttribute(NULL, here[i], &value), ACL_ERROR_INVALID_PARAM);
    }
    aclrtLaunchKernelAttrValue kept;
    memset(&kept, 0x55, sizeof kept);
    for (int id = 2; id <= 5; id++)
        EQUAL(aclmdlRIKernelTaskGetAttribute(tasks[0], (aclrtLaunchKernelAttrId)id, &kept),
              ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    for (int id = 0; id <= 8; id += 8)
        EQUAL(aclmdlRIKernelTaskGetAttribute(tasks[0], (aclrtLaunchKernelAttrId)id, &kept),
              ACL_ERROR_RT_PARAM_INVALID);
    EQUAL(kept.rsv[0], 0x55555555);

    /* The same program to other memory, from the next update on. */
    void *to[] = {x, z};
    params.u.kernelTaskParams.args = to;
    OK(aclmdlRITaskSetParams(tasks[0], &params));
    to[1] = NULL;
    x[3] = 4;
    OK(aclmdlRIExecute(model, -1));
    EQUAL(y[3], 8);
    EQUAL(z[3], 0);
    OK(aclmdlRITaskGetParams(tasks[0], &other));
    EQUAL(((void **)other.u.kernelTaskParams.args)[1] == y, 1);
    OK(aclmdlRIUpdate(model));
    OK(aclmdlRIExecute(model, -1));
    EQUAL(z[3], 8);
    OK(aclmdlRITaskGetParams(tasks[0], &other));
    EQUAL(((void **)other.u.kernelTaskParams.args)[1] == z, 1);

    /* What does not fit. */
    to[1] = x;
    EQUAL(aclmdlRITaskSetParams(tasks[0], &params), ACL_ERROR_RT_PARAM_INVALID);
    to[1] = z;
    params.u.kernelTaskParams.argsSize = 8;
    EQUAL(aclmdlRITaskSetParams(tasks[0], &params), ACL_ERROR_RT_PARAM_INVALID);
    params.u.kernelTaskParams.argsSize = 16;
    params.u.kernelTaskParams.numBlocks = 2;
    EQUAL(aclmdlRITaskSetParams(tasks[0], &params), ACL_ERROR_RT_PARAM_INVALID);
    params.u.kernelTaskParams.numBlocks = 1;
    params.u.kernelTaskParams.funcHandle = (void *)(uintptr_t)(program + 1);
    EQUAL(aclmdlRITaskSetParams(tasks[0], &params), ACL_ERROR_RT_PARAM_INVALID);
    params.u.kernelTaskParams.funcHandle = (void *)(uintptr_t)program;
    params.u.kernelTaskParams.args = NULL;
    EQUAL(aclmdlRITaskSetParams(tasks[0], &params), ACL_ERROR_INVALID_PARAM);
    params.u.kernelTaskParams.args = to;
    params.type = ACL_MODEL_RI_TASK_VALUE_WRITE;
    EQUAL(aclmdlRITaskSetParams(tasks[0], &params), ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT);
    EQUAL(aclmdlRITaskSetParams(tasks[0], NULL), ACL_ERROR_INVALID_PARAM);
    OK(aclmdlUnload(program));
    EQUAL(aclmdlRITaskGetParams(tasks[0], &other), ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT);
    OK(aclmdlRIDestroy(model));
    EQUAL(aclmdlRITaskGetParams(tasks[0], &other), ACL_ERROR_RT_PARAM_INVALID);
    EQUAL(aclmdlRIKernelTaskGetAttribute(tasks[0], ACL_RT_LAUNCH_KERNEL_ATTR_TIMEOUT, &kept),
          ACL_ERROR_RT_PARAM_INVALID);
}

static void values(const char *path)
{
    uint64_t *cells;
    OK(aclrtMalloc((void **)&cells, 32, ACL_MEM_MALLOC_NORMAL_ONLY));
    aclmdlRI model;
    aclmdlRITask tasks[4];
    OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    OK(aclrtValueWait(cells, 7, ACL_VALUE_WAIT_EQ, stream));
    OK(aclrtValueWrite(cells + 1, 5, 0, stream));
    OK(aclmdlRICaptureEnd(stream, &model));
    EQUAL(tasks_of(model, tasks, 4), 3);
    aclmdlRITaskParams wait, write;
    OK(aclmdlRITaskGetParams(tasks[0], &wait));
    EQUAL(wait.type, ACL_MODEL_RI_TASK_VALUE_WAIT);
    EQUAL(wait.u.valueWaitTaskParams.devAddr == cells, 1);
    EQUAL(wait.u.valueWaitTaskParams.value, 7);
    EQUAL(wait.u.valueWaitTaskParams.flag, ACL_VALUE_WAIT_EQ);
    OK(aclmdlRITaskGetParams(tasks[1], &write));
    EQUAL(write.type, ACL_MODEL_RI_TASK_VALUE_WRITE);
    EQUAL(write.u.valueWriteTaskParams.devAddr == cells + 1, 1);
    EQUAL(write.u.valueWriteTaskParams.value, 5);
    wait.u.valueWaitTaskParams.value = 0;
    write.u.valueWriteTaskParams.devAddr = cells + 2;
    write.u.valueWriteTaskParams.value = 6;
    OK(aclmdlRITaskSetParams(tasks[0], &wait));
    OK(aclmdlRITaskSetParams(tasks[1], &write));
    wait.u.valueWaitTaskParams.flag = 4;
    EQUAL(aclmdlRITaskSetParams(tasks[0], &wait), ACL_ERROR_RT_PARAM_INVALID);
    write.u.valueWriteTaskParams.devAddr = (char *)cells + 1;
    EQUAL(aclmdlRITaskSetParams(tasks[1], &write), ACL_ERROR_RT_PARAM_INVALID);
    write.u.valueWriteTaskParams.devAddr = NULL;
    EQUAL(aclmdlRITaskSetParams(tasks[1], &write), ACL_ERROR_INVALID_PARAM);
    OK(aclmdlRIUpdate(model));
    OK(aclmdlRIExecute(model, -1));
    EQUAL(cells[1], 0);
    EQUAL(cells[2], 6);
    /* The same twice, which the test compares. */
    OK(aclmdlRISetName(model, "of values"));
    OK(aclmdlRIDebugJsonPrint(model, path, 0));
    OK(aclmdlRIDebugPrint(model));
    EQUAL(aclmdlRIDebugJsonPrint(model, path, 2), ACL_ERROR_RT_PARAM_INVALID);
    EQUAL(aclmdlRIDebugJsonPrint(model, "/no/such/folder/x", 0), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclmdlRIDestroy(model));
    OK(aclrtFree(cells));
}

static void external(void)
{
    uint64_t *cells;
    OK(aclrtMalloc((void **)&cells, 16, ACL_MEM_MALLOC_NORMAL_ONLY));
    aclrtEvent before, behind, plain;
    aclrtStream other;
    OK(aclrtCreateStream(&other));
    OK(aclrtCreateEvent(&before));
    OK(aclrtCreateEvent(&behind));
    OK(aclrtCreateEvent(&plain));
    EQUAL(aclrtRecordEventWithFlag(behind, stream, 1), ACL_ERROR_RT_STREAM_NOT_CAPTURED);
    EQUAL(aclrtStreamWaitEventWithFlag(stream, before, 1), ACL_ERROR_RT_STREAM_NOT_CAPTURED);
    EQUAL(aclrtRecordEventWithFlag(plain, stream, 2), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtRecordEventWithFlag(plain, stream, 0));
    aclmdlRI model;
    aclmdlRITask tasks[4];
    OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    EQUAL(aclrtRecordEventWithFlag(plain, stream, 1), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtStreamWaitEventWithFlag(stream, before, 1));
    OK(aclrtMemcpyAsync(cells + 1, 8, cells, 8, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    OK(aclrtRecordEventWithFlag(behind, stream, 1));
    EQUAL(aclrtRecordEventWithFlag(behind, stream, 1), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclmdlRICaptureEnd(stream, &model));
    tasks_of(model, tasks, 4);
    aclmdlRITaskParams params;
    OK(aclmdlRITaskGetParams(tasks[0], &params));
    EQUAL(params.type, ACL_MODEL_RI_TASK_EVENT_WAIT);
    EQUAL(params.u.eventTaskParams.event == before, 1);
    OK(aclmdlRITaskGetParams(tasks[2], &params));
    EQUAL(params.type, ACL_MODEL_RI_TASK_EVENT_RECORD);
    EQUAL(params.u.eventTaskParams.event == behind, 1);
    EQUAL(aclmdlRITaskSetParams(tasks[2], &params), ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT);
    for (uint64_t run = 1; run <= 3; run++) {
        OK(aclrtValueWrite(cells, run, 0, other));
        OK(aclrtRecordEvent(before, other));
        OK(aclmdlRIExecuteAsync(model, stream));
        OK(aclrtSynchronizeEvent(behind));
        EQUAL(cells[1], run);
    }
    OK(aclrtSynchronizeStream(stream));
    OK(aclmdlRIDestroy(model));
}

static void of_the_cpu(void)
{
    aclrtStream head, next;
    aclrtNotify notify;
    aclmdlRI model;
    uint32_t flags;
    OK(aclrtCreateStreamWithConfig(&head, 0, ACL_STREAM_CPU_SCHEDULE));
    OK(aclrtCreateStreamWithConfig(&next, 0, ACL_STREAM_CPU_SCHEDULE));
    OK(aclrtStreamGetFlags(head, &flags));
    EQUAL(flags, ACL_STREAM_CPU_SCHEDULE);
    OK(aclrtCreateNotify(&notify, 0));
    OK(aclmdlRIBuildBegin(&model, 0));
    OK(aclmdlRIBindStream(model, head, ACL_MODEL_STREAM_FLAG_HEAD));
    OK(aclmdlRIBindStream(model, next, ACL_MODEL_STREAM_FLAG_DEFAULT));
    OK(aclrtActiveStream(next, head));
    OK(aclrtWaitAndResetNotify(notify, head, 0));
    OK(aclrtRecordNotify(notify, next));
    EQUAL(aclrtValueWrite(&flags, 1, 0, head), ACL_ERROR_RT_PARAM_INVALID);
    uint64_t cell = 0;
    EQUAL(aclrtValueWrite(&cell, 1, 0, head), ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT);
    OK(aclmdlRIEndTask(model, head));
    OK(aclmdlRIBuildEnd(model, NULL));
    EQUAL(aclmdlRIExecuteAsync(model, stream), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    for (int run = 0; run < 3; run++) OK(aclmdlRIExecute(model, -1));
    /* Tasks of a stream that left its model have no handles any more. */
    aclmdlRITask tasks[2];
    uint32_t count = 2, place;
    OK(aclmdlRIGetTasksByStream(next, tasks, &count));
    EQUAL(count, 1);
    OK(aclmdlRITaskGetSeqId(tasks[0], &place));
    OK(aclmdlRIUnbindStream(model, next));
    EQUAL(aclmdlRITaskGetSeqId(tasks[0], &place), ACL_ERROR_RT_PARAM_INVALID);
    EQUAL(aclmdlRIExecute(model, -1), ACL_ERROR_RT_MODEL_EXECUTE);
    OK(aclmdlRIDestroy(model));
}

int main(int argc, char **argv)
{
    uint32_t program;
    EQUAL(argc, 3);
    begin();
    OK(aclrtCreateStream(&stream));
    OK(aclmdlLoadFromFile(argv[1], &program));
    kernels(program);
    values(argv[2]);
    external();
    of_the_cpu();
    end();
    return 0;
}
