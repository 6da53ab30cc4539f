/* Calls that no other program of these tests makes: numbers, limits of time, ends. */
#include "check.h"

static void described(const char *path)
{
    uint32_t program;
    aclmdlIODims dims;
    OK(aclmdlLoadFromFile(path, &program));
    aclmdlDesc *desc = aclmdlCreateDesc();
    OK(aclmdlGetDesc(desc, program));
    OK(aclmdlGetInputDims(desc, 0, &dims));
    EQUAL(dims.dims[0], 16);
    EQUAL(aclmdlGetInputDims(desc, 1, &dims), ACL_ERROR_RT_PARAM_INVALID);
    EQUAL(aclmdlGetOutputFormat(desc, 0), ACL_FORMAT_ND);
    EQUAL(aclmdlGetOutputFormat(desc, 1), ACL_FORMAT_UNDEFINED);
    OK(aclmdlDestroyDesc(desc));
    OK(aclmdlUnload(program));
}

static void numbers(aclrtStream stream, aclrtEvent event)
{
    uint32_t count, id, other;
    int32_t device = 9, of_stream = -1;
    aclrtNotify notify, second;
    aclmdlRI models[2];
    OK(aclrtGetDeviceCount(&count));
    EQUAL(count, 1);
    OK(aclrtGetDevice(&device));
    EQUAL(device, 0);
    OK(aclrtStreamGetId(stream, &of_stream));
    EQUAL(of_stream >= 0, 1);
    OK(aclrtGetEventId(event, &id));
    OK(aclrtCreateNotify(&notify, 0));
    OK(aclrtCreateNotify(&second, 0));
    OK(aclrtGetNotifyId(notify, &id));
    OK(aclrtGetNotifyId(second, &other));
    EQUAL(id != other, 1);
    for (int i = 0; i < 2; i++) OK(aclmdlRIBuildBegin(&models[i], 0));
    OK(aclmdlRIGetId(models[0], &id));
    OK(aclmdlRIGetId(models[1], &other));
    EQUAL(id != other, 1);
    for (int i = 0; i < 2; i++) OK(aclmdlRIDestroy(models[i]));
}

/* A stream that waits for what does not come, in time. */
static void in_time(aclrtStream stream, aclrtEvent event)
{
    aclrtNotify notify;
    aclrtStream other;
    aclrtEventRecordedStatus status;
    OK(aclrtCreateStream(&other));
    OK(aclrtCreateNotify(&notify, 0));
    OK(aclrtWaitAndResetNotify(notify, stream, 0));
    OK(aclrtRecordEvent(event, stream));
    EQUAL(aclrtSynchronizeEventWithTimeout(event, 1), ACL_ERROR_RT_EVENT_SYNC_TIMEOUT);
    EQUAL(aclrtSynchronizeDeviceWithTimeout(1), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    OK(aclrtRecordNotify(notify, other));
    OK(aclrtSynchronizeEventWithTimeout(event, -1));
    OK(aclrtSynchronizeDeviceWithTimeout(-1));
    OK(aclrtQueryEventStatus(event, &status));
    EQUAL(status, ACL_EVENT_RECORDED_STATUS_COMPLETE);
    OK(aclrtResetEvent(event, stream));
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtQueryEventStatus(event, &status));
    EQUAL(status, ACL_EVENT_RECORDED_STATUS_NOT_READY);
}

/* Of 4 rows of 5 bytes the second to fourth byte, into rows of 4. */
static void in_rows(aclrtStream stream)
{
    const aclrtMemcpyKind in = ACL_MEMCPY_HOST_TO_DEVICE, out = ACL_MEMCPY_DEVICE_TO_HOST;
    unsigned char given[20], found[16];
    unsigned char *device;
    for (int i = 0; i < 20; i++) given[i] = (unsigned char)(i + 1);
    OK(aclrtMalloc((void **)&device, 16, ACL_MEM_MALLOC_NORMAL_ONLY));
    for (int as_task = 0; as_task < 2; as_task++) {
        OK(aclrtMemset(device, 16, 0, 16));
        for (int i = 0; i < 16; i++) found[i] = 99;
        if (as_task) {
            OK(aclrtMemcpy2dAsync(device, 4, given + 1, 5, 3, 4, in, stream));
            OK(aclrtSynchronizeStream(stream));
            OK(aclrtMemcpy2dAsync(found, 4, device, 4, 4, 4, out, stream));
            OK(aclrtSynchronizeStream(stream));
        } else {
            OK(aclrtMemcpy2d(device, 4, given + 1, 5, 3, 4, in));
            OK(aclrtMemcpy2d(found, 4, device, 4, 4, 4, out));
        }
        for (int i = 0; i < 16; i++) {
            EQUAL(found[i], i % 4 == 3 ? 0 : given[i / 4 * 5 + i % 4 + 1]);
        }
    }
    /* Nothing to copy is no fault; a row has to fit. */
    OK(aclrtMemcpy2d(device, 4, given, 5, 4, 0, in));
    OK(aclrtMemcpy2d(device, 4, given, 5, 0, 4, in));
    EQUAL(aclrtMemcpy2d(device, 4, given, 5, 5, 1, in), ACL_ERROR_RT_PARAM_INVALID);
    EQUAL(aclrtMemcpy2d(device, 6, given, 5, 6, 1, in), ACL_ERROR_RT_PARAM_INVALID);
    EQUAL(aclrtMemcpy2d(device, 4, given, 5, 4, (size_t)-1, in), ACL_ERROR_RT_PARAM_INVALID);
    EQUAL(aclrtMemcpy2dAsync(NULL, 4, given, 5, 4, 1, in, stream), ACL_ERROR_INVALID_PARAM);
    /* A capture forbids both, of memory of the host that may not stay. */
    OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    EQUAL(aclrtMemcpy2d(device, 4, given, 5, 4, 1, in),
          ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT);
    EQUAL(aclrtMemcpy2dAsync(device, 4, given, 5, 4, 1, in, stream),
          ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC);
    aclmdlRI model;
    OK(aclmdlRICaptureEnd(stream, &model));
    OK(aclmdlRIDestroy(model));
    OK(aclrtFree(device));
}

static void times(aclrtStream stream)
{
    float ms = -1;
    aclrtEvent begin, behind, plain;
    OK(aclrtCreateEvent(&begin));
    OK(aclrtCreateEvent(&behind));
    OK(aclrtCreateEventWithFlag(&plain, ACL_EVENT_SYNC));
    OK(aclrtRecordEvent(begin, stream));
    OK(aclrtRecordEvent(behind, stream));
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtEventElapsedTime(&ms, begin, behind));
    EQUAL(ms >= 0, 1);
    EQUAL(aclrtEventElapsedTime(&ms, begin, plain), ACL_ERROR_RT_PARAM_INVALID);
}

static void aborted(void)
{
    aclrtStream stream, runner;
    aclrtNotify never, begun;
    aclrtLabel label;
    aclmdlRI model;
    OK(aclrtCreateStream(&runner));
    OK(aclrtCreateNotify(&never, 0));
    OK(aclrtCreateNotify(&begun, 0));
    OK(aclrtCreateStreamWithConfig(&stream, 0, ACL_STREAM_PERSISTENT));
    OK(aclmdlRIBuildBegin(&model, 0));
    OK(aclmdlRIBindStream(model, stream, ACL_MODEL_STREAM_FLAG_HEAD));
    OK(aclrtRecordNotify(begun, stream));
    OK(aclrtWaitAndResetNotify(never, stream, 0));
    OK(aclmdlRIEndTask(model, stream));
    OK(aclmdlRIBuildEnd(model, NULL));
    OK(aclmdlRIExecuteAsync(model, runner));
    OK(aclrtWaitAndResetNotify(begun, NULL, 0));
    OK(aclrtSynchronizeStream(NULL));
    OK(aclmdlRIAbort(model));
    EQUAL(aclrtSynchronizeStream(runner), ACL_ERROR_RT_MODEL_ABORT_NORMAL);
    OK(aclmdlRIDestroy(model));
    OK(aclrtCreateLabel(&label));
    OK(aclrtDestroyLabel(label));
    EQUAL(aclrtDestroyLabel(label), ACL_ERROR_RT_PARAM_INVALID);
}

int main(int argc, char **argv)
{
    aclrtStream stream;
    aclrtEvent event;
    EQUAL(argc, 2);
    begin();
    OK(aclrtCreateStream(&stream));
    OK(aclrtCreateEvent(&event));
    described(argv[1]);
    numbers(stream, event);
    in_time(stream, event);
    in_rows(stream);
    times(stream);
    aborted();
    end();
    return 0;
}
