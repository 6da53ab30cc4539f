/*
 * A model that is built by hand and executed synchronously (the first scenario): a compiled program
 * run twice, copies, written values, functions of the host, and a loop by a counter of the device.
 */
#include "check.h"

#define ELEMENTS 16
#define ROUNDS 5

/* What the model's host function counts. */
typedef struct {
    uint32_t *index;
    int rounds;
} Loop;

/* Index 0 is once more, 1 is out of the loop. */
static void count(void *args)
{
    Loop *loop = args;
    loop->rounds++;
    *loop->index = loop->rounds % ROUNDS == 0 ? 1 : 0;
}

static aclmdlDataset *set_of(void *memory, size_t bytes)
{
    aclmdlDataset *set = aclmdlCreateDataset();
    OK(aclmdlAddDatasetBuffer(set, aclCreateDataBuffer(memory, bytes)));
    EQUAL(aclmdlGetDatasetNumBuffers(set), 1);
    return set;
}

static void drop(aclmdlDataset *set)
{
    OK(aclDestroyDataBuffer(aclmdlGetDatasetBuffer(set, 0)));
    OK(aclmdlDestroyDataset(set));
}

int main(int argc, char **argv)
{
    const size_t bytes = ELEMENTS * sizeof(float);
    EQUAL(argc, 2);
    begin();
    uint32_t program;
    OK(aclmdlLoadFromFile(argv[1], &program));
    void *memory[4];
    for (int i = 0; i < 4; i++) OK(aclrtMalloc(&memory[i], bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    float *a = memory[0], *c = memory[2], *d = memory[3];
    uint64_t *value;
    Loop loop = {NULL, 0};
    OK(aclrtMalloc((void **)&value, sizeof(uint64_t), ACL_MEM_MALLOC_NORMAL_ONLY));
    OK(aclrtMalloc((void **)&loop.index, sizeof(uint32_t), ACL_MEM_MALLOC_NORMAL_ONLY));

    aclmdlRI model;
    aclrtStream stream, other;
    OK(aclrtCreateStreamWithConfig(&stream, 0, ACL_STREAM_PERSISTENT));
    OK(aclrtCreateStreamWithConfig(&other, 0, ACL_STREAM_PERSISTENT));
    OK(aclmdlRIBuildBegin(&model, 0));
    EQUAL(aclmdlRIBuildEnd(model, NULL), ACL_ERROR_RT_STREAM_MODEL);
    OK(aclmdlRIBindStream(model, stream, ACL_MODEL_STREAM_FLAG_HEAD));
    EQUAL(aclmdlRIBindStream(model, stream, ACL_MODEL_STREAM_FLAG_HEAD),
          ACL_ERROR_RT_STREAM_MODEL);
    OK(aclmdlRIBindStream(model, other, ACL_MODEL_STREAM_FLAG_DEFAULT));

    aclmdlDataset *sets[3];
    for (int i = 0; i < 3; i++) sets[i] = set_of(memory[i], bytes);
    aclrtLabel labels[2];
    aclrtLabelList list;
    for (int i = 0; i < 2; i++) OK(aclrtCreateLabel(&labels[i]));
    OK(aclrtCreateLabelList(labels, 2, &list));
    /* stream: b = 2a, c = 2b, a loop of ROUNDS rounds; other: d = c, value = 77, the end. */
    OK(aclmdlExecuteAsync(program, sets[0], sets[1], stream));
    OK(aclmdlExecuteAsync(program, sets[1], sets[2], stream));
    OK(aclrtSetLabel(labels[0], stream));
    OK(aclrtLaunchHostFunc(stream, count, &loop));
    OK(aclrtSwitchLabelByIndex(loop.index, 2, list, stream));
    OK(aclrtSetLabel(labels[1], stream));
    OK(aclrtActiveStream(other, stream));
    OK(aclrtMemcpyAsync(d, bytes, c, bytes, ACL_MEMCPY_DEVICE_TO_DEVICE, other));
    OK(aclrtValueWrite(value, 77, 0, other));
    EQUAL(aclmdlRIBuildEnd(model, NULL), ACL_ERROR_RT_MODEL_EXECUTE);
    EQUAL(aclmdlRIExecute(model, -1), ACL_ERROR_RT_MODEL_EXECUTE);
    OK(aclmdlRIEndTask(model, other));
    EQUAL(aclmdlRIEndTask(model, other), ACL_ERROR_RT_INTERNAL_ERROR);
    OK(aclmdlRIBuildEnd(model, NULL));
    for (int i = 0; i < 3; i++) drop(sets[i]);

    for (int run = 0; run < 3; run++) {
        float given[ELEMENTS];
        for (int i = 0; i < ELEMENTS; i++) given[i] = (float)(100 * run + i) / 4;
        OK(aclrtMemcpy(a, bytes, given, bytes, ACL_MEMCPY_HOST_TO_DEVICE));
        OK(aclrtMemset(d, bytes, 0xFF, bytes));
        OK(aclrtMemset(value, 8, 0, 8));
        OK(aclmdlRIExecute(model, -1));
        float found[ELEMENTS];
        OK(aclrtMemcpy(found, bytes, d, bytes, ACL_MEMCPY_DEVICE_TO_HOST));
        /* Four times a multiple of a quarter is exact. */
        for (int i = 0; i < ELEMENTS; i++) EQUAL(found[i], 100 * run + i);
        EQUAL(*value, 77);
        EQUAL(loop.rounds, ROUNDS * (run + 1));
    }
    OK(aclmdlRIUnbindStream(model, stream));
    EQUAL(aclmdlRIUnbindStream(model, stream), ACL_ERROR_RT_STREAM_MODEL);
    OK(aclmdlRIDestroy(model));
    OK(aclrtDestroyLabelList(list));
    OK(aclrtDestroyStream(stream));
    OK(aclrtDestroyStream(other));
    OK(aclmdlUnload(program));
    end();
    return 0;
}
