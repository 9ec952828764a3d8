/* The zygote's own work: boxes are forked on demand, handed over, and reaped. */
#define _GNU_SOURCE
#include "box.h"
#include "parts.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define NETWORKS_KEPT_MAX 16
#define BOXES_MAX 4096 /* alive at once; a launcher has one per run and one in reserve */

/* A box that lives. `network` is the namespace that it borrowed. */
struct forked {
    pid_t pid;
    int pidfd, network;
};

/* Network namespaces without interfaces, which belong to the zygote; a box borrows one.
 *
 * To create and remove one takes more time than all other namespaces of a box together. One serves
 * again only when its box is dead and the kernel counts no socket in it: a program can change
 * nothing else there, as it has no rights over it. */
struct state {
    struct forked boxes[BOXES_MAX];
    struct pollfd polled[BOXES_MAX + 1]; /* the control socket, then each box's pidfd */
    int count;
    int free_networks[NETWORKS_KEPT_MAX];
    int free_count;
};

int assay_box_abi(void) { return BOX_ABI; }

static int write_file(const char *path, const char *text) {
    int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file < 0) {
        return -1;
    }
    ssize_t written = write(file, text, strlen(text));
    close(file);
    return written < 0 ? -1 : 0;
}

static int map_user(const struct box_zygote *zygote, int pid) {
    char path[64], map[64];
    snprintf(path, sizeof path, "/proc/%d/setgroups", pid);
    snprintf(map, sizeof map, "%d %d 1", zygote->user, zygote->outside);
    if (write_file(path, "deny") != 0) {
        return -1;
    }
    snprintf(path, sizeof path, "/proc/%d/uid_map", pid);
    if (write_file(path, map) != 0) {
        return -1;
    }
    snprintf(path, sizeof path, "/proc/%d/gid_map", pid);
    return write_file(path, map);
}

static int failed(struct box_result *result, const char *call) {
    int code = errno;
    snprintf(result->failure, sizeof result->failure, "%s", call);
    return code ? -code : -EIO;
}

/* ---- network namespaces ---------------------------------------------------------------------- */

/* Come back from another network namespace; elsewhere the zygote could not go on. */
static void go_home(const struct box_zygote *zygote) {
    if (setns(zygote->home, CLONE_NEWNET) != 0) {
        abort();
    }
}

/* A descriptor of a namespace that no one uses, or -1. */
static int take_network(const struct box_zygote *zygote, struct state *state) {
    if (state->free_count > 0) {
        return state->free_networks[--state->free_count];
    }
    if (unshare(CLONE_NEWNET) != 0) {
        return -1;
    }
    int network = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    int code = errno;
    go_home(zygote);
    errno = code;
    return network;
}

/* Whether no socket of any kind exists in a network namespace, by the kernel's own count. */
static int is_unused(const struct box_zygote *zygote, int network) {
    char text[512];
    int used = -1;
    if (setns(network, CLONE_NEWNET) != 0) {
        return 0;
    }
    int file = open("/proc/self/net/sockstat", O_RDONLY | O_CLOEXEC);
    ssize_t got = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (file >= 0) {
        close(file);
    }
    go_home(zygote);
    if (got <= 0) {
        return 0;
    }
    text[got] = 0;
    return sscanf(text, "sockets: used %d", &used) == 1 && used == 0;
}

/* Keep the namespace of a dead box for the next one, if nothing is left in it. */
static void give_back_network(const struct box_zygote *zygote, struct state *state, int network) {
    if (state->free_count < NETWORKS_KEPT_MAX && is_unused(zygote, network)) {
        state->free_networks[state->free_count++] = network;
    } else {
        close(network);
    }
}

/* ---- boxes ----------------------------------------------------------------------------------- */

/* In the new box: close what belongs to the zygote, and be pid 1. */
static int begin_box(const struct box_zygote *zygote, struct state *state, int channel,
                     struct box_result *result) {
    close(zygote->control);
    close(zygote->home);
    for (int at = 0; at < state->count; at++) {
        close(state->boxes[at].pidfd);
        close(state->boxes[at].network);
    }
    for (int at = 0; at < state->free_count; at++) {
        close(state->free_networks[at]);
    }
    /* No process of the host may be named in a program's memory. */
    munmap(state, sizeof *state);
    int role = be_box(zygote, channel, result);
    if (role == ROLE_END) {
        _exit(0);
    }
    return role;
}

/* Hand a new box to the launcher, once its user is mapped. Returns 0 or -errno. */
static int hand_over(const struct box_zygote *zygote, struct state *state, struct forked box, int ours,
                     struct box_result *result) {
    state->polled[1 + state->count] = (struct pollfd){.fd = box.pidfd, .events = POLLIN};
    state->boxes[state->count++] = box;
    if (map_user(zygote, (int)box.pid) != 0) {
        return failed(result, "map of the user");
    }
    int handed[2] = {box.pidfd, ours};
    struct line pid = {.length = 0};
    add_number(&pid, box.pid);
    send_message(ours, "m", NULL, 0);
    send_message(zygote->control, pid.text, handed, 2);
    return 0;
}

/* Fork a box. Returns `ROLE_ZYGOTE` or -errno in the zygote, its role in a box. */
static int fork_box(const struct box_zygote *zygote, struct state *state, struct box_result *result) {
    int ends[2], pidfd = -1, network = -1;
    if (state->count == BOXES_MAX) {
        errno = EAGAIN;
        return failed(result, "boxes alive at once");
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        return failed(result, "socketpair");
    }
    /* Entered only now: the sockets above belong to the zygote's own network. */
    if ((network = take_network(zygote, state)) < 0 || setns(network, CLONE_NEWNET) != 0) {
        return failed(result, "network namespace");
    }
    long pid = raw_clone(zygote->flags | CLONE_PIDFD, &pidfd);
    if (pid == 0) {
        close(ends[0]);
        close(network);
        return begin_box(zygote, state, ends[1], result);
    }
    int cloned = errno;
    go_home(zygote);
    close(ends[1]);
    if (pid < 0) {
        errno = cloned;
        return failed(result, "clone");
    }
    struct forked box = {.pid = (pid_t)pid, .pidfd = pidfd, .network = network};
    int code = hand_over(zygote, state, box, ends[0], result);
    close(ends[0]);
    return code;
}

/* Reap the boxes that are dead. */
static void reap(const struct box_zygote *zygote, struct state *state) {
    for (int at = state->count - 1; at >= 0; at--) {
        if (state->polled[1 + at].revents == 0) {
            continue;
        }
        struct forked dead = state->boxes[at];
        while (waitpid(dead.pid, NULL, 0) < 0 && errno == EINTR) {
        }
        close(dead.pidfd);
        give_back_network(zygote, state, dead.network);
        state->count--;
        state->boxes[at] = state->boxes[state->count];
        state->polled[1 + at] = state->polled[1 + state->count];
    }
}

/* Whether the launcher asks for a box; not if it has closed its end. */
static int is_asked(const struct box_zygote *zygote) {
    char byte;
    ssize_t got;
    while ((got = recv(zygote->control, &byte, 1, 0)) < 0 && errno == EINTR) {
    }
    return got > 0;
}

int assay_box_serve(const struct box_zygote *zygote, struct box_result *result) {
    /* Not in the heap: after a fork it would be copied, and the huge page that has it taken apart. */
    struct state *state = mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (state == MAP_FAILED) {
        return failed(result, "mmap");
    }
    state->polled[0] = (struct pollfd){.fd = zygote->control, .events = POLLIN};
    int role = ROLE_ZYGOTE;
    while (role == ROLE_ZYGOTE) {
        if (poll(state->polled, (nfds_t)state->count + 1, -1) < 0) {
            if (errno == EINTR) {
                continue;
            }
            role = failed(result, "poll");
            break;
        }
        int asked = state->polled[0].revents != 0;
        reap(zygote, state);
        if (asked) {
            if (!is_asked(zygote)) {
                break;
            }
            role = fork_box(zygote, state, result);
        }
    }
    return role;
}
