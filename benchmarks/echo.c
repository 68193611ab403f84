/* The least that can answer a hook: reads one whole request, answers "0" at once, and waits for the next. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nNodevet-Exit: 0\r\nConnection: close\r\n\r\nok\n";

static int whole(const char *request, size_t length)
{
    const char *body = strstr(request, "\r\n\r\n"), *said = strcasestr(request, "content-length:");
    return body && said && length >= (size_t)(body + 4 - request) + strtoul(said + 15, NULL, 10);
}

int main(int count, char **words)
{
    static char request[65536];
    struct sockaddr_un where = {.sun_family = AF_UNIX};
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    if (count != 2 || strlen(words[1]) >= sizeof where.sun_path)
        return 2;
    strcpy(where.sun_path, words[1]);
    if (bind(listener, (struct sockaddr *)&where, sizeof where) || listen(listener, 64))
        return 1;
    for (;;) {
        int client = accept(listener, NULL, NULL);
        size_t length = 0;
        ssize_t got;
        do {
            got = read(client, request + length, sizeof request - 1 - length);
            length += got > 0 ? (size_t)got : 0;
            request[length] = 0;
        } while (got > 0 && !whole(request, length));
        if (write(client, answer, sizeof answer - 1) < 0)
            length = 0; /* the client has gone: the next one counts */
        close(client);
    }
}
