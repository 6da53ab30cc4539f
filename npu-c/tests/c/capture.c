/* Captures: modes, a stream that joins, task groups and updates, the three kinds of conditions. */
#include "check.h"

typedef struct {
    uint64_t *cell;
    int runs;
} Branch;

static void less(void *args)
{
    Branch *branch = args;
    branch->runs++;
    *branch->cell -= 1;
}

static void ran(void *args)
{
    ((Branch *)args)->runs++;
}

static aclrtStream stream, other;

static void groups(void)
{
    uint64_t *values;
    OK(aclrtMalloc((void **)&values, 16, ACL_MEM_MALLOC_NORMAL_ONLY));
    aclmdlRI model, during;
    aclrtTaskGrp group;
    aclmdlRICaptureStatus status;
    OK(aclmdlRICaptureGetInfo(stream, &status, NULL));
    EQUAL(status, ACL_MODEL_RI_CAPTURE_STATUS_NONE);
    EQUAL(aclmdlRICaptureEnd(stream, &model), ACL_ERROR_RT_STREAM_NOT_CAPTURED);
    OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    EQUAL(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL),
          ACL_ERROR_RT_STREAM_CAPTURED);
    EQUAL(aclrtMemset(values, 8, 0, 8), ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT);
    uint64_t own = 3;
    EQUAL(aclrtMemcpyAsync(values, 8, &own, 8, ACL_MEMCPY_HOST_TO_DEVICE, stream),
          ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC);
    aclmdlRICaptureMode mode = ACL_MODEL_RI_CAPTURE_MODE_RELAXED;
    OK(aclmdlRICaptureThreadExchangeMode(&mode));
    EQUAL(mode, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
    OK(aclrtMemset(values, 8, 0, 8));
    OK(aclmdlRICaptureThreadExchangeMode(&mode));
    OK(aclmdlRICaptureTaskGrpBegin(stream));
    OK(aclrtValueWrite(values, 1, 0, stream));
    OK(aclmdlRICaptureTaskGrpEnd(stream, &group));
    aclrtEvent there, back;
    OK(aclrtCreateEvent(&there));
    OK(aclrtCreateEvent(&back));
    OK(aclrtRecordEvent(there, stream));
    OK(aclrtStreamWaitEvent(other, there));
    OK(aclrtValueWrite(values + 1, 2, 0, other));
    OK(aclrtRecordEvent(back, other));
    OK(aclrtStreamWaitEvent(stream, back));
    OK(aclmdlRICaptureGetInfo(other, &status, &during));
    EQUAL(status, ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE);
    EQUAL(aclmdlRIExecute(during, -1), ACL_ERROR_RT_MODEL_CAPTURED);
    EQUAL(aclmdlRIDestroy(during), ACL_ERROR_RT_MODEL_CAPTURED);
    EQUAL(aclmdlRICaptureEnd(other, &model), ACL_ERROR_RT_CAPTURE_UNMATCHED);
    OK(aclmdlRICaptureEnd(stream, &model));
    EQUAL(model == during, 1);
    EQUAL(values[0] + values[1], 0);
    OK(aclmdlRIExecute(model, -1));
    EQUAL(values[0], 1);
    EQUAL(values[1], 2);
    OK(aclmdlRICaptureTaskUpdateBegin(other, group));
    OK(aclrtValueWrite(values, 10, 0, other));
    OK(aclmdlRICaptureTaskUpdateEnd(other));
    EQUAL(values[0], 1);
    OK(aclmdlRIExecuteAsync(model, other));
    OK(aclrtSynchronizeStream(other));
    EQUAL(values[0], 10);
    OK(aclmdlRICaptureTaskUpdateBegin(other, group));
    EQUAL(aclmdlRICaptureTaskUpdateEnd(other), ACL_ERROR_RT_MODEL_UPDATE_FAILED);
    OK(aclmdlRIDestroy(model));
    EQUAL(aclmdlRICaptureTaskUpdateBegin(other, group), ACL_ERROR_RT_PARAM_INVALID);
    /* Waiting for a captured stream ends its capture. */
    OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    EQUAL(aclrtSynchronizeStream(stream), ACL_ERROR_RT_STREAM_CAPTURED);
    EQUAL(aclmdlRICaptureEnd(stream, &model), ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED);
    OK(aclrtFree(values));
}

/* A model with one condition; its branches count how often they run. */
static aclmdlRI condition(aclmdlRICondType type, uint32_t size, uint32_t value,
                          aclmdlRICondHandleFlag flag, Branch *branches, uint64_t **cell)
{
    aclmdlRI model, models[4];
    aclmdlRICondHandle handle;
    OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    OK(aclmdlRICaptureGetInfo(stream, NULL, &model));
    OK(aclmdlRICondHandleCreate(model, value, flag, &handle));
    OK(aclmdlRICondHandleGetCondPtr(handle, cell));
    EQUAL(**cell, 0);
    aclmdlRICondTaskParams params = {handle, type, 0, models};
    EQUAL(aclmdlRIAddCondTask(params, stream, 0), ACL_ERROR_RT_PARAM_INVALID);
    params.size = size;
    OK(aclmdlRIAddCondTask(params, stream, 0));
    EQUAL(aclmdlRIAddCondTask(params, stream, 0), ACL_ERROR_RT_PARAM_INVALID);
    for (uint32_t i = 0; i < size; i++) {
        aclmdlRI branch;
        branches[i].cell = *cell;
        branches[i].runs = 0;
        OK(aclmdlRICaptureToModelRIBegin(other, models[i], ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
        int loop = type == ACL_MODEL_RI_COND_TYPE_WHILE;
        OK(aclrtLaunchHostFunc(other, loop ? less : ran, &branches[i]));
        OK(aclmdlRICaptureEnd(other, &branch));
        EQUAL(branch == models[i], 1);
        EQUAL(aclmdlRIDestroy(branch), ACL_ERROR_RT_PARAM_INVALID);
    }
    aclmdlRI ended;
    OK(aclmdlRICaptureEnd(stream, &ended));
    EQUAL(ended == model, 1);
    return model;
}

static void conditions(void)
{
    Branch branches[3];
    uint64_t *cell;
    aclmdlRI model = condition(ACL_MODEL_RI_COND_TYPE_IF, 2, 1,
                               ACL_MODEL_RI_COND_HANDLE_FLAG_RESET, branches, &cell);
    OK(aclmdlRIExecute(model, -1));
    EQUAL(branches[0].runs, 1);
    EQUAL(branches[1].runs, 0);
    OK(aclmdlRIDestroy(model));
    model = condition(ACL_MODEL_RI_COND_TYPE_IF, 2, 1, ACL_MODEL_RI_COND_HANDLE_FLAG_NONE,
                      branches, &cell);
    *cell = 0;
    OK(aclmdlRIExecute(model, -1));
    EQUAL(branches[0].runs, 0);
    EQUAL(branches[1].runs, 1);
    OK(aclmdlRIDestroy(model));
    model = condition(ACL_MODEL_RI_COND_TYPE_WHILE, 1, 3, ACL_MODEL_RI_COND_HANDLE_FLAG_RESET,
                      branches, &cell);
    OK(aclmdlRIExecute(model, -1));
    EQUAL(branches[0].runs, 3);
    OK(aclmdlRIExecute(model, -1));
    EQUAL(branches[0].runs, 6);
    OK(aclmdlRIDestroy(model));
    model = condition(ACL_MODEL_RI_COND_TYPE_SWITCH, 3, 0, ACL_MODEL_RI_COND_HANDLE_FLAG_NONE,
                      branches, &cell);
    for (uint64_t value = 0; value < 4; value++) {
        *cell = value;
        OK(aclmdlRIExecute(model, -1));
    }
    *cell = UINT64_MAX;
    OK(aclmdlRIExecute(model, -1));
    for (int i = 0; i < 3; i++) EQUAL(branches[i].runs, 1);
    OK(aclmdlRIDestroy(model));
}

int main(void)
{
    begin();
    OK(aclrtCreateStream(&stream));
    OK(aclrtCreateStream(&other));
    groups();
    conditions();
    end();
    return 0;
}
