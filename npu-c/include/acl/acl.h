/*
 * The device of the software NPU, for C and C++: link with libdflow_acl.so.
 *
 * Names, arguments and codes are those of the programming model that dflow follows; what is not
 * declared here is not offered. Rules for all functions:
 *
 * - What gives an aclError gives ACL_SUCCESS or a code; aclGetRecentErrMsg() says more. Nothing
 *   is changed when a call is refused, unless its comment says so.
 * - A null pointer where something is asked for is ACL_ERROR_INVALID_PARAM. A handle that was
 *   never made, is of another kind, or was destroyed is ACL_ERROR_RT_PARAM_INVALID.
 * - Calls may be made from any thread. Building one model is one thread's at a time.
 * - Memory of the device is memory of this process: a program may look at it directly, once it
 *   has waited for what writes it. The caller keeps memory that tasks use until they are done;
 *   of a model, as long as the model.
 * - The context of a handle ends with aclrtDestroyContext, aclrtResetDevice (that of
 *   aclrtSetDevice) or aclFinalize, and with it all that was made in it. Threads that wait in it
 *   get ACL_ERROR_RT_STREAM_ABORT. Functions of the caller's must not end what they are called
 *   from.
 * - A process that is forked from one that has a device has none of its threads: all calls give
 *   ACL_ERROR_RT_INTERNAL_ERROR there.
 */
#ifndef DFLOW_ACL_ACL_H
#define DFLOW_ACL_ACL_H

#include "acl_base.h"
#include "acl_rt.h"
#include "acl_mdl.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Begins. `configPath` is NULL or "": configuration files are not offered (207000). Again without
 * aclFinalize is ACL_ERROR_REPEAT_INITIALIZE.
 */
aclError aclInit(const char *configPath);

/* Ends everything: all handles, the device, all memory. aclInit may be called again. */
aclError aclFinalize(void);

#ifdef __cplusplus
}
#endif

#endif
