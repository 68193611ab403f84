/* Reads hook.conf over compiled-in defaults; a file others could have written is not taken. */
#include "hook.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct conf conf = {.socket = "/run/nodevet/agent.sock.hook",
                    .marks = "/run/nodevet/marks",
                    .spool = "/run/nodevet-jobs",
                    .stop_file = "/etc/nodevet/STOP",
                    .deadline_s = 8.0,
                    .restart_retry_s = 1.5,
                    .origin = "compiled-in defaults"};

/* The node's name where it may stand in a path, else NULL. */
static const char *node_name(void)
{
    const char *name = getenv("SLURMD_NODENAME");
    if (!name || !*name || strlen(name) > 128 || strstr(name, "..") || strcmp(name, ".") == 0)
        return NULL;
    for (const char *c = name; *c; c++)
        if (*c == '/' || (unsigned char)*c <= ' ' || *c == 127)
            return NULL;
    return name;
}

/* Puts the node's name in the place of %n; a path that cannot be made becomes empty: nothing is there. */
static void expand(const char *key, char *path)
{
    char whole[PATH_BYTES];
    size_t length = 0;
    for (const char *c = path; *c; c++) {
        const char *piece = c;
        size_t size = 1;
        if (c[0] == '%' && c[1] == 'n') {
            piece = node_name();
            size = piece ? strlen(piece) : PATH_BYTES;
            c++;
        }
        if (length + size >= PATH_BYTES) {
            note("%s: %%n cannot be filled in, SLURMD_NODENAME is missing, too long or no file name", key);
            path[0] = '\0';
            return;
        }
        memcpy(whole + length, piece, size);
        length += size;
    }
    whole[length] = '\0';
    memcpy(path, whole, length + 1);
}

static void set_path(const char *key, char *path, size_t room, const char *value)
{
    if (value[0] != '/' || strlen(value) >= room)
        note("%s: ignored, not an absolute path of fewer than %zu bytes", key, room);
    else
        strcpy(path, value);
}

static void set_seconds(const char *key, double *seconds, double least, const char *value)
{
    char *end;
    double given = strtod(value, &end);
    if (end == value || *end || given != given)
        note("%s: ignored, not a number of seconds", key);
    else
        *seconds = given < least ? least : given > 3600 ? 3600 : given;
}

static void set(const char *key, const char *value)
{
    if (strcmp(key, "socket") == 0)
        set_path(key, conf.socket, sizeof conf.socket, value);
    else if (strcmp(key, "marks") == 0)
        set_path(key, conf.marks, sizeof conf.marks, value);
    else if (strcmp(key, "spool") == 0)
        set_path(key, conf.spool, sizeof conf.spool, value);
    else if (strcmp(key, "stop_file") == 0)
        set_path(key, conf.stop_file, sizeof conf.stop_file, value);
    else if (strcmp(key, "deadline_s") == 0)
        set_seconds(key, &conf.deadline_s, 0.5, value);
    else if (strcmp(key, "restart_retry_s") == 0)
        set_seconds(key, &conf.restart_retry_s, 0, value);
    else
        note("%.40s: unknown key in %s, ignored", key, HOOK_CONF);
}

char *trim(char *text)
{
    text += strspn(text, " \t\r");
    for (size_t n = strlen(text); n > 0 && strchr(" \t\r", text[n - 1]); n--)
        text[n - 1] = '\0';
    return text;
}

/* Why the open file is not taken, or NULL. Whoever can write it can point a root hook anywhere. */
static const char *distrust(int fd)
{
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return "not a regular file";
    if (st.st_uid != 0 && st.st_uid != geteuid())
        return "not owned by root";
    return st.st_mode & (S_IWGRP | S_IWOTH) ? "writable by group or others" : NULL;
}

void load_conf(void)
{
    static char text[CONF_MAX + 1];
    int fd = open(HOOK_CONF, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd >= 0) {
        const char *why = distrust(fd);
        ssize_t n = why ? 0 : read(fd, text, sizeof text);
        if (n < 0 || n > CONF_MAX)
            why = "not readable, or over 8192 bytes";
        if (why) {
            note("%s: %s, defaults are used", HOOK_CONF, why);
            text[0] = '\0';
        } else {
            conf.origin = HOOK_CONF;
        }
        close(fd);
    } else if (errno != ENOENT) {
        note("%s: %s, defaults are used", HOOK_CONF, strerror(errno));
    }
    text[CONF_MAX] = '\0';
    char *rest = text;
    for (char *line; (line = strsep(&rest, "\n"));) {
        line = trim(line);
        char *equals = strchr(line, '=');
        if (!*line || *line == '#')
            continue;
        if (equals)
            *equals = '\0';
        set(trim(line), equals ? trim(equals + 1) : "");
    }
    expand("socket", conf.socket);
    expand("marks", conf.marks);
    expand("spool", conf.spool);
    expand("stop_file", conf.stop_file);
}
