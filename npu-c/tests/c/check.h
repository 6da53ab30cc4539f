/* What the C programs of these tests share: a failed check says where, and ends the program. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <acl/acl.h>

/* A program that hangs is ended, and so fails. */
#define WATCHDOG_S 60

static void fail(int line, const char *what, long found, long expected)
{
    fprintf(stderr, "line %d: %s is %ld, expected %ld (%s)\n", line, what, found, expected,
            aclGetRecentErrMsg());
    exit(1);
}

#define EQUAL(found, expected) \
    do { \
        long f_ = (long)(found), e_ = (long)(expected); \
        if (f_ != e_) fail(__LINE__, #found, f_, e_); \
    } while (0)

/* A call that succeeds. */
#define OK(call) EQUAL(call, ACL_SUCCESS)

static void begin(void)
{
    alarm(WATCHDOG_S);
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
}

static void end(void)
{
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
}

#endif
