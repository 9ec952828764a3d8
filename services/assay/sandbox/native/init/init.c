/* Pid 1 of a box as a program of its own, of a few pages and without a C library.
 *
 * The process that sets a box up is a fork of the interpreter. Once the program has begun in the
 * memory that it has, pid 1 executes this and leaves that memory to the program: the interpreter is
 * forked once per run, and taken apart once. Of its privileges over the box it has kept one, which
 * protects it from the program.
 * Without arguments it ends: the zygote tries so whether the host lets it execute this.
 */
#define _GNU_SOURCE
#include "../parts.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- what `await.c` needs of a C library ------------------------------------------------------- */

#ifndef __GLIBC__
#define __rusage_who_t int
#endif

static int last_error;

int *__errno_location(void) { return &last_error; }

static long asked(long number, long one, long two, long three, long four, long five) {
    register long r10 __asm__("r10") = four;
    register long r8 __asm__("r8") = five;
    long result = number;
    __asm__ volatile("syscall"
                     : "+a"(result)
                     : "D"(one), "S"(two), "d"(three), "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
    if (result < 0) {
        last_error = (int)-result;
        result = -1;
    }
    return result;
}

ssize_t read(int file, void *at, size_t size) { return asked(SYS_read, file, (long)at, (long)size, 0, 0); }

ssize_t write(int file, const void *at, size_t size) {
    return asked(SYS_write, file, (long)at, (long)size, 0, 0);
}

ssize_t pread(int file, void *at, size_t size, off_t from) {
    return asked(SYS_pread64, file, (long)at, (long)size, from, 0);
}

int open(const char *path, int flags, ...) {
    return (int)asked(SYS_openat, AT_FDCWD, (long)path, flags, 0, 0);
}

int close(int file) { return (int)asked(SYS_close, file, 0, 0, 0, 0); }

ssize_t sendmsg(int channel, const struct msghdr *message, int flags) {
    return asked(SYS_sendmsg, channel, (long)message, flags, 0, 0);
}

int waitid(idtype_t kind, id_t which, siginfo_t *found, int options) {
    return (int)asked(SYS_waitid, kind, (long)which, (long)found, options, 0);
}

pid_t waitpid(pid_t which, int *status, int options) {
    return (pid_t)asked(SYS_wait4, which, (long)status, options, 0, 0);
}

int getrusage(__rusage_who_t whose, struct rusage *used) {
    return (int)asked(SYS_getrusage, whose, (long)used, 0, 0, 0);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    return (int)asked(SYS_clock_gettime, clock, (long)now, 0, 0, 0);
}

/* A fork: of these few pages that costs no more, and it may return. */
pid_t vfork(void) { return (pid_t)asked(SYS_clone, SIGCHLD, 0, 0, 0, 0); }

_Noreturn void _exit(int code) {
    for (;;) {
        asked(SYS_exit_group, code, 0, 0, 0, 0);
    }
}

void *memcpy(void *restrict to, const void *restrict from, size_t size) {
    for (size_t at = 0; at < size; at++) {
        ((char *)to)[at] = ((const char *)from)[at];
    }
    return to;
}

void *memset(void *at, int byte, size_t size) {
    for (size_t end = 0; end < size; end++) {
        ((char *)at)[end] = (char)byte;
    }
    return at;
}

size_t strlen(const char *text) {
    size_t length = 0;
    while (text[length]) {
        length++;
    }
    return length;
}

char *strchr(const char *text, int byte) {
    for (; *text != (char)byte; text++) {
        if (*text == 0) {
            return NULL;
        }
    }
    return (char *)text;
}

size_t strspn(const char *text, const char *wanted) {
    size_t length = 0;
    while (text[length] && strchr(wanted, text[length])) {
        length++;
    }
    return length;
}

size_t strcspn(const char *text, const char *ending) {
    size_t length = 0;
    while (text[length] && !strchr(ending, text[length])) {
        length++;
    }
    return length;
}

/* ---- pid 1 --------------------------------------------------------------------------------------- */

_Noreturn void fail(int channel, const char *call) {
    struct line line = {.length = 0};
    add_text(&line, "failed ");
    add_text(&line, call);
    add_text(&line, ": error ");
    add_number(&line, errno);
    send_message(channel, line.text, NULL, 0);
    _exit(1);
}

/* `words`: their number, then the program's name, and the numbers of `start_apart`. */
__attribute__((used)) _Noreturn static void be_pid_1(long *words) {
    int numbers[INIT_NUMBERS];
    if (words[0] != INIT_NUMBERS + 1) {
        _exit(0);
    }
    for (int at = 0; at < INIT_NUMBERS; at++) {
        numbers[at] = (int)number_in((const char *)words[2 + at], 0);
    }
    int channel = numbers[0], reader = numbers[1], load = numbers[2], go = numbers[3];
    /* Execution made it visible to processes of its user; the program waits until it is not. */
    if (asked(SYS_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0) != 0 ||
        asked(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) {
        fail(channel, "prctl");
    }
    if (write(go, "g", 1) != 1) {
        fail(channel, "the program waits");
    }
    close(go);
    report_start(channel, reader);
    await_program(channel, PROGRAM_PID, load);
    _exit(0);
}

__asm__(".globl _start\n"
        "_start:\n\t"
        "xorl %ebp, %ebp\n\t"
        "movq %rsp, %rdi\n\t"
        "andq $-16, %rsp\n\t"
        "call be_pid_1\n");
