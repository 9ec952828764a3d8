#define _GNU_SOURCE
#include "guard.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#endif

enum { DISPATCH_OFF = 0, DISPATCH_ON = 1, ALLOW = 0, BLOCK = 1, THREADS_MAX = 64, WAKERS_MAX = 64 };

struct assay_guard_thread {
    _Alignas(64) volatile char selector; /* read by the kernel at every system call */
    bool trapping;
    volatile int *allocations_hot;       /* this thread's switch in libassay_guard.so */
    volatile uint64_t *allocations;
    uint64_t allocations_before;
    struct rusage before;
    _Atomic(uint64_t) sections, syscalls, last_syscall, allocated, minor, major, waits, unforced, preempted;
    _Atomic(uint32_t) used, took_part, seen;
};

_Atomic(uint32_t) assay_guard_window;
_Thread_local assay_guard_thread *assay_guard_mine;
_Thread_local uint32_t assay_guard_seen;
static assay_guard_thread threads[THREADS_MAX];
static struct {
    void (*wake)(void *context);
    void *context;
} wakers[WAKERS_MAX];
static pthread_mutex_t wakers_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sigaction previous;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Atomic(uint32_t) trapping_works, counting_works;

/* Make the trapped call on the thread's behalf on architectures with known registers; elsewhere it
 * returns ENOSYS. */
static void make_call(const siginfo_t *info, void *context) {
#if defined(__x86_64__)
    greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
    long result = syscall(info->si_syscall, r[REG_RDI], r[REG_RSI], r[REG_RDX], r[REG_R10],
                          r[REG_R8], r[REG_R9]);
    r[REG_RAX] = result == -1 ? -errno : result;
#else
    (void)info;
    (void)context;
#endif
}

/* A system call in a hot section: count it, and let this and the later ones of the section pass. */
static void on_sigsys(int signal, siginfo_t *info, void *context) {
    assay_guard_thread *me = assay_guard_mine;
    if (me != NULL && me->selector == BLOCK) {
        me->selector = ALLOW;
        atomic_fetch_add_explicit(&me->syscalls, 1, memory_order_relaxed);
        atomic_store_explicit(&me->last_syscall, (uint64_t)info->si_syscall, memory_order_relaxed);
        make_call(info, context);
        return;
    }
    if (previous.sa_flags & SA_SIGINFO)
        previous.sa_sigaction(signal, info, context);
    else if (previous.sa_handler != SIG_IGN && previous.sa_handler != SIG_DFL)
        previous.sa_handler(signal);
}

static void install(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_sigsys;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigaction(SIGSYS, &action, &previous);
}

static void watch_allocations(assay_guard_thread *me) {
    volatile int *(*hot)(void);
    volatile uint64_t *(*counter)(void);
    *(void **)&hot = dlsym(RTLD_DEFAULT, "assay_preload_hot");
    *(void **)&counter = dlsym(RTLD_DEFAULT, "assay_preload_count");
    me->allocations_hot = hot != NULL ? hot() : NULL;
    me->allocations = counter != NULL ? counter() : NULL;
    if (hot != NULL) atomic_store(&counting_works, 1);
}

void assay_guard_thread_enter(void) {
    pthread_once(&once, install);
    assay_guard_seen = atomic_load(&assay_guard_window) & ~1u;
    for (int i = 0; i < THREADS_MAX && assay_guard_mine == NULL; i++) {
        uint32_t unused = 0;
        if (atomic_compare_exchange_strong(&threads[i].used, &unused, 1))
            assay_guard_mine = &threads[i];
    }
    if (assay_guard_mine == NULL) return;
    atomic_store(&assay_guard_mine->took_part, 0);
    atomic_store(&assay_guard_mine->seen, assay_guard_seen);
    watch_allocations(assay_guard_mine);
}

static void leave_window(assay_guard_thread *me) {
    struct rusage now;
    if (me->trapping) prctl(PR_SET_SYSCALL_USER_DISPATCH, DISPATCH_OFF, 0, 0, 0);
    me->trapping = false;
    getrusage(RUSAGE_THREAD, &now);
    atomic_store(&me->minor, (uint64_t)(now.ru_minflt - me->before.ru_minflt));
    atomic_store(&me->major, (uint64_t)(now.ru_majflt - me->before.ru_majflt));
    atomic_store(&me->preempted, (uint64_t)(now.ru_nivcsw - me->before.ru_nivcsw));
}

static void enter_window(assay_guard_thread *me) {
    atomic_store(&me->sections, 0);
    atomic_store(&me->syscalls, 0);
    atomic_store(&me->allocated, 0);
    atomic_store(&me->minor, 0);
    atomic_store(&me->major, 0);
    atomic_store(&me->waits, 0);
    atomic_store(&me->unforced, 0);
    atomic_store(&me->preempted, 0);
    atomic_store(&me->took_part, 1);
    me->selector = ALLOW;
    me->trapping = prctl(PR_SET_SYSCALL_USER_DISPATCH, DISPATCH_ON, 0, 0, &me->selector) == 0;
    if (me->trapping) atomic_store(&trapping_works, 1);
    getrusage(RUSAGE_THREAD, &me->before);
}

void assay_guard_thread_leave(void) {
    assay_guard_thread *me = assay_guard_mine;
    if (me == NULL) return;
    if (assay_guard_seen & 1u) leave_window(me);
    assay_guard_mine = NULL;
    atomic_store(&me->used, 0);
}

static void follow_window(assay_guard_thread *me, uint32_t window) {
    if (assay_guard_seen & 1u) leave_window(me);
    assay_guard_seen = window;
    if (window & 1u) enter_window(me);
    atomic_store(&me->seen, window);
}

void assay_guard_follow(void) {
    assay_guard_thread *me = assay_guard_mine;
    uint32_t window = atomic_load_explicit(&assay_guard_window, memory_order_acquire);
    if (me != NULL && window != assay_guard_seen) follow_window(me, window);
}

void assay_guard_hot_begin_slow(void) {
    assay_guard_thread *me = assay_guard_mine;
    uint32_t window = atomic_load_explicit(&assay_guard_window, memory_order_acquire);
    if (me == NULL) {
        assay_guard_seen = window & ~1u;
        return;
    }
    if (window != assay_guard_seen) follow_window(me, window);
    if (!(window & 1u)) return;
    if (me->allocations_hot != NULL) {
        me->allocations_before = *me->allocations;
        *me->allocations_hot = 1;
    }
    atomic_signal_fence(memory_order_seq_cst);
    if (me->trapping) me->selector = BLOCK;
}

void assay_guard_hot_end_slow(void) {
    assay_guard_thread *me = assay_guard_mine;
    if (me == NULL) return;
    me->selector = ALLOW;
    atomic_signal_fence(memory_order_seq_cst);
    if (me->allocations_hot != NULL) {
        *me->allocations_hot = 0;
        uint64_t n = *me->allocations - me->allocations_before;
        if (n) atomic_fetch_add_explicit(&me->allocated, n, memory_order_relaxed);
    }
    atomic_fetch_add_explicit(&me->sections, 1, memory_order_relaxed);
}

void assay_guard_wait_slow(uint32_t forced) {
    assay_guard_thread *me = assay_guard_mine;
    if (me == NULL) return;
    atomic_fetch_add_explicit(&me->waits, 1, memory_order_relaxed);
    if (!forced) atomic_fetch_add_explicit(&me->unforced, 1, memory_order_relaxed);
}

bool assay_guard_wake_by(void (*wake)(void *context), void *context) {
    bool found = false;
    pthread_mutex_lock(&wakers_lock);
    for (int i = 0; i < WAKERS_MAX && !found; i++) {
        if (wakers[i].wake != NULL) continue;
        wakers[i].wake = wake;
        wakers[i].context = context;
        found = true;
    }
    pthread_mutex_unlock(&wakers_lock);
    return found;
}

void assay_guard_forget(const void *context) {
    pthread_mutex_lock(&wakers_lock);
    for (int i = 0; i < WAKERS_MAX; i++)
        if (wakers[i].wake != NULL && wakers[i].context == context) wakers[i].wake = NULL;
    pthread_mutex_unlock(&wakers_lock);
}

/* Move the window, unless another thread has, and wake sleeping threads. */
static void move_window(uint32_t armed) {
    pthread_mutex_lock(&wakers_lock);
    if ((atomic_load(&assay_guard_window) & 1u) != armed) atomic_fetch_add(&assay_guard_window, 1);
    for (int i = 0; i < WAKERS_MAX; i++)
        if (wakers[i].wake != NULL) wakers[i].wake(wakers[i].context);
    pthread_mutex_unlock(&wakers_lock);
}

void assay_guard_arm(void) { move_window(1); }

void assay_guard_disarm(void) { move_window(0); }

void assay_guard_read(assay_guard_report *out) {
    memset(out, 0, sizeof *out);
    for (int i = 0; i < THREADS_MAX; i++) {
        assay_guard_thread *t = &threads[i];
        if (atomic_load(&t->used) && atomic_load(&t->seen) != atomic_load(&assay_guard_window))
            out->unsettled++;
        if (!atomic_load(&t->took_part)) continue;
        out->threads++;
        out->sections += atomic_load(&t->sections);
        out->syscalls += atomic_load(&t->syscalls) + atomic_load(&t->waits);
        out->waits += atomic_load(&t->waits);
        out->waits_unforced += atomic_load(&t->unforced);
        out->preempted += atomic_load(&t->preempted);
        if (atomic_load(&t->syscalls)) out->last_syscall = atomic_load(&t->last_syscall);
        out->allocations += atomic_load(&t->allocated);
        out->faults_minor += atomic_load(&t->minor);
        out->faults_major += atomic_load(&t->major);
    }
    out->traps_syscalls = atomic_load(&trapping_works);
    out->counts_allocations = atomic_load(&counting_works);
}
