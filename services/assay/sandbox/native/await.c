/* What pid 1 of a box does once the program has its process: report its beginning and its end.
 *
 * Built twice: into the library, with the C library, and into `init/init.c`, without one. So it uses
 * system calls and `mem...` and `str...` only.
 */
#define _GNU_SOURCE
#include "parts.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ALONE_NS 2000000 /* CPU time of other tasks from which they are known to exist */

/* ---- lines of words and numbers --------------------------------------------------------------- */

void add_text(struct line *line, const char *text) {
    size_t length = strlen(text), room = sizeof line->text - 1 - line->length;
    length = length < room ? length : room;
    memcpy(line->text + line->length, text, length);
    line->length += length;
    line->text[line->length] = 0;
}

void add_number(struct line *line, int64_t number) {
    char digits[24];
    size_t at = sizeof digits - 1;
    uint64_t left = number < 0 ? -(uint64_t)number : (uint64_t)number;
    digits[at] = 0;
    do {
        digits[--at] = (char)('0' + left % 10);
        left /= 10;
    } while (left > 0);
    if (number < 0) {
        digits[--at] = '-';
    }
    add_text(line, digits + at);
}

/* The number at the beginning of the word after `skipped` others; -1 if there is none. */
int64_t number_in(const char *text, int skipped) {
    for (; skipped > 0; skipped--) {
        text += strcspn(text, " \n");
        text += strspn(text, " \n");
    }
    int64_t number = *text >= '0' && *text <= '9' ? 0 : -1;
    for (; *text >= '0' && *text <= '9'; text++) {
        number = number * 10 + (*text - '0');
    }
    return number;
}

/* ---- reports and counters ---------------------------------------------------------------------- */

void send_message(int channel, const char *text, const int *descriptors, int count) {
    struct iovec part = {(void *)text, strlen(text)};
    char control[CMSG_SPACE(4 * sizeof(int))];
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (count > 0) {
        memset(control, 0, sizeof control);
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
        memcpy(CMSG_DATA(head), descriptors, (size_t)count * sizeof(int));
    }
    while (sendmsg(channel, &message, MSG_NOSIGNAL) < 0 && errno == EINTR) {
    }
}

int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* The kernel's counters of the main thread of a process; zeros if it does not report them. */
struct reading reading_of(const char *process) {
    struct line path = {.length = 0};
    char text[128];
    add_text(&path, "/proc/");
    add_text(&path, process);
    add_text(&path, "/schedstat");
    int file = open(path.text, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return (struct reading){0, 0};
    }
    ssize_t got = read(file, text, sizeof text - 1);
    close(file);
    text[got > 0 ? got : 0] = 0;
    struct reading found = {number_in(text, 0), number_in(text, 1)};
    return found.ran_ns < 0 || found.delayed_ns < 0 ? (struct reading){0, 0} : found;
}

static int64_t ns_of(struct timeval time) {
    return ((int64_t)time.tv_sec * 1000000 + time.tv_usec) * 1000;
}

/* ---- the program's tasks ------------------------------------------------------------------------ */

/* The task that was last started in this pid namespace, by the file that `open_load` opened; 0 if
 * unknown. Its fifth word is of the namespace of the process that reads it. */
static int64_t last_task(int load) {
    char text[128];
    ssize_t got = load < 0 ? -1 : pread(load, text, sizeof text - 1, 0);
    if (got <= 0) {
        return 0;
    }
    text[got] = 0;
    int64_t last = number_in(text, 4);
    return last > 0 ? last : 0;
}

/* Whether tasks were started after the program: the kernel numbers those of a pid namespace one
 * after the other. A task that only slept shows in no other counter. */
static int has_started_tasks(pid_t program, int load) {
    int64_t last = last_task(load);
    if (last > 0) {
        return last != program;
    }
    pid_t next = vfork(); /* a fork would copy the page tables */
    if (next == 0) {
        _exit(0);
    }
    if (next < 0) {
        return 1;
    }
    while (waitpid(next, NULL, 0) < 0 && errno == EINTR) {
    }
    return next != program + 1;
}

static void report_end(int channel, pid_t program, int status, int64_t at_ns, struct reading booked,
                       int load) {
    struct rusage used;
    struct line line = {.length = 0};
    getrusage(RUSAGE_CHILDREN, &used);
    int64_t cpu_ns = ns_of(used.ru_utime) + ns_of(used.ru_stime);
    int is_alone = cpu_ns - booked.ran_ns < ALONE_NS && !has_started_tasks(program, load);
    int64_t words[] = {status,        cpu_ns / 1000,     (int64_t)used.ru_maxrss * 1024, at_ns,
                       booked.ran_ns, booked.delayed_ns, 0,                              is_alone};
    add_text(&line, "ended");
    for (size_t at = 0; at < sizeof words / sizeof *words; at++) {
        add_text(&line, " ");
        add_number(&line, words[at]);
    }
    send_message(channel, line.text, NULL, 0);
}

/* Reap all children until the program has ended, and report its end. */
void await_program(int channel, pid_t program, int load) {
    struct line name = {.length = 0};
    add_number(&name, program);
    for (;;) {
        siginfo_t ending;
        int status = 0;
        memset(&ending, 0, sizeof ending);
        int64_t delayed_ns = reading_of("self").delayed_ns;
        if (waitid(P_ALL, 0, &ending, WEXITED | WNOWAIT) != 0) {
            if (errno == EINTR) {
                continue;
            }
            fail(channel, "waitid");
        }
        if (ending.si_pid != program) {
            waitpid(ending.si_pid, NULL, 0);
            continue;
        }
        int64_t at_ns = now_ns() - (reading_of("self").delayed_ns - delayed_ns);
        struct reading booked = reading_of(name.text);
        waitpid(program, &status, 0);
        report_end(channel, program, status, at_ns, booked, load);
        return;
    }
}

/* Read what the program's process says until it closes the pipe, and report its beginning. */
void report_start(int channel, int reader) {
    char said[MESSAGE_BYTES];
    struct line line = {.length = 0};
    size_t length = 0;
    ssize_t got;
    while (length < sizeof said - 1 &&
           ((got = read(reader, said + length, sizeof said - 1 - length)) > 0 ||
            (got < 0 && errno == EINTR))) {
        length += got > 0 ? (size_t)got : 0;
    }
    close(reader);
    said[length] = 0;
    char *line_end = strchr(said, '\n');
    if (line_end == NULL || line_end[1] != 0) {
        const char *why = line_end ? line_end + 1 : said;
        add_text(&line, "failed ");
        add_text(&line, *why ? why : "the program did not begin");
        send_message(channel, line.text, NULL, 0);
        _exit(1);
    }
    *line_end = 0;
    int directory = open("/box", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) {
        fail(channel, "/box");
    }
    add_text(&line, "started ");
    add_text(&line, said);
    send_message(channel, line.text, &directory, 1);
    close(directory);
}
