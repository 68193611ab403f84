/* Tells Slurm the agent's line, and leaves a mark for the agent where it could not be asked. */
#include "hook.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

const char *const CAUSE[] = {"answered", "no_agent", "refused", "deadline", "lost", "bad_answer", "bad_peer", "stop", "args"};

/* Prints the agent's line behind `begin`, which has at most 15 bytes. */
void say(const struct answer *a, const char *begin)
{
    char whole[16 + LINE_BYTES + 1], *line = stpcpy(whole, begin);
    size_t length = 0, end = a->body + a->need;
    for (size_t i = a->body; i < end; i++) {
        unsigned char c = (unsigned char)a->text[i], next = i + 1 < end ? (unsigned char)a->text[i + 1] : 0;
        if (c == 0xC2 && next >= 0x80 && next <= 0x9F) { /* the control characters above 127 */
            line[length++] = ' ';
            i++;
        } else {
            line[length++] = c < ' ' || c == 127 ? ' ' : (char)c;
        }
    }
    while (length > 0 && line[length - 1] == ' ')
        length--;
    if (a->need == LINE_BYTES) /* a character that the cut went through */
        while (length > 0 && (line[length - 1] & 0x80))
            if ((line[--length] & 0xC0) == 0xC0)
                break;
    if (length == 0)
        return;
    line[length++] = '\n';
    length += (size_t)(line - whole);
    if (write(STDOUT_FILENO, whole, length) < 0)
        note("line not printed: %s", strerror(errno));
}

/* The variable's value where it is a plain number, else "0": it becomes part of a file name. */
const char *number(const char *name)
{
    const char *value = getenv(name);
    size_t digits = value ? strspn(value, "0123456789") : 0;
    return digits > 0 && digits <= 20 && !value[digits] ? value : "0";
}

bool has_room(int dir, int most)
{
    char entries[4096] __attribute__((aligned(8)));
    int count = 0;
    for (ssize_t n; (n = getdents64(dir, entries, sizeof entries)) != 0;) {
        if (n < 0)
            return false;
        for (ssize_t at = 0; at < n; at += ((struct dirent64 *)(entries + at))->d_reclen)
            if (++count >= most + 2) /* "." and ".." */
                return false;
    }
    return true;
}

/* Leaves <kind>.<job>.<restart>.<pid> for the agent to report later; no failure here changes anything. */
void leave_mark(enum outcome why)
{
    char name[128], line[64];
    struct stat st;
    const char *job = number(getenv("SLURM_JOB_ID") ? "SLURM_JOB_ID" : "SLURM_JOBID");
    note("%s: %s, exit 0", kind, CAUSE[why]);
    mkdir(conf.marks, 0700);
    int dir = open(conf.marks, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0 || fstat(dir, &st) != 0 || st.st_uid != geteuid() || st.st_mode & S_IWOTH || !has_room(dir, MARKS_MAX))
        return;
    snprintf(name, sizeof name, "%s.%s.%s.%ld", kind, job, number("SLURM_JOB_RESTART_COUNT"), (long)getpid());
    int length = snprintf(line, sizeof line, "%lld %s\n", (long long)time(NULL), CAUSE[why]);
    int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, line, (size_t)length) != length)
        note("mark not written: %s", strerror(errno));
}
