package main

// loopSource is the peer of the rows on small files: the same system calls in a loop of C, and no more around them.
const loopSource = `#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

enum { CREATE, STAT, READ, RENAME, UNLINK, PHASES };

/* smallfiles DIR FILES DIRS SIZE ROUNDS: all files through all phases, as often; prints files per second of each phase. */
static int smallfiles(char **arg)
{
	int dir = open(arg[0], O_RDONLY | O_DIRECTORY | O_CLOEXEC), files = atoi(arg[1]), dirs = atoi(arg[2]), size = atoi(arg[3]), rounds = atoi(arg[4]);
	char(*first)[24] = malloc(files * sizeof *first), (*second)[24] = malloc(files * sizeof *second);
	char *data = malloc(size), *in = malloc(size + 1);
	double spent[PHASES] = {0};
	struct stat st;
	FILE *seed = fopen("/dev/urandom", "r");
	if (dir < 0 || !seed || fread(data, 1, size, seed) != (size_t)size)
		die("prepare");
	memset(in, 0, size + 1);
	for (int d = 0; d < dirs; d++) {
		char name[24];
		snprintf(name, sizeof name, "d%05d", d);
		if (mkdirat(dir, name, 0700) && errno != EEXIST)
			die("mkdirat");
	}
	for (int f = 0; f < files; f++) {
		snprintf(first[f], sizeof *first, "d%05d/c%07d", f % dirs, f);
		snprintf(second[f], sizeof *second, "d%05d/r%07d", f % dirs, f);
	}
	for (int r = 0; r < rounds; r++) {
		double t[PHASES + 1];
		t[CREATE] = now();
		for (long f = 0; f < files; f++) {
			int fd = openat(dir, first[f], O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
			if (fd < 0)
				die("create");
			memcpy(data, &f, sizeof f);
			if (write(fd, data, size) != size || close(fd))
				die("write");
		}
		t[STAT] = now();
		for (int f = 0; f < files; f++)
			if (fstatat(dir, first[f], &st, 0))
				die("stat");
		t[READ] = now();
		for (long f = 0; f < files; f++) {
			int fd = openat(dir, first[f], O_RDONLY | O_CLOEXEC);
			if (fd < 0)
				die("open");
			if (read(fd, in, size + 1) != size || memcmp(in, &f, sizeof f) || close(fd))
				die("read");
		}
		t[RENAME] = now();
		for (int f = 0; f < files; f++)
			if (renameat(dir, first[f], dir, second[f]))
				die("rename");
		t[UNLINK] = now();
		for (int f = 0; f < files; f++)
			if (unlinkat(dir, second[f], 0))
				die("unlink");
		t[PHASES] = now();
		for (int p = 0; p < PHASES; p++)
			spent[p] += t[p + 1] - t[p];
	}
	for (int p = 0; p < PHASES; p++)
		printf("%.9g\n", (double)files * rounds / spent[p]);
	return 0;
}

/* status DIR LIST LOOKS: lstat of the paths in LIST in turn, compared with what it was at first; prints looks per second. */
static int status(char **arg)
{
	struct entry { char *name; off_t size; struct timespec modified; ino_t inode; } *index = NULL;
	int dir = open(arg[0], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	FILE *list = fopen(arg[1], "r");
	long looks = atol(arg[2]), n = 0, at = 0, changed = 0;
	char line[4096];
	struct stat st;
	if (dir < 0 || !list)
		die("prepare");
	while (fgets(line, sizeof line, list)) {
		line[strcspn(line, "\n")] = 0;
		if (fstatat(dir, line, &st, AT_SYMLINK_NOFOLLOW))
			die(line);
		index = realloc(index, (n + 1) * sizeof *index);
		index[n++] = (struct entry){strdup(line), st.st_size, st.st_mtim, st.st_ino};
	}
	double began = now();
	for (long i = 0; i < looks; i++) {
		struct entry *e = &index[at];
		if (fstatat(dir, e->name, &st, AT_SYMLINK_NOFOLLOW))
			die(e->name);
		if (st.st_size != e->size || st.st_ino != e->inode || st.st_mtim.tv_sec != e->modified.tv_sec || st.st_mtim.tv_nsec != e->modified.tv_nsec)
			changed++;
		if (++at == n)
			at = 0;
	}
	printf("%.9g\n", looks / (now() - began));
	return changed != 0;
}

int main(int n, char **arg)
{
	if (n == 7 && !strcmp(arg[1], "smallfiles"))
		return smallfiles(arg + 2);
	if (n == 5 && !strcmp(arg[1], "status"))
		return status(arg + 2);
	fprintf(stderr, "usage: loop smallfiles DIR FILES DIRS SIZE ROUNDS | loop status DIR LIST LOOKS\n");
	return 2;
}
`
