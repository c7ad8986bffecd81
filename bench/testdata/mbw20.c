/*
 * The three copies of mbw 2.0 by their definition, as an independent second opinion: two arrays of long, made with
 * calloc and filled with 0xaa; MEMCPY is one memcpy of the array, DUMB the loop b[t] = a[t], MCBLOCK one memcpy for
 * each block with both pointers advancing. Each pass is timed; the report has mbw's form.
 *
 * usage: mbw20 memcpy|dumb|mcblock MIB BLOCK PASSES
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static __attribute__((noinline)) void copy_whole(long *b, const long *a, size_t bytes)
{
	memcpy(b, a, bytes);
}

static __attribute__((noinline)) void copy_words(long *b, const long *a, size_t bytes)
{
	size_t n = bytes / sizeof(long);
	for (size_t t = 0; t < n; t++)
		b[t] = a[t];
}

static __attribute__((noinline)) void copy_blocks(long *b, const long *a, size_t bytes, size_t block)
{
	const char *from = (const char *)a;
	char *to = (char *)b;
	size_t left = bytes;
	for (; left >= block; left -= block, from += block, to += block)
		memcpy(to, from, block);
	memcpy(to, from, left);
}

static long *array(size_t bytes)
{
	long *a = calloc(bytes / sizeof(long), sizeof(long));
	if (a == NULL) {
		perror("mbw20: calloc");
		exit(1);
	}
	for (size_t t = 0; t < bytes / sizeof(long); t++)
		a[t] = 0xaa;
	return a;
}

int main(int argc, char **argv)
{
	if (argc != 5) {
		fprintf(stderr, "usage: mbw20 memcpy|dumb|mcblock MIB BLOCK PASSES\n");
		return 2;
	}
	size_t mib = strtoul(argv[2], NULL, 10), block = strtoul(argv[3], NULL, 10);
	long passes = strtol(argv[4], NULL, 10);
	size_t bytes = mib << 20;
	if (mib == 0 || block == 0 || block > bytes || passes < 1) {
		fprintf(stderr, "mbw20: sizes and passes must be positive, and BLOCK at most MIB\n");
		return 2;
	}
	const char *name;
	if (strcmp(argv[1], "memcpy") == 0)
		name = "MEMCPY";
	else if (strcmp(argv[1], "dumb") == 0)
		name = "DUMB";
	else if (strcmp(argv[1], "mcblock") == 0)
		name = "MCBLOCK";
	else {
		fprintf(stderr, "mbw20: no method is called %s\n", argv[1]);
		return 2;
	}

	long *a = array(bytes), *b = array(bytes);
	double total = 0;
	for (long i = 0; i < passes; i++) {
		double from = now();
		if (name[0] == 'D')
			copy_words(b, a, bytes);
		else if (name[1] == 'E')
			copy_whole(b, a, bytes);
		else
			copy_blocks(b, a, bytes, block);
		double took = now() - from;
		total += took;
		printf("%ld\tMethod: %s\tElapsed: %.5f\tMiB: %.5f\tCopy: %.3f MiB/s\n", i, name, took, (double)mib, mib / took);
	}
	if (memcmp(a, b, bytes) != 0) {
		fprintf(stderr, "mbw20: the copy differs from the original\n");
		return 1;
	}
	printf("AVG\tMethod: %s\tElapsed: %.5f\tMiB: %.5f\tCopy: %.3f MiB/s\n", name, total / passes, (double)mib, mib * passes / total);
	return 0;
}
