/*
 * A model that is executed asynchronously (the second scenario): the caller waits for the stream
 * that it executes the model in. Two streams of the model, with a notify between them.
 */
#include "check.h"

#define BYTES 256
#define RUNS 10

static int ended;

static void on_end(void *data)
{
    ended += *(int *)data;
}

static void never(void *data)
{
    (void)data;
    ended += 1000;
}

int main(void)
{
    begin();
    uint8_t *memory, *seen;
    OK(aclrtMalloc((void **)&memory, BYTES, ACL_MEM_MALLOC_NORMAL_ONLY));
    OK(aclrtMalloc((void **)&seen, BYTES, ACL_MEM_MALLOC_NORMAL_ONLY));
    aclmdlRI model;
    aclrtStream first, second, exec, exec2;
    aclrtNotify notify;
    OK(aclrtCreateStreamWithConfig(&first, 3, ACL_STREAM_PERSISTENT));
    OK(aclrtCreateStreamWithConfig(&second, 3, ACL_STREAM_PERSISTENT));
    OK(aclrtCreateStream(&exec));
    OK(aclrtCreateStream(&exec2));
    OK(aclrtCreateNotify(&notify, 0));
    OK(aclmdlRIBuildBegin(&model, 0));
    OK(aclmdlRIBindStream(model, first, ACL_MODEL_STREAM_FLAG_HEAD));
    OK(aclmdlRIBindStream(model, second, ACL_MODEL_STREAM_FLAG_HEAD));
    OK(aclrtMemsetAsync(memory, BYTES, 0x5A, BYTES, first));
    OK(aclrtMemsetAsync(memory + 1, BYTES - 1, 0xA5, 1, first));
    OK(aclrtRecordNotify(notify, first));
    OK(aclrtWaitAndResetNotify(notify, second, 0));
    OK(aclrtMemcpyAsync(seen, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_DEVICE, second));
    OK(aclmdlRIEndTask(model, second));
    OK(aclmdlRIBuildEnd(model, NULL));

    for (int run = 0; run < RUNS; run++) {
        OK(aclrtMemset(memory, BYTES, 0, BYTES));
        OK(aclrtMemset(seen, BYTES, 0, BYTES));
        OK(aclmdlRIExecuteAsync(model, exec));
        OK(aclrtSynchronizeStream(exec));
        for (int i = 0; i < BYTES; i++) EQUAL(seen[i], i == 1 ? 0xA5 : 0x5A);
    }
    /* In two streams at once: one run after the other. */
    OK(aclmdlRIExecuteAsync(model, exec));
    OK(aclmdlRIExecuteAsync(model, exec2));
    OK(aclrtSynchronizeStream(exec));
    OK(aclrtSynchronizeStreamWithTimeout(exec2, -1));

    aclrtStream streams[2];
    uint32_t count = 0;
    OK(aclmdlRIGetStreams(model, NULL, &count));
    EQUAL(count, 2);
    count = 1;
    EQUAL(aclmdlRIGetStreams(model, streams, &count), ACL_ERROR_RT_INSUFFICIENT_INPUT_ARRAY);
    EQUAL(count, 2);
    OK(aclmdlRIGetStreams(model, streams, &count));
    EQUAL(streams[0] == second && streams[1] == first, 1);
    char name[8] = "x";
    OK(aclmdlRIGetName(model, sizeof name, name));
    EQUAL(name[0], 0);
    OK(aclmdlRISetName(model, "12345678"));
    EQUAL(aclmdlRIGetName(model, sizeof name, name), ACL_ERROR_RT_PARAM_INVALID);

    int one = 1;
    OK(aclmdlRIDestroyRegisterCallback(model, on_end, &one));
    OK(aclmdlRIDestroyRegisterCallback(model, never, NULL));
    OK(aclmdlRIDestroyUnregisterCallback(model, never));
    EQUAL(aclmdlRIDestroyUnregisterCallback(model, never), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclmdlRIDestroy(model));
    EQUAL(ended, 1);
    EQUAL(aclmdlRIExecuteAsync(model, exec), ACL_ERROR_RT_PARAM_INVALID);

    /* A model that waits for what does not come: the timeout, and then the run that does. */
    OK(aclmdlRIBuildBegin(&model, 0));
    OK(aclmdlRIBindStream(model, first, ACL_MODEL_STREAM_FLAG_HEAD));
    OK(aclrtWaitAndResetNotify(notify, first, 0));
    OK(aclmdlRIEndTask(model, first));
    OK(aclmdlRIBuildEnd(model, NULL));
    EQUAL(aclmdlRIExecute(model, 50), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    OK(aclrtRecordNotify(notify, exec));
    OK(aclrtSynchronizeStream(exec));
    OK(aclmdlRIExecute(model, -1));
    OK(aclmdlRIDestroy(model));
    OK(aclrtDestroyNotify(notify));

    /* A context goes with a model that waits, and the model's callbacks are called. */
    aclrtContext context;
    OK(aclrtCreateContext(&context, 0));
    OK(aclrtCreateNotify(&notify, 0));
    OK(aclrtCreateStream(&exec));
    OK(aclrtCreateStreamWithConfig(&first, 3, ACL_STREAM_PERSISTENT));
    OK(aclmdlRIBuildBegin(&model, 0));
    OK(aclmdlRIBindStream(model, first, ACL_MODEL_STREAM_FLAG_HEAD));
    OK(aclrtWaitAndResetNotify(notify, first, 0));
    OK(aclmdlRIEndTask(model, first));
    OK(aclmdlRIBuildEnd(model, NULL));
    OK(aclmdlRIDestroyRegisterCallback(model, on_end, &one));
    OK(aclmdlRIExecuteAsync(model, exec));
    OK(aclrtDestroyContext(context));
    EQUAL(ended, 2);
    EQUAL(aclmdlRIExecute(model, -1), ACL_ERROR_RT_PARAM_INVALID);
    end();
    return 0;
}
