/* Null pointers, handles that are stale, of another kind, or were never made; the order of calls. */
#include <string.h>

#include "check.h"

static void before(void)
{
    aclrtStream stream;
    EQUAL(aclFinalize(), ACL_ERROR_UNINITIALIZE);
    EQUAL(aclrtSetDevice(0), ACL_ERROR_UNINITIALIZE);
    EQUAL(aclInit("acl.json"), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    OK(aclInit(""));
    EQUAL(aclInit(NULL), ACL_ERROR_REPEAT_INITIALIZE);
    EQUAL(aclrtSetDevice(1), ACL_ERROR_RT_INVALID_DEVICEID);
    EQUAL(aclrtCreateStream(&stream), ACL_ERROR_RT_CONTEXT_NULL);
    OK(aclFinalize());
}

static void nulls(aclrtStream stream)
{
    uint32_t number;
    size_t size;
    aclmdlRI model;
    EQUAL(aclrtCreateStream(NULL), ACL_ERROR_INVALID_PARAM);
    EQUAL(aclrtDestroyStream(NULL), ACL_ERROR_INVALID_PARAM);
    EQUAL(aclrtStreamQuery(stream, NULL), ACL_ERROR_INVALID_PARAM);
    EQUAL(aclrtRecordEvent(NULL, stream), ACL_ERROR_INVALID_PARAM);
    EQUAL(aclrtCreateLabelList(NULL, 1, &model), ACL_ERROR_INVALID_PARAM);
    EQUAL(aclrtMalloc(NULL, 1, ACL_MEM_MALLOC_NORMAL_ONLY), ACL_ERROR_INVALID_PARAM);
    EQUAL(aclrtFree(NULL), ACL_ERROR_INVALID_PARAM);
    EQUAL(aclrtMemcpy(NULL, 1, &size, 1, ACL_MEMCPY_HOST_TO_HOST), ACL_ERROR_INVALID_PARAM);
    EQUAL(aclrtLaunchHostFunc(stream, NULL, NULL), ACL_ERROR_INVALID_PARAM);
    EQUAL(aclmdlRIBuildBegin(NULL, 0), ACL_ERROR_INVALID_PARAM);
    EQUAL(aclmdlRIExecute(NULL, -1), ACL_ERROR_INVALID_PARAM);
    EQUAL(aclmdlRICaptureEnd(NULL, &model), ACL_ERROR_INVALID_PARAM);
    EQUAL(aclmdlRICaptureGetInfo(stream, NULL, NULL), ACL_ERROR_INVALID_PARAM);
    EQUAL(aclmdlLoadFromFile(NULL, &number), ACL_ERROR_INVALID_PARAM);
    EQUAL(aclmdlLoadFromMem(NULL, 1, &number), ACL_ERROR_INVALID_PARAM);
    EQUAL(aclmdlExecute(0, NULL, NULL), ACL_ERROR_INVALID_PARAM);
    EQUAL(aclmdlGetNumInputs(NULL), 0);
    EQUAL(aclGetDataBufferAddr(NULL) == NULL, 1);
    EQUAL(aclmdlGetInputDataType(NULL, 0), ACL_DT_UNDEFINED);
    EQUAL(strlen(aclmdlGetInputNameByIndex(NULL, 0)), 0);
}

static void ranges(aclrtStream stream)
{
    uint64_t place[2] = {0, 0};
    void *memory;
    aclmdlRI model;
    aclrtStream made;
    EQUAL(aclrtMalloc(&memory, 0, ACL_MEM_MALLOC_NORMAL_ONLY), ACL_ERROR_RT_PARAM_INVALID);
    EQUAL(aclrtMemcpy(place, 8, place + 1, 9, ACL_MEMCPY_HOST_TO_HOST),
          ACL_ERROR_RT_PARAM_INVALID);
    EQUAL(aclrtMemcpy(place, 8, place + 1, 8, (aclrtMemcpyKind)9), ACL_ERROR_RT_PARAM_INVALID);
    EQUAL(aclrtValueWrite((char *)place + 1, 1, 0, stream), ACL_ERROR_RT_PARAM_INVALID);
    EQUAL(aclrtValueWait(place, 1, 4, stream), ACL_ERROR_RT_PARAM_INVALID);
    EQUAL(aclrtSynchronizeStreamWithTimeout(stream, 0), ACL_ERROR_RT_PARAM_INVALID);
    EQUAL(aclrtCreateStreamWithConfig(&made, 8, 0), ACL_ERROR_RT_PARAM_INVALID);
    EQUAL(aclrtCreateStreamWithConfig(&made, 0, ACL_STREAM_DEVICE_USE_ONLY),
          ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    EQUAL(aclrtCreateEventWithFlag(&made, ACL_EVENT_EXTERNAL), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    EQUAL(aclmdlRIBuildBegin(&model, 1), ACL_ERROR_RT_PARAM_INVALID);
    EQUAL(aclmdlRICaptureBegin(stream, (aclmdlRICaptureMode)3), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtCtxGetCurrentDefaultStream(&made));
    EQUAL(aclmdlRICaptureBegin(made, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL),
          ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT);
    EQUAL(aclmdlUnload(4711), ACL_ERROR_RT_PARAM_INVALID);
}

static void stale(void)
{
    aclrtStream stream, old;
    aclrtEvent event;
    aclrtContext context, first;
    void *memory;
    OK(aclrtGetCurrentContext(&first));
    OK(aclrtCreateContext(&context, 0));
    OK(aclrtCreateStream(&stream));
    OK(aclrtCreateEvent(&event));
    EQUAL(aclrtSynchronizeStream(event), ACL_ERROR_RT_PARAM_INVALID);
    EQUAL(aclrtSynchronizeStream(&event), ACL_ERROR_RT_PARAM_INVALID);
    EQUAL(strstr(aclGetRecentErrMsg(), "no such stream") != NULL, 1);
    old = stream;
    OK(aclrtDestroyStream(stream));
    EQUAL(aclrtSynchronizeStream(old), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtCreateStream(&stream));
    EQUAL(stream == old, 0);
    OK(aclrtDestroyContext(context));
    EQUAL(aclrtSynchronizeStream(stream), ACL_ERROR_RT_PARAM_INVALID);
    EQUAL(aclrtDestroyEvent(event), ACL_ERROR_RT_PARAM_INVALID);
    EQUAL(aclrtGetCurrentContext(&context), ACL_ERROR_RT_CONTEXT_NULL);
    OK(aclrtSetCurrentContext(first));
    OK(aclrtMallocHost(&memory, 8));
    EQUAL(aclrtFree(memory), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtFreeHost(memory));
    EQUAL(aclrtFreeHost(memory), ACL_ERROR_RT_PARAM_INVALID);
}

/* A task names what it was given, not what has its number now. */
static void renamed(aclrtStream stream, const char *path)
{
    aclrtNotify notify, other;
    aclrtEvent event, later;
    aclrtEventRecordedStatus status;
    aclmdlRI marks, runs;
    uint32_t program, second;
    float *x;
    OK(aclrtMalloc((void **)&x, 128, ACL_MEM_MALLOC_NORMAL_ONLY));
    aclmdlDataset *input = aclmdlCreateDataset(), *output = aclmdlCreateDataset();
    OK(aclmdlAddDatasetBuffer(input, aclCreateDataBuffer(x, 64)));
    OK(aclmdlAddDatasetBuffer(output, aclCreateDataBuffer(x + 16, 64)));
    OK(aclmdlLoadFromFile(path, &program));
    OK(aclrtCreateNotify(&notify, 0));
    OK(aclrtCreateEvent(&event));
    OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    OK(aclrtRecordNotify(notify, stream));
    OK(aclmdlRICaptureEnd(stream, &marks));
    OK(aclrtDestroyNotify(notify));
    OK(aclrtCreateNotify(&other, 0));
    EQUAL(aclmdlRIExecute(marks, -1), ACL_ERROR_RT_INTERNAL_ERROR);
    OK(aclmdlRIDestroy(marks));
    OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    OK(aclrtRecordEvent(event, stream));
    OK(aclmdlRICaptureEnd(stream, &marks));
    OK(aclrtDestroyEvent(event));
    OK(aclrtCreateEvent(&later));
    EQUAL(aclmdlRIExecute(marks, -1), ACL_ERROR_RT_INTERNAL_ERROR);
    OK(aclrtQueryEventStatus(later, &status));
    OK(aclmdlRIDestroy(marks));
    OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    OK(aclmdlExecuteAsync(program, input, output, stream));
    OK(aclmdlRICaptureEnd(stream, &runs));
    OK(aclmdlUnload(program));
    OK(aclmdlLoadFromFile(path, &second));
    OK(aclmdlExecute(second, input, output));
    x[16] = -1;
    EQUAL(aclmdlRIExecute(runs, -1), ACL_ERROR_RT_INTERNAL_ERROR);
    EQUAL(x[16], -1);
    OK(aclmdlRIDestroy(runs));
    OK(aclrtDestroyNotify(other));
    OK(aclmdlUnload(second));
    OK(aclrtFree(x));
}

int main(int argc, char **argv)
{
    EQUAL(argc, 2);
    alarm(WATCHDOG_S);
    before();
    begin();
    aclrtStream stream;
    OK(aclrtCreateStream(&stream));
    nulls(stream);
    ranges(stream);
    stale();
    renamed(stream, argv[1]);
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtResetDevice(0));
    EQUAL(aclrtSynchronizeStream(stream), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclFinalize());
    /* Once more from the beginning. */
    begin();
    OK(aclrtCreateStream(&stream));
    end();
    return 0;
}
