// Old name of dflow_attr_value.h.
#ifndef FLOW_FUNC_ATTR_VALUE_H
#define FLOW_FUNC_ATTR_VALUE_H

#pragma message("attr_value.h is an old name, to be removed after 2027-06-30: include " \
                "dflow_attr_value.h")
#include "dflow_attr_value.h"

#endif
