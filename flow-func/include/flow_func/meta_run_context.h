// Several functions in one object are not in this version (docs/status.md).
#error "flow_func/meta_run_context.h: multi-functions and message queues are not supported by this \
version of dflow: write one MetaFlowFunc for each function"
