/* Leaves the job's identity for the central service, whole or not at all; no failure here holds up a job. */
#include "hook.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* The directory lies in memory (/run), so that no disk can hold up slurmctld; whoever others may write to is not it. */
static int open_spool(void)
{
    struct stat st;
    int dir = open(conf.spool, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir >= 0 && fstat(dir, &st) == 0 && (st.st_uid == geteuid() || st.st_uid == 0) && !(st.st_mode & S_IWOTH) &&
        has_room(dir, SPOOL_MAX))
        return dir;
    note("%s: %s not there, full or open to others, nothing is written", kind, conf.spool);
    if (dir >= 0)
        close(dir);
    return -1;
}

/* <seconds> NUL <variables, NUL-separated>; made under a hidden name and moved into place. */
void spool(void)
{
    char name[128], hidden[130], head[32];
    const char *job = number(getenv("SLURM_JOB_ID") ? "SLURM_JOB_ID" : "SLURM_JOBID");
    int dir = open_spool();
    if (dir < 0)
        return;
    collect();
    snprintf(name, sizeof name, "%s.%s.%s.%ld", kind, job, number("SLURM_JOB_RESTART_COUNT"), (long)getpid());
    snprintf(hidden, sizeof hidden, ".%s", name);
    int length = snprintf(head, sizeof head, "%lld", (long long)time(NULL)) + 1;
    int fd = openat(dir, hidden, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0640);
    bool whole = fd >= 0 && fchmod(fd, 0640) == 0 && write(fd, head, (size_t)length) == length &&
                 write(fd, body.text, body.length) == (ssize_t)body.length && renameat(dir, hidden, dir, name) == 0;
    if (!whole) {
        note("%s: not written: %s", name, strerror(errno));
        if (fd >= 0)
            unlinkat(dir, hidden, 0);
    }
}
