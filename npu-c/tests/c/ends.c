/* Ends that come while others wait, or too late: of contexts, the device, threads, the process. */
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/wait.h>

#include "check.h"

typedef enum { STREAM, EVENT, DEVICE, MODEL, CAPTURED } What;

typedef struct {
    What what;
    aclrtContext context;
    aclrtStream stream;
    aclrtEvent event;
    aclmdlRI model;
    aclError code;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    int begun, about;
    /* Where the system says what the waiting thread does. */
    char status[64];
} Waiter;

static void say(Waiter *waiter, int *what)
{
    pthread_mutex_lock(&waiter->lock);
    *what = 1;
    pthread_cond_signal(&waiter->moved);
    pthread_mutex_unlock(&waiter->lock);
}

static void hear(Waiter *waiter, int *what)
{
    pthread_mutex_lock(&waiter->lock);
    while (!*what) pthread_cond_wait(&waiter->moved, &waiter->lock);
    pthread_mutex_unlock(&waiter->lock);
}

static void tell(void *args)
{
    say(args, &((Waiter *)args)->begun);
}

static int sleeps(const Waiter *waiter)
{
    char line[128], state = 0;
    FILE *status = fopen(waiter->status, "r");
    EQUAL(status != NULL, 1);
    while (!state && fgets(line, sizeof line, status)) (void)sscanf(line, "State: %c", &state);
    fclose(status);
    return state == 'S';
}

/* Until it was seen asleep again and again: in the wait that it was about to begin. */
static void until_it_waits(const Waiter *waiter)
{
    for (int seen = 0; seen < 20; seen += sleeps(waiter)) sched_yield();
}

static void *waits(void *args)
{
    Waiter *waiter = args;
    char self[48] = "";
    EQUAL(readlink("/proc/thread-self", self, sizeof self - 1) > 0, 1);
    snprintf(waiter->status, sizeof waiter->status, "/proc/%s/status", self);
    OK(aclrtSetCurrentContext(waiter->context));
    say(waiter, &waiter->about);
    switch (waiter->what) {
    case STREAM: waiter->code = aclrtSynchronizeStream(waiter->stream); break;
    case EVENT: waiter->code = aclrtSynchronizeEvent(waiter->event); break;
    case DEVICE: waiter->code = aclrtSynchronizeDevice(); break;
    default: waiter->code = aclmdlRIExecute(waiter->model, -1); break;
    }
    return NULL;
}

/* A stream that says when it is at its wait for a value, which never comes. */
static void block(Waiter *waiter, uint64_t *never)
{
    aclrtStream at = waiter->stream;
    if (waiter->what == MODEL) {
        OK(aclrtCreateStreamWithConfig(&at, 0, ACL_STREAM_PERSISTENT));
        OK(aclmdlRIBuildBegin(&waiter->model, 0));
        OK(aclmdlRIBindStream(waiter->model, at, ACL_MODEL_STREAM_FLAG_HEAD));
    } else if (waiter->what == CAPTURED) {
        OK(aclmdlRICaptureBegin(at, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    }
    OK(aclrtLaunchHostFunc(at, tell, waiter));
    OK(aclrtValueWait(never, 1, ACL_VALUE_WAIT_EQ, at));
    if (waiter->what == EVENT) OK(aclrtRecordEvent(waiter->event, at));
    if (waiter->what == MODEL) {
        OK(aclmdlRIEndTask(waiter->model, at));
        OK(aclmdlRIBuildEnd(waiter->model, NULL));
    } else if (waiter->what == CAPTURED) {
        OK(aclmdlRICaptureEnd(at, &waiter->model));
    }
}

typedef enum { CONTEXT, RESET, FINALIZE, ABORT } How;

/* What a wait comes to that is under way when its object ends. */
static aclError ended(How how, What what)
{
    Waiter waiter = {.what = what,
                     .lock = PTHREAD_MUTEX_INITIALIZER,
                     .moved = PTHREAD_COND_INITIALIZER};
    uint64_t *never;
    pthread_t thread;
    OK(aclrtSetDevice(0));
    if (how == CONTEXT) OK(aclrtCreateContext(&waiter.context, 0));
    OK(aclrtGetCurrentContext(&waiter.context));
    OK(aclrtMalloc((void **)&never, 64, ACL_MEM_MALLOC_NORMAL_ONLY));
    OK(aclrtCreateStream(&waiter.stream));
    OK(aclrtCreateEvent(&waiter.event));
    block(&waiter, never);
    EQUAL(pthread_create(&thread, NULL, waits, &waiter), 0);
    hear(&waiter, &waiter.about);
    hear(&waiter, &waiter.begun);
    until_it_waits(&waiter);
    switch (how) {
    case CONTEXT: OK(aclrtDestroyContext(waiter.context)); break;
    case RESET: OK(aclrtResetDevice(0)); break;
    case FINALIZE: OK(aclFinalize()); break;
    case ABORT: OK(aclrtStreamAbort(waiter.stream)); break;
    }
    EQUAL(pthread_join(thread, NULL), 0);
    if (how == FINALIZE) OK(aclInit(NULL));
    if (how == ABORT) OK(aclrtResetDevice(0));
    if (how == CONTEXT) OK(aclrtFree(never));
    return waiter.code;
}

/* Until the end came while the other waited, as it nearly always does at the first try: a thread
 * that slept for something else may have come too late. */
static void end_under(How how, What what, aclError expected)
{
    aclError code;
    do {
        code = ended(how, what);
    } while (code == ACL_ERROR_RT_CONTEXT_NULL || code == ACL_ERROR_RT_PARAM_INVALID);
    EQUAL(code, expected);
}

/* A notify and an event that go while a stream is at its wait for them. */
static void destroyed_under(void)
{
    Waiter waiter = {.lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER};
    aclrtStream stream, other;
    aclrtNotify notify, never;
    aclrtEvent event;
    OK(aclrtSetDevice(0));
    OK(aclrtCreateStream(&stream));
    OK(aclrtCreateStream(&other));
    OK(aclrtCreateNotify(&notify, 0));
    OK(aclrtCreateNotify(&never, 0));
    OK(aclrtCreateEvent(&event));
    OK(aclrtLaunchHostFunc(stream, tell, &waiter));
    OK(aclrtWaitAndResetNotify(notify, stream, 0));
    hear(&waiter, &waiter.begun);
    OK(aclrtDestroyNotify(notify));
    EQUAL(aclrtSynchronizeStream(stream), ACL_ERROR_RT_INTERNAL_ERROR);
    waiter.begun = 0;
    OK(aclrtWaitAndResetNotify(never, other, 0));
    OK(aclrtRecordEvent(event, other));
    OK(aclrtLaunchHostFunc(stream, tell, &waiter));
    OK(aclrtStreamWaitEvent(stream, event));
    hear(&waiter, &waiter.begun);
    OK(aclrtDestroyEvent(event));
    EQUAL(aclrtSynchronizeStream(stream), ACL_ERROR_RT_INTERNAL_ERROR);
    OK(aclrtResetDevice(0));
}

static void nothing(void *args)
{
    *(int *)args += 1;
}

/* Models and streams of its own, whose handles stay its own beside other threads. */
static void *makes(void *args)
{
    (void)args;
    aclrtStream stream;
    OK(aclrtSetDevice(0));
    OK(aclrtCreateStream(&stream));
    for (int round = 0; round < 500; round++) {
        int ran = 0;
        aclmdlRI model;
        aclrtStream inner[2], other;
        aclmdlRITask tasks[4];
        uint32_t count = 2;
        OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
        OK(aclrtLaunchHostFunc(stream, nothing, &ran));
        OK(aclmdlRICaptureEnd(stream, &model));
        OK(aclmdlRIExecute(model, -1));
        EQUAL(ran, 1);
        OK(aclmdlRIGetStreams(model, inner, &count));
        EQUAL(count, 1);
        count = 4;
        OK(aclmdlRIGetTasksByStream(inner[0], tasks, &count));
        EQUAL(count, 2);
        OK(aclrtCreateStream(&other));
        OK(aclrtDestroyStream(other));
        OK(aclmdlRIDestroy(model));
    }
    return NULL;
}

static void beside_each_other(void)
{
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) EQUAL(pthread_create(&threads[i], NULL, makes, NULL), 0);
    for (int i = 0; i < 3; i++) EQUAL(pthread_join(threads[i], NULL), 0);
}

static void *sets(void *args)
{
    OK(aclrtSetDevice(0));
    OK(aclrtGetCurrentContext(args));
    return NULL;
}

/* Threads that set the device at once have one context. */
static void set_at_once(void)
{
    for (int round = 0; round < 50; round++) {
        pthread_t threads[4];
        aclrtContext contexts[4];
        for (int i = 0; i < 4; i++)
            EQUAL(pthread_create(&threads[i], NULL, sets, &contexts[i]), 0);
        for (int i = 0; i < 4; i++) EQUAL(pthread_join(threads[i], NULL), 0);
        for (int i = 1; i < 4; i++) EQUAL(contexts[i] == contexts[0], 1);
        OK(aclrtResetDevice(0));
    }
}

static void forks(void)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        aclrtStream stream;
        alarm(10);
        int ok = aclrtCreateStream(&stream) == ACL_ERROR_RT_INTERNAL_ERROR &&
                 aclrtResetDevice(0) == ACL_ERROR_RT_INTERNAL_ERROR &&
                 aclFinalize() == ACL_ERROR_RT_INTERNAL_ERROR &&
                 strstr(aclGetRecentErrMsg(), "forked") != NULL;
        _exit(ok ? 0 : 1);
    }
    EQUAL(waitpid(child, &status, 0), child);
    EQUAL(WIFEXITED(status) && WEXITSTATUS(status) == 0, 1);
}

static pthread_key_t key;

/* Behind the library's own ends of this thread. */
static void of_the_thread(void *args)
{
    EQUAL(aclrtFree(args), ACL_ERROR_RT_PARAM_INVALID);
    EQUAL(aclGetRecentErrMsg() != NULL, 1);
}

static void *has_an_end(void *args)
{
    EQUAL(aclrtFree(args), ACL_ERROR_RT_PARAM_INVALID);
    EQUAL(pthread_setspecific(key, args), 0);
    return NULL;
}

static void of_the_process(void)
{
    int there;
    if (aclrtFree(&there) != ACL_ERROR_RT_PARAM_INVALID) _exit(1);
    if (aclGetRecentErrMsg() == NULL) _exit(1);
}

int main(void)
{
    pthread_t thread;
    int there;
    begin();
    for (How how = CONTEXT; how <= FINALIZE; how++) {
        for (What what = STREAM; what <= CAPTURED; what++)
            end_under(how, what, ACL_ERROR_RT_STREAM_ABORT);
    }
    end_under(ABORT, EVENT, ACL_ERROR_RT_STREAM_ABORT);
    destroyed_under();
    set_at_once();
    OK(aclrtSetDevice(0));
    beside_each_other();
    forks();
    EQUAL(pthread_key_create(&key, of_the_thread), 0);
    EQUAL(pthread_create(&thread, NULL, has_an_end, &there), 0);
    EQUAL(pthread_join(thread, NULL), 0);
    EQUAL(atexit(of_the_process), 0);
    end();
    return 0;
}
