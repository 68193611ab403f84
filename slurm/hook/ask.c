/* One request over the unix socket and one whole, well-formed answer, within the one deadline. */
#include "hook.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Connected socket or -1 with the cause; a restarting agent is waited for, a full backlog until the deadline. */
static int reach(enum outcome *why)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int64_t give_up = -1;
    *why = NO_AGENT;
    if (!conf.socket[0] || strlen(conf.socket) >= sizeof to.sun_path)
        return -1;
    strcpy(to.sun_path, conf.socket);
    for (int wait = 2;; wait = wait < 64 ? wait * 2 : 100) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (fd < 0)
            return -1;
        if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
            return fd;
        int error = errno;
        close(fd);
        *why = error == ECONNREFUSED ? REFUSED : error == EAGAIN ? DEADLINE : NO_AGENT;
        if (error == ENOENT || error == ECONNREFUSED) {
            if (give_up < 0)
                give_up = now_ms() + (int64_t)(conf.restart_retry_s * 1000);
            if (now_ms() >= give_up)
                return -1;
        } else if (error == EAGAIN || error == EINTR) {
            give_up = -1;
        } else {
            return -1;
        }
        if (!pause_ms(wait))
            return -1;
    }
}

/* Whoever owns the socket decides about jobs: only root, or the account this hook runs under. */
static bool trusted(int fd)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && (peer.uid == 0 || peer.uid == geteuid());
}

static enum outcome send_all(int fd, const char *data, size_t length)
{
    while (length > 0) {
        if (!ready(fd, POLLOUT))
            return DEADLINE;
        ssize_t n = send(fd, data, length, MSG_NOSIGNAL);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (n <= 0)
            return UNHEARD;
        data += n;
        length -= (size_t)n;
    }
    return ANSWERED;
}

/* True where the header is one of ours: status 200, Nodevet-Exit 0 or 1 and Content-Length, each exactly once. */
static bool read_header(struct answer *a)
{
    char *end = a->text + a->body - 2;
    int exits = 0, lengths = 0;
    if (memchr(a->text, '\0', a->body) || strncmp(a->text + 8, " 200", 4) != 0 ||
        (a->text[12] != ' ' && a->text[12] != '\r'))
        return false;
    for (char *line = a->text, *next; line < end; line = next) {
        next = (char *)memmem(line, (size_t)(end + 2 - line), "\r\n", 2) + 2;
        next[-2] = '\0';
        if (strncasecmp(line, "Nodevet-Exit:", 13) == 0) {
            const char *value = trim(line + 13);
            a->exit = value[0] == '1';
            exits += (value[0] == '0' || value[0] == '1') && !value[1] ? 1 : 2;
        } else if (strncasecmp(line, "Content-Length:", 15) == 0) {
            const char *value = trim(line + 15);
            size_t digits = strspn(value, "0123456789");
            a->need = digits > 3 || atoi(value) > LINE_BYTES ? LINE_BYTES : (size_t)atoi(value);
            lengths += digits > 0 && !value[digits] ? 1 : 2;
        }
    }
    return exits == 1 && lengths == 1;
}

static enum outcome judge(struct answer *a)
{
    if (memcmp(a->text, "HTTP/1.", a->have < 7 ? a->have : 7) != 0)
        return BAD_ANSWER;
    if (!a->body) {
        const char *end = memmem(a->text, a->have, "\r\n\r\n", 4);
        if (!end)
            return a->have >= HEADER_MAX ? BAD_ANSWER : MORE;
        a->body = (size_t)(end - a->text) + 4;
        if (!a->probe && (a->body > HEADER_MAX || !read_header(a)))
            return BAD_ANSWER;
    }
    return a->probe || a->have - a->body >= a->need ? ANSWERED : MORE;
}

static enum outcome receive(int fd, struct answer *a)
{
    for (;;) {
        if (!ready(fd, POLLIN))
            return DEADLINE;
        ssize_t n = recv(fd, a->text + a->have, sizeof a->text - a->have, 0);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (n <= 0)
            return n < 0 && a->have == 0 ? UNHEARD : LOST;
        a->have += (size_t)n;
        enum outcome outcome = judge(a);
        if (outcome != MORE)
            return outcome;
    }
}

static enum outcome ask_once(struct answer *a)
{
    char header[512];
    enum outcome outcome;
    int fd = reach(&outcome);
    if (fd < 0)
        return outcome;
    if (!trusted(fd)) {
        close(fd);
        return BAD_PEER;
    }
    int length = snprintf(header, sizeof header,
                          "%s /v1/%s HTTP/1.1\r\nHost: nodevet\r\nConnection: close\r\nContent-Length: %zu\r\n"
                          "Nodevet-Remaining: %.3f\r\n%s\r\n",
                          a->probe ? "GET" : "POST", a->probe ? "status" : kind, body.length, left_ms() / 1000.0,
                          body.truncated ? "Nodevet-Truncated: 1\r\n" : "");
    a->have = a->body = a->need = 0;
    outcome = send_all(fd, header, (size_t)length);
    if (outcome == ANSWERED)
        outcome = send_all(fd, body.text, body.length);
    if (outcome == ANSWERED)
        outcome = receive(fd, a);
    close(fd);
    return outcome;
}

/* A request lost midway is repeated once: the agent knows the attempt and hook and answers it only once. One that
 * was reset before it was read whole (the backlog of an agent that just died) is tried again like a restart. */
enum outcome ask(struct answer *a)
{
    int64_t give_up = -1;
    bool repeated = false;
    for (;;) {
        enum outcome outcome = ask_once(a);
        if (outcome == UNHEARD) {
            if (give_up < 0)
                give_up = now_ms() + (int64_t)(conf.restart_retry_s * 1000);
            if (now_ms() >= give_up || !pause_ms(20))
                return LOST;
        } else if (outcome == LOST && !repeated) {
            repeated = true;
        } else {
            return outcome;
        }
    }
}
