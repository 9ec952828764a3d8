#define _GNU_SOURCE
#include "contain.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>

static _Thread_local sigjmp_buf *escape;
static struct sigaction chained[NSIG];
static pthread_once_t installed = PTHREAD_ONCE_INIT;
static const int FATAL[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};

static void on_fatal(int number, siginfo_t *info, void *context) {
    if (escape != NULL) siglongjmp(*escape, number);
    const struct sigaction *before = &chained[number];
    if (before->sa_flags & SA_SIGINFO) {
        before->sa_sigaction(number, info, context);
    } else if (before->sa_handler != SIG_DFL && before->sa_handler != SIG_IGN) {
        before->sa_handler(number);
    } else {
        signal(number, SIG_DFL); /* not contained: the previous action applies on return */
    }
}

static void install(void) {
    for (size_t i = 0; i < sizeof FATAL / sizeof *FATAL; i++) {
        struct sigaction action;
        memset(&action, 0, sizeof action);
        action.sa_sigaction = on_fatal;
        action.sa_flags = SA_SIGINFO | SA_NODEFER;
        sigaction(FATAL[i], &action, &chained[FATAL[i]]);
    }
}

void assay_name_thread(const char *name) {
#if defined(__linux__)
    (void)pthread_setname_np(pthread_self(), name);
#else
    (void)name;
#endif
}

int assay_contain(void (*body)(void *argument), void *argument) {
    sigjmp_buf here;
    pthread_once(&installed, install);
    int number = sigsetjmp(here, 1);
    if (number == 0) {
        escape = &here;
        body(argument);
    }
    escape = NULL;
    return number;
}
