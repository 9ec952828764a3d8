/* The program in the memory of the process that set its box up, and pid 1 in a program of its own. */
#define _GNU_SOURCE
#include "box.h"
#include "parts.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#pragma weak __rseq_offset
#pragma weak __rseq_size
#endif

#ifndef PR_GET_TID_ADDRESS
#define PR_GET_TID_ADDRESS 40
#endif
#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC 4
#endif
#ifndef MFD_EXEC
#define MFD_EXEC 16
#endif
#define RSEQ_BYTES 32

static char *const no_variables[] = {NULL};

#if defined(__x86_64__) && defined(BOX_INIT)

__asm__(".section .rodata\n"
        "init_begin: .incbin \"" BOX_INIT "\"\n"
        "init_end:\n\t"
        ".text\n");
extern const char init_begin[], init_end[];

/* Create the program's process, which shares this memory and goes on at once, and execute `init`
 * here. In between this process writes no memory: the stack is the program's. Returns 0 in the
 * program's process, and -errno if there is none. */
__attribute__((noinline)) static long part(unsigned long flags, int *tid, int init,
                                           char *const *arguments) {
    register long r10 __asm__("r10") = (long)tid;
    register long r8 __asm__("r8") = 0;
    register long r12 __asm__("r12") = init;
    register const char *r13 __asm__("r13") = "";
    register char *const *r14 __asm__("r14") = arguments;
    register char *const *r15 __asm__("r15") = no_variables;
    long result = SYS_clone;
    __asm__ volatile("syscall\n\t"
                     "testq %%rax, %%rax\n\t"
                     "jle 1f\n\t"
                     "movl %[execveat], %%eax\n\t"
                     "movq %%r12, %%rdi\n\t"
                     "movq %%r13, %%rsi\n\t"
                     "movq %%r14, %%rdx\n\t"
                     "movq %%r15, %%r10\n\t"
                     "movl %[empty_path], %%r8d\n\t"
                     "syscall\n\t"
                     "movl %[exit_group], %%eax\n\t"
                     "movl $1, %%edi\n\t"
                     "syscall\n\t"
                     "hlt\n"
                     "1:"
                     : "+a"(result)
                     : "D"(flags), "S"(0L), "d"(0L), "r"(r10), "r"(r8), "r"(r12), "r"(r13), "r"(r14),
                       "r"(r15), [execveat] "i"(SYS_execveat), [empty_path] "i"(AT_EMPTY_PATH),
                       [exit_group] "i"(SYS_exit_group)
                     : "rcx", "r11", "memory");
    return result;
}

/* Put `init` into a file that nothing can change. */
static int init_file(void) {
    size_t size = (size_t)(init_end - init_begin);
    unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    char path[64];
    int written = memfd_create("assay-init", flags | MFD_EXEC);
    if (written < 0) {
        written = memfd_create("assay-init", flags); /* before Linux 6.3 */
    }
    if (written < 0) {
        return -1;
    }
    snprintf(path, sizeof path, "/proc/self/fd/%d", written);
    int init = -1;
    if (write(written, init_begin, size) == (ssize_t)size &&
        fcntl(written, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) == 0) {
        init = open(path, O_RDONLY | O_CLOEXEC); /* what is open for writing cannot be executed */
    }
    close(written);
    return init;
}

__attribute__((noinline)) static int is_executable(int init) {
    char *const nothing[] = {"assay-zygote", NULL};
    int status = -1;
    pid_t trial = vfork();
    if (trial == 0) {
        syscall(SYS_execveat, init, "", nothing, no_variables, AT_EMPTY_PATH);
        _exit(1);
    }
    while (trial > 0 && waitpid(trial, &status, 0) < 0 && errno == EINTR) {
    }
    return status == 0;
}

int assay_box_init(void) {
    int init = init_file();
    if (init >= 0 && !(is_executable(init) &&
                       syscall(SYS_close_range, 1U << 30, ~0U, CLOSE_RANGE_CLOEXEC) == 0)) {
        close(init);
        init = -1;
    }
    return init;
}

#else

static long part(unsigned long flags, int *tid, int init, char *const *arguments) {
    (void)flags, (void)tid, (void)init, (void)arguments, (void)no_variables;
    return -ENOSYS;
}

int assay_box_init(void) { return -1; }

#endif

/* Let one capability over the box's namespaces outlive the execution: the kernel lets a process change
 * priority and cores of another of its user only if that one has none that it lacks itself. */
static int keep_a_capability(void) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct sets[2];
    if (syscall(SYS_capget, &header, sets) != 0) {
        return -1;
    }
    sets[0].inheritable |= 1U << CAP_SYS_NICE;
    if (syscall(SYS_capset, &header, sets) != 0) {
        return -1;
    }
    return prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SYS_NICE, 0, 0);
}

long start_apart(int init, const int *numbers) {
    /* Not on the stack, which the program's process uses before the kernel has read them. */
    static char words[INIT_NUMBERS][16];
    static char *arguments[INIT_NUMBERS + 2] = {"assay-zygote"};
    int *tid = NULL;
    unsigned long flags = CLONE_VM | SIGCHLD;
    if (keep_a_capability() != 0 || syscall(SYS_close_range, 3, ~0U, CLOSE_RANGE_CLOEXEC) != 0) {
        return -errno;
    }
    for (int at = 0; at < INIT_NUMBERS; at++) {
        if (numbers[at] >= 0 && fcntl(numbers[at], F_SETFD, 0) != 0) {
            return -errno;
        }
        snprintf(words[at], sizeof words[at], "%d", numbers[at]);
        arguments[1 + at] = words[at];
    }
    if (prctl(PR_GET_TID_ADDRESS, &tid, 0, 0, 0) == 0 && tid != NULL) {
        flags |= CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID;
    }
    syscall(SYS_set_tid_address, NULL); /* or execution would clear the program's */
    return part(flags, tid, init, arguments);
}

int await_parting(int go) {
    char byte;
    ssize_t got;
    while ((got = read(go, &byte, 1)) < 0 && errno == EINTR) {
    }
    close(go);
#if defined(__x86_64__) && defined(RSEQ_SIG)
    /* As in any process of one thread; who shares memory with its parent has lost it. */
    if (&__rseq_size != NULL && __rseq_size > 0) {
        char *at = (char *)__builtin_thread_pointer() + __rseq_offset;
        syscall(SYS_rseq, at, RSEQ_BYTES, 0, RSEQ_SIG);
    }
#endif
    return got == 1 && getpid() == PROGRAM_PID ? 0 : -1;
}
