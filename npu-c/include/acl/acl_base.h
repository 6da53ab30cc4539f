/* Codes, types of elements, data buffers: see acl.h. */
#ifndef DFLOW_ACL_ACL_BASE_H
#define DFLOW_ACL_ACL_BASE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* 0 or a code. */
typedef int aclError;

#define ACL_SUCCESS 0
/* A pointer that is needed is null. */
#define ACL_ERROR_INVALID_PARAM 100000
/* aclInit was not called. */
#define ACL_ERROR_UNINITIALIZE 100001
/* aclInit was called before. */
#define ACL_ERROR_REPEAT_INITIALIZE 100002

/* An argument is out of range, or a handle names nothing. */
#define ACL_ERROR_RT_PARAM_INVALID 107000
/* There is no such device. */
#define ACL_ERROR_RT_INVALID_DEVICEID 107001
/* No context is current in this thread. */
#define ACL_ERROR_RT_CONTEXT_NULL 107002
/* A stream of another context. */
#define ACL_ERROR_RT_STREAM_CONTEXT 107003
/* A model of another context. */
#define ACL_ERROR_RT_MODEL_CONTEXT 107004
/* The stream is bound already, or not to this model; or the model has no stream. */
#define ACL_ERROR_RT_STREAM_MODEL 107005
/* The stream is being aborted. */
#define ACL_ERROR_RT_STREAM_ABORT 107023
/* A capture would depend on something outside it. */
#define ACL_ERROR_RT_CAPTURE_DEPENDENCY 107024
/* A stream joined the capture and was not joined back. */
#define ACL_ERROR_RT_STREAM_UNJOINED 107025
/* The model is being captured, or was. */
#define ACL_ERROR_RT_MODEL_CAPTURED 107026
/* The stream is captured. */
#define ACL_ERROR_RT_STREAM_CAPTURED 107027
/* The event was recorded in a capture. */
#define ACL_ERROR_RT_EVENT_CAPTURED 107028
/* The stream is not captured. */
#define ACL_ERROR_RT_STREAM_NOT_CAPTURED 107029
/* A capture forbids this call. */
#define ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT 107030
/* The default stream can't be captured. */
#define ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT 107031
/* Another stream began the capture. */
#define ACL_ERROR_RT_CAPTURE_UNMATCHED 107036
/* The model is running. */
#define ACL_ERROR_RT_MODEL_RUNNING 107037
/* Another thread began the capture. */
#define ACL_ERROR_RT_CAPTURE_WRONG_THREAD 107038
/* The array is too small; the count says how much is needed. */
#define ACL_ERROR_RT_INSUFFICIENT_INPUT_ARRAY 107039
/* The tasks of an update do not fit its group. */
#define ACL_ERROR_RT_MODEL_UPDATE_FAILED 107040
/* A capture forbids an asynchronous copy of such memory. */
#define ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC 107041
/* A branch of a condition is not ended. */
#define ACL_ERROR_RT_SUB_ACLGRAPH_IS_CAPTURING 107045
/* This is not offered. */
#define ACL_ERROR_RT_FEATURE_NOT_SUPPORT 207000
/* No more memory. */
#define ACL_ERROR_RT_MEMORY_ALLOCATION 207001
/* No more objects of this kind. */
#define ACL_ERROR_RT_RESOURCE_ALLOC_FAIL 207005
/* No more streams. */
#define ACL_ERROR_RT_NO_STREAM_RESOURCE 207008
/* No more notifies. */
#define ACL_ERROR_RT_NO_NOTIFY_RESOURCE 207009
/* No more models. */
#define ACL_ERROR_RT_NO_MODEL_RESOURCE 207010
/* The end mark, a label, or an object that a task named is wrong. */
#define ACL_ERROR_RT_INTERNAL_ERROR 507000
/* The stream has no room for a task. */
#define ACL_ERROR_RT_STREAM_TASK_FULL 507002
/* Such a task can't be updated. */
#define ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT 507009
/* The model has no end mark or is not complete. */
#define ACL_ERROR_RT_MODEL_EXECUTE 507011
/* A wait on the device took longer than its timeout. */
#define ACL_ERROR_RT_REPORT_TIMEOUT 507012
/* A task of a core failed. */
#define ACL_ERROR_RT_AICORE_EXCEPTION 507015
/* A task of a core was trapped. */
#define ACL_ERROR_RT_AICORE_TRAP_EXCEPTION 507016
/* A function of the host, or a task of the device's CPU, failed. */
#define ACL_ERROR_RT_AICPU_EXCEPTION 507018
/* The model was aborted. */
#define ACL_ERROR_RT_MODEL_ABORT_NORMAL 507023
/* A label of another context. */
#define ACL_ERROR_RT_LABEL_CONTEXT 507031
/* The stream was not done in time. */
#define ACL_ERROR_RT_STREAM_SYNC_TIMEOUT 507046
/* The event did not come in time. */
#define ACL_ERROR_RT_EVENT_SYNC_TIMEOUT 507047
/* The capture was invalidated. */
#define ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED 507903

/* Types of elements. */
typedef enum {
    ACL_DT_UNDEFINED = -1,
    ACL_FLOAT = 0,
    ACL_FLOAT16 = 1,
    ACL_INT8 = 2,
    ACL_INT32 = 3,
    ACL_UINT8 = 4,
    ACL_INT16 = 6,
    ACL_UINT16 = 7,
    ACL_UINT32 = 8,
    ACL_INT64 = 9,
    ACL_UINT64 = 10,
    ACL_DOUBLE = 11,
    ACL_BOOL = 12,
    ACL_BF16 = 27
} aclDataType;

/* Orders of dimensions: programs have none of their own. */
typedef enum { ACL_FORMAT_UNDEFINED = -1, ACL_FORMAT_ND = 2 } aclFormat;

/* Memory of the caller's with its size. */
typedef struct aclDataBuffer aclDataBuffer;

/* What the last refused call of this thread said, "" at first; valid until its next one. */
const char *aclGetRecentErrMsg(void);

/* A buffer; the memory stays the caller's. */
aclDataBuffer *aclCreateDataBuffer(void *data, size_t size);

/* Ends the buffer, not the memory. */
aclError aclDestroyDataBuffer(const aclDataBuffer *dataBuffer);

/* Gives the buffer other memory. */
aclError aclUpdateDataBuffer(aclDataBuffer *dataBuffer, void *data, size_t size);

/* The buffer's memory; NULL when there is no such buffer. */
void *aclGetDataBufferAddr(const aclDataBuffer *dataBuffer);

/* Bytes of the buffer's memory; 0 when there is no such buffer. */
size_t aclGetDataBufferSizeV2(const aclDataBuffer *dataBuffer);

#ifdef __cplusplus
}
#endif

#endif
