// Several functions in one object are not in this version (docs/status.md).
#error "flow_func/flow_msg_queue.h: multi-functions and message queues are not supported by this \
version of dflow: write one MetaFlowFunc for each function"
