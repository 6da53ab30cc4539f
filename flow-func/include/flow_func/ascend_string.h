// Old name of flow_func_ascend_string.h.
#ifndef FLOW_FUNC_ASCEND_STRING_H
#define FLOW_FUNC_ASCEND_STRING_H

#pragma message("ascend_string.h is an old name: include flow_func_ascend_string.h")
#include "flow_func_ascend_string.h"

#endif
