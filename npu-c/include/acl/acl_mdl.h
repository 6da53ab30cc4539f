/*
 * Programs that `dflow compile` makes: see acl.h.
 *
 * Memory of inputs and outputs begins at a multiple of 64, as that of aclrtMalloc does, and no
 * output overlaps another one or an input.
 */
#ifndef DFLOW_ACL_ACL_MDL_H
#define DFLOW_ACL_ACL_MDL_H

#include "acl_base.h"
#include "acl_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Buffers in order: the inputs of a run, or its outputs. */
typedef struct aclmdlDataset aclmdlDataset;

/* What a program says of its inputs and outputs. */
typedef struct aclmdlDesc aclmdlDesc;

#define ACL_MAX_DIM_CNT 128
#define ACL_MAX_TENSOR_NAME_LEN 128

/* The shape of an input or output. */
typedef struct {
    char name[ACL_MAX_TENSOR_NAME_LEN];
    size_t dimCount;
    int64_t dims[ACL_MAX_DIM_CNT];
} aclmdlIODims;

/* Loads a program for this thread's context; 107000 with the reason for a file that is none. */
aclError aclmdlLoadFromFile(const char *modelPath, uint32_t *modelId);

/* The same from memory, which is copied. */
aclError aclmdlLoadFromMem(const void *model, size_t modelSize, uint32_t *modelId);

/* Ends a program; a task that still names it fails. */
aclError aclmdlUnload(uint32_t modelId);

/*
 * Runs a program and waits. 107000 when buffers and program do not fit: number, size, place. One
 * program runs once at a time.
 */
aclError aclmdlExecute(uint32_t modelId, const aclmdlDataset *input, aclmdlDataset *output);

/*
 * Runs a program as a task of a stream, of a model, or of a capture. The data sets may go when
 * this returns, the memory must stay.
 */
aclError aclmdlExecuteAsync(uint32_t modelId, const aclmdlDataset *input, aclmdlDataset *output,
                            aclrtStream stream);

/* Bytes of working memory and of weights that a program needs. */
aclError aclmdlQuerySize(const char *fileName, size_t *workSize, size_t *weightSize);

/* An empty data set. */
aclmdlDataset *aclmdlCreateDataset(void);

/* Ends a data set, not its buffers. */
aclError aclmdlDestroyDataset(const aclmdlDataset *dataset);

/* Adds a buffer at the end. */
aclError aclmdlAddDatasetBuffer(aclmdlDataset *dataset, aclDataBuffer *dataBuffer);

/* How many buffers there are; 0 when there is no such set. */
size_t aclmdlGetDatasetNumBuffers(const aclmdlDataset *dataset);

/* A buffer; NULL when there is none. */
aclDataBuffer *aclmdlGetDatasetBuffer(const aclmdlDataset *dataset, size_t index);

/* A description, empty. */
aclmdlDesc *aclmdlCreateDesc(void);

/* Ends a description, and the names in it. */
aclError aclmdlDestroyDesc(aclmdlDesc *modelDesc);

/* Describes a loaded program. The description stays when the program goes. */
aclError aclmdlGetDesc(aclmdlDesc *modelDesc, uint32_t modelId);

/* Number of inputs. */
size_t aclmdlGetNumInputs(const aclmdlDesc *modelDesc);

/* Number of outputs. */
size_t aclmdlGetNumOutputs(const aclmdlDesc *modelDesc);

/* Bytes of an input; 0 when there is none. */
size_t aclmdlGetInputSizeByIndex(const aclmdlDesc *modelDesc, size_t index);

/* Bytes of an output; 0 when there is none. */
size_t aclmdlGetOutputSizeByIndex(const aclmdlDesc *modelDesc, size_t index);

/* Name and shape of an input; a longer name is cut. */
aclError aclmdlGetInputDims(const aclmdlDesc *modelDesc, size_t index, aclmdlIODims *dims);

/* Name and shape of an output; a longer name is cut. */
aclError aclmdlGetOutputDims(const aclmdlDesc *modelDesc, size_t index, aclmdlIODims *dims);

/* Type of an input's elements; ACL_DT_UNDEFINED when there is none. */
aclDataType aclmdlGetInputDataType(const aclmdlDesc *modelDesc, size_t index);

/* Type of an output's elements; ACL_DT_UNDEFINED when there is none. */
aclDataType aclmdlGetOutputDataType(const aclmdlDesc *modelDesc, size_t index);

/* ACL_FORMAT_ND; ACL_FORMAT_UNDEFINED when there is no such input. */
aclFormat aclmdlGetInputFormat(const aclmdlDesc *modelDesc, size_t index);

/* ACL_FORMAT_ND; ACL_FORMAT_UNDEFINED when there is no such output. */
aclFormat aclmdlGetOutputFormat(const aclmdlDesc *modelDesc, size_t index);

/* Name of an input, valid as long as the description; "" when there is none. */
const char *aclmdlGetInputNameByIndex(const aclmdlDesc *modelDesc, size_t index);

/* Name of an output, valid as long as the description; "" when there is none. */
const char *aclmdlGetOutputNameByIndex(const aclmdlDesc *modelDesc, size_t index);

/* Index of the input of this name; 107000 when there is none. */
aclError aclmdlGetInputIndexByName(const aclmdlDesc *modelDesc, const char *name, size_t *index);

/* Index of the output of this name; 107000 when there is none. */
aclError aclmdlGetOutputIndexByName(const aclmdlDesc *modelDesc, const char *name, size_t *index);

#ifdef __cplusplus
}
#endif

#endif
