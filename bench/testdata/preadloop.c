/*
 * The least that a program in C can do to read records of 4 KiB at random: one pread after the other, the offsets from a
 * generator that touches each record once a pass. It prints the nanoseconds of one.
 *
 * usage: preadloop FILE RECORDS READS
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	int fd = open(argv[1], O_RDONLY);
	uint64_t records = strtoull(argv[2], NULL, 10), reads = strtoull(argv[3], NULL, 10), x = 1;
	void *to = aligned_alloc(4096, 4096);
	/* A linear congruence modulo a power of two runs through all residues when its factor is 1 modulo 4. */
	if (fd < 0 || to == NULL || records == 0 || (records & (records - 1)) != 0)
		return 2;
	struct timespec began, ended;
	clock_gettime(CLOCK_MONOTONIC, &began);
	for (uint64_t i = 0; i < reads; i++) {
		x = (x * 1664525 + 1013904223) & (records - 1);
		if (pread(fd, to, 4096, (off_t)(x << 12)) != 4096)
			return 1;
	}
	clock_gettime(CLOCK_MONOTONIC, &ended);
	printf("%.3f\n", ((ended.tv_sec - began.tv_sec) * 1e9 + (ended.tv_nsec - began.tv_nsec)) / reads);
	return 0;
}
