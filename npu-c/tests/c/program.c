/* A compiled program: what it says of itself, runs at once and in streams, what does not fit. */
#include <string.h>

#include "check.h"

#define ELEMENTS 16

static void described(uint32_t program, size_t bytes)
{
    aclmdlDesc *desc = aclmdlCreateDesc();
    EQUAL(aclmdlGetNumInputs(desc), 0);
    OK(aclmdlGetDesc(desc, program));
    EQUAL(aclmdlGetNumInputs(desc), 1);
    EQUAL(aclmdlGetNumOutputs(desc), 1);
    EQUAL(aclmdlGetInputSizeByIndex(desc, 0), bytes);
    EQUAL(aclmdlGetOutputSizeByIndex(desc, 0), bytes);
    EQUAL(aclmdlGetOutputSizeByIndex(desc, 1), 0);
    EQUAL(aclmdlGetInputDataType(desc, 0), ACL_FLOAT);
    EQUAL(aclmdlGetOutputDataType(desc, 1), ACL_DT_UNDEFINED);
    EQUAL(aclmdlGetInputFormat(desc, 0), ACL_FORMAT_ND);
    EQUAL(strcmp(aclmdlGetInputNameByIndex(desc, 0), "x"), 0);
    EQUAL(strcmp(aclmdlGetOutputNameByIndex(desc, 0), "y"), 0);
    aclmdlIODims dims;
    OK(aclmdlGetOutputDims(desc, 0, &dims));
    EQUAL(dims.dimCount, 1);
    EQUAL(dims.dims[0], ELEMENTS);
    EQUAL(strcmp(dims.name, "y"), 0);
    size_t index = 9;
    OK(aclmdlGetInputIndexByName(desc, "x", &index));
    EQUAL(index, 0);
    EQUAL(aclmdlGetOutputIndexByName(desc, "x", &index), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclmdlDestroyDesc(desc));
    EQUAL(aclmdlGetNumInputs(desc), 0);
}

static aclmdlDataset *set_of(void *memory, size_t bytes)
{
    aclmdlDataset *set = aclmdlCreateDataset();
    OK(aclmdlAddDatasetBuffer(set, aclCreateDataBuffer(memory, bytes)));
    return set;
}

/* The whole file, as the caller's memory. */
static void *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    EQUAL(file != NULL, 1);
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    void *bytes = malloc(*size);
    EQUAL(fread(bytes, 1, *size, file), *size);
    fclose(file);
    return bytes;
}

int main(int argc, char **argv)
{
    const size_t bytes = ELEMENTS * sizeof(float);
    EQUAL(argc, 2);
    begin();
    size_t size, work = 1, weights = 1;
    void *file = read_file(argv[1], &size);
    uint32_t program, wrong;
    OK(aclmdlLoadFromMem(file, size, &program));
    EQUAL(aclmdlLoadFromMem(file, size - 1, &wrong), ACL_ERROR_RT_PARAM_INVALID);
    free(file);
    EQUAL(aclmdlLoadFromFile("/no/such/file.om", &wrong), ACL_ERROR_RT_PARAM_INVALID);
    EQUAL(strstr(aclGetRecentErrMsg(), "/no/such/file.om") != NULL, 1);
    /* What has no end, or is larger than all memory. */
    EQUAL(aclmdlLoadFromFile("/dev/zero", &wrong), ACL_ERROR_RT_PARAM_INVALID);
    EQUAL(aclmdlQuerySize("/dev/zero", &work, &weights), ACL_ERROR_RT_PARAM_INVALID);
    EQUAL(aclmdlLoadFromFile("/", &wrong), ACL_ERROR_RT_PARAM_INVALID);
    EQUAL(aclmdlLoadFromMem(argv, SIZE_MAX, &wrong), ACL_ERROR_RT_MEMORY_ALLOCATION);
    EQUAL(aclmdlLoadFromMem(argv, SIZE_MAX / 4, &wrong), ACL_ERROR_RT_MEMORY_ALLOCATION);
    EQUAL(aclmdlQuerySize(argv[1], &work, NULL), ACL_ERROR_INVALID_PARAM);
    EQUAL(work, 1);
    EQUAL(strstr(aclGetRecentErrMsg(), "INVALID_PARAM 100000") != NULL, 1);
    OK(aclmdlQuerySize(argv[1], &work, &weights));
    EQUAL(work + weights, 0);
    described(program, bytes);

    float *x, *y;
    OK(aclrtMalloc((void **)&x, bytes + 64, ACL_MEM_MALLOC_NORMAL_ONLY));
    OK(aclrtMalloc((void **)&y, bytes, ACL_MEM_MALLOC_NORMAL_ONLY));
    aclmdlDataset *input = aclmdlCreateDataset(), *output = aclmdlCreateDataset();
    aclDataBuffer *from = aclCreateDataBuffer(x, bytes), *to = aclCreateDataBuffer(y, bytes - 1);
    OK(aclmdlAddDatasetBuffer(input, from));
    EQUAL(aclmdlExecute(program, input, output), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclmdlAddDatasetBuffer(output, to));
    EQUAL(aclGetDataBufferSizeV2(to), bytes - 1);
    EQUAL(aclmdlExecute(program, input, output), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclUpdateDataBuffer(to, x + 1, bytes));
    EQUAL(aclmdlExecute(program, input, output), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclUpdateDataBuffer(to, x, bytes));
    EQUAL(aclmdlExecute(program, input, output), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclUpdateDataBuffer(to, y, bytes));
    EQUAL(aclGetDataBufferAddr(to) == y, 1);
    for (int i = 0; i < ELEMENTS; i++) x[i] = (float)i;
    OK(aclmdlExecute(program, input, output));
    for (int i = 0; i < ELEMENTS; i++) EQUAL(y[i], 2 * i);

    /* In a capture: the memory counts, the sets may go. */
    aclrtStream stream;
    aclmdlRI model;
    aclmdlRITask tasks[4];
    OK(aclrtCreateStream(&stream));
    OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    OK(aclmdlExecuteAsync(program, input, output, stream));
    OK(aclmdlRICaptureEnd(stream, &model));
    OK(aclmdlDestroyDataset(input));
    OK(aclmdlDestroyDataset(output));
    for (int i = 0; i < ELEMENTS; i++) x[i] = (float)(1000 - i);
    OK(aclmdlRIExecute(model, -1));
    for (int i = 0; i < ELEMENTS; i++) EQUAL(y[i], 2 * (1000 - i));
    aclrtStream inner;
    uint32_t count = 1, place = 9;
    OK(aclmdlRIGetStreams(model, &inner, &count));
    count = 4;
    OK(aclmdlRIGetTasksByStream(inner, tasks, &count));
    EQUAL(count, 2);
    aclmdlRITaskType type;
    OK(aclmdlRITaskGetType(tasks[0], &type));
    EQUAL(type, ACL_MODEL_RI_TASK_KERNEL);
    OK(aclmdlRITaskGetSeqId(tasks[1], &place));
    EQUAL(place, 1);
    /* Without its kernel the model computes nothing. */
    EQUAL(aclmdlRITaskDisable(tasks[1]), ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT);
    OK(aclmdlRITaskDisable(tasks[0]));
    x[0] = 5;
    OK(aclmdlRIExecute(model, -1));
    EQUAL(y[0], 10);
    x[0] = 6;
    OK(aclmdlRIUpdate(model));
    OK(aclmdlRIExecute(model, -1));
    EQUAL(y[0], 10);
    OK(aclmdlRIDestroy(model));
    EQUAL(aclmdlRITaskDisable(tasks[0]), ACL_ERROR_RT_PARAM_INVALID);
    EQUAL(aclmdlRIUpdate(model), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    input = set_of(x, bytes);
    output = set_of(y, bytes);
    OK(aclmdlExecuteAsync(program, input, output, stream));
    OK(aclmdlRICaptureEnd(stream, &model));
    /* The program goes, its tasks stay: they fail. */
    OK(aclmdlUnload(program));
    EQUAL(aclmdlUnload(program), ACL_ERROR_RT_PARAM_INVALID);
    EQUAL(aclmdlRIExecute(model, -1), ACL_ERROR_RT_INTERNAL_ERROR);
    OK(aclmdlRIDestroy(model));
    EQUAL(aclmdlRITaskGetSeqId(tasks[1], &place), ACL_ERROR_RT_PARAM_INVALID);
    end();
    return 0;
}
